"""Q(x, u) as a function of features: least squares over them or their products, with exponential forgetting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError

_REFITTED_SHARE = 0.02


class Approximation:
    """A quadratic or linear function of F features, fitted to the samples so far; 0 before the first fit.

    With ten features it has 66 weights, 11 if linear. It is refitted after `every` samples, later after each 2 % more.
    memory > 0: number of samples after which an old one counts 1/e. ridge > 0: weight of the prior that weights are 0,
    in samples. every: samples between the first fits. linear: without products of features.
    """

    def __init__(
        self, features: int, memory: float, ridge: float = 1.0, every: int = 64, *, linear: bool = False
    ) -> None:
        # Column 0 is 1: the first products are the features themselves.
        self._left, self._right = (at[: features + 1] if linear else at for at in np.triu_indices(features + 1))
        size = len(self._left)
        self._fade = np.exp(-1.0 / memory)
        self._moments, self._products = np.zeros((size, size)), np.zeros(size)
        self._weights = np.zeros(size)
        self._ridge, self._every = ridge, every
        self._samples, self._next_fit = 0, every

    @property
    def samples(self) -> int:
        """Number of samples so far."""
        return self._samples

    def __call__(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns values of states float64[k, F], float64[k]."""
        return self._expanded(states) @ self._weights

    def learn(self, state: NDArray[np.float64], value: float) -> bool:
        """Adds a sample: state float64[F] has the value `value`; returns True if the function was refitted."""
        row = self._expanded(state[None, :])[0]
        self._moments *= self._fade
        self._moments += row[:, None] * row
        self._products *= self._fade
        self._products += value * row
        self._samples += 1
        if self._samples < self._next_fit:
            return False
        self._weights[:] = np.linalg.solve(self._moments + self._ridge * np.eye(len(row)), self._products)
        self._next_fit = self._samples + max(self._every, int(_REFITTED_SHARE * self._samples))
        return True

    def pack(self) -> bytes:
        """Serialises the learned state."""
        upper = np.triu_indices(len(self._weights))
        counts = np.array([self._samples, self._next_fit], np.float64)
        return np.concatenate([counts, self._weights, self._products, self._moments[upper]]).astype("<f8").tobytes()

    @property
    def packed_bytes(self) -> int:
        """Length of the result of `pack`."""
        size = len(self._weights)
        return 8 * (2 + 2 * size + size * (size + 1) // 2)

    def check(self, packed: bytes) -> NDArray[np.float64]:
        """Returns the numbers in the result of `pack`; raises InvalidValueError if it does not fit."""
        if len(packed) != self.packed_bytes:
            raise InvalidValueError("learned", f"{self.packed_bytes} bytes of an approximation", f"{len(packed)} bytes")
        values = np.frombuffer(packed, "<f8")
        if not np.isfinite(values).all():
            raise InvalidValueError("learned", "finite numbers", values[~np.isfinite(values)][0])
        return values

    def restore(self, packed: bytes) -> None:
        """Restores the result of `pack`; raises InvalidValueError, and changes nothing, if it does not fit."""
        values, size = self.check(packed), len(self._weights)
        upper = np.triu_indices(size)
        self._samples, self._next_fit = int(values[0]), int(values[1])
        self._weights[:], self._products[:] = values[2 : 2 + size], values[2 + size : 2 + 2 * size]
        self._moments[upper] = self._moments.T[upper] = values[2 + 2 * size :]

    def _expanded(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        with_one = np.column_stack([np.ones(len(states)), states])
        return with_one[:, self._left] * with_one[:, self._right]
