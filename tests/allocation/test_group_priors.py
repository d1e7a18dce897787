"""What polls of a page tell of those of its host, and of those around it in the list."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation import registry
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.learned_state import unpack
from pollerd.allocation.whittle import grid
from pollerd.allocation.whittle import priors as groups
from pollerd.allocation.whittle.belief import VERSION
from pollerd.allocation.whittle.clock import START_ODDS
from pollerd.allocation.whittle.priors import HOSTS as OF_HOSTS
from pollerd.allocation.whittle.priors import LOG_PRIOR_ODDS, NEIGHBOURS, NONE, GroupPriors, Groups
from pollerd.errors import InvalidValueError

PAGES, HOSTS, NOW = 60, 3, 1.7e9
FAST_HAZARD, SLOW_HAZARDS, MIXED = range(HOSTS)
HOST = np.arange(PAGES) % HOSTS


def whittle(host: NDArray[np.int64] | None = None) -> Allocator:
    policy = registry.create("whittle", budget=1.0, rng=np.random.default_rng(1))
    policy.add(np.arange(PAGES), np.ones(PAGES), np.ones(PAGES))
    if host is not None:
        policy.place(np.arange(PAGES), host)
    return policy


def taught(policy: Allocator, rounds: int = 8) -> Allocator:
    """All but the last twelve pages polled once a cycle; those of FAST change always, of MIXED every second time."""
    polled = np.arange(PAGES - 12)
    for turn in range(rounds):
        now = NOW + PAGES * (turn + 1.0)
        changed = (HOST[polled] == FAST_HAZARD) | ((HOST[polled] == MIXED) & ((polled + turn) % 2 == 0))
        policy.observe(polled, np.full(len(polled), float(PAGES)), EvidenceBatch(changed), now)
    return policy


def of_hosts(policy: Allocator) -> NDArray[np.float64]:
    """Believed rates of one page of each host that was never polled."""
    fresh = np.arange(PAGES - 12, PAGES)
    return policy.rates_of(np.array([fresh[HOST[fresh] == host][0] for host in range(HOSTS)]))


def test_a_page_never_polled_is_believed_to_be_like_the_others_of_its_host() -> None:
    fast, slow, mixed = of_hosts(taught(whittle(HOST)))
    assert fast > 1.2 * mixed
    assert mixed > 1.2 * slow
    alike = of_hosts(taught(whittle()))
    assert (alike == alike[0]).all()


def test_without_hosts_all_is_as_ever() -> None:
    elapsed = np.linspace(1.0, 500.0, PAGES)
    plain, placed = taught(whittle()), taught(whittle(np.full(PAGES, NONE)))
    np.testing.assert_array_equal(plain.urgency(elapsed, NOW + 1e4), placed.urgency(elapsed, NOW + 1e4))


def test_a_page_of_another_host_and_a_slot_used_again_go_by_all_sites() -> None:
    policy = taught(whittle(HOST))
    last = np.array([PAGES - 3])
    assert HOST[last] == FAST_HAZARD
    before = policy.rates_of(last)
    policy.place(last, np.array([77]))
    elsewhere = policy.rates_of(last)
    assert elsewhere < before
    policy.remove(last)
    policy.add(last, np.ones(1), np.ones(1))
    np.testing.assert_array_equal(policy.rates_of(last), elsewhere)


def test_its_own_polls_outweigh_the_hosts() -> None:
    policy = taught(whittle(HOST))
    last = np.array([PAGES - 3])
    before = policy.rates_of(last)[0]
    for turn in range(10):
        policy.observe(last, np.array([PAGES * 1.0]), EvidenceBatch(np.array([False])), NOW + PAGES * (9.0 + turn))
    assert policy.rates_of(last)[0] < before / 4


def test_what_was_kept_of_hosts_comes_back() -> None:
    policy, again = taught(whittle(HOST)), whittle(HOST)
    slots = np.arange(PAGES)
    again.restore(slots, policy.site_state(slots), policy.shared_state())
    np.testing.assert_array_equal(of_hosts(again), of_hosts(policy))
    elapsed = np.linspace(1.0, 500.0, PAGES)
    for each in (policy, again):
        taught(each, rounds=3)
    np.testing.assert_array_equal(again.urgency(elapsed, NOW + 1e4), policy.urgency(elapsed, NOW + 1e4))


def test_where_no_slot_is_placed_what_was_kept_of_hosts_is_not_used() -> None:
    policy, again = taught(whittle(HOST)), whittle()
    slots = np.arange(PAGES)
    again.restore(slots, policy.site_state(slots), policy.shared_state())
    alike = of_hosts(again)
    assert (alike == alike[0]).all()
    assert np.isfinite(again.urgency(np.linspace(1.0, 500.0, PAGES), NOW + 1e4)).all()
    assert again.notes(PAGES - 1)["prior_source"] == "learned from 384 polls of all sites"
    again.place(slots, HOST)
    np.testing.assert_array_equal(of_hosts(again), of_hosts(policy))


def test_it_says_where_a_belief_comes_from() -> None:
    policy = taught(whittle(HOST))
    policy.place(np.array([PAGES - 1]), np.array([77]))
    assert policy.notes(PAGES - 2)["prior_source"] == "learned from 384 polls of all sites, and from its host's"
    assert policy.notes(PAGES - 1)["prior_source"] == "learned from 384 polls of all sites"


def test_priors_stay_distributions_when_the_window_slides() -> None:
    policy = taught(whittle(HOST))
    order = np.argsort(of_hosts(policy))
    policy.budget = 1e-3
    np.testing.assert_array_equal(np.argsort(of_hosts(policy)), order)
    _, weights = policy.belief_of(np.arange(PAGES))
    np.testing.assert_allclose(weights.sum(1), 1.0)


def test_the_groups_with_most_pages_have_priors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_GROUPS", 2)
    group = np.array([5, 5, 9, 9, 9, 7, 7, 1, NONE, NONE])
    prior, fast = np.full(grid.CELLS, 1 / grid.CELLS), np.zeros(grid.CELLS)
    fast[-1] = 1.0
    priors = Groups("host")
    priors.learn(group, np.tile(fast, (len(group), 1)), prior)
    assert priors.known.tolist() == [5, 9]
    rows = priors.rows(group, prior)
    np.testing.assert_allclose(rows.sum(1), 1.0, rtol=1e-6)
    assert (rows[:5, -1] > 0.2).all()
    np.testing.assert_array_equal(rows[5:], np.tile(prior, (5, 1)))


LIST, ROUNDS = 256, 6


def of_a_list(fast: NDArray[np.bool_]) -> Allocator:
    """Every second page of a list polled, in any order, in each of some rounds; fast ones change at each poll."""
    policy = registry.create("whittle", budget=1.0, rng=np.random.default_rng(1))
    policy.add(np.arange(LIST), np.ones(LIST), np.ones(LIST))
    polled = np.random.default_rng(2).permutation(np.arange(0, LIST, 2))
    for turn in range(ROUNDS):
        now = NOW + LIST * (turn + 1.0)
        policy.observe(polled, np.full(len(polled), float(LIST)), EvidenceBatch(fast[polled]), now)
    return policy


def test_in_a_sorted_list_a_page_is_believed_to_be_like_those_around_it() -> None:
    policy = of_a_list(np.arange(LIST) < LIST // 4)
    never = np.arange(1, LIST, 2)
    rates = policy.rates_of(never)
    near_fast = never < LIST // 4
    assert rates[near_fast].min() > 2 * rates[~near_fast].max()
    assert policy.notes(1)["prior_source"].endswith("polls of all sites, and from its neighbours' in the list")


def test_in_a_list_without_order_neighbours_tell_nothing() -> None:
    fast = np.random.default_rng(3).permutation(LIST) < LIST // 4
    policy = of_a_list(fast)
    rates = policy.rates_of(np.arange(1, LIST, 2))
    assert rates.max() < 1.1 * rates.min()


@pytest.mark.parametrize("placed", [False, True])
def test_a_prior_of_hosts_is_not_taken_for_evidence_of_drift(placed: bool) -> None:
    """Pages of ten hosts, each with its own rate, which stand still: few are taken for fast drifters."""
    rng, pages = np.random.default_rng(3), 200
    host = np.arange(pages) // 20
    rates = np.geomspace(30.0, 0.01, 10)[host] / pages
    policy = registry.create("whittle", budget=1.0, rng=np.random.default_rng(1))
    policy.add(np.arange(pages), np.ones(pages), np.ones(pages))
    if placed:
        policy.place(np.arange(pages), host)
    for turn in range(1, 26):
        order = rng.permutation(pages)
        changed = rng.random(pages) < -np.expm1(-rates[order] * pages)
        policy.observe(order, np.full(pages, float(pages)), EvidenceBatch(changed), NOW + pages * turn)
    assert unpack("whittle", VERSION, policy.shared_state())["odds"][1] < 0.03


@pytest.mark.parametrize("kind", [OF_HOSTS, NEIGHBOURS])
def test_who_predicts_better_has_the_larger_share(kind: int) -> None:
    prior, slots = np.full(grid.CELLS, 1 / grid.CELLS), np.arange(64)
    training_rows, fresh, fast = slots[::2], slots[1::2], slots < 32
    rows = np.ones((len(training_rows), len(START_ODDS), grid.CELLS), np.float32)
    rows[fast[training_rows], :, : grid.CELLS // 2] = rows[~fast[training_rows], :, grid.CELLS // 2 :] = 1e-3
    unchanged = np.tile(np.linspace(1.0, 0.0, grid.CELLS), (len(fresh), 1))
    shares = []
    for changed in (fast[fresh], ~fast[fresh]):
        priors = GroupPriors()
        if kind == OF_HOSTS:
            priors.place(slots, np.asarray(fast, np.int64), len(slots))
        priors.learn(training_rows, rows, START_ODDS, prior)
        priors.observe(fresh, unchanged, changed, prior)
        priors.learn(training_rows, rows, START_ODDS, prior)
        shares.append(priors.share[kind])
        assert LOG_PRIOR_ODDS[kind] - 6.0 <= priors.score[kind] <= LOG_PRIOR_ODDS[kind] + 30.0
    right, wrong = shares
    assert right > 0.4
    assert wrong < right / 4


def test_groups_that_are_alike_say_nothing() -> None:
    """However much narrower what pages show is than the prior of all."""
    prior, slots = np.full(grid.CELLS, 1 / grid.CELLS), np.arange(64)
    rows = np.full((32, len(START_ODDS), grid.CELLS), 1e-3, np.float32)
    rows[:, :, :2] = 1.0
    priors = GroupPriors()
    priors.learn(slots[::2], rows, START_ODDS, prior)
    unchanged = np.tile(np.linspace(1.0, 0.0, grid.CELLS), (32, 1))
    for _ in range(20):
        priors.observe(slots[1::2], unchanged, np.zeros(32, np.bool_), prior)
    assert priors.score[NEIGHBOURS] <= 0.0


def test_of_very_many_sites_neighbourhoods_are_larger() -> None:
    priors, prior = GroupPriors(), np.full(grid.CELLS, 1 / grid.CELLS)
    slots = np.arange(0, 1_000_000, 100)
    priors.learn(slots, np.ones((len(slots), len(START_ODDS), grid.CELLS), np.float32), START_ODDS, prior)
    assert priors.state()["group_width"] == 256
    assert len(priors.state()["neighbour_known"]) <= groups.MAX_GROUPS


@pytest.mark.parametrize("host", [[0, 1], [-2], [2**31], [[0]]])
def test_hosts_that_are_none_are_refused(host: list[int]) -> None:
    with pytest.raises(InvalidValueError, match="host"):
        whittle().place(np.array([3]), np.array(host))


def test_a_slot_that_is_not_in_use_is_on_no_host() -> None:
    with pytest.raises(InvalidValueError, match="slots"):
        whittle().place(np.array([PAGES]), np.array([1]))
