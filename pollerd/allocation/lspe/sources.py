"""Sites as sources of items: estimated arrival rates, the interest that waits, and its Whittle index ([D], [E]).

One row per site, struct of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.finite_feeds import finite_value, incomplete_gamma
from pollerd.allocation.slots import FIELDS as POLL_COUNT_FIELDS
from pollerd.allocation.slots import NEVER_POLLED_S, PollCounts, between, column, one_of, positive
from pollerd.errors import InvalidValueError

FIELDS = (*POLL_COUNT_FIELDS, "counted", "items", "seconds")
_FIRST_OWN_FIELD = len(POLL_COUNT_FIELDS)
_MEMORY_POLLS = 128
_MAX_ITEMS, _LONGEST_S = 2.0**63, NEVER_POLLED_S * (1.0 + 1e-9)
"""Largest number of items, and seconds, per poll, up to rounding."""
_PRIOR = 0.5
"""A site's counts start as if half an item had arrived in half a cycle."""


class Arrivals:
    """Poll counts, and for polls with a count of new items: number of polls, items, and seconds of their gaps.

    At 128 polls with counts a site's counts are halved, like poll counts, because rates drift.
    """

    def __init__(self) -> None:
        self._poll_counts = PollCounts()
        self._counts = np.zeros((0, len(FIELDS) - _FIRST_OWN_FIELD))

    def grow(self, capacity: int) -> None:
        """Grows to `capacity` sites."""
        self._poll_counts.grow(capacity)
        more = max(capacity - len(self._counts), 0)
        self._counts = np.concatenate([self._counts, np.zeros((more, self._counts.shape[1]))])

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Resets slots int64[k]."""
        self._poll_counts.rows[slots], self._counts[slots] = 0.0, 0.0

    def rows(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns all counts of slots int64[k], float64[k, fields]."""
        return np.concatenate([self._poll_counts.rows[slots], self._counts[slots]], axis=1)

    def sound(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Returns which rows float64[k, fields] are possible output of `rows`, bool[k]."""
        counted, items, seconds = rows[:, _FIRST_OWN_FIELD:].T
        with np.errstate(invalid="ignore", over="ignore"):
            few = (counted >= 0) & (counted <= _MEMORY_POLLS)
            some = (items >= 0) & (items <= counted * _MAX_ITEMS)
            some &= (seconds >= 0) & (seconds <= counted * _LONGEST_S)
        return np.asarray(self._poll_counts.sound(rows[:, :_FIRST_OWN_FIELD]) & few & some)

    def put_rows(self, slots: NDArray[np.int64], rows: NDArray[np.float64]) -> None:
        """Restores the output of `rows`."""
        self._poll_counts.rows[slots], self._counts[slots] = rows[:, :_FIRST_OWN_FIELD], rows[:, _FIRST_OWN_FIELD:]

    def note(
        self,
        slots: NDArray[np.int64],
        elapsed: NDArray[np.float64],
        evidence: EvidenceBatch,
        items: NDArray[np.float64] | None = None,
        seconds: NDArray[np.float64] | None = None,
    ) -> None:
        """Adds polls of slots int64[k], may repeat, elapsed float64[k] s finite.

        items, seconds float64[k]: numbers of new items, -1 where unknown, and the time in which they came, s; None: as
        the evidence and the gaps have them.
        """
        elapsed = np.minimum(elapsed, NEVER_POLLED_S)
        self._poll_counts.note(slots, elapsed, evidence.changed)
        number = evidence.count if items is None else items
        informative = number >= 0
        seconds = elapsed if seconds is None else np.minimum(seconds, NEVER_POLLED_S)
        counted = np.column_stack([np.ones(len(slots)), number, seconds])
        np.add.at(self._counts, slots[informative], counted[informative])
        while (full := self._counts[slots, 0] >= _MEMORY_POLLS).any():
            self._counts[np.unique(slots[full])] /= 2

    def changes(self, slots: NDArray[np.int64], cycle: float) -> NDArray[np.float64]:
        """Returns changes per second of slots int64[k], float64[k] > 0, from changed or not; cycle s: prior gap."""
        return self._poll_counts.rates(len(self._poll_counts.rows), cycle)[slots]

    def items(self, slots: NDArray[np.int64], cycle: float) -> NDArray[np.float64]:
        """Returns items per second, from counts for sites that have polls with counts; `changes` for the others."""
        counted, items, seconds = self._counts[slots].T
        return np.where(counted > 0, (items + _PRIOR) / (seconds + _PRIOR * cycle), self.changes(slots, cycle))


# States and rewards of [D] at sites that show only their newest M items; an item displaced before a poll is lost.
#
# The state that waits for a poll at the gap τ is then `R(τ)` of `finite_feeds` instead of `u* (1 - e^(-μτ))`, and its
# limit takes the place of u*. A poll that finds every item new collects, on average,
#
#     E[value | N >= M] = (R(τ) - (λ/μ) (1 - e^(-μτ)) Q(M - 1, λτ)) / P(M, λτ)
#                       = (λ/μ) [(1 - e^(-μτ)) p(M - 1; λτ) + P(M, λτ) - ρ^M P(M, (λ + μ) τ)] / P(M, λτ)
#
# for N items that came, as n < M of them are spread evenly over the gap; p is the Poisson law. Of N it learns
# `E[N | N >= M] = λτ P(M - 1, λτ) / P(M, λτ)` at the rate estimated so far, the step of the EM algorithm for a censored
# Poisson variable; or the number that came in the time since the oldest item, if items are dated.

Array = NDArray[np.float64]


def value_if_full(gap: Array, rates: Array, decay: Array, items: Array) -> Array:
    """Returns what a poll that finds every item new collects on average for weight 1, float64[m], at most M.

    gap s > 0; rates λ > 0, decay μ > 0, 1/s; items M >= 1: float64[m]. Where this is too unlikely to compute, all items
    are taken to be spread evenly over the gap.
    """
    mean, fading = rates * gap, decay * gap
    full = incomplete_gamma(items, mean)[0]
    fewer = np.where(items > 1, incomplete_gamma(np.maximum(items - 1.0, 1.0), mean)[1], 0.0)
    partly = rates / decay * -np.expm1(-fading) * fewer
    evenly = items * np.where(fading > 0, -np.expm1(-fading) / np.where(fading > 0, fading, 1.0), 1.0)
    likely = full > 1e-9
    collected = (finite_value(gap, rates, decay, items) - partly) / np.where(likely, full, 1.0)
    return np.asarray(np.where(likely, np.clip(collected, 0.0, items), evenly))


def number_if_full(gap: Array, rates: Array, items: Array) -> Array:
    """Returns the expected number of new items if there were at least M, float64[m]; arguments as above."""
    mean = rates * gap
    full = incomplete_gamma(items, mean)[0]
    fewer = np.where(items > 1, incomplete_gamma(np.maximum(items - 1.0, 1.0), mean)[0], 1.0)
    return np.asarray(np.maximum(np.where(full > 0, mean * fewer / np.where(full > 0, full, 1.0), items), items))


# Dynamics of the interest that waits at a site from one epoch to the next ([E] 2): decay and new items.


@dataclass(frozen=True)
class Sources:
    """n sites of ephemeral content, polled at multiples of one epoch.

    arrivals Λ float64[n], items per second >= 0; value ξ float64[n] >= 0, an item's mean interest when it appears;
    decay μ float64[n] > 0, per second; cost C float64[n] > 0 of a poll, None: all 1; epoch T > 0 in s ([E] measures
    time in epochs, T = 1). Raises InvalidValueError for others.
    """

    arrivals: NDArray[np.float64]
    value: NDArray[np.float64]
    decay: NDArray[np.float64]
    cost: NDArray[np.float64] = None  # type: ignore[assignment]
    epoch: float = 1.0

    def __post_init__(self) -> None:
        cost: NDArray[np.float64] | None = self.cost
        n = np.size(self.arrivals)
        columns = {
            "arrivals": column("arrivals", self.arrivals, n, zero=True),
            "value": column("value", self.value, n, zero=True),
            "decay": column("decay", self.decay, n),
            "cost": np.ones(n) if cost is None else column("cost", cost, n),
            "epoch": positive("epoch", self.epoch),
        }
        for name, values in columns.items():
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.arrivals)

    @property
    def retained(self) -> NDArray[np.float64]:
        """`α = e^(-μT)`, the share of its interest that an item keeps over an epoch, float64[n]."""
        return np.asarray(np.exp(-self.decay * self.epoch))

    @property
    def ceiling(self) -> NDArray[np.float64]:
        """`u* = u / (1 - α) = Λξ/μ`, the mean interest at a site that is never polled, float64[n].

        The amplitude A of the index for the objective `interest` (docs/model.md).
        """
        return np.asarray(self.arrivals * self.value / self.decay)

    @property
    def gain(self) -> NDArray[np.float64]:
        """`u = (Λξ/μ)(1 - e^(-μT))`, the mean interest that one epoch adds, float64[n] ([E] equation 1)."""
        return np.asarray(-self.ceiling * np.expm1(-self.decay * self.epoch))

    def after(self, epochs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns `x = u*(1 - α^η)`, the mean interest η >= 0 epochs after a poll, broadcast; [E] equation 15."""
        return np.asarray(-self.ceiling * np.expm1(-self.decay * self.epoch * epochs))

    def next_states(
        self, state: NDArray[np.float64], polled: NDArray[np.bool_], gain: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Returns X(t+1) for X(t) = state, all [..., n]: `α X + U` where not polled, `U` where polled.

        With gain `self.gain` the dynamics are deterministic ([E] equations 2 and 3); with drawn gains stochastic (19).
        """
        state = np.asarray(state, np.float64)
        if state.shape[-1] != len(self):
            raise InvalidValueError("state", f"{len(self)} sites in the last axis", state.shape)
        return np.asarray(np.where(polled, 0.0, self.retained * state) + gain)


# Whittle index of ephemeral content at multiples of an epoch ([E] theorem 1).
#
# Its limit for small epochs is `index.index`, `(A / C) g(rτ)`, with A = u* and r = μ. On the states that a polled site
# visits, `x = u*(1 - α^η)`, both are the value of one more poll η epochs after the last one:
#
#     γ = (u*/C) (1 - α^η (1 + η (1 - α)))        (A/C) g(μτ) = (u*/C) (1 - e^(-μτ) (1 + μτ)),  τ = ηT
#
# and the discrete one is larger by at most `(u*/C) z e^(-z) μT / 2`, z = μτ, because `0 <= μT - (1 - α) <= (μT)²/2`.

Beyond = Literal["infinite", "value", "printed"]
BEYOND: tuple[Beyond, ...] = ("infinite", "value", "printed")
"""Choices for the index of states >= u*."""

_LEAST = float(np.finfo(np.float64).tiny)


def whittle_index(state: NDArray[np.float64], sources: Sources, beyond: Beyond = "infinite") -> NDArray[np.float64]:
    """Returns γ(x) of states x >= 0, float64[..., n]: the price per unit of cost that makes polling and waiting equal.

        γ(x) = (1/C) [η(x) ((1 - α) x - u) + (1 - α^η(x)) u*],   η(x) = ⌈log_α(1 - x/u*)⌉

    [E] theorem 1, which writes the last term as `(1 - α^η)/(1 - α) u`. γ is continuous at the steps of η, so rounding
    there does no harm. Sites without arrivals have 0.

    From u* on, which a drawn state may reach ([E] 7) but the mean never does, the logarithm is undefined. beyond
    chooses the value there: "infinite", the formula's own limit above u* (poll at once); "printed", 0, as [E]'s log⁺
    makes η 0; "value", x/C, the solution of the subsidy problem there under the mean dynamics: polling gains x and then
    waits for ever, waiting lets x fall towards u*. Below u* they are equal.
    Raises InvalidValueError for another beyond.
    """
    if beyond not in BEYOND:
        raise InvalidValueError("beyond", f"one of {', '.join(BEYOND)}", beyond)
    ceiling = sources.ceiling
    missing = np.clip(1.0 - state / np.maximum(ceiling, _LEAST), _LEAST, 1.0)
    epochs = np.ceil(-np.log(missing) / (sources.decay * sources.epoch))
    gamma = epochs * ((1.0 - sources.retained) * state - sources.gain) + sources.after(epochs)
    full = {"infinite": np.full_like(gamma, np.inf), "value": state / sources.cost, "printed": np.zeros_like(gamma)}
    return np.where(ceiling <= 0, 0.0, np.where(state >= ceiling, full[beyond], gamma / sources.cost))


def order(state: NDArray[np.float64], sources: Sources, beyond: Beyond = "infinite") -> NDArray[np.int64]:
    """Returns all sites, int64[n], by index of states float64[n], largest first; +inf by x/C; ties: the lower site."""
    gamma = whittle_index(state, sources, beyond)
    tie = np.where(np.isposinf(gamma), state / sources.cost, 0.0)
    return np.lexsort((-tie, -gamma))


# Settings of the learner of [D]. Numbers given in the paper are the defaults.

REWARDS = ("collected", "printed")
INVERSES = ("sherman-morrison", "tikhonov")
LAWS = ("shared", "independent")
AVERAGES = ("all", "slow")


@dataclass(frozen=True)
class LspeSettings:
    """Settings of `lspe`. Raises InvalidValueError.

    Given in [D]: steepness κ = 2 per unit of interest and shift 0.5 of independent probabilities; gain γ = 0.05. Not
    given there, chosen once and never tuned to match its numbers: ascent c = 0.1 of `a(n) = c / ⌈n/500⌉`; ε = 0.001, δ
    = 10⁻⁶; r(0) = 0; constant initial thresholds.
    """

    reward: Literal["collected", "printed"] = "collected"
    """Reward of a step: `Σ X ν`, the objective, or `Σ X` over all sites, as in [D]'s equation 6, η and b̄."""

    inverse: Literal["sherman-morrison", "tikhonov"] = "sherman-morrison"
    """How `B̄⁻¹` is computed: updated, or as `(B̄ᵀB̄ + δI)⁻¹B̄ᵀ` at each step, cubic in the number of features."""

    law: Literal["shared", "independent"] = "shared"
    """Probability law of polls and of the gradient; see `lspe/learner.py`."""

    averages: Literal["all", "slow"] = "all"
    """Steps of η, B̄, Ā, b̄: 1/(n + 1), all steps alike, or [D]'s `b(n) = c / ⌈n/1000⌉^(2/3)`, which needs "tikhonov"."""

    sharpness: float = 50.0
    """κ' of the shared law, in units of the mean u*. Not from [D]."""

    start: float = 0.0
    """q₀(0), projected: initial thresholds in units of u*, 0 to 1. At 0 ranking by margins is greedy."""

    steepness: float = 2.0
    shift: float = 0.5
    gain: float = 0.05
    ascent: float = 0.1
    epsilon: float = 1e-3
    delta: float = 1e-6

    def __post_init__(self) -> None:
        for name, known in (("reward", REWARDS), ("inverse", INVERSES), ("law", LAWS), ("averages", AVERAGES)):
            one_of(name, getattr(self, name), known)
        for name in ("sharpness", "steepness", "shift", "gain", "ascent", "epsilon", "delta"):
            positive(name, getattr(self, name))
        between("start", self.start, 0, 1)
        if self.averages == "slow" and self.inverse != "tikhonov":
            raise InvalidValueError("averages", "all, where inverse is sherman-morrison", self.averages)
        if self.gain > 1:
            raise InvalidValueError("gain", "at most 1", self.gain)
