"""Pages that a believed source tells of are passed over for a while, and never while they are the most urgent."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registered import OBJECTIVES
from pollerd.allocation.registry import create
from pollerd.allocation.whittle.whittle import Whittle

START = 1.75e9
SITES, STEPS = 400, 500
WITHOUT_PUSHES = 0.4
"""Share of the steps, at the end, in which nothing is pushed."""


class World:
    """Pages that change, and two sources that tell of each change: a list that is read, and one that pushes."""

    def __init__(self, objective: str, seed: int, recall: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.recall = recall
        policy = create("whittle", budget=1.0, objective=objective, rng=np.random.default_rng(0), deadline=150.0)
        assert isinstance(policy, Whittle)
        self.policy = policy
        every = SITES + 1
        policy.add(np.arange(every), np.r_[np.ones(SITES), 0.0], np.ones(every), half_life=np.full(every, 150.0))
        self.listed, self.pushed = np.arange(0, SITES - 100), np.arange(SITES - 250, SITES - 50)
        policy.add_source(0, self.listed, polled_as=SITES)
        policy.add_source(1, self.pushed)
        self.rates = 1.2 / SITES / np.linspace(0.2, 4.0, SITES) ** 1.5
        self.now, self.last = START, np.full(every, START)
        self.changed, self.listing = np.zeros(SITES, bool), np.zeros(SITES, bool)

    def step(self, pushes: bool) -> tuple[float, float, int]:
        """The urgency of what was chosen, the largest of all, and how many were looked at."""
        self.now += 1.0
        new = self.rng.random(SITES) < self.rates
        self.changed |= new
        told = new & (self.rng.random(SITES) < self.recall)
        self.listing |= told
        if pushes:
            which = self.pushed[told[self.pushed]]
            self.policy.signal(which, 1, np.full(len(which), np.nan), self.now)
            if self.rng.random() < 0.1:
                self.policy.fetched(1, self.now)
        chosen = self.policy.select(self.now - self.last, self.now, np.ones(SITES + 1, bool), 1)
        urgency = self.policy.urgency(self.now - self.last, self.now)  # with the indices of sources of this choice
        looked_at, slot = self.policy.looked_at, int(chosen[0])
        found = self.listing[self.listed].any() if slot == SITES else self.changed[slot]
        self.policy.observe(chosen, self.now - self.last[chosen], EvidenceBatch(np.array([bool(found)])), self.now)
        if slot == SITES:
            which = self.listed[self.listing[self.listed]]
            self.policy.signal(which, 0, np.full(len(which), np.nan), self.now)
            self.policy.fetched(0, self.now)
            self.listing[:] = False
        else:
            self.changed[slot] = False
        self.last[slot] = self.now
        return float(urgency[slot]), float(urgency.max()), looked_at


@pytest.mark.parametrize(("objective", "recall"), [*((one, 0.8) for one in OBJECTIVES), ("changes", 1.0)])
def test_the_most_urgent_page_is_chosen_whatever_sources_do(objective: str, recall: float) -> None:
    """Also when one that pushed falls silent."""
    world = World(objective, 5, recall)
    looked_at, believed = [], 0.0
    for i in range(STEPS):
        mine, most, looks = world.step(pushes=i < (1.0 - WITHOUT_PUSHES) * STEPS)
        assert mine >= most * (1 - 1e-6), f"choice {i}"
        looked_at.append(looks)
        believed = max(believed, *(source.say for source in world.policy.signals.sources.values()))
    assert believed > 0.5, "else no index has a tight bound"
    assert np.mean(looked_at[STEPS // 2 :]) < 0.75 * SITES, "not all are looked at"


def test_pages_of_a_source_that_became_worse_are_all_looked_at_again() -> None:
    world = World("changes", 5, 1.0)
    before = [world.step(pushes=True)[2] for _ in range(STEPS)][-20:]
    assert np.median(before) < 0.5 * SITES
    world.policy.signals.sources[0].log_odds = 2.0  # as after polls that contradict it
    after = [world.step(pushes=True)[2] for _ in range(10)]
    assert max(after) >= len(world.listed)


def test_pages_of_a_source_that_falls_silent_are_all_looked_at_again() -> None:
    world = World("changes", 5, 1.0)
    for _ in range(STEPS):
        world.step(pushes=True)
    pushed = world.policy.signals.sources[1]
    pushed.fetched_at, pushed.longest_gap = world.now - 5.5 / 3.0, 0.0
    world.policy.fetched(1, world.now)  # it is missed after three times its longest gap: 5.5 s
    looks = [world.step(pushes=False)[2] for _ in range(8)]
    assert min(looks[:5]) < len(world.pushed) <= max(looks[5:])
