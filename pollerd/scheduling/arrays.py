"""Growing numpy columns together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MANY = 65_536


class Columns:
    """A struct of arrays whose rows are slots.

    Subclasses declare `_DEFAULTS`: column name -> (dtype, value of an empty row). Columns grow by half, later by an
    eighth, so that n single additions cost O(n) and a million rows take little more room than they need.
    """

    _DEFAULTS: dict[str, tuple[type, object]] = {}  # noqa: RUF012  (each subclass replaces it whole)

    def __init__(self) -> None:
        self._capacity = 0
        self.grow(64)

    def grow(self, rows: int) -> None:
        """Makes room for at least `rows` rows."""
        if rows <= self._capacity:
            return
        capacity = max(rows, self._capacity + self._capacity // (2 if self._capacity < _MANY else 8))
        for name, (dtype, default) in self._DEFAULTS.items():
            column: NDArray[np.generic] = np.full(capacity, default, dtype)
            if self._capacity:
                column[: self._capacity] = getattr(self, name)
            setattr(self, name, column)
        self._capacity = capacity

    def clear(self, slot: int) -> None:
        """Puts the row back to its empty values."""
        for name, (_, default) in self._DEFAULTS.items():
            getattr(self, name)[slot] = default
