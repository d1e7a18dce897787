"""Growing numpy columns together: what every table of sites or hosts is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MANY = 65_536
_MOST_AT_ONCE = 262_144
ROWS_AT_A_TIME = 126_976
"""What is worked out of so many rows stays near the processor: columns of millions are gone through once. A megabyte of
float64, or the system would hand out room for it anew each time (`heap`). With a quarter of it the same takes a sixth
less of CPU, and twice as long where other threads are busy: each step lets go of the interpreter, and waits for it."""
_FEW = 8
"""To look rows up one by one takes so many times as long as to go through all."""


class Columns:
    """A struct of arrays whose rows are slots.

    Subclasses declare `_DEFAULTS`: column name -> (dtype, value of an empty row). Columns grow by half, later by an
    eighth, so that n single additions cost O(n) and a million rows take little more room than they need; by a quarter
    of a million rows at most, for nobody else has a turn while they are filled. The system moves what was there.

    Columns named in `_SELDOM_SET` hold what most users leave as it is. Until a row differs such a column is one value
    seen from every row: it takes no room, cannot be written in place, and is written by `put` only.
    """

    _DEFAULTS: ClassVar[dict[str, tuple[type, object]]] = {}
    _SELDOM_SET: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self._capacity = 0
        self.grow(64)

    @property
    def capacity(self) -> int:
        """Rows there is room for."""
        return self._capacity

    def grow(self, rows: int) -> None:
        """Makes room for at least `rows` rows; no other thread may look at the table meanwhile."""
        if rows <= self._capacity:
            return
        more = self._capacity // 2 if self._capacity < _MANY else min(self._capacity // 8, _MOST_AT_ONCE)
        capacity = max(rows, self._capacity + more)
        for name, (dtype, default) in self._DEFAULTS.items():
            if not self._capacity:
                setattr(self, name, _one_value(default, dtype, 0))
            if name in self._SELDOM_SET and _is_one_value(getattr(self, name)):
                setattr(self, name, _one_value(default, dtype, capacity))
            else:
                lengthen(vars(self), name, capacity - self._capacity, default)
        self._capacity = capacity

    def put(self, name: str, slots: NDArray[np.int64] | slice | int, values: ArrayLike) -> None:
        """Writes the values into the column's rows."""
        column: NDArray[Any] = getattr(self, name)
        if _is_one_value(column):  # nan fits nan
            given = np.asarray(values, column.dtype)
            if bool(((given == column[0]) | (np.isnan(given) & np.isnan(column[0]))).all()):
                return
            column = column.copy()
            setattr(self, name, column)
        column[slots] = values

    def is_as_ever(self, name: str) -> bool:
        """Whether no row of the column, one of those seldom set, was ever set to another value."""
        return _is_one_value(getattr(self, name))

    def clear(self, slot: int) -> None:
        """Puts the row back to its empty values."""
        for name, (_, default) in self._DEFAULTS.items():
            self.put(name, slot, default)  # type: ignore[arg-type]


def _one_value(value: object, dtype: type, rows: int) -> NDArray[Any]:
    return np.broadcast_to(np.asarray(value, dtype), rows)


def _is_one_value(column: NDArray[Any]) -> bool:
    return not column.flags.writeable


def stretches(rows: int) -> Iterator[slice]:
    """All rows below `rows`, some at a time; in one go where they are few.

    Each step of a sum over whole columns of 10^7 rows makes and fills 80 MB anew, which takes longer than the step.
    """
    return (slice(at, min(at + ROWS_AT_A_TIME, rows)) for at in range(0, rows, ROWS_AT_A_TIME))


def rows_of(mask: NDArray[np.bool_]) -> Iterator[slice | NDArray[np.int64]]:
    """`stretches` of the mask's rows, bool[n]; where few of one are in it, these alone, int64[k].

    So rows that are not in the mask may be named, too.
    """
    for part in stretches(len(mask)):
        number = int(np.count_nonzero(mask[part]))
        if _FEW * number < part.stop - part.start:
            yield part.start + np.flatnonzero(mask[part])
        else:
            yield part


def lengthen(columns: dict[str, Any], name: str, extra: int, value: object) -> None:
    """Gives the rows in `columns[name]` so many more of one value.

    They stay where they are, or the system moves their pages: a hundred megabytes are neither copied nor held twice.
    Where somebody else still looks at them they are copied. No other thread may be about to look at them meanwhile.
    """
    rows = columns.pop(name)  # the only reference, or numpy would not move them
    number, shape = len(rows), (len(rows) + extra, *rows.shape[1:])
    try:
        try:
            rows.resize(shape)
        except ValueError:
            seen, rows = rows, np.empty(shape, rows.dtype)
            rows[:number] = seen
        rows[number:] = value
    finally:
        columns[name] = rows
