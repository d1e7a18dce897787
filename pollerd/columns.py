"""Sets of numpy columns that grow together: the basis of the tables of sites and hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MANY = 65_536
_MAX_AT_ONCE = 262_144
ROWS_AT_A_TIME = 126_976
"""Rows per stretch, so that intermediate results stay in the cache: each is a megabyte of float64; for larger ones the
system would map memory each time (`heap`). A quarter of it saves a sixth of CPU, but takes twice as long while other
threads are busy: each step releases the interpreter lock and waits for it."""
_FEW = 8
"""Cost of looking up one row, relative to its share of a pass over all rows."""


class Columns:
    """A struct of arrays whose rows are slots.

    Subclasses declare `_DEFAULTS`: column name -> (dtype, value of an empty row). Columns grow by half, later by an
    eighth, so that n single additions cost O(n) and a million rows waste little memory; by a quarter of a million rows
    at most, because no other task runs while they are filled. The system moves the existing rows.

    Columns named in `_SPARSE` hold settings that most users leave at the default. Until a row differs such a column
    is one broadcast value: it takes no memory, cannot be written in place, and must be written by `put`.
    """

    _DEFAULTS: ClassVar[dict[str, tuple[type, object]]] = {}
    _SPARSE: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self._capacity = 0
        self.grow(64)

    @property
    def capacity(self) -> int:
        """Number of rows allocated."""
        return self._capacity

    def grow(self, rows: int) -> None:
        """Allocates at least `rows` rows; no other thread may access the table meanwhile."""
        if rows <= self._capacity:
            return
        more = self._capacity // 2 if self._capacity < _MANY else min(self._capacity // 8, _MAX_AT_ONCE)
        capacity = max(rows, self._capacity + more)
        for name, (dtype, default) in self._DEFAULTS.items():
            if not self._capacity:
                setattr(self, name, _one_value(default, dtype, 0))
            if name in self._SPARSE and _is_one_value(getattr(self, name)):
                setattr(self, name, _one_value(default, dtype, capacity))
            else:
                lengthen(vars(self), name, capacity - self._capacity, default)
        self._capacity = capacity

    def put(self, name: str, slots: NDArray[np.int64] | slice | int, values: ArrayLike) -> None:
        """Writes the values into the column's rows."""
        column: NDArray[Any] = getattr(self, name)
        if _is_one_value(column):  # nan equals nan
            array = np.asarray(values, column.dtype)
            if bool(((array == column[0]) | (np.isnan(array) & np.isnan(column[0]))).all()):
                return
            column = column.copy()
            setattr(self, name, column)
        column[slots] = values

    def is_default(self, name: str) -> bool:
        """Returns whether all rows of a seldom-set column still have the default value."""
        return _is_one_value(getattr(self, name))

    def clear(self, slot: int) -> None:
        """Resets the row to its empty values."""
        for name, (_, default) in self._DEFAULTS.items():
            self.put(name, slot, default)  # type: ignore[arg-type]


def _one_value(value: object, dtype: type, rows: int) -> NDArray[Any]:
    return np.broadcast_to(np.asarray(value, dtype), rows)


def _is_one_value(column: NDArray[Any]) -> bool:
    return not column.flags.writeable


def chunks(rows: int) -> Iterator[slice]:
    """Yields slices that cover all rows below `rows`; a single one for few rows.

    Each step of a computation over whole columns of 10^7 rows would allocate and fill 80 MB, which takes longer than
    the step itself.
    """
    for at in range(0, rows, ROWS_AT_A_TIME):
        yield slice(at, min(at + ROWS_AT_A_TIME, rows))


def rows_of(mask: NDArray[np.bool_]) -> Iterator[slice | NDArray[np.int64]]:
    """Yields `chunks` of the mask's rows, bool[n], or for chunks with few rows in the mask only these, int64[k].

    Slices thus include rows that are not in the mask.
    """
    for part in chunks(len(mask)):
        number = int(np.count_nonzero(mask[part]))
        if _FEW * number < part.stop - part.start:
            yield part.start + np.flatnonzero(mask[part])
        else:
            yield part


def lengthen(columns: dict[str, Any], name: str, extra: int, value: object) -> None:
    """Appends `extra` rows of one value to `columns[name]`.

    The rows stay in place, or the system moves their pages: a hundred megabytes are neither copied nor held twice. If
    they are referenced elsewhere they are copied. No other thread may access them meanwhile.
    """
    rows = columns.pop(name)  # the only reference, which numpy requires for resizing
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
