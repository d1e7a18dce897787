"""UCB-1 with the sites themselves as arms, `ucb1-raw` ([B] 7.2.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.bandits.ucb1 import ucb1_bounds
from pollerd.allocation.contract import Allocator, EvidenceBatch
from pollerd.allocation.slots.poll_counts import MOST_POLLS
from pollerd.allocation.slots.slot_table import SlotTable
from pollerd.allocation.slots.state_bytes import all_sound, pack, pack_rows, same_form, unpack, unpack_rows

NAME, VERSION = "ucb1-raw", 1
_NEVER_POLLED = 1e9
"""Urgency of a site never polled."""
_NEVER_PULLED = 1e6
"""Urgency of a site with no informative poll yet: above every bound."""


class Ucb1Raw(Allocator):
    """Polls the site with the highest upper confidence bound on the share of its polls that found a change.

    It ignores how long ago a poll was, on which a page's reward depends: it stays with a page until its share has
    fallen below another's bound. [B] includes it to show just that. Any number of sites. A choice computes the bounds
    of all n sites, O(n); a poll costs O(1).

    Only for the objective `changes` and sites of equal weight and cost: others raise InvalidValueError. Of the evidence
    only `changed` is used, first polls teach nothing, and it does not estimate rates.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("ucb1-raw", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([nan, nan])
    """

    def __init__(self, budget: float) -> None:
        super().__init__(budget)
        self._slot_table = SlotTable()
        self._rows = np.zeros((0, 2))
        """Number of polls of each site, and of those that found a change."""

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        self._slot_table.admit_equal(slots, weight, cost, NAME)

    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None = None,
        deadline: NDArray[np.float64] | None = None,
    ) -> None:
        self.admit(slots, weight, cost)
        slots = self._slot_table.add(slots, weight, cost, half_life, deadline)
        self._rows = np.concatenate([self._rows, np.zeros((self._slot_table.capacity - len(self._rows), 2))])
        self._rows[slots] = 0.0

    def remove(self, slots: NDArray[np.int64]) -> None:
        self._rows[self._slot_table.remove(slots)] = 0.0

    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        elapsed = self._slot_table.check_elapsed(elapsed)
        out, n = np.full(len(elapsed), -np.inf), self._slot_table.n
        bounds = np.minimum(ucb1_bounds(self._rows[:n, 0], self._rows[:n, 1]), _NEVER_PULLED)
        bounds = np.where(np.isposinf(elapsed[:n]), _NEVER_POLLED, bounds)
        out[:n] = np.where(self._slot_table.used[:n], bounds, -np.inf)
        return out

    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        slots, elapsed = self._slot_table.check_polls(slots, elapsed, evidence)
        informative = np.isfinite(elapsed)
        np.add.at(
            self._rows,
            slots[informative],
            np.column_stack([np.ones(int(informative.sum())), evidence.changed[informative]]),
        )

    def rates(self) -> NDArray[np.float64]:
        return np.full(self._slot_table.n, np.nan)

    def site_state(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Returns the version, the number of polls, and of those that found a change."""
        slots = self._slot_table.known(slots)
        return pack_rows(self._rows[slots], version=VERSION)

    def shared_state(self) -> bytes:
        return pack(NAME, VERSION, {})

    def restore(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8], shared_state: bytes) -> None:
        slots = self._slot_table.known(slots)
        same_form(unpack(NAME, VERSION, shared_state), {})
        rows = unpack_rows(NAME, site_state, len(slots), self._rows.shape[1], version=VERSION)
        polls, changes = rows.T
        all_sound(NAME, "no more changes than polls", (changes >= 0) & (changes <= polls) & (polls <= MOST_POLLS), rows)
        self._rows[slots] = rows
