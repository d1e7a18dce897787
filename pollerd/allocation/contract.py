"""The allocator interface: base class of everything that decides which sites to poll.

Names and shapes are fixed; programs outside the project use them. Times are seconds, rates 1/s.

Two things are not an allocator's job. It does not slow down a site that changes at nearly every poll: the scheduler
does, by giving such a site the uniform cycle `Σ cost / budget` as its minimum interval, which works for every
allocator. And it does not know `min_interval` or `max_interval`: those determine `eligible`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch, SourceQuality
from pollerd.allocation.slots import positive, top

__all__ = ["Allocator", "EvidenceBatch", "SourceQuality"]


class Allocator(ABC):
    """Selects the sites to poll next, and learns from the results of polls.

    A site is a slot, a row index >= 0; slots are reused. All arrays are numpy; `n` is the highest slot in use + 1.
    Arrays over slots may be longer than n (the caller's spare rows); results have the length of the input.

    Parameters
    ----------
    budget : cost per second to spend, > 0, finite; may be set while running.

    """

    most_sites: ClassVar[int | None] = None
    """Largest number of sites it accepts; None: any number."""
    polls_at_price: ClassVar[bool] = False
    """Whether it keeps the periods that `index.Mixture` has for one price of all sites. If not, its `shares` or
    urgencies tell at which periods it would poll them with another budget."""

    counts_items: bool = False
    """Whether the number of items that sites show, and of new ones (`EvidenceBatch.at_least`), matters to it."""

    def __init__(self, budget: float) -> None:
        self._budget = positive("budget", budget)

    @property
    def budget(self) -> float:
        """Cost per second to spend."""
        return self._budget

    @budget.setter
    def budget(self, value: float) -> None:
        self._budget = positive("budget", value)

    @property
    def starvation_gap(self) -> float:
        """Seconds after which it polls a site whatever its urgency, inversely to the budget; inf: there are none."""
        return math.inf

    @property
    def urgency_jumps(self) -> NDArray[np.float64]:
        """Gaps at which urgencies of sites jump, float64[m] in s, ascending; the first few if there are many."""
        return np.empty(0)

    @abstractmethod
    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None = None,
        deadline: NDArray[np.float64] | None = None,
    ) -> None:
        """Adds sites, grows as needed.

        slots int64[k], distinct and unused; weight float64[k] >= 0; cost float64[k] > 0;
        half_life, deadline float64[k] in s, > 0, nan for the default; None: all nan. A deadline is the time within
        which a change should be found, for the objective `deadline`.
        """

    def place(self, slots: NDArray[np.int64], host: NDArray[np.int64]) -> None:
        """Sets the hosts of slots int64[k] in use: int64[k] from 0 to 2³¹ - 1, one number per host, -1: none.

        A policy may pool the rates of pages of one host; others ignore it. Called again after `remove` and `add`, and
        before `restore`.
        """
        return

    def set_items_shown(self, slots: NDArray[np.int64], items: NDArray[np.float64]) -> None:
        """Sets how many of their newest items the slots int64[k] in use show, float64[k] >= 1; nan: no limit is known.

        An item that was displaced before a poll is lost to it. A policy may ignore it. Called again after `remove` and
        `add`, and before `restore`; also when a site shows more or fewer items than before.
        """
        return

    def expect(self, sites: int) -> None:
        """Hint that about `sites` sites will be added, so that memory can be reserved. Not binding."""
        return

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        """Raises InvalidValueError if slots int64[k] may not have weight and cost float64[k] beside all others.

        Slots in use mean a change of their weight and cost; an empty array with k weights means sites to be added.
        Changes nothing.
        """
        return

    @abstractmethod
    def remove(self, slots: NDArray[np.int64]) -> None:
        """Removes sites, int64[k]; `select` no longer returns them, and a reused slot starts from nothing."""

    @abstractmethod
    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """Returns how urgently each site needs the next poll; larger first. Changes nothing.

        elapsed float64[m >= n] s since the last poll (inf: never polled); now UTC epoch s.
        Returns float64[m], -inf for empty slots, finite else, never nan.
        """

    def select(
        self, elapsed: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        """Returns at most k eligible slots, most urgent first, the lower slot first on ties.

        elapsed float64[m >= n] s; eligible bool[m]. Returns int64[<= k].
        """
        return top(np.where(eligible, self.urgency(elapsed, now), -np.inf), k)

    def select_seen(
        self, last_seen: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        """Selects like `select`, given when the slots were last polled, float64[m >= n] epoch s, -inf: never.

        A policy may override it to avoid computing elapsed times for millions of sites, most of which it does not look
        at.
        """
        return self.select(np.maximum(now - last_seen, 0.0), now, eligible, k)

    @abstractmethod
    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        """Learns from k polls: slots int64[k], elapsed float64[k] s since the last informative poll of each.

        `elapsed = inf` is a first poll: it teaches only if it is dated (`age`). A slot may appear more than once; its
        rows then count in order.
        """

    def add_source(self, source: int, slots: NDArray[np.int64], *, polled_as: int | None = None) -> None:
        """Makes known a source that says when pages change: it speaks for the slots int64[k] in use, distinct.

        source >= 0 names it in the other calls; again with the same number: it now speaks for these slots.
        What `restore` brings of a source holds, whether it is added before or after.
        polled_as: the slot whose polls fetch it, such as a sitemap's; None: it is pushed, and its silence says that
        nothing changed; `ELSEWHERE`: others fetch it, and `fetched` says when. A policy that does not use signals
        ignores sources.
        """
        return

    def remove_source(self, source: int) -> None:
        """Forgets a source, and what it said. Unknown ones are ignored."""
        return

    def signal(self, slots: NDArray[np.int64], source: int, at: NDArray[np.float64], now: float) -> None:
        """A source says that the pages of slots int64[k] changed at `at`, float64[k] epoch s; nan: it says no time.

        now: epoch s at which this was learned. Evidence, never a command. Slots that the source does not speak for are
        ignored.
        """
        return

    def fetched(self, source: int, now: float) -> None:
        """A source was read successfully, or a pushed one gave a sign of life, at epoch s `now`: all that it had to
        say until then was passed to `signal` before.
        """
        return

    def readings_due(self) -> NDArray[np.int64]:
        """Returns the slots whose polls read a source that is due, int64[m]: the reading alone is worth a poll.

        As of the last choice. Such a site is not held back for changing at every poll: an honest list does.
        """
        return np.empty(0, np.int64)

    def source_quality(self, source: int) -> SourceQuality | None:
        """Returns what was learned of a source; None if it is unknown or the policy does not use signals."""
        return None

    @abstractmethod
    def rates(self) -> NDArray[np.float64]:
        """Returns estimated changes per second, float64[n]; nan for empty slots and if the policy has no estimates."""

    def rates_of(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns `rates` of slots int64[k] in use, float64[k]; policies may override it with something faster."""
        return self.rates()[slots]

    def urgency_of(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """Returns `urgency` of slots int64[k] in use at elapsed float64[k] s, float64[k]."""
        everyone = np.full(len(self.rates()), np.inf)
        everyone[slots] = elapsed
        return self.urgency(everyone, now)[slots]

    def rate_interval(
        self, slots: NDArray[np.int64], level: float = 0.9
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns central credible intervals of the rates of slots int64[k], 0 < level < 1: (low, high), float64[k].

        nan if the policy has none.
        """
        nothing = np.full(len(slots), np.nan)
        return nothing, nothing.copy()

    def belief_of(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the belief about the rates (1/s) of slots int64[k] in use, as of their last polls: (rates, weights).

        weights float64[k, J], rows that sum to 1, on shared rates float64[1, J], or on one rate each, float64[k, 1];
        nan for policies that do not estimate rates. The default puts all weight on `rates_of`.
        """
        return self.rates_of(slots)[:, None], np.ones((len(slots), 1))

    def shares(self, slots: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Returns poll frequencies of slots int64[k] in use, float64[k] >= 0, up to a factor; None: urgency decides."""
        return None

    def notes(self, slot: int) -> dict[str, str]:
        """Returns further reasons behind the decisions about a slot in use, in words for a person; may be empty.

        Keys in use: prior_source (where the prior of a site without polls comes from), profile (how fast all sites
        change now), drift (how fast its rate changes).
        """
        return {}

    def signals_waiting(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the number of signals since the last polls of slots int64[k], float64[k]; nan where no source is."""
        return np.full(len(slots), np.nan)

    def announced(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the latest dates that sources gave of changes of slots int64[k] since their last polls, float64[k]
        epoch s, nan: none; and how far the most believed of these sources is, float64[k], 0 to 1.

        A date that may be the time at which a list was made is none.
        """
        return np.full(len(slots), np.nan), np.zeros(len(slots))

    def change_probability(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the probability, float64[k], that a poll of slots int64[k] after elapsed float64[k] s finds a change.

        nan for policies that do not estimate it.
        """
        return np.full(len(slots), np.nan)

    def change_probabilities(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns `change_probability` of slots int64[k] after m gaps each, elapsed float64[k, m] s: float64[k, m]."""
        each = self.change_probability(np.repeat(slots, elapsed.shape[1]), elapsed.ravel())
        return each.reshape(elapsed.shape)

    def present_chance(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """Returns `change_probability` at `now` (epoch s), elapsed float64[k] s after the last polls: float64[k].

        With all that was said since, and the silence of sources; `now` may lie ahead: nothing more is said until then.
        """
        return self.change_probability(slots, elapsed)

    @abstractmethod
    def site_state(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Returns the learned state of slots int64[k], uint8[k, width], for storage; each allocator has one width."""

    @abstractmethod
    def shared_state(self) -> bytes:
        """Returns the learned state that sites share, versioned."""

    @abstractmethod
    def restore(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8], shared_state: bytes) -> None:
        """Restores the output of `site_state` and `shared_state`, after create and add; choices continue identically.

        May be called in chunks of sites, with the same `shared_state` each time.
        Raises InvalidValueError if the bytes are another allocator's, another version's or damaged.
        """
