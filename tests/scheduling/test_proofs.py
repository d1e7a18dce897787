"""Proof polls: who is next, what they may cost, and when they are due."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.scheduling.choice import Chooser, next_due
from pollerd.scheduling.proofs import PROOF_SHARE, SAVED_MOST, ProofQueue
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
def test_proofs_never_take_more_than_their_share(steps: Sequence[tuple[float, float]], budget: float) -> None:
    queue, now, spent, dearest = ProofQueue(), NOW, 0.0, 0.0
    queue.earn(now, budget)
    for wait, cost in steps:
        now += wait
        queue.earn(now, budget)
        queue.ask(1, now)
        if queue.affordable(np.array([1]), np.array([cost]), now):
            queue.choose([1])
            queue.started(1, cost)
            spent, dearest = spent + cost, max(dearest, cost)
    assert spent <= PROOF_SHARE * budget * (now - NOW) + max(SAVED_MOST, dearest) + 1e-6


@given(st.floats(0.1, 40.0), st.floats(0.01, 50.0))
def test_who_waits_as_long_as_told_can_pay(cost: float, budget: float) -> None:
    queue = ProofQueue()
    queue.earn(NOW, budget)
    queue.ask(1, NOW + 1e9)
    queue.choose([1])
    queue.started(1, 3 * SAVED_MOST)
    wait, one = queue.affordable_in(cost), np.array([1])
    assert wait > 0
    assert queue.affordable(one, np.array([cost]), NOW) == 0
    queue.earn(NOW + 1.001 * wait + 1e-3, budget)
    assert queue.affordable(one, np.array([cost]), NOW) == 1


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
    assert queue.affordable_in(1.0) == 0
    assert not queue.had_its_turn(1)
    queue.choose([1])
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


def test_who_cannot_be_paid_waits_and_one_host_gets_one() -> None:
    site_table, host_table = tables(40, 20)
    site_table.last_poll[:40] = NOW - 2.0
    queue = site_table.proofs
    for slot in range(40):
        queue.ask(slot, NOW + 30)
    queue.earn(NOW, 10.0)
    chooser = Chooser(site_table, host_table, SETTINGS)
    first = chooser.choose(ByElapsed(), NOW, 40, 0.0, 8).polls
    assert first == list(range(16))
    for slot in first:
        queue.started(slot, 1.0)
    assert not chooser.choose(ByElapsed(), NOW, 40, 0.0, 8).sites_due
    assert next_due(site_table, host_table, NOW, 30.0) == pytest.approx(1.0)
    queue.earn(NOW + 2.0, 10.0)
    assert chooser.choose(ByElapsed(), NOW + 2.0, 40, 0.0, 8).polls == [0, 1]


def test_a_removed_site_waits_no_more() -> None:
    site_table, _ = tables(2, 2)
    site_table.proofs.ask(1, NOW)
    site_table.remove(1)
    assert len(site_table.proofs) == 0
