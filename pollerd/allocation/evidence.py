"""Evidence from polls, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError


@dataclass(frozen=True)
class EvidenceBatch:
    """Evidence from k polls of k sites. The strongest evidence given is used: count, then age, then changed.

    changed : bool[k], something changed over the gap since the last informative poll.
    age : float64[k] s since the last change, >= 0, nan where unknown; None: all nan.
    count : int64[k] number of new items, -1 where unknown; None: all -1.
    """

    changed: NDArray[np.bool_]
    age: NDArray[np.float64] = None  # type: ignore[assignment]
    count: NDArray[np.int64] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        changed = np.asarray(self.changed, np.bool_)
        given_age: NDArray[np.float64] | None = self.age
        given_count: NDArray[np.int64] | None = self.count
        if changed.ndim != 1:
            raise InvalidValueError("changed", "one-dimensional", changed.shape)
        k = len(changed)
        age = np.full(k, np.nan) if given_age is None else np.asarray(given_age, np.float64)
        count = np.full(k, -1, np.int64) if given_count is None else np.asarray(given_count, np.int64)
        if age.shape != (k,) or (age < 0).any():
            raise InvalidValueError("age", f"{k} values >= 0 s or nan", self.age)
        if count.shape != (k,) or (count < -1).any():
            raise InvalidValueError("count", f"{k} values >= 0, or -1", self.count)
        object.__setattr__(self, "changed", changed)
        object.__setattr__(self, "age", age)
        object.__setattr__(self, "count", count)

    def __len__(self) -> int:
        return len(self.changed)

    def take(self, rows: NDArray[np.int64] | slice) -> EvidenceBatch:
        """Selects rows, in the given order."""
        if isinstance(rows, slice) and len(self.changed[rows]) == len(self):
            return self
        return EvidenceBatch(self.changed[rows], self.age[rows], self.count[rows])
