"""The allocator contract: everything that decides whom to poll stands behind this class.

Names and shapes are fixed; programs outside the project drive them. Times are seconds, rates 1/s.

Two things an allocator does not do. It does not hold back a site that changes at nearly every poll: the
scheduler does, by giving such a site the uniform period `Σ cost / budget` as its smallest interval, which works
for every allocator. And it does not know `min_interval` or `max_interval`: those shape `eligible`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.slots.ranking import top
from pollerd.allocation.slots.validation import positive

__all__ = ["Allocator", "EvidenceBatch"]


class Allocator(ABC):
    """Names the sites to poll next, and learns from what the polls find.

    A site is a slot, a row index >= 0; slots are reused. All arrays are numpy; `n` is the highest slot in use + 1.
    Arrays over slots may be longer than n (the caller's spare rows); they are answered at their own length.

    Parameters
    ----------
    budget : cost per second to spend, > 0, finite; may be set while running.
    """

    most_sites: ClassVar[int | None] = None
    """More sites than these it refuses; None: any number."""

    def __init__(self, budget: float) -> None:
        self._budget = positive("budget", budget)

    @property
    def budget(self) -> float:
        """Cost per second to spend."""
        return self._budget

    @budget.setter
    def budget(self, value: float) -> None:
        self._budget = positive("budget", value)

    @abstractmethod
    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None = None,
    ) -> None:
        """Takes in sites, grows as needed.

        slots int64[k], distinct and unused; weight float64[k] >= 0; cost float64[k] > 0;
        half_life float64[k] in s, > 0, nan where the default holds; None: all nan.
        """

    def place(self, slots: NDArray[np.int64], host: NDArray[np.int64]) -> None:
        """Tells which hosts slots int64[k] in use are on: int64[k] from 0 to 2³¹ - 1, a number for each host, -1: none.

        A policy may take it that pages of one host change alike; those that do not need it let it pass. Told anew
        after `remove` and `add`, and before `restore`.
        """
        return

    def expect(self, sites: int) -> None:
        """So many sites will be there soon: room for them may be made at once. Nothing follows where they stay away."""
        return

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        """Raises InvalidValueError where slots int64[k] may not have weight and cost float64[k] beside all others.

        Slots in use stand for a change of theirs; an empty array with k weights for sites to come. Changes nothing.
        """
        return

    @abstractmethod
    def remove(self, slots: NDArray[np.int64]) -> None:
        """Forgets sites, int64[k]; they never come back from `select`, and a reused slot starts afresh."""

    @abstractmethod
    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """How much each site wants the next poll; larger first. Changes nothing.

        elapsed float64[m >= n] s since the last poll (inf: never polled); now UTC epoch s.
        Returns float64[m], -inf for empty slots, finite else, never nan.
        """

    def select(
        self, elapsed: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        """At most k eligible slots, most urgent first, the lower slot first among equals.

        elapsed float64[m >= n] s; eligible bool[m]. Returns int64[<= k].
        """
        return top(np.where(eligible, self.urgency(elapsed, now), -np.inf), k)

    def select_seen(
        self, last_seen: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        """`select`, given when the slots were last polled, float64[m >= n] epoch s, -inf: never.

        A policy may spare itself to work out what has elapsed of millions, most of which it does not look at.
        """
        return self.select(np.maximum(now - last_seen, 0.0), now, eligible, k)

    @abstractmethod
    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        """Learns from k polls: slots int64[k], elapsed float64[k] s since the last informative poll of each.

        `elapsed = inf` is a first poll: it teaches only where it is dated (`age`). A slot may appear more than
        once; its rows then count in order.
        """

    @abstractmethod
    def rates(self) -> NDArray[np.float64]:
        """Believed changes per second, float64[n]; nan for empty slots and where the policy has no notion."""

    def rates_of(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """`rates` of slots int64[k] in use, float64[k]; a policy may know a few more quickly than all."""
        return self.rates()[slots]

    def urgency_of(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """`urgency` of slots int64[k] in use at elapsed float64[k] s, float64[k]."""
        everyone = np.full(len(self.rates()), np.inf)
        everyone[slots] = elapsed
        return self.urgency(everyone, now)[slots]

    def rate_interval(
        self, slots: NDArray[np.int64], level: float = 0.9
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Central credible interval of the rates of slots int64[k], 0 < level < 1: (low, high), float64[k] each.

        nan where the policy has no notion.
        """
        nothing = np.full(len(slots), np.nan)
        return nothing, nothing.copy()

    def belief_of(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What is believed of the rates (1/s) of slots int64[k] in use, as they were last polled: (rates, weights).

        weights float64[k, J], rows that sum to 1, on rates float64[1, J] that all share, or on one each, float64[k, 1],
        nan where the policy has no notion. Here all weight is on `rates_of`.
        """
        return self.rates_of(slots)[:, None], np.ones((len(slots), 1))

    def shares(self, slots: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Frequencies of polls of slots int64[k] in use, float64[k] >= 0, up to a factor; None: urgency decides."""
        return None

    def notes(self, slot: int) -> dict[str, str]:
        """What else decides about a slot in use, in words for a person; none where there is nothing to tell.

        Keys in use: prior_source (where what is believed of a site without polls comes from), profile (how fast all
        sites change now), spell (active or quiet), drift (how fast its rate changes).
        """
        return {}

    def change_probability(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Believed probability, float64[k], that a poll of slots int64[k] after elapsed float64[k] s finds a change.

        nan where the policy has no notion.
        """
        return np.full(len(slots), np.nan)

    def change_probabilities(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """`change_probability` of slots int64[k] after m gaps each, elapsed float64[k, m] s: float64[k, m]."""
        each = self.change_probability(np.repeat(slots, elapsed.shape[1]), elapsed.ravel())
        return each.reshape(elapsed.shape)

    @abstractmethod
    def site_state(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """What was learned of slots int64[k], uint8[k, width], for storage; width is fixed for an allocator."""

    @abstractmethod
    def shared_state(self) -> bytes:
        """What was learned in common, versioned."""

    @abstractmethod
    def restore(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8], shared_state: bytes) -> None:
        """Puts back what `site_state` and `shared_state` gave, after create and add; the same choices follow.

        May be called in chunks of sites, with the same `shared_state` each time.
        Raises InvalidValueError where the bytes are another allocator's, another version's or damaged.
        """
