"""The thesis's bandits: players by their formulas, and the splits of two sites behind the allocator contract."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.allocation.bandits import BANDITS, GpUcb, Thompson, Ucb1
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.learned_state import unpack
from pollerd.allocation.registry import create
from pollerd.errors import InvalidValueError

NOW = 1.75e9
TWO = np.arange(2)
ANY = np.random.default_rng(0)


@pytest.fixture(params=[bandit.NAME for bandit in BANDITS])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(name: str, sites: int = 2, seed: int = 1) -> Allocator:
    allocator = create(name, budget=0.1, rng=np.random.default_rng(seed))
    allocator.add(np.arange(sites), np.ones(sites), np.ones(sites))
    return allocator


def polled(allocator: Allocator, polls: int, begin: float = NOW) -> list[int]:
    """Polls of two sites of which only the first ever changes, each time."""
    last, chosen = np.full(2, begin), []
    for poll in range(polls):
        now = begin + 10.0 * (poll + 1)
        slots = allocator.select(now - last, now, np.ones(2, bool), 1)
        allocator.observe(slots, now - last[slots], EvidenceBatch(slots == 0), now)
        last[slots] = now
        chosen += slots.tolist()
    return chosen


# --- players -----------------------------------------------------------------------------------------------------


def test_ucb1_pulls_each_arm_in_order_and_then_the_highest_bound() -> None:
    arms = Ucb1(3)
    for arm, reward in enumerate((0.0, 1.0, 0.0)):
        assert arms.choose(ANY) == arm
        arms.learn(arm, reward)
    assert arms.choose(ANY) == 1
    for _ in range(20):
        arms.learn(1, 1.0)
    # after 23 pulls: 1 + sqrt(2 ln 23 / 21) = 1.55 against sqrt(2 ln 23 / 1) = 2.50
    assert arms.choose(ANY) == 0


def test_thompson_draws_from_the_conjugate_posterior() -> None:
    """Prior N(.7, .2), five rewards of .5 with variance .05: mean .5095, deviation .0976; against arms far below.

    The mean of 4,000 choices' odds against an arm fixed at the mean is a half: six standard errors, alarm below 1e-8.
    """
    arms, rng = Thompson(2), np.random.default_rng(5)
    arms.counts[:], arms.sums[:] = (5.0, 1e9), (2.5, 0.5095238e9)
    first = np.mean([arms.choose(rng) == 0 for _ in range(4000)])
    assert abs(first - 0.5) < 6 * 0.5 / np.sqrt(4000)


def test_gp_ucb_learns_from_neighbours_and_looks_where_little_is_known() -> None:
    arms = GpUcb(99)
    first = arms.choose(ANY)
    assert first == 0
    for _ in range(30):
        arms.learn(0, 0.0)
    assert arms.choose(ANY) == 98
    for _ in range(200):
        arms.learn(49, 1.0)
        arms.learn(98, 0.0)
    assert 30 < arms.choose(ANY) < 75


# --- splits behind the contract ----------------------------------------------------------------------------------


def test_the_page_that_changes_gets_the_most(name: str) -> None:
    """Its arm .99 is worth twice as much as the even split; UCB-1 after two rounds of its arms, the others sooner."""
    allocator = made(name)
    chosen = polled(allocator, 1500)
    assert np.mean(np.array(chosen[-500:]) == 0) > 0.55
    amounts = allocator.shares(TWO)
    assert amounts is not None
    np.testing.assert_allclose(amounts.sum(), 0.1)
    assert (amounts > 0).all()


def test_restore_continues_as_without_the_break(name: str) -> None:
    whole = made(name)
    polled(whole, 150)
    again = made(name, seed=9)
    rows, shared = whole.site_state(TWO), whole.shared_state()
    for slot in TWO:
        again.restore(TWO[[slot]], rows[[slot]], shared)
    assert polled(again, 150, NOW + 1e5) == polled(whole, 150, NOW + 1e5)
    assert again.shared_state() == whole.shared_state()


def test_restore_refuses_strange_bytes(name: str) -> None:
    allocator = made(name)
    rows, shared = allocator.site_state(TWO), allocator.shared_state()
    coarse = create(name, budget=0.1, rng=np.random.default_rng(1), points=11)
    for damaged in (b"", b"junk", shared[:-1], coarse.shared_state()):
        with pytest.raises(InvalidValueError):
            allocator.restore(TWO, rows, damaged)
    with pytest.raises(InvalidValueError):
        allocator.restore(TWO, np.zeros_like(rows), shared)


def test_a_third_site_is_refused(name: str) -> None:
    allocator, one = made(name), np.ones(1)
    for slots in (np.array([2]), np.empty(0, np.int64)):
        with pytest.raises(InvalidValueError, match=f"at most 2 while {name} allocates.*given: 3"):
            allocator.admit(slots, one, one)
    with pytest.raises(InvalidValueError, match="number of sites"):
        allocator.add(np.array([2]), one, one)
    allocator.remove(np.array([0]))
    allocator.add(np.array([2]), one, one)
    assert allocator.rates().shape == (3,)


def test_another_site_is_another_bandit(name: str) -> None:
    allocator = made(name)
    polled(allocator, 300)
    assert unpack(name, 1, allocator.shared_state())["counts"].sum() == 300
    allocator.remove(np.array([1]))
    assert allocator.select(np.full(2, 5.0), NOW, np.ones(2, bool), 2).tolist() == [0]
    allocator.add(np.array([1]), np.ones(1), np.ones(1))
    assert unpack(name, 1, allocator.shared_state())["counts"].sum() == 0


def test_only_equal_sites_and_changes(name: str) -> None:
    allocator, one = made(name, 1), np.ones(1)
    with pytest.raises(InvalidValueError, match="weight: must be 1 as for every site"):
        allocator.add(np.array([1]), 2 * one, one)
    with pytest.raises(InvalidValueError, match="objective: must be changes"):
        create(name, budget=1.0, objective="freshness", rng=ANY)
    with pytest.raises(InvalidValueError, match="points"):
        create(name, budget=1.0, rng=ANY, points=2)


def test_nothing_to_poll(name: str) -> None:
    allocator = made(name, 0)
    assert allocator.select(np.zeros(0), NOW, np.zeros(0, bool), 3).size == 0
    assert allocator.rates().shape == (0,)


def test_raw_stays_with_a_page_whatever_it_waits() -> None:
    """The bound takes no notice of elapsed time, but a page never polled comes first."""
    allocator = create("ucb1-raw", budget=0.1, rng=ANY)
    allocator.add(TWO, np.ones(2), np.ones(2))
    allocator.observe(np.array([0, 1, 0]), np.full(3, 10.0), EvidenceBatch(np.array([True, False, True])), NOW)
    urgency = allocator.urgency(np.array([0.0, 1e9]), NOW)
    np.testing.assert_allclose(urgency, [1 + np.sqrt(np.log(3)), np.sqrt(2 * np.log(3))])
    assert allocator.select(np.array([1.0, np.inf]), NOW, np.ones(2, bool), 1).tolist() == [1]
