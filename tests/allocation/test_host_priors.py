"""What polls of a host's pages tell of its others."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd import allocation
from pollerd.allocation import Allocator, EvidenceBatch
from pollerd.allocation.learning import grid, hosts
from pollerd.allocation.learning.forgetting import START_ODDS
from pollerd.allocation.learning.hosts import NOWHERE, HostPriors
from pollerd.errors import InvalidValueError

PAGES, HOSTS, NOW = 60, 3, 1.7e9
FAST, SLOW, MIXED = range(HOSTS)
HOST = np.arange(PAGES) % HOSTS


def whittle(host: NDArray[np.int64] | None = None) -> Allocator:
    policy = allocation.create("whittle", budget=1.0, rng=np.random.default_rng(1))
    policy.add(np.arange(PAGES), np.ones(PAGES), np.ones(PAGES))
    if host is not None:
        policy.place(np.arange(PAGES), host)
    return policy


def taught(policy: Allocator, rounds: int = 8) -> Allocator:
    """All but the last twelve pages polled once a cycle; those of FAST change always, of MIXED every second time."""
    polled = np.arange(PAGES - 12)
    for turn in range(rounds):
        now = NOW + PAGES * (turn + 1.0)
        changed = (HOST[polled] == FAST) | ((HOST[polled] == MIXED) & ((polled + turn) % 2 == 0))
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
    plain, placed = taught(whittle()), taught(whittle(np.full(PAGES, NOWHERE)))
    np.testing.assert_array_equal(plain.urgency(elapsed, NOW + 1e4), placed.urgency(elapsed, NOW + 1e4))


def test_a_page_of_another_host_and_a_slot_used_again_go_by_all_sites() -> None:
    policy = taught(whittle(HOST))
    last = np.array([PAGES - 3])
    assert HOST[last] == FAST
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


def test_the_hosts_with_most_pages_have_priors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MOST_HOSTS", 2)
    slots = np.arange(10)
    priors = HostPriors()
    priors.place(slots, np.array([5, 5, 9, 9, 9, 7, 7, 1, NOWHERE, NOWHERE]), 16)
    prior = np.full(grid.CELLS, 1 / grid.CELLS)
    priors.learn(slots, np.ones((10, len(START_ODDS), grid.CELLS), np.float32), START_ODDS, prior)
    assert priors.known.tolist() == [5, 9]
    assert [priors.has_own(slot) for slot in (0, 2, 5, 7, 8)] == [True, True, False, False, False]
    np.testing.assert_allclose(priors.rows(slots, prior).sum(1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("host", [[0, 1], [-2], [2**31], [[0]]])
def test_hosts_that_are_none_are_refused(host: list[int]) -> None:
    with pytest.raises(InvalidValueError, match="host"):
        whittle().place(np.array([3]), np.array(host))


def test_a_slot_that_is_not_in_use_is_on_no_host() -> None:
    with pytest.raises(InvalidValueError, match="slots"):
        whittle().place(np.array([PAGES]), np.array([1]))
