"""Checks plans of the budget in simulation: is the share that a plan promises learned of in time at its budget?

Pages change as Poisson processes of known rates. With known rates (`optimal`) the plan is made at once; with learned
ones (`whittle`) after 20 polls a page, shared out as the allocator likes. Then the allocator polls at the budget of the
plan, a few polls a page to settle first, and every change counts: when it came, and when the next poll of its page did.

    python benchmarks/planned.py --runs 10
    python benchmarks/planned.py --runs 10 --objective freshness

A row a world and a way to know the rates: the mean and the largest difference between the share that was learned of in
time and the promised one, over goals and runs, and that of runs of one goal taken together.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import CrossingTimes, typical_rates
from pollerd.allocation.objectives import priced_sites
from pollerd.allocation.periods import Goal, PeriodBounds, Split, by_price, by_urgency, gaps_around, plan
from pollerd.allocation.registered import OBJECTIVES
from pollerd.allocation.registry import create

PAGES = 150
EPOCH_S = 1.75e9
POLLS_BEFORE, POLLS_TO_SETTLE, POLLS_AFTER = 20, 3, 40
"""Polls a page: before the plan where rates are learned, at its budget before changes count, and while they do."""
GOALS = ((0.9, 0.2), (0.7, 0.5), (0.5, 0.05), (0.9, 2.0))
"""Share, and seconds within, in uniform cycles of the budget before the plan."""
WORLDS = ("lognormal", "zipf", "two kinds")
BUDGETS = (1e-6, 1e6)
CHANGED = [EvidenceBatch(np.array([changed])) for changed in (False, True)]


def rates_of(world: str, pages: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Returns changes per second, float64[pages]."""
    if world == "lognormal":
        return np.asarray(rng.lognormal(-8.5, 1.5, pages))
    if world == "zipf":
        return np.asarray(0.005 / (1.0 + rng.permutation(pages)))
    return np.where(rng.random(pages) < 0.2, 1 / 600, 1 / 40_000)


@dataclass
class Polling:
    """An allocator at work on pages with these rates, one poll after the other."""

    allocator: Allocator
    rates: NDArray[np.float64]
    rng: np.random.Generator
    now: float = EPOCH_S

    def __post_init__(self) -> None:
        self.slots = np.arange(len(self.rates))
        self.last = np.full(len(self.rates), self.now)
        self.allocator.add(self.slots, np.ones(len(self.rates)), np.ones(len(self.rates)))

    def polls(self, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Polls so many times; returns when the changes came that were found, and how long after each its poll."""
        came, delays = [], []
        everyone = np.ones(len(self.rates), np.bool_)
        for _ in range(number):
            self.now += 1.0 / self.allocator.budget
            elapsed = self.now - self.last
            slot = int(self.allocator.select(elapsed, self.now, everyone, 1)[0])
            late = self._changes(slot, elapsed[slot])
            self.allocator.observe(np.array([slot]), elapsed[[slot]], CHANGED[len(late) > 0], self.now)
            self.last[slot] = self.now
            came.append(self.now - late)
            delays.append(late)
        return np.concatenate(came), np.concatenate(delays)

    def unseen(self) -> NDArray[np.float64]:
        """Returns when the changes came that no poll has found yet."""
        return np.concatenate(
            [self.now - self._changes(slot, self.now - self.last[slot]) for slot in self.slots.tolist()]
        )

    def _changes(self, slot: int, elapsed: float) -> NDArray[np.float64]:
        """Returns how long ago the page's changes since its last poll came."""
        return np.asarray(self.rng.uniform(0.0, elapsed, self.rng.poisson(self.rates[slot] * elapsed)))


def planned_budget(allocator: Allocator, goal: Goal, objective: str, pages: int, now: float, deadline: float) -> float:
    """Returns the budget by which the goal is reached by the allocator's beliefs."""
    one, none, slots = np.ones(pages), np.zeros(pages), np.arange(pages)
    belief = allocator.belief_of(slots)
    if allocator.polls_at_price:
        due = np.full(pages, deadline)
        preference = by_price(priced_sites(belief, one, one, np.full(pages, np.nan), none, objective, due))
    else:
        gaps = gaps_around(pages / allocator.budget, allocator.starvation_gap, allocator.urgency_jumps)
        urgency = [allocator.urgency_of(slots, np.full(pages, gap), now) for gap in gaps]
        preference = by_urgency(
            CrossingTimes(gaps, np.stack(urgency, axis=1)), allocator.starvation_gap * allocator.budget
        )
    bounds = PeriodBounds(none, np.full(pages, np.inf), none > 0, slots, np.full(pages, np.inf))
    split = Split(preference, bounds, one, one)
    found = plan(split, typical_rates(belief), goal, allocator.budget, BUDGETS).needed
    assert found is not None
    return found


def surplus(
    world: str, share: float, cycles: float, seed: int, *, learned: bool, objective: str = "changes", pages: int = PAGES
) -> float:
    """Returns the share of the changes learned of in time at the planned budget, minus the promised one."""
    rng = np.random.default_rng(seed)
    rates = rates_of(world, pages, rng)
    budget = rates.sum() / 2
    known: dict[str, Any] = {} if learned else {"rates": rates}
    goal = Goal(share, cycles * pages / budget)
    kind = "whittle" if learned else "optimal"
    allocator = create(kind, budget=budget, objective=objective, rng=rng, deadline=goal.within, **known)
    polling = Polling(allocator, rates, rng)
    if learned:
        polling.polls(POLLS_BEFORE * pages)
    allocator.budget = planned_budget(allocator, goal, objective, pages, polling.now, goal.within)
    polling.polls(POLLS_TO_SETTLE * pages)
    begin = polling.now
    number = max(POLLS_AFTER * pages, round(4 * goal.within * allocator.budget))
    came, delays = polling.polls(number)
    end = polling.now - goal.within
    counted = (came > begin) & (came <= end)
    unseen = polling.unseen()
    late = np.count_nonzero((unseen > begin) & (unseen <= end))
    return float((delays[counted] <= goal.within).sum() / (counted.sum() + late)) - share


def _job(objective: str, job: tuple[str, bool, tuple[float, float], int]) -> float:
    world, learned, (share, cycles), seed = job
    return surplus(world, share, cycles, seed, learned=learned, objective=objective)


def main() -> None:
    """Runs all worlds and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--objective", default="changes", choices=[one for one in OBJECTIVES if one != "interest"])
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    jobs = list(product(WORLDS, (False, True), GOALS, range(args.runs)))
    with ProcessPoolExecutor(args.processes) as pool:
        found = np.array(list(pool.map(partial(_job, args.objective), jobs)))
    table = found.reshape(len(WORLDS), 2, len(GOALS), args.runs)
    print("| world | rates | mean | largest of a goal | largest of a run |")
    print("| --- | --- | --- | --- | --- |")
    for world, (rates, cells) in (
        (world, cell)
        for world, row in zip(WORLDS, table, strict=True)
        for cell in zip(("known", "learned"), row, strict=True)
    ):
        goals = np.abs(cells.mean(1)).max()
        print(f"| {world} | {rates} | {cells.mean():+.3f} | {goals:.3f} | {np.abs(cells).max():.3f} |")


if __name__ == "__main__":
    main()
