"""Sites of ephemeral content with a limited number of polls per epoch ([E] 2 and 7): states, polls, collected interest.

Many runs are simulated together: arrays have runs first, sites last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.sources import Beyond, Sources, whittle_index
from pollerd.allocation.slots import positive
from pollerd.errors import InvalidValueError

Ranking = Callable[[NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]]
"""A policy: returns the priority of each site, float64[runs, n], given the observed interest, likewise, and the epochs
since the last poll of each, int64[runs, n]. -inf: never. The lower site comes first on ties.
"""


@dataclass(frozen=True)
class PollConstraint:
    """Limit of polls ([E] equation 5).

    of "number": `most` sites, a whole number, in each epoch. of "cost": `most` units of cost per epoch in the long run:
    unspent budget is saved, and sites are polled in the policy's order while the budget lasts.
    """

    most: float
    of: Literal["number", "cost"] = "number"

    def __post_init__(self) -> None:
        positive("most", self.most)
        if self.of not in ("number", "cost"):
            raise InvalidValueError("of", "number or cost", self.of)
        if self.of == "number" and self.most != int(self.most):
            raise InvalidValueError("most", "a whole number of sites", self.most)


@dataclass(frozen=True)
class Trace:
    """Interest at each site before the polls of each epoch, float64[epochs, runs, n], and which were polled, bool."""

    waiting: NDArray[np.float64]
    polled: NDArray[np.bool_]

    @property
    def collected(self) -> NDArray[np.float64]:
        """Interest collected in each epoch, float64[epochs, runs]."""
        return np.asarray(np.where(self.polled, self.waiting, 0.0).sum(-1))


def drawn_gains(
    sources: Sources, epochs: int, rng: np.random.Generator, values: Literal["even", "exponential"] = "even"
) -> NDArray[np.float64]:
    """Draws U of [E] 7, float64[epochs, n]: items arrive as a Poisson process, each decays until the epoch's end.

    [E] gives only the mean of an item's value: all have it ("even"), or values are exponential.
    """
    number = rng.poisson(sources.arrivals * sources.epoch, (epochs, len(sources)))
    place = np.repeat(np.arange(number.size), number.reshape(-1))
    site = place % len(sources)
    left = np.exp(-sources.decay[site] * sources.epoch * rng.random(len(place))) * sources.value[site]
    if values == "exponential":
        left *= rng.exponential(size=len(place))
    return np.asarray(np.bincount(place, left, number.size).reshape(number.shape), np.float64)


def drive_sources(
    sources: Sources,
    ranking: Ranking,
    limit: PollConstraint,
    epochs: int,
    gains: NDArray[np.float64] | None = None,
    sees: Literal["states", "means"] | NDArray[np.bool_] = "states",
) -> Trace:
    """Simulates `epochs` epochs from X(0) = one epoch's gain.

    gains float64[epochs + 1, runs, n], U of each epoch, the first of them X(0); None: one run of the mean dynamics.
    sees: "states" shows the policy the interest at every site, polled or not: [E]'s own setting, and with drawn gains
    more than any poller can know. "means" shows the mean given the polls, which is all that polls show if the sources
    are known, and all that [D] assumes. Under the mean dynamics both are equal. bool[n] shows the states of the sites
    that are observed, and the means of the others: [E] 7's mixed sources.
    """
    n = len(sources)
    drawn = np.broadcast_to(sources.gain, (epochs + 1, 1, n)) if gains is None else gains
    observed = np.full(n, sees == "states") if isinstance(sees, str) else sees
    runs = drawn.shape[1]
    waiting, polled = np.empty((epochs, runs, n)), np.empty((epochs, runs, n), np.bool_)
    price, saves = (sources.cost, 1.0) if limit.of == "cost" else (np.ones(n), 0.0)
    state, mean = drawn[0], np.broadcast_to(sources.gain, (runs, n))
    age, budget_left = np.ones((runs, n), np.int64), np.zeros(runs)
    for epoch in range(epochs):
        rank = np.broadcast_to(ranking(np.where(observed, state, mean), age), (runs, n))
        chosen, budget_left = _bought(rank, price, saves * budget_left + limit.most)
        waiting[epoch], polled[epoch] = state, chosen
        state = sources.next_states(state, chosen, drawn[epoch + 1])
        mean = sources.next_states(mean, chosen, sources.gain)
        age = np.where(chosen, 1, age + 1)
    return Trace(waiting, polled)


def _bought(
    rank: NDArray[np.float64], price: NDArray[np.float64], budget_left: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Returns polled sites, bool[runs, n], in order while the budget lasts, and remaining budgets, float64[runs]."""
    order = np.argsort(-rank, axis=-1, kind="stable")
    ranked = np.take_along_axis(rank, order, -1) > -np.inf
    spent = np.cumsum(np.where(ranked, price[order], 0.0), axis=-1)
    # Costs like 0.1 sum to slightly more than the budget that they should use exactly.
    within = ranked & (spent <= budget_left[:, None] * (1 + 1e-12))
    polled = np.zeros(rank.shape, np.bool_)
    np.put_along_axis(polled, order, within, -1)
    return polled, budget_left - np.where(within, price[order], 0.0).sum(-1)


def whittle(sources: Sources, beyond: Beyond = "infinite") -> Ranking:
    """Ranks by the index of [E] theorem 1; sites of +inf by interest per cost."""
    most = 2.0 * float((sources.ceiling / sources.cost).max())

    def rank(states: NDArray[np.float64], age: NDArray[np.int64]) -> NDArray[np.float64]:
        gamma = whittle_index(states, sources, beyond)
        return np.where(np.isposinf(gamma), most + states / sources.cost, gamma)

    return rank


def greedy(sources: Sources) -> Ranking:
    """Ranks by interest per cost."""
    return lambda states, age: states / sources.cost


def single(sources: Sources, site: int) -> Ranking:
    """Polls one site only."""
    return lambda states, age: np.where(np.arange(len(sources)) == site, 0.0, -np.inf)


def round_robin() -> Ranking:
    """Ranks by time since the last poll."""
    return lambda states, age: age.astype(np.float64)
