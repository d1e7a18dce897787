"""`gpoks` in front of sites. What every allocator promises is tested in test_contract.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.gpoks.regression import VARIANTS
from pollerd.allocation.learned_state import pack, unpack
from pollerd.allocation.registry import create
from pollerd.errors import InvalidValueError
from pollerd.lab.environments.web import Policy
from pollerd.lab.environments.worlds import Web
from pollerd.lab.environments.zipf import Zipf

NOW = 1.75e9


def made(n: int, *, budget: float = 0.1, **parameters: Any) -> Allocator:
    allocator = create("gpoks", budget=budget, rng=np.random.default_rng(1), **parameters)
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    return allocator


def shares(allocator: Allocator, n: int) -> NDArray[np.float64]:
    """Polls per second of the first n sites."""
    found = allocator.shares(np.arange(n))
    assert found is not None
    return found


def taught(allocator: Allocator, slot: int, gap: float, found: list[bool]) -> None:
    k = len(found)
    allocator.observe(np.full(k, slot), np.full(k, gap), EvidenceBatch(np.array(found)), NOW)


@pytest.mark.parametrize("variant", ["ots+mono", "ots", "mono", "gpr", "ucb", "ips-ots"])
def test_it_learns_where_changes_are(variant: str) -> None:
    """Eight pages, one with half of all changes: an even split finds .64 of the best, the last 240 of 480 polls .95.

    The deviation of a run is below .03, so the mean of three lies below .80 once in 10^15 times.
    """
    web = Web(Zipf(pages=8, alpha=0.9, beta=1.5, order="shuffled"))
    policy = Policy("gpoks", parameters=(("variant", variant),))
    late = [web.shares(policy, (240, 480), np.random.SeedSequence(s))[1] for s in range(3)]
    assert np.mean(late) > 0.80


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_whole_budget_is_split_and_nobody_waits_for_ever(variant: str) -> None:
    n, budget = 200, 0.5
    allocator = made(n, budget=budget, variant=variant)
    chance = np.random.default_rng(2)
    for _ in range(6):
        slots = chance.permutation(n)[:50]
        changed = chance.random(50) < 0.3 * (slots < 10)
        allocator.observe(slots, chance.uniform(10, 4000, 50), EvidenceBatch(changed), NOW)
        every = 1.0 / shares(allocator, n)
        assert (1 / every).sum() == pytest.approx(budget)
        assert every.max() < 16 * (n / budget) * 2**0.5  # a point of the index set is off by half a step of √2 at most
        assert every.min() > 0.99 / budget


def test_a_page_that_changes_at_each_poll_is_polled_more_often_than_one_that_never_does() -> None:
    """After 40 polls each, by mean (no draws): by seven times and more."""
    allocator = made(2, variant="gpr")
    taught(allocator, 0, 20.0, [True] * 40)
    taught(allocator, 1, 20.0, [False] * 40)
    often = shares(allocator, 2)
    assert often[0] > 7 * often[1]


def test_pages_without_polls_are_worth_a_look_and_are_alike() -> None:
    """By the prior's mean and 1.25 deviations: three of them have most of what they share with two still ones."""
    allocator = made(5)
    taught(allocator, 0, 40.0, [False])
    taught(allocator, 1, 40.0, [False])
    often = shares(allocator, 5)
    assert often[2] == often[3] == often[4]
    assert often[2] > 2 * often[:2].max()


def test_who_was_seen_to_change_is_polled_again_before_all_have_been_seen_once() -> None:
    """The page that always changes comes 31st of 200 and has 80 of 200 polls; by its old deadline it would have one."""
    n, always = 200, 30
    allocator, last, polls = made(n), np.full(n, NOW), np.zeros(n)
    for step in range(1, n + 1):
        now = NOW + 10.0 * step
        slots = allocator.select(now - last, now, np.ones(n, np.bool_), 1)
        allocator.observe(slots, now - last[slots], EvidenceBatch(slots == always), now)
        last[slots] = now
        polls[slots] += 1
    assert polls[always] > 5
    assert polls.max() == polls[always]


def test_what_all_pages_show_is_expected_of_the_next() -> None:
    """99 pages stood still for 20 cycles: a poll of the hundredth is not expected to find what one at first was."""
    n = 100
    allocator = made(n)
    fresh = allocator.change_probability(np.array([99]), np.array([1000.0]))[0]
    assert fresh == pytest.approx(0.5, abs=0.02)  # nobody knows: each second one changes in a cycle
    for _ in range(20):
        allocator.observe(np.arange(n - 1), np.full(n - 1, 1000.0), EvidenceBatch(np.zeros(n - 1, bool)), NOW)
    assert allocator.change_probability(np.array([99]), np.array([1000.0]))[0] < 0.1
    back = made(n)
    back.restore(np.arange(n), allocator.site_state(np.arange(n)), allocator.shared_state())
    slots, gaps = np.array([99, 3]), np.array([700.0, 9000.0])
    np.testing.assert_array_equal(back.change_probability(slots, gaps), allocator.change_probability(slots, gaps))


