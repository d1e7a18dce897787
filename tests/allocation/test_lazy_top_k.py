"""Choosing from a shortlist is choosing from all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registered import OBJECTIVES
from pollerd.allocation.registry import create
from pollerd.allocation.slots import top
from pollerd.allocation.whittle import grid
from pollerd.allocation.whittle.lazy_top_k import LazyTopK
from pollerd.allocation.whittle.whittle import Whittle, WhittleSettings


class World:
    """Sites that change at rates of their own, polled as an allocator wants."""

    def __init__(self, allocator: Allocator, n: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.allocator, self.now = allocator, 0.0
        self.rates = np.exp(self.rng.normal(-np.log(n) - 1.0, 2.0, n))
        self.last = np.full(n, -np.inf)
        allocator.add(np.arange(n), self.rng.uniform(0.1, 3.0, n), self.rng.uniform(0.5, 2.0, n))

    def turn(self, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Polls k sites; urgencies of those that `select` gave, and of those that a look at all would have given."""
        self.now += k
        elapsed, eligible = self.now - self.last, self.rng.random(len(self.last)) < 0.95
        chosen = self.allocator.select(elapsed, self.now, eligible, k)
        urgency = np.where(eligible, self.allocator.urgency(elapsed, self.now), -np.inf)
        assert len(set(chosen.tolist())) == len(chosen)
        gap = elapsed[chosen]
        changed = self.rng.random(len(chosen)) < -np.expm1(-self.rates[chosen] * np.where(np.isinf(gap), 0.0, gap))
        self.last[chosen] = self.now
        evidence = EvidenceBatch(
            changed=changed, age=np.full(len(chosen), np.nan), count=np.full(len(chosen), -1, np.int64)
        )
        self.allocator.observe(chosen, gap, evidence, self.now)
        return urgency[chosen], urgency[top(urgency, k)]


