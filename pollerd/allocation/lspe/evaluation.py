"""LSPE(0): least-squares policy evaluation on one trajectory ([D] section IV, after Yu and Bertsekas)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.settings import LspeSettings

_SCALARS = ("steps", "earned", "lasted")
_SLOW_STEPS, _SLOW_POWER = 1000, 2 / 3
"""Of b(n) ([D] section IV)."""


class Evaluation:
    """Learns `V(x) ≈ r·φ(x)` and the average reward β of the Poisson equation `V(x) = R(x) - β t(x) + E V(x')`.

        η(n) = Σ R / Σ t
        B̄(n) = B̄(n-1) + 1/(n+1) (φφᵀ - B̄(n-1))                        B̄(0) = εI
        Ā(n) = Ā(n-1) + 1/(n+1) (φ(φ' - φ)ᵀ - Ā(n-1))
        b̄(n) = b̄(n-1) + 1/(n+1) (φ (R - η t) - b̄(n-1))
        r(n+1) = r(n) + γ B̄⁻¹(n) (Ā(n) r(n) + b̄(n))

    with φ = φ(X(n)), φ' = φ(X(n+1)), reward R and length t of the step, 1 in [D]: a poll of cost C takes C units of
    the budget's time. Steps count from n = 1, so that the first does not erase εI. `B̄⁻¹` by Sherman and Morrison reads

        B̄⁻¹(n) = (n+1)/n [P - P φφᵀ P / (n + φᵀPφ)],  P = B̄⁻¹(n-1)

    ([D] prints n/(n-1) outside, n - 1 inside, and an n for an n - 1 on the right). A step costs O(ℓ²) for ℓ features,
    with Tikhonov's regularised inverse O(ℓ³). V is known up to a constant, which no feature stands for.

    With `averages="slow"` the steps 1/(n+1), of η too, are `b(n) = c / ⌈n/1000⌉^(2/3)`: [D]'s second time scale, on
    which what was learned under earlier thresholds is forgotten.
    """

    def __init__(self, features: int, settings: LspeSettings) -> None:
        self._settings = settings
        self._inverted = settings.inverse == "sherman-morrison"
        self.steps = 0.0
        self.earned = 0.0
        self.lasted = 0.0
        self.weights = np.zeros(features)
        self._a = np.zeros((features, features))
        self._b = np.zeros(features)
        self._matrix = np.eye(features) * self._fresh()
        """`B̄⁻¹` with Sherman and Morrison, `B̄` with Tikhonov."""

    def _fresh(self) -> float:
        """Returns the diagonal element of the matrix for a feature that has been 0 so far."""
        weight = self._settings.epsilon / (self.steps + 1.0)
        return 1.0 / weight if self._inverted else weight

    @property
    def average(self) -> float:
        """η, the average reward per unit of time so far; 0 at the start."""
        return self.earned / self.lasted if self.lasted else 0.0

    def value(self, phi: NDArray[np.float64]) -> float:
        """Returns `r·φ(x)` for phi float64[ℓ]."""
        return float(self.weights @ phi)

    def learn(
        self, phi: NDArray[np.float64], following: NDArray[np.float64], reward: float, lasted: float = 1.0
    ) -> None:
        """Learns from one step from φ(X(n)) to φ(X(n+1)), float64[ℓ] each."""
        surplus = reward - self.average * lasted
        self.steps += 1.0
        span = self._span()
        step = 1.0 / span
        kept, taken = (1.0, 1.0) if self._settings.averages == "all" else (1.0 - step, step)
        self.earned = kept * self.earned + taken * reward
        self.lasted = kept * self.lasted + taken * lasted
        self._a += step * (np.outer(phi, following - phi) - self._a)
        self._b += step * (phi * surplus - self._b)
        self._take(phi, span)
        self.weights += self._settings.gain * self._solved(self._a @ self.weights + self._b)

    def _span(self) -> float:
        """Returns the inverse of the weight that step n = `steps` has in the averages."""
        if self._settings.averages == "all":
            return self.steps + 1.0
        return math.pow(math.ceil(self.steps / _SLOW_STEPS), _SLOW_POWER) / self._settings.ascent

    def _take(self, phi: NDArray[np.float64], span: float) -> None:
        """Updates B̄, or its inverse, from n - 1 to n = `steps`."""
        n, kept = self.steps, self._matrix
        if self._inverted:
            along = kept @ phi
            kept -= np.outer(along, along / (n + phi @ along))
            kept *= (n + 1.0) / n
        else:
            kept += (np.outer(phi, phi) - kept) / span

    def _solved(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns `B̄⁻¹` times right, float64[ℓ]."""
        if self._inverted:
            return np.asarray(self._matrix @ right)
        regular = self._matrix.T @ self._matrix
        regular[np.diag_indices_from(regular)] += self._settings.delta
        return np.asarray(np.linalg.solve(regular, self._matrix.T @ right), np.float64)

    def grow(self, features: int) -> None:
        """Appends features, as if they had been 0 so far."""
        old = len(self.weights)
        if features <= old:
            return
        matrix, a = np.eye(features) * self._fresh(), np.zeros((features, features))
        matrix[:old, :old], a[:old, :old] = self._matrix, self._a
        self._matrix, self._a = matrix, a
        self._b, self.weights = (np.concatenate([kept, np.zeros(features - old)]) for kept in (self._b, self.weights))

    def forget(self, features: NDArray[np.bool_]) -> None:
        """Resets features bool[ℓ], as if they had been 0 so far."""
        if not features.any():
            return
        gone, rest = np.flatnonzero(features), np.flatnonzero(~features)
        matrix = np.eye(len(features)) * self._fresh()
        matrix[np.ix_(rest, rest)] = self._without(gone, rest)
        self._matrix = matrix
        self._a[gone], self._a[:, gone], self._b[gone], self.weights[gone] = 0.0, 0.0, 0.0, 0.0

    def _without(self, gone: NDArray[np.int64], rest: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the matrix of the remaining features; the inverse of a part is a Schur complement of the inverse."""
        kept = self._matrix[np.ix_(rest, rest)]
        if not self._inverted:
            return kept
        across = self._matrix[np.ix_(gone, rest)]
        return np.asarray(kept - across.T @ np.linalg.solve(self._matrix[np.ix_(gone, gone)], across))

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns the learned state as arrays for `state_bytes.pack`."""
        scalars = np.array([getattr(self, name) for name in _SCALARS])
        return {"sums": scalars, "weights": self.weights, "a": self._a, "b": self._b, "matrix": self._matrix}

    def load(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Restores the output of `state`, flat, with its number of features."""
        size = len(kept["weights"])
        for name, value in zip(_SCALARS, kept["sums"], strict=True):
            setattr(self, name, float(value))
        self.weights, self._b = kept["weights"].copy(), kept["b"].copy()
        self._a, self._matrix = kept["a"].reshape(size, size).copy(), kept["matrix"].reshape(size, size).copy()
