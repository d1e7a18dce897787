"""Proof polls: who is next, what they may cost, and when they are due."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.scheduling.choice import Chooser, next_due
from pollerd.scheduling.proofs import PROOF_SHARE, SAVED_MOST, ProofQueue
from pollerd.scheduling.sites import SiteTable
from tests.scheduling.test_choice import NOW, SETTINGS, ByElapsed, chosen, tables


def test_those_in_time_come_first_then_who_asked_first() -> None:
    queue = ProofQueue()
    for slot, until in ((4, NOW - 1), (2, NOW + 1), (7, NOW - 1), (1, NOW + 1)):
        queue.ask(slot, until)
    assert queue.in_order(NOW).tolist() == [2, 1, 4, 7]
    queue.ask(4, NOW + 5)
    assert queue.in_order(NOW).tolist() == [4, 2, 1, 7]
    queue.drop(2)
    queue.drop(2)
    assert queue.in_order(NOW).tolist() == [4, 1, 7]
    assert (len(queue), 2 in queue, 7 in queue) == (3, False, True)


@given(
    st.lists(st.tuples(st.floats(0.0, 30.0), st.floats(0.1, 25.0)), min_size=1, max_size=60),
    st.floats(0.01, 100.0),
)
def test_proofs_of_noisy_sites_never_take_more_than_their_share(
    steps: Sequence[tuple[float, float]], budget: float
) -> None:
    queue, now, spent, dearest = ProofQueue(), NOW, 0.0, 0.0
    queue.earn(now, budget)
    for wait, cost in steps:
        now += wait
        queue.earn(now, budget)
        queue.ask(1, now)
        if queue.affordable(np.array([1]), np.array([cost]), now):
            queue.choose([1], paid=True)
            queue.started(1, cost)
            spent, dearest = spent + cost, max(dearest, cost)
    assert spent <= PROOF_SHARE * budget * (now - NOW) + max(SAVED_MOST, dearest) + 1e-6


def test_a_site_is_noisy_while_more_of_its_proofs_showed_noise_than_a_change() -> None:
    queue, slots = ProofQueue(), np.array([1, 2])
    for noise, noisy in ((False, False), (True, False), (True, True), (False, False), (True, True)):
        queue.note(1, noise=noise)
        assert queue.is_noisy(slots).tolist() == [noisy, False]
    for _ in range(100):
        queue.note(1, noise=True)
    for _ in range(4):
        queue.note(1, noise=False)
    assert queue.is_noisy(slots).tolist() == [False, False]
    queue.note(1, noise=True)
    queue.drop(1)
    assert queue.is_noisy(slots)[0]
    queue.clear(1)
    assert not queue.is_noisy(slots)[0]


def test_the_chance_of_a_change_follows_the_proofs_of_sites_that_are_not_noisy() -> None:
    queue = ProofQueue()
    assert queue.confirms == 1.0
    for slot in range(60):
        queue.note(slot, noise=slot % 3 != 0)
        queue.note(slot, noise=True)
    assert 0.3 < queue.confirms < 0.6
    before = queue.confirms
    queue.note(2, noise=True)
    assert queue.confirms == before, "it is noisy"


def test_a_late_proof_leaves_enough_for_the_one_after_it() -> None:
    queue, slots, costs = ProofQueue(), np.array([1, 2, 3]), np.array([7.0, 7.0, 1.0])
    for slot in slots.tolist():
        queue.ask(slot, NOW)
    assert queue.affordable(slots, costs, NOW) == 3
    assert queue.affordable(slots, costs, NOW + 1) == 1


def test_other_polls_of_a_waiting_site_are_not_paid_from_the_share() -> None:
    queue = ProofQueue()
    queue.ask(1, NOW)
    queue.started(1, 100.0)
    assert queue.affordable(np.array([1]), np.array([SAVED_MOST]), NOW) == 1
    assert not queue.had_its_turn(1)
    queue.choose([1])
    queue.started(1, 100.0)
    assert queue.affordable(np.array([1]), np.array([SAVED_MOST]), NOW) == 1, "not from the share"
    assert queue.had_its_turn(1)
    queue.ask(1, NOW)
    assert not queue.had_its_turn(1)


def test_a_proof_comes_after_those_asked_for_and_overdue_and_before_all_others() -> None:
    site_table, host_table = tables(5, 5)
    site_table.asap[1] = True
    site_table.put("max_interval", 2, 50.0)
    site_table.last_poll[3] = NOW - 1.0
    site_table.proofs.ask(3, NOW)
    assert chosen(site_table, host_table, 4) == [1, 2, 3, 4]


def test_a_proof_does_not_wait_for_the_min_interval_but_for_host_and_backoff() -> None:
    site_table, host_table = tables(3, 3)
    site_table.last_poll[:3] = NOW - 2.0
    for slot in range(3):
        site_table.proofs.ask(slot, NOW + 30)
    site_table.not_before[0] = NOW + 5
    host_table.start(1, NOW - 0.5)
    host_table.finish(1)
    assert chosen(site_table, host_table, 3) == [2]
    assert next_due(site_table, host_table, NOW, 30.0) == 0.0
    site_table.proofs.drop(2)
    assert next_due(site_table, host_table, NOW, 30.0) == pytest.approx(0.5)


def proving(sites: int, hosts: int, known: int = 0) -> tuple[SiteTable, Chooser]:
    """A table whose first sites wait for their proof, and whose last `known` are due for a poll."""
    site_table, host_table = tables(sites, hosts)
    waiting = sites - known
    site_table.last_poll[:waiting] = NOW - 2.0
    for slot in range(waiting):
        site_table.proofs.ask(slot, NOW + 30)
    site_table.proofs.earn(NOW, 10.0)
    return site_table, Chooser(site_table, host_table, SETTINGS)


def polls(chooser: Chooser, k: int) -> list[int]:
    return chooser.choose(ByElapsed(), NOW, k, 0.0, 8).polls


def test_proofs_come_before_other_polls_however_many_there_are_one_a_host() -> None:
    _, chooser = proving(60, 40, known=20)
    assert polls(chooser, 40) == list(range(40))


def test_proofs_of_noisy_sites_are_held_to_their_share_unless_budget_is_left_over() -> None:
    site_table, chooser = proving(60, 60, known=20)
    for slot in range(30):
        site_table.proofs.note(slot, noise=True)
    assert site_table.proofs.confirms < 0.5, "so proofs are compared with the other polls"
    chosen_now = polls(chooser, 40)
    noisy = [slot for slot in chosen_now if slot < 30]
    assert len(noisy) == 16, "what is saved up"
    assert [slot for slot in chosen_now if 30 <= slot < 40] == list(range(30, 40))
    assert len(polls(chooser, 60)) == 60, "places are left over"


def test_proofs_of_light_sites_give_way_to_likely_changes_of_heavy_ones() -> None:
    site_table, chooser = proving(6, 6, known=3)
    for slot, weight in enumerate([1.0, 100.0, 0.001, 10.0, 0.01, 10.0]):
        site_table.put("weight", slot, weight)
    # Of a chance of 1 - exp(-.1): 10 is worth .95, .01 is worth .00095, a proof its whole weight.
    assert sorted(polls(chooser, 3)) == [0, 1, 3] or sorted(polls(chooser, 3)) == [0, 1, 5]
    assert set(polls(chooser, 2)) == {0, 1}
    assert set(polls(chooser, 6)) == set(range(6))


def test_a_proof_takes_the_place_of_the_poll_of_its_host_only_if_it_is_worth_more() -> None:
    site_table, chooser = proving(4, 2, known=2)  # hosts: 0 has the sites 0 and 2, 1 has 1 and 3
    for slot, weight in enumerate([1.0, 0.001, 1.0, 1.0]):
        site_table.put("weight", slot, weight)
    assert sorted(polls(chooser, 4)) == [0, 3]


def test_the_budget_is_spent_on_noisy_proofs_rather_than_not_at_all() -> None:
    site_table, chooser = proving(40, 20)
    queue = site_table.proofs
    for slot in range(40):
        queue.note(slot, noise=True)
    first = polls(chooser, 40)
    assert first == list(range(20))
    for slot in first:
        queue.started(slot, 1.0)
    assert next_due(site_table, chooser.hosts, NOW, 30.0) == 0.0


def test_a_removed_site_waits_no_more() -> None:
    site_table, _ = tables(2, 2)
    site_table.proofs.ask(1, NOW)
    site_table.remove(1)
    assert len(site_table.proofs) == 0
