"""What the allocator in force wants and believes of the sites of a plan, read while the loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation import Allocator
from pollerd.allocation.core.crossing_times import CrossingTimes
from pollerd.allocation.core.delays import typical_rates
from pollerd.allocation.core.desired_periods import gaps_around
from pollerd.allocation.core.objectives.priced_sites import priced_sites
from pollerd.allocation.core.split import Preference, by_price, by_shares, by_urgency
from pollerd.daemon.allocation.planning.plan_rows import PlanRows
from pollerd.daemon.state.scheduler_state import SchedulerState

_PIECE = 1_024
"""Sites whose beliefs are read between two turns of the loop: a millisecond or two."""


@dataclass(frozen=True)
class PlanBeliefs:
    """What the allocator wants and believes of k rows."""

    rates: NDArray[np.float64]
    """float64[k] expected changes of a site per second; nan: not estimated."""
    preference: Callable[[], Preference]
    """Works out how often it wants to poll: for a thread, takes up to a second."""

    @property
    def estimated(self) -> bool:
        """Whether any rate is estimated."""
        return not bool(np.isnan(self.rates).all())


async def plan_beliefs(scheduler: SchedulerState, rows: PlanRows) -> PlanBeliefs:
    """Returns what the allocator in force believes; no slot may be reused meanwhile."""
    allocator, slots, objective = scheduler.allocator, rows.slots, scheduler.objective
    if not len(slots):
        return PlanBeliefs(np.empty(0), lambda: by_shares(np.empty(0)))
    belief = await _belief_of(allocator, slots)
    rates = typical_rates(belief)
    if allocator.polls_at_price:
        settings = rows.weight, rows.cost, rows.half_life, np.zeros(len(slots))
        return PlanBeliefs(rates, lambda: by_price(priced_sites(belief, *settings, objective, rows.deadline)))
    shares = allocator.shares(slots)
    if shares is not None:
        return PlanBeliefs(rates, lambda: by_shares(shares))
    cycle = float((rows.cost * rows.sites).sum()) / scheduler.budget
    starvation, at = allocator.starvation_gap * allocator.budget, float(rows.last_poll.max(initial=0.0))
    gaps = gaps_around(cycle, allocator.starvation_gap, allocator.urgency_jumps)
    table = await _urgencies(allocator, slots, gaps, at)
    return PlanBeliefs(rates, lambda: by_urgency(table, starvation))


async def _belief_of(allocator: Allocator, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns `Allocator.belief_of` of the slots int64[k], read in pieces."""
    parts = []
    for at in range(0, len(slots), _PIECE):
        parts.append(allocator.belief_of(slots[at : at + _PIECE]))
        await asyncio.sleep(0)
    rates, shares = zip(*parts, strict=True)
    if rates[0].shape[1] == 1:
        return np.concatenate(rates), np.concatenate(shares)
    if all(np.array_equal(one, rates[0]) for one in rates):
        return rates[0], np.concatenate(shares)
    return allocator.belief_of(slots)  # its grid of rates changed meanwhile, which is rare


async def _urgencies(
    allocator: Allocator, slots: NDArray[np.int64], gaps: NDArray[np.float64], at: float
) -> CrossingTimes:
    """Returns the urgencies of the slots int64[k] at gaps float64[m] s, read in pieces; at: epoch s."""
    table = np.empty((len(slots), len(gaps)), np.float32)
    for begin in range(0, len(slots), _PIECE):
        some = slots[begin : begin + _PIECE]
        for column, gap in enumerate(gaps):
            urgency = allocator.urgency_of(some, np.full(len(some), gap), at)
            table[begin : begin + _PIECE, column] = np.fmax(urgency, 0.0)
            await asyncio.sleep(0)
    return CrossingTimes(gaps, table)