def test_no_gap_is_shorter_than_an_eighth_of_the_last() -> None:
    """With 50 pages that all were polled, and one of them found a change each time."""
    n = 50
    allocator = made(n)
    gap = 500.0
    allocator.observe(np.arange(n), np.full(n, gap), EvidenceBatch(np.arange(n) == 7), NOW)
    for _ in range(4):
        asked = allocator.shares(np.array([7]))
        assert asked is not None
        every = 1.0 / asked[0]
        assert every > gap / 8 / 2**0.5  # a point of the index set is off by half a step of √2 at most
        gap = every
        taught(allocator, 7, gap, [True])
    assert gap < 500.0


@pytest.mark.parametrize(("cycles", "faster"), [(100, 1.0), (1, 100.0)])
def test_after_a_standstill_or_with_more_budget_nobody_gets_it_all(cycles: float, faster: float) -> None:
    """All sites may take no more than eight times what they had, and what is left goes to all."""
    n = 50
    allocator = made(n)
    gap = cycles * n / 0.1
    for _ in range(6):
        allocator.observe(np.arange(n), np.full(n, gap), EvidenceBatch(np.arange(n) < 5), NOW)
    allocator.budget = 0.1 * faster
    often = shares(allocator, n)
    assert often.sum() == pytest.approx(allocator.budget)
    assert often.max() <= 16 * often.min() * (8 if cycles == 1 else 1)
    assert often.max() < 0.2 * allocator.budget


def test_who_is_gone_counts_no_more() -> None:
    allocator = made(50)
    for _ in range(20):
        allocator.observe(np.arange(50), np.full(50, 500.0), EvidenceBatch(np.zeros(50, bool)), NOW)
    allocator.remove(np.arange(50))
    allocator.add(np.arange(4), np.ones(4), np.ones(4))
    taught(allocator, 0, 40.0, [True])
    assert allocator.change_probability(np.array([3]), np.array([40.0]))[0] > 0.4


@pytest.mark.parametrize("spoil", [lambda p: p[:-2], lambda p: p * np.nan, lambda p: p - 1.0, lambda p: p[:0]])
def test_a_damaged_population_is_refused(spoil: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> None:
    allocator = made(3)
    taught(allocator, 0, 20.0, [True] * 3)
    parts = unpack("gpoks", 3, allocator.shared_state())
    damaged = pack("gpoks", 3, {**parts, "population": spoil(parts["population"])})
    with pytest.raises(InvalidValueError, match="shared_state"):
        made(3).restore(np.arange(3), allocator.site_state(np.arange(3)), damaged)


def test_the_probability_of_a_change_is_what_polls_found() -> None:
    allocator = made(4)
    taught(allocator, 1, 40.0, [True, False, False, False] * 12)
    slots = np.array([1, 0])
    near = allocator.change_probability(slots, np.full(2, 40.0))
    assert near[0] == pytest.approx(0.25, abs=0.05)
    assert near[1] == pytest.approx(
        0.41, abs=0.05
    )  # the mean of a site like the other, .29 at the nearest bin, and of one of .54
    far = allocator.change_probability(slots, np.array([np.inf, np.nan]))
    assert ((far >= 0) & (far <= 1)).all()


def test_what_was_learned_outlasts_a_change_of_budget() -> None:
    """Real gaps are kept: under ten times the budget and back again the split is the same."""
    allocator = made(4, variant="gpr")
    taught(allocator, 1, 40.0, [True] * 10)
    taught(allocator, 2, 80.0, [False] * 10)
    before = shares(allocator, 4)
    allocator.budget = 1.0
    faster = shares(allocator, 4)
    assert faster.sum() == pytest.approx(1.0)
    allocator.budget = 0.1
    np.testing.assert_array_equal(shares(allocator, 4), before)


def test_old_polls_are_forgotten() -> None:
    allocator = made(2)
    taught(allocator, 0, 20.0, [False] * 1000)
    taught(allocator, 0, 20.0, [True] * 400)
    assert allocator.change_probability(np.array([0]), np.array([20.0]))[0] > 0.7


@pytest.mark.parametrize(("forgetting", "most"), [("none", 2048), ("learned", 4608)])
def test_the_state_of_a_site_does_not_grow(forgetting: str, most: int) -> None:
    allocator = made(3, forgetting=forgetting)
    width = allocator.site_state(np.arange(3)).shape[1]
    taught(allocator, 0, 20.0, [True, False] * 500)
    assert allocator.site_state(np.arange(3)).shape == (3, width)
    assert width < most


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("variant", "best"), ("points", 0), ("points", 1.5), ("step", -1.0), ("forgetting", "fast")],
)
def test_bad_parameters_are_named(parameter: str, value: Any) -> None:
    with pytest.raises(InvalidValueError, match=parameter):
        made(1, **{parameter: value})


def test_another_variants_state_is_refused() -> None:
    one, other = made(2), made(2, variant="ts")
    with pytest.raises(InvalidValueError, match="variant and points"):
        one.restore(np.arange(2), other.site_state(np.arange(2)), other.shared_state())


@pytest.mark.parametrize("given", [{"budget": 1e-8}, {"step": 2.0**26 + 1.0}, {"step": 1e9}])
def test_steps_beyond_the_longest_gap_share_the_budget_evenly(given: dict[str, float]) -> None:
    allocator = made(2, **given)
    taught(allocator, 0, 1e8, [True])
    one, other = shares(allocator, 2)
    assert one == pytest.approx(other)
    assert np.isfinite(allocator.urgency(np.full(2, 1e8), NOW)).all()
