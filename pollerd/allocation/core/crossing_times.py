"""Gaps at which functions that rise with the gap reach a level, for many sites at once, from a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LEAST = -700.0
"""Replaces the logarithm of 0."""


class CrossingTimes:
    """Tables of k non-decreasing functions: rows [k, M] of floats over gaps float64[M] s, ascending, M >= 2.

    Each row is replaced by its running maximum. Interpolates linearly in logarithms between gaps and below the first.
    """

    def __init__(self, gaps: NDArray[np.float64], rows: NDArray[np.floating]) -> None:
        with np.errstate(divide="ignore"):
            found = np.fmax(np.log(np.maximum.accumulate(rows, axis=1)), _LEAST)
        self._log_gaps, self._rows = np.log(gaps), found.astype(np.float32)
        self._starts = np.arange(len(rows)) * len(gaps)

    @property
    def range(self) -> tuple[float, float]:
        """Logarithms of a level that all rows which ever rise reach by the first gap, and of the highest level."""
        rising = self._rows[:, 0][self._rows[:, -1] > _LEAST]
        return float(rising.min(initial=0.0)), float(self._rows[:, -1].max(initial=_LEAST))

    def at(self, log_level: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns float64[k] s: when each row reaches the level with this logarithm; inf: never.

        log_level: of all rows, or float64[k] of each.
        """
        last = len(self._log_gaps) - 1
        place = np.minimum(self._below(log_level), last)
        right = np.maximum(place, 1)
        low, high = (self._rows.take(self._starts + column) for column in (right - 1, right))
        with np.errstate(divide="ignore", invalid="ignore"):
            part = (np.asarray(log_level, np.float32) - low) / (high - low)
        part = np.where(np.isfinite(part), part, 0.0)
        left_gap = self._log_gaps[right - 1]
        with np.errstate(over="ignore"):  # of rows that end below the level
            gap = np.exp(left_gap + part * (self._log_gaps[right] - left_gap))
        return np.where(self._rows[:, last] < log_level, np.inf, gap)

    def _below(self, log_level: float | NDArray[np.float64]) -> NDArray[np.int64]:
        """Returns the number of columns of each row below the level, by a binary search in all rows at once."""
        number = self._rows.shape[1]
        found = np.zeros(len(self._rows), np.int64)
        step = 1 << (number.bit_length() - 1)
        while step:
            beyond = found + step
            fits = beyond <= number
            columns = self._starts + np.minimum(beyond, number) - 1
            found = np.where(fits & (self._rows.take(columns) < log_level), beyond, found)
            step >>= 1
        return found
