"""Choosing: masks, order of precedence, one site a host, the share of new sites."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.model import STATE_CODE, SiteState
from pollerd.scheduling.choice import Chooser
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

NOW = 1_000_000.0
SETTINGS = SchedulingSettings(min_interval_seconds=30, host_interval_seconds=1)


class ByElapsed:
    """Longest wait first: enough of an allocator to choose with."""

    def __init__(self, sources: tuple[int, ...] = ()) -> None:
        """sources: slots of sources that are due to be read."""
        self.sources = sources

    def select(
        self, elapsed: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        order = np.argsort(-np.where(eligible, elapsed, -1.0), kind="stable")
        return order[: min(k, int(eligible.sum()))]

    def select_seen(
        self, last_seen: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        return self.select(now - last_seen, now, eligible, k)

    def urgency_of(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        return elapsed

    def rates_of(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.full(len(slots), 1e-3)

    def readings_due(self) -> NDArray[np.int64]:
        return np.array(self.sources, np.int64)


def tables(sites: int, hosts: int, *, known: bool = True) -> tuple[SiteTable, HostTable]:
    site_table, host_table = SiteTable(), HostTable(SETTINGS)
    for h in range(hosts):
        slot = host_table.add(h + 1, f"h{h}:80")
        host_table.set_rules(slot, None, NOW)
    slots = site_table.add(range(1, sites + 1))
    site_table.host[slots] = np.arange(sites) % hosts
    if known:
        site_table.last_poll[slots] = NOW - 100 - np.arange(sites)
        site_table.last_seen[slots] = site_table.last_poll[slots]
    return site_table, host_table


def chosen(site_table: SiteTable, host_table: HostTable, k: int, *, room: int = 8, period: float = 0.0) -> list[int]:
    return Chooser(site_table, host_table, SETTINGS).choose(ByElapsed(), NOW, k, period, room).polls


def test_takes_the_allocators_order() -> None:
    site_table, host_table = tables(5, 5)
    assert chosen(site_table, host_table, 3) == [4, 3, 2]


def test_one_site_a_host_in_one_tick() -> None:
    site_table, host_table = tables(20, 2)
    assert chosen(site_table, host_table, 10) == [19, 18]


@pytest.mark.parametrize("column", ["paused", "in_flight"])
def test_leaves_out_what_may_not_be_polled(column: str) -> None:
    site_table, host_table = tables(3, 3)
    getattr(site_table, column)[2] = True
    assert chosen(site_table, host_table, 3) == [1, 0]


def test_gone_backing_off_and_too_soon_are_left_out() -> None:
    site_table, host_table = tables(4, 4)
    site_table.state[3] = STATE_CODE[SiteState.GONE]
    site_table.not_before[2:] = NOW + 1
    site_table.last_poll[1] = NOW - 29.9
    assert chosen(site_table, host_table, 4) == [0]


def test_own_min_interval_beats_the_default() -> None:
    site_table, host_table = tables(2, 2)
    site_table.put("min_interval", 1, 1e6)
    site_table.last_poll[0] = NOW - 1
    site_table.put("min_interval", 0, 0.5)
    assert chosen(site_table, host_table, 2) == [0]


def test_busy_spaced_and_paused_hosts_are_left_alone() -> None:
    site_table, host_table = tables(4, 4)
    host_table.start(3, NOW - 10)
    host_table.start(2, NOW - 0.5)
    host_table.finish(2)
    host_table.pause(1, NOW + 5)
    assert chosen(site_table, host_table, 4) == [0]


def test_by_hand_goes_first_but_not_before_a_backoff() -> None:
    site_table, host_table = tables(4, 4)
    site_table.asap[:2] = True
    site_table.last_poll[0] = NOW - 1
    site_table.not_before[1] = NOW + 1
    assert chosen(site_table, host_table, 2) == [0, 3]


def test_past_max_interval_goes_before_the_allocators_choice() -> None:
    site_table, host_table = tables(4, 4)
    site_table.put("max_interval", 0, 50.0)
    site_table.put("max_interval", 1, 40.0)
    assert chosen(site_table, host_table, 3) == [1, 0, 3]


def test_new_sites_get_at_most_half_while_known_ones_are_due() -> None:
    site_table, host_table = tables(200, 200)
    site_table.last_poll[:100] = -np.inf
    site_table.last_seen[:100] = -np.inf
    chooser = Chooser(site_table, host_table, SETTINGS)
    picks = [slot for _ in range(11) for slot in chooser.choose(ByElapsed(), NOW, 3, 0.0, 8).polls]
    new = sum(slot < 100 for slot in picks)
    assert 15 <= new <= len(picks) / 2 + 1


@pytest.mark.parametrize(("new", "expected"), [(True, 6), (False, 6)])
def test_all_of_the_budget_goes_to_whoever_is_there(new: bool, expected: int) -> None:
    site_table, host_table = tables(10, 10, known=not new)
    assert len(chosen(site_table, host_table, 6)) == expected


def test_unknown_robots_are_asked_for_first() -> None:
    site_table, host_table = tables(4, 4)
    host_table.robots_at[2:] = -np.inf
    choice = Chooser(site_table, host_table, SETTINGS).choose(ByElapsed(), NOW, 4, 0.0, 1)
    assert choice.robots == [3]
    assert choice.polls == [1, 0]


def test_a_site_that_always_changes_waits_for_the_uniform_period() -> None:
    site_table, host_table = tables(2, 2)
    for _ in range(8):
        site_table.note_history(np.array([1]), np.array([True]))
    assert chosen(site_table, host_table, 2, period=1_000.0) == [0]
    assert chosen(site_table, host_table, 2, period=50.0) == [1, 0]
    site_table.note_history(np.array([1]), np.array([False]))
    site_table.note_history(np.array([1]), np.array([False]))
    assert chosen(site_table, host_table, 2, period=1_000.0) == [1, 0]


def test_a_source_that_is_due_to_be_read_does_not_wait_though_it_always_changes() -> None:
    site_table, host_table = tables(2, 2)
    for _ in range(8):
        site_table.note_history(np.array([1]), np.array([True]))
    chooser = Chooser(site_table, host_table, SETTINGS)
    assert chooser.choose(ByElapsed(sources=(1,)), NOW, 2, 1_000.0, 8).polls == [1, 0]
    assert chooser.choose(ByElapsed(sources=(0,)), NOW, 2, 1_000.0, 8).polls == [0]


def test_a_source_that_is_due_to_be_read_comes_before_new_sites_of_its_host() -> None:
    site_table, host_table = tables(4, 1, known=False)
    site_table.last_poll[2] = site_table.last_seen[2] = NOW - 100.0
    chooser = Chooser(site_table, host_table, SETTINGS)
    first = [chooser.choose(ByElapsed(sources), NOW, 4, 0.0, 8).polls for sources in ((), (2,), (2,))]
    assert first[0] != [2]
    assert first[1:] == [[2], [2]]


def test_nothing_to_choose_from() -> None:
    choice = Chooser(SiteTable(), HostTable(SETTINGS), SETTINGS).choose(ByElapsed(), NOW, 5, 0.0, 8)
    assert (choice.polls, choice.robots, choice.sites_due) == ([], [], False)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 30), st.randoms(use_true_random=False))
def test_every_choice_is_eligible_distinct_and_one_a_host(sites: int, hosts: int, k: int, random: Random) -> None:
    site_table, host_table = tables(sites, hosts)
    rng = np.random.default_rng(random.randrange(2**32))
    n = site_table.size
    site_table.in_flight[:n] = rng.random(n) < 0.3
    site_table.asap[:n] = rng.random(n) < 0.2
    site_table.last_poll[:n] = np.where(rng.random(n) < 0.3, -np.inf, NOW - rng.uniform(0, 200, n))
    host_table.busy[:hosts] = rng.random(hosts) < 0.2
    chooser = Chooser(site_table, host_table, SETTINGS)
    eligible = chooser.eligible(NOW, 0.0)
    choice = chooser.choose(ByElapsed(), NOW, k, 0.0, 8)
    picked_hosts = site_table.host[choice.polls].tolist()
    assert eligible[choice.polls].all()
    assert len(choice.polls) <= k
    assert len(set(picked_hosts)) == len(picked_hosts)
    free_hosts = len(set(site_table.host[:n][eligible].tolist()))
    assert bool(choice.polls) == bool(free_hosts)


class ByWeight(ByElapsed):
    """Urgency is known: as many as a slot's number."""

    def urgency_of(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        return slots.astype(np.float64)

    def select(
        self, elapsed: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        return np.flatnonzero(eligible)[::-1][:k]


def with_trials(values: dict[int, float], sites: int = 6) -> tuple[SiteTable, HostTable]:
    site_table, host_table = tables(sites, sites)
    for slot, value in values.items():
        site_table.last_poll[slot] = site_table.last_seen[slot] = -np.inf
        site_table.put("value", slot, value)
    return site_table, host_table


def test_sites_on_trial_and_others_are_chosen_on_one_scale() -> None:
    site_table, host_table = with_trials({0: 0.45, 1: 0.25})
    chooser = Chooser(site_table, host_table, SETTINGS)
    chooser.trials.value_unit = 10.0
    assert chooser.choose(ByWeight(), NOW, 4, 0.0, 8).polls == [5, 0, 4, 3]
    assert chooser.choose(ByWeight(), NOW, 6, 0.0, 8).polls == [5, 0, 4, 3, 1]


def test_what_is_worth_less_than_half_waits_while_the_best_on_trial_waits_for_its_host() -> None:
    site_table, host_table = with_trials({0: 0.9, 1: 0.3, 2: 0.5}, sites=4)
    host_table.last_start[0] = NOW - SETTINGS.host_interval_seconds + 0.25
    chooser = Chooser(site_table, host_table, SETTINGS)
    chooser.trials.value_unit = 10.0
    choice = chooser.choose(ByWeight(), NOW, 4, 0.0, 8)
    assert choice.polls == [2]
    assert choice.again_in == pytest.approx(0.25)


def test_others_wait_while_what_is_worth_more_is_under_way_but_not_for_long() -> None:
    site_table, host_table = with_trials({0: 0.9}, sites=3)
    site_table.in_flight[0] = host_table.busy[0] = True
    chooser = Chooser(site_table, host_table, SETTINGS)
    chooser.trials.value_unit = 3.0
    host_table.last_start[0] = NOW - 0.5
    assert chooser.choose(ByWeight(), NOW, 4, 0.0, 8).polls == [2]
    host_table.last_start[0] = NOW - 5.0
    assert chooser.choose(ByWeight(), NOW, 4, 0.0, 8).polls == [2, 1]


@pytest.mark.parametrize("why", ["long", "under way", "a seed"])
def test_nobody_waits_for_a_host_that_takes_long_nor_for_what_is_being_asked(why: str) -> None:
    site_table, host_table = with_trials({0: np.inf if why == "a seed" else 0.9, 1: 0.3}, sites=2)
    if why == "under way":
        site_table.in_flight[0] = host_table.busy[0] = True
    else:
        host_table.pause(0, NOW + (60.0 if why == "long" else 0.5))
    chooser = Chooser(site_table, host_table, SETTINGS)
    chooser.trials.value_unit = 10.0
    assert chooser.choose(ByWeight(), NOW, 4, 0.0, 8).polls == [1]


def test_without_a_scale_sites_on_trial_are_new_sites() -> None:
    site_table, host_table = with_trials({0: 0.45, 1: 0.25})
    chooser = Chooser(site_table, host_table, SETTINGS)
    assert sorted(chooser.choose(ByWeight(), NOW, 2, 0.0, 8).polls) == [1, 5]


def test_new_sites_of_the_users_have_their_half_beside_sites_on_trial() -> None:
    site_table, host_table = with_trials({0: 100.0, 1: 100.0})
    site_table.last_poll[4:] = site_table.last_seen[4:] = -np.inf
    chooser = Chooser(site_table, host_table, SETTINGS)
    chooser.trials.value_unit = 1.0
    assert chooser.choose(ByWeight(), NOW, 4, 0.0, 8).polls == [5, 4, 0, 1]


def test_a_host_that_rests_is_left_alone() -> None:
    site_table, host_table = tables(2, 2)
    host_table.rest(1, NOW + 5.0)
    assert chosen(site_table, host_table, 2) == [0]
    assert not host_table.may_start(1, NOW + 4.9)
    assert host_table.may_start(1, NOW + 5.0)


def request_of(host_table: HostTable, waiter: str, now: float) -> None:
    """A redirected request at the head of the queue of the first host, from its start to its end."""
    assert host_table.may_start(0, now, waiter)
    host_table.lines.leave(0, waiter)
    host_table.start(0, now)
    host_table.finish(0)


def test_redirects_that_never_end_leave_a_host_to_its_own_sites_in_turn() -> None:
    """Two requests wait at any time; a poll goes after those that waited before it, before those that came later."""
    site_table, host_table = tables(3, 1)
    chooser, order = Chooser(site_table, host_table, SETTINGS), ""
    host_table.lines.join(0, "first")
    host_table.lines.join(0, "second")
    waiting = ["first", "second"]
    for n in range(12):
        now = NOW + 2.0 * n
        if polls := chooser.choose(ByElapsed(), now, 3, 0.0, 8).polls:
            assert host_table.may_start(0, now)
            assert not host_table.may_start(0, now, waiting[0])
            site_table.last_poll[polls] = now
            host_table.start(0, now)
            host_table.lines.end_polls_turn(0)
            host_table.finish(0)
            order += "p"
        else:
            assert not host_table.may_start(0, now)
            request_of(host_table, waiting.pop(0), now)
            waiting.append(str(n))
            host_table.lines.join(0, waiting[-1])
            order += "r"
    assert order == "rrprrprrprrr", "and when all three were polled, redirects alone"


def test_a_turn_that_no_poll_uses_holds_up_nobody() -> None:
    site_table, host_table = tables(1, 1)
    chooser = Chooser(site_table, host_table, SETTINGS)
    host_table.lines.join(0, "first")
    assert not chooser.choose(ByElapsed(), NOW, 1, 0.0, 8).polls
    host_table.lines.join(0, "second")
    request_of(host_table, "first", NOW)
    now = NOW + 2.0
    assert not host_table.may_start(0, now, "second"), "the site has waited longer"
    site_table.last_poll[0] = now
    assert not chooser.choose(ByElapsed(), now, 1, 0.0, 8).polls
    assert host_table.may_start(0, now, "second"), "it need not be polled any more"


def test_a_turn_of_polls_that_are_not_chosen_in_time_is_over() -> None:
    """The poller may wait for the budget."""
    site_table, host_table = tables(1, 1)
    host_table.lines.join(0, "first")
    Chooser(site_table, host_table, SETTINGS).choose(ByElapsed(), NOW, 1, 0.0, 8)
    host_table.lines.join(0, "second")
    request_of(host_table, "first", NOW)
    assert not host_table.may_start(0, NOW + 2.0, "second")
    assert not host_table.may_start(0, NOW + 4.0, "second")
    assert host_table.may_start(0, NOW + 4.1, "second")
    assert not host_table.may_start(0, NOW + 4.1)
    host_table.lines.leave(0, "second")
    assert host_table.may_start(0, NOW + 4.1), "nobody waits"
