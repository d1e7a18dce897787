"""The full learner of [D]: thresholds that follow the gradient of the average reward, with values from LSPE(0)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.sources import LspeSettings

# LSPE(0): least-squares policy evaluation on one trajectory ([D] section IV, after Yu and Bertsekas).

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
        """Returns the learned state as arrays for `learned_state.pack`."""
        scalars = np.array([getattr(self, name) for name in _SCALARS])
        return {"sums": scalars, "weights": self.weights, "a": self._a, "b": self._b, "matrix": self._matrix}

    def load(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Restores the output of `state`, flat, with its number of features."""
        size = len(kept["weights"])
        for name, value in zip(_SCALARS, kept["sums"], strict=True):
            setattr(self, name, float(value))
        self.weights, self._b = kept["weights"].copy(), kept["b"].copy()
        self._a, self._matrix = kept["a"].reshape(size, size).copy(), kept["matrix"].reshape(size, size).copy()


# Features of [D]: the states and their products, for a changing set of sites.


class Features:
    """`φ = [x_1 … x_N, x_1², x_1 x_2 … x_N²]` of relative states x/u*, float64[positions].

    Ordered by the later of the two positions, so that the features of a new one come after all others. A site without
    content and a free position have x = 0, and all features that involve them are 0. The scale affects the
    coefficients, but not what they can express.
    """

    def __init__(self, positions: int) -> None:
        later = np.repeat(np.arange(positions), np.arange(positions) + 2)
        start = np.arange(positions) * (np.arange(positions) + 3) // 2
        within = np.arange(len(later)) - start[later]
        self._later, self._other = later, np.where(within == 0, positions, within - 1)

    def __len__(self) -> int:
        return len(self._later)

    def of(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns φ, float64[ℓ], of states float64[positions]."""
        extended = np.append(states, 1.0)
        return np.asarray(extended[self._later] * extended[self._other])

    def with_positions(self, positions: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns which features, bool[ℓ], involve one of positions bool[positions]."""
        extended = np.append(positions, False)
        return np.asarray(extended[self._later] | extended[self._other])


# The policy that [D] improves: a site is polled when its state exceeds a threshold that depends on the others.


def basis(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `ψ = [1, S, S²]` of each site, float64[n, 3]: S is the sum of the states of all others.

    In [D] section V, whose last coefficient must be q₂ (it prints q₁ twice), S is a sum of items.
    """
    others = states.sum() - states
    return np.stack([np.ones_like(others), others, others * others], axis=-1)


def levels(
    coefficients: NDArray[np.float64], psi: NDArray[np.float64], low: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns thresholds `q·ψ`, float64[n], clipped to [low, 1]; in units of u*, low = u/u* = 1 - α, float64[n]."""
    return np.asarray(np.clip(np.einsum("ij,ij->i", coefficients, psi), low, 1.0))


def projected(
    coefficients: NDArray[np.float64], psi: NDArray[np.float64], low: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the nearest coefficients float64[n, 3] whose thresholds at psi lie in [low, 1].

    If only the thresholds were clipped, the coefficients would drift beyond the bounds, and take as long to return.
    """
    thresholds = np.einsum("ij,ij->i", coefficients, psi)
    beyond = thresholds - np.clip(thresholds, low, 1.0)
    return np.asarray(coefficients - (beyond / np.einsum("ij,ij->i", psi, psi))[:, None] * psi)


def poll_probabilities(margin: NDArray[np.float64], settings: LspeSettings) -> NDArray[np.float64]:
    """Returns poll probabilities `f = σ(κ (x - T - 0.5))`, float64[n]; margin x - T in units of interest ([D] III)."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * settings.steepness * (margin - settings.shift))))


def score(chance: NDArray[np.float64], polled: NDArray[np.bool_], settings: LspeSettings) -> NDArray[np.float64]:
    """Returns `∂ log p(y | x) / ∂T_i = κ (f_i - ν_i)`, float64[n]: [D] equation 8 for each site, not summed."""
    return np.asarray(settings.steepness * (chance - polled))


def softmax_probabilities(
    margin: NDArray[np.float64], alive: NDArray[np.bool_], settings: LspeSettings
) -> NDArray[np.float64]:
    """Returns `p_i = e^(κ' m_i) / Σ e^(κ' m_j)`, float64[n], of margins in units of the mean u*; 0 where not alive.

    The probabilities that each site gets the one poll. The score is `κ' (p_i - ν_i)`, of the same form as [D]'s, whose
    independent probabilities do not keep the budget: ranking by margins polls other sites than these probabilities
    imply, and then the gradient is not that of the average reward.
    """
    logit = np.where(alive, settings.sharpness * margin, -np.inf)
    chance = np.exp(logit - logit.max(initial=-np.inf, where=alive))
    return np.asarray(chance / chance.sum())


# Input of the learner of [D]: the states of the sites at one epoch, and the transition of one step.

_COLUMNS = ("filled", "ceiling", "low")


@dataclass(frozen=True)
class Observation:
    """State at each position, float64[positions]; free positions have 0.

    filled: x/u*, in [0, 1] unless states are drawn. ceiling: u*, the mean state without polls. low: u/u*.
    """

    filled: NDArray[np.float64]
    ceiling: NDArray[np.float64]
    low: NDArray[np.float64]

    @property
    def waiting(self) -> NDArray[np.float64]:
        """X, the interest that waits at each position."""
        return self.filled * self.ceiling

    @property
    def scale(self) -> float:
        """Mean of all u* above 0; 1 if there is none."""
        alive = self.ceiling > 0
        return float(self.ceiling[alive].mean()) if alive.any() else 1.0

    @property
    def psi(self) -> NDArray[np.float64]:
        """ψ at each position, float64[positions, 3], with the sums in units of the sum of all ceilings."""
        return basis(self.waiting / max(float(self.ceiling.sum()), float(np.finfo(np.float64).tiny)))


@dataclass(frozen=True)
class Transition:
    """An observation, the positions polled in it (bool[positions]), the reward, and the budget time used."""

    observation: Observation
    polled: NDArray[np.bool_]
    collected: float
    duration: float = 1.0

    def with_positions(self, positions: int) -> Self:
        """Returns a copy with free positions appended."""
        more = positions - len(self.polled)
        observation = Observation(*(np.append(getattr(self.observation, name), np.zeros(more)) for name in _COLUMNS))
        return replace(self, observation=observation, polled=np.append(self.polled, np.zeros(more, np.bool_)))

    def without(self, positions: NDArray[np.bool_]) -> Self:
        """Returns a copy with bool[positions] free."""
        observation = Observation(*(np.where(positions, 0.0, getattr(self.observation, name)) for name in _COLUMNS))
        return replace(self, observation=observation, polled=self.polled & ~positions)

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for `learned_state.pack`."""
        columns = {name: getattr(self.observation, name) for name in _COLUMNS}
        return {**columns, "polled": self.polled, "step": np.array([self.collected, self.duration])}

    @classmethod
    def empty(cls, positions: int) -> Self:
        """Creates a transition with this number of free positions."""
        nothing = np.zeros(positions)
        return cls(Observation(nothing, nothing, nothing), np.zeros(positions, np.bool_), 0.0)

    @classmethod
    def load(cls, kept: Mapping[str, NDArray[Any]]) -> Self:
        """Restores the output of `state`."""
        collected, duration = (float(number) for number in kept["step"])
        return cls(Observation(*(kept[name] for name in _COLUMNS)), kept["polled"], collected, duration)


ASCENT_STEPS = 500
"""Steps per decrease of the step size: `a(n) = c / ⌈n/500⌉` ([D] section IV)."""


class Learner:
    """Learns from one trajectory of observations and polls.

        q(n+1) = q(n) + a(n) ∇log p(X(n+1) | X(n)) · advantage

    With the collected reward `R = Σ X ν` the policy also changes the reward of a step, so the gradient of β needs R
    besides V: the advantage is `R - η t + V(X(n+1)) - V(X(n))`. ([D]'s equations 7 and 9 have V(X(n+1)) alone, which is
    correct for its printed reward `Σ X` over all sites, and is used with that; it has no baseline.) The step is taken
    in units of u* and of the mean u*: per site a constant times [D]'s. With the shared law it is divided by κ'², so
    that it is small compared with the margins that the law distinguishes; for k polls at once its probabilities are
    taken as k p. A step costs O(ℓ²) for the ℓ = n (n + 3) / 2 features of n positions.
    """

    def __init__(self, positions: int, settings: LspeSettings) -> None:
        self._settings = settings
        self._features = Features(positions)
        self.evaluation = Evaluation(len(self._features), settings)
        self.coefficients = self._fresh(positions)
        """q, float64[positions, 3], in units of u*."""

    def _fresh(self, positions: int) -> NDArray[np.float64]:
        """Returns q of new sites: constant thresholds."""
        return np.tile([self._settings.start, 0.0, 0.0], (positions, 1))

    def thresholds(self, observation: Observation) -> NDArray[np.float64]:
        """Returns the thresholds T at each position in units of interest, float64[positions]."""
        return observation.ceiling * levels(self.coefficients, observation.psi, observation.low)

    def poll_probabilities(self, observation: Observation) -> NDArray[np.float64]:
        """Returns poll probabilities float64[positions]: of independent polls, or of getting the one poll."""
        margin = observation.waiting - self.thresholds(observation)
        if self._settings.law == "independent":
            return poll_probabilities(margin, self._settings)
        return softmax_probabilities(margin / observation.scale, observation.ceiling > 0, self._settings)

    def learn(self, step: Transition, after: Observation) -> None:
        """Learns from one step and the observation after it."""
        printed = self._settings.reward == "printed"
        reward = float(step.observation.waiting.sum()) if printed else step.collected
        phi, following = self._features.of(step.observation.filled), self._features.of(after.filled)
        values = self.evaluation
        advantage = values.value(following)
        if not printed:
            advantage += reward - values.average * step.duration - values.value(phi)
        self._climb(step.observation, step.polled, advantage)
        values.learn(phi, following, reward, step.duration)

    def _climb(self, observation: Observation, polled: NDArray[np.bool_], advantage: float) -> None:
        alive = observation.ceiling > 0
        if not alive.any():
            return
        step = self._settings.ascent / math.ceil((self.evaluation.steps + 1.0) / ASCENT_STEPS)
        psi, chance = observation.psi, self.poll_probabilities(observation)
        if self._settings.law == "independent":
            slope = score(chance, polled, self._settings)
        else:
            slope = (int(polled.sum()) * chance - polled) / self._settings.sharpness
        moved = self.coefficients + step * advantage / observation.scale * slope[:, None] * psi
        self.coefficients[alive] = projected(moved, psi, observation.low)[alive]

    def grow(self, positions: int) -> None:
        """Appends positions."""
        more = positions - len(self.coefficients)
        if more > 0:
            self._features = Features(positions)
            self.evaluation.grow(len(self._features))
            self.coefficients = np.concatenate([self.coefficients, self._fresh(more)])

    def forget(self, positions: NDArray[np.bool_]) -> None:
        """Resets the columns in `positions` (bool[positions])."""
        self.evaluation.forget(self._features.with_positions(positions))
        self.coefficients[positions] = self._fresh(1)

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns the learned state that sites share, for `learned_state.pack`; coefficients belong to the sites."""
        return self.evaluation.state()

    def load(self, positions: int, kept: Mapping[str, NDArray[Any]]) -> None:
        """Restores the output of `state` for this number of positions; resets the coefficients."""
        self._features = Features(positions)
        self.evaluation.load(kept)
        self.coefficients = self._fresh(positions)


# Assignment of sites to positions in the shared state vector.


class StateIndex:
    """Positions 0..number-1 of a few sites: a new site takes the first free one, with a new generation number.

    The generation shows whether stored values at a position were learned from the site stored there.
    """

    def __init__(self) -> None:
        self._slot = np.zeros(0, np.int64)
        """Slot at each position; -1: free."""
        self.generations = np.zeros(0, np.int64)
        """Generation of the last site at each position, int64[number]."""
        self.issued = 0
        """Newest generation so far."""

    @property
    def number(self) -> int:
        """Number of positions, taken or free."""
        return len(self._slot)

    def take(self, slots: NDArray[np.int64]) -> None:
        """Assigns positions to slots int64[k] that have none."""
        for slot in slots.tolist():
            free = np.flatnonzero(self._slot < 0)
            if not len(free):
                self._make_room(self.number + 1)
            self.issued += 1
            self._put(slot, int(free[0]) if len(free) else self.number - 1, self.issued)

    def _make_room(self, number: int) -> None:
        more = max(number - self.number, 0)
        self._slot = np.append(self._slot, np.full(more, -1))
        self.generations = np.append(self.generations, np.zeros(more, np.int64))

    def _put(self, slot: int, position: int, generation: int) -> None:
        self._slot[position], self.generations[position] = slot, generation

    def release(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Frees the positions of slots int64[k] and returns them as bool[number]."""
        left = np.isin(self._slot, slots)
        self._slot[left] = -1
        return left

    def of(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the positions int64[k] of slots int64[k] that have one."""
        return np.asarray((slots[:, None] == self._slot).argmax(axis=1), np.int64) if self.number else slots[:0]

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns slots and their positions, ordered by position, int64[k] each."""
        positions = np.flatnonzero(self._slot >= 0)
        return self._slot[positions], positions

    def reassign(
        self, stored_at: Mapping[int, tuple[int, int]], generations: NDArray[np.int64], issued: int
    ) -> NDArray[np.bool_]:
        """Restores stored positions, slot -> (position, generation); other sites get new ones.

        generations int64[m] and issued as stored. Returns which positions, bool[number], are free or hold another site
        than stored. If two sites are stored at one position the later generation wins.
        """
        everyone, _ = self.pairs()
        self._slot, self.generations = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._make_room(max([len(generations), *(position + 1 for position, _ in stored_at.values())]))
        for slot, (position, generation) in sorted(stored_at.items(), key=lambda stored: stored[1][1]):
            self._put(slot, position, generation)
        stored = np.append(generations, np.zeros(self.number - len(generations), np.int64))
        known = (self._slot >= 0) & (self.generations == stored)
        self.issued = max(issued, int(self.generations.max(initial=0)), int(stored.max(initial=0)))
        self.take(np.setdiff1d(everyone, self._slot))
        return ~np.append(known, np.zeros(self.number - len(known), np.bool_))