def hold_back_updates(monkeypatch: pytest.MonkeyPatch, allocator: Whittle) -> None:
    """Polls go on teaching what is believed of the sites polled, but nothing that all have in common."""
    monkeypatch.setattr(allocator.belief, "update_priors", lambda: None)
    monkeypatch.setattr(allocator.belief.common_rate, "observe", lambda *_: False)


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(OBJECTIVES), st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_the_choice_is_that_of_a_look_at_all(objective: str, seed: int, k: int) -> None:
    n = 900
    allocator = create("whittle", budget=1.0, objective=objective, rng=np.random.default_rng(0), deadline=150.0)
    world = World(allocator, n, seed)
    for turn in range(900 // k):
        chosen, wanted = world.turn(k)
        np.testing.assert_allclose(chosen, wanted, rtol=1e-9)
        if turn % 200 == 150:
            allocator.budget = 1.0 + 0.3 * world.rng.random()
        if turn % 300 == 200:
            gone = world.rng.choice(n, 5, replace=False)
            allocator.remove(gone)
            allocator.add(gone, np.ones(5), np.ones(5))
            world.last[gone] = -np.inf


def test_few_sites_are_looked_at() -> None:
    allocator = Whittle(1.0)
    n = 4_000
    world = World(allocator, n, 7)
    for _ in range(1_500):
        world.turn(4)
    looked: list[int] = []
    for _ in range(400):
        world.now += 4
        chosen = allocator.select(world.now - world.last, world.now, np.ones(n, np.bool_), 4)
        looked.append(allocator.looked_at)
        world.last[chosen] = world.now
    assert sum(looked) < 400 * n / 3


@pytest.mark.parametrize("objective", [one for one in OBJECTIVES if one != "deadline"])
@given(st.integers(0, 2**32 - 1), st.floats(1.0, 1e4))
@settings(max_examples=60, deadline=None)
def test_no_index_grows_faster_than_the_fourth_power_of_the_gap(objective: str, seed: int, factor: float) -> None:
    allocator = Whittle(1.0, objective, WhittleSettings(starvation_cycles=1e9))
    world = World(allocator, 40, seed)
    for _ in range(120):
        world.turn(1)
    gap = np.exp(world.rng.uniform(-3.0, 9.0, 40))
    early, late = allocator.urgency(gap, world.now), allocator.urgency(gap * factor, world.now)
    assert (late <= early * factor**4 * 1.02).all()


def test_sweeping_piece_by_piece_reaches_the_same_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """With pieces this small a lesson takes many choices to reach all; without lessons, and with what they weigh
    against one rate for all left as it is, every choice is exact."""
    monkeypatch.setattr("pollerd.allocation.whittle.lazy_top_k.PIECE", 16)
    allocator = Whittle(1.0)
    world = World(allocator, 2_000, 3)
    for _ in range(500):
        world.turn(4)
    hold_back_updates(monkeypatch, allocator)
    for _ in range(200):
        world.turn(4)
    for _ in range(800):
        chosen, wanted = world.turn(4)
        np.testing.assert_allclose(chosen, wanted, rtol=1e-9)


def test_a_cleared_list_looks_at_all() -> None:
    shortlist = LazyTopK()
    shortlist.grow(1_000)
    slots, gap = np.arange(1_000), np.linspace(1.0, 100.0, 1_000)
    shortlist.note(slots, gap, gap, gap**2, 50.0, 1, 1_000)
    free = np.ones(1_000, np.bool_)
    assert 0 < shortlist.candidates(free, gap, 50.0, 1e9, 1).sum() < 1_000
    assert (
        shortlist.candidates(free, gap + 1.0, 51.0, 1e9, 1).sum() >= shortlist.candidates(free, gap, 50.0, 1e9, 1).sum()
    )
    shortlist.clear()
    assert shortlist.candidates(free, gap, 50.0, 1e9, 1).all()


def taught_world(n: int, rates: NDArray[np.float64] | None = None, worthless: float = 0.0) -> World:
    """All of its sites polled twice, a share of them worth nothing."""
    world = World(Whittle(1.0), n, 5)
    if rates is not None:
        world.rates = rates
    if worthless:
        world.allocator.remove(np.arange(n))
        weight = np.where(world.rng.random(n) < worthless, 0.0, 1.0)
        world.allocator.add(np.arange(n), weight, np.ones(n))
    for _ in range(2):
        world.now += n
        gap = world.now - world.last
        changed = world.rng.random(n) < -np.expm1(-world.rates * np.minimum(gap, n))
        world.last[:] = world.now
        world.allocator.observe(np.arange(n), gap, EvidenceBatch(changed), world.now)
    world.last -= world.rng.exponential(n, n)
    return world


class Watched:
    """Turns of a world with lessons held back: how much of the best urgency each choice had, how many it looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, world: World) -> None:
        monkeypatch.setattr("pollerd.allocation.whittle.lazy_top_k.PIECE", 1_000)
        monkeypatch.setattr("pollerd.allocation.whittle.lazy_top_k.AT_ONCE", 2_000)
        whittle = world.allocator
        assert isinstance(whittle, Whittle)
        self.world, self.whittle = world, whittle
        self.update_priors = whittle.belief.update_priors
        hold_back_updates(monkeypatch, whittle)
        self.share: list[float] = []
        self.looked: list[int] = []

    def turn(self, number: int, k: int = 10) -> None:
        for _ in range(number):
            chosen, best = self.world.turn(k)
            self.share.append(chosen.sum() / best.sum())
            self.looked.append(self.whittle.looked_at)


def test_a_look_at_very_many_is_spread_over_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start and at a lesson; a choice is among the pieces seen so far, and once all were seen it is the best."""
    watched = Watched(monkeypatch, taught_world(20_000))
    watched.turn(60)
    watched.update_priors()
    watched.turn(60)
    share = watched.share
    assert max(watched.looked) < 20_000 / 4
    assert np.mean(share[:20]) > 0.7
    assert np.mean(share[60:80]) > 0.9
    np.testing.assert_allclose(share[25:60] + share[85:], 1.0)


@pytest.mark.parametrize("factor", [0.01, 4.0])
def test_all_indices_fall_or_rise_at_once(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """The level is looked for anew: it is not come down to by ever so little, and nobody stays put off by the old."""
    watched = Watched(monkeypatch, taught_world(20_000))
    watched.turn(40)
    index = grid.index_of_certainty_equivalent
    monkeypatch.setattr(grid, "index_of_certainty_equivalent", lambda mean: index(mean) * factor)
    watched.whittle.belief.version += 1
    watched.turn(120)
    np.testing.assert_allclose(watched.share[-60:], 1.0)


def test_a_list_with_a_rhythm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every hundredth page changes fast, as where front pages come before articles: a piece has its share of them."""
    n = 20_000
    rates = np.where(np.arange(n) % 100 == 0, 3.0 / n, 0.003 / n)
    watched = Watched(monkeypatch, taught_world(n, rates))
    watched.turn(60)
    assert np.mean(watched.share[25:]) > 0.95
    assert np.mean(watched.looked[25:]) < n / 8


def test_most_are_worth_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, taught_world(20_000, worthless=0.995))
    watched.turn(80, k=4)
    np.testing.assert_allclose(watched.share[-40:], 1.0)
    assert np.mean(watched.looked[-40:]) < 20_000 / 8


def test_all_are_past_the_starvation_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a long downtime those that waited longest come first, and nobody's index needs a look."""
    world = taught_world(20_000)
    world.now += 60 * 20_000
    watched = Watched(monkeypatch, world)
    watched.turn(20)
    np.testing.assert_allclose(watched.share, 1.0)
    assert max(watched.looked) == 0
