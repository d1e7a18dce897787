"""Reads numeric columns leniently: SQLite may hold text in them after a manual edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def number(value: Any, instead: Any = None) -> Any:
    """Returns the value if it is a number, else the replacement."""
    return value if isinstance(value, int | float) else instead


@dataclass(frozen=True, slots=True)
class Field:
    """A column and how to read it: `kind` its dtype, `instead` the replacement for an unreadable value."""

    name: str
    kind: type[np.generic]
    allowed: str = "a number"
    instead: float = float("nan")
    codes: dict[Any, int] | None = None
    """Code of each value, if the column is not numeric."""

    def column(self, values: Sequence[Any], site_ids: Sequence[int], faults: dict[int, str]) -> NDArray[Any]:
        """Returns the values as an array [k]; adds what is wrong with unreadable ones to `faults`, by site id."""
        read: Callable[[Any], Any] = self.codes.__getitem__ if self.codes else lambda value: value
        try:
            if values and values.count(values[0]) == len(values):  # most columns of most lists
                return np.full(len(values), np.array(read(values[0]), self.kind))
            return np.array([read(v) for v in values] if self.codes else values, self.kind)
        except (LookupError, TypeError, ValueError, OverflowError):
            return self._one_by_one(values, site_ids, faults, read)

    def _one_by_one(
        self, values: Sequence[Any], site_ids: Sequence[int], faults: dict[int, str], read: Callable[[Any], Any]
    ) -> NDArray[Any]:
        out = np.empty(len(values), self.kind)
        for i, (site_id, value) in enumerate(zip(site_ids, values, strict=True)):
            try:
                out[i] = read(value)
            except (LookupError, TypeError, ValueError, OverflowError):
                out[i] = self.instead
                faults[site_id] = f"{self.name}: must be {self.allowed}; given: {value!r}"
        return out
