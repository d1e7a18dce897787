"""The incomplete gamma function P(M, x) for whole M by interpolation, a tenth of the time of `incomplete_gamma`.

In √x the law is about as wide for each M, with a standard deviation near 1/2 around √M: so a table has as many nodes
whatever M is. Between nodes a cubic has the values and slopes of P at both (Hermite), where dP/d√x = 2 √x p(M - 1; x)
with the Poisson law p. So it is smooth, and small differences of P have a small relative error, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.objectives.incomplete_gamma import incomplete_gamma, log_gamma

Array = NDArray[np.float64]
MOST_TABULATED = 512
"""Largest M that gets a table (of 11 KB)."""
_STEP = 1.0 / 32.0
"""Distance of nodes in √x."""
_REACH = 5.0
"""Distance from √M beyond which P is 0 or 1 to e^-50."""
_CELLS = 2 + round(2 * _REACH / _STEP)
"""Intervals of a table, with one for all that is below, and one for all above."""


class GammaTable:
    """Tables of P(M, x), made when an M is first asked for."""

    def __init__(self) -> None:
        self._start = np.zeros(MOST_TABULATED + 1)
        """√x at the first node of each M."""
        self._first = np.full(MOST_TABULATED + 1, -1)
        """Place of the first coefficients of each M; -1: not made yet."""
        self._coefficients = np.zeros((0, 4))

    @staticmethod
    def tabulated(items: Array) -> NDArray[np.bool_]:
        """Returns whether there are tables for M = items float64[m]: whole numbers up to `MOST_TABULATED`, bool[m]."""
        return np.asarray((items <= MOST_TABULATED) & (items == np.floor(items)))

    def places(self, items: Array) -> tuple[NDArray[np.int64], Array]:
        """Returns what `lower` needs of M = items float64[m], all tabulated: int64[m] and float64[m]."""
        whole = items.astype(np.int64)
        missing = np.unique(whole[self._first[whole] < 0])
        if missing.size:
            self._add(missing)
        return self._first[whole], self._start[whole]

    def lower(self, first: NDArray[np.int64], start: Array, root: Array) -> Array:
        """Returns P(M, root²), any shape of root float64 >= 0; first, start: as `places` returns them, of that shape.

        The error is below 1e-7, and below 1e-3 of P(M, x) where that is above 1e-9.
        """
        place = np.clip((root - start) / _STEP + 1.0, 0.0, _CELLS - 0.5)
        cell = place.astype(np.int64)
        place -= cell
        cell += first
        at = self._coefficients.take(cell, axis=0)
        out = at[..., 3] * place
        for power in (2, 1):
            out += at[..., power]
            out *= place
        out += at[..., 0]
        return np.asarray(out)

    def _add(self, numbers: NDArray[np.int64]) -> None:
        """Makes tables of M = numbers int64[m]."""
        m = numbers.astype(np.float64)[:, None]
        start = np.maximum(np.sqrt(m) - _REACH, 0.0)
        root = start + _STEP * np.arange(_CELLS - 1)
        value = incomplete_gamma(m, root * root)[0]
        with np.errstate(divide="ignore"):
            slope = 2.0 * _STEP * np.exp((2.0 * m - 1.0) * np.log(root) - root * root - log_gamma(m))
        rise = np.diff(value)
        table = np.zeros((len(numbers), _CELLS, 4))
        table[:, 1:-1, 0] = value[:, :-1]
        table[:, 1:-1, 1] = slope[:, :-1]
        table[:, 1:-1, 2] = 3.0 * rise - 2.0 * slope[:, :-1] - slope[:, 1:]
        table[:, 1:-1, 3] = slope[:, :-1] + slope[:, 1:] - 2.0 * rise
        table[:, -1, 0] = 1.0
        self._first[numbers] = len(self._coefficients) + _CELLS * np.arange(len(numbers))
        self._start[numbers] = start[:, 0]
        self._coefficients = np.concatenate([self._coefficients, table.reshape(-1, 4)])
