"""Signals under `delay` and `deadline`: formulas against exact sums and simulation; choices through the contract."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create
from pollerd.allocation.signals.pairs import SignalTimes
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.signals.waiting import (
    deadline_waiting_value,
    delay_gain,
    delay_waiting_value,
    gain_of_reading,
    pending,
)
from tests.allocation.signal_windows import prompt

START = 1.75e9
Array = NDArray[np.float64]


def one(value: float) -> Array:
    return np.array([[value]])


def exact_gain(number: float, rate: float, recall: float, precision: float) -> float:
    """G(N) by the exact passage time of a drift with Poisson jumps, integrated numerically."""
    alpha, gamma = (1 - recall) * rate, recall * rate / precision
    levels = (np.arange(4_000) + 0.5) * number / 4_000

    def passage(x: float) -> float:
        total = 0.0
        for jumps in range(int(x / precision) + 1):
            z = gamma * (x - jumps * precision) / alpha
            terms = [math.exp(-z + i * math.log(max(z, 1e-300)) - math.lgamma(i + 1)) for i in range(jumps + 1)]
            total += (1.0 - sum(terms)) / gamma
        return total

    return float(np.mean([passage(x) for x in levels])) * number


@pytest.mark.parametrize("recall", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("precision", [0.3, 0.95])
def test_gain_of_delay_is_that_of_exact_passage_times(recall: float, precision: float) -> None:
    rate = 0.7
    for number in (0.05, 0.2, 0.9, 2.5):
        found = float(delay_gain(one(number), one(rate), one(recall), one(precision))[0, 0])
        wanted = exact_gain(number, rate, recall, precision)
        assert found == pytest.approx(wanted, rel=1e-3 if number <= precision else 0.06)


@given(st.floats(1e-6, 10.0), st.floats(0.01, 1e4))
def test_without_sources_gain_is_the_index_of_delay(rate: float, gap: float) -> None:
    found = delay_gain(one(rate * gap), one(rate), one(0.0), one(0.0))
    assert found[0, 0] == pytest.approx(rate * gap**2 / 2)


@given(st.integers(1, 8), st.floats(1e-3, 10.0))
def test_with_a_perfect_source_gain_is_that_of_a_renewal(signals: int, rate: float) -> None:
    """n announced changes come after n / λ in the mean, and wait 0 + 1 + … + (n - 1) intervals: G = n (n + 1) / 2 λ."""
    found = delay_gain(one(float(signals)), one(rate), one(1.0), one(1.0))
    assert found[0, 0] == pytest.approx(signals * (signals + 1) / (2 * rate), rel=1e-6)


@given(st.floats(0.0, 1.0), st.floats(0.01, 1.0), st.floats(1e-3, 10.0))
def test_gain_rises_with_what_waits(recall: float, precision: float, rate: float) -> None:
    number = np.linspace(0.0, 6.0, 400)[:, None]
    found = delay_gain(number, one(rate), one(recall), one(precision))
    assert (np.diff(found[:, 0]) >= -1e-9).all()


def test_what_waits_is_what_simulation_counts() -> None:
    """A page over a gap of 5 s: changes counted by how many signals came."""
    rng, rate, recall, false_rate, gap, runs = np.random.default_rng(3), 0.3, 0.7, 0.1, 5.0, 400_000
    announced, quiet, false = (
        rng.poisson(mean * gap, runs) for mean in (recall * rate, (1 - recall) * rate, false_rate)
    )
    for signals in range(4):
        of = prompt(one(recall), one(false_rate), one(float(signals)), one(gap))
        waiting = pending([of], one(rate * gap), one(rate), np.array([gap]))
        same = announced + false == signals
        found = waiting.unannounced[0, 0] + waiting.announced[0, 0]
        assert (announced + quiet)[same].mean() == pytest.approx(found, abs=0.02)


def test_two_sources_do_not_count_a_change_twice() -> None:
    of = prompt(one(0.9), one(1e-6), one(1.0), one(10.0))
    both = pending([of, of], one(0.1), one(0.01), np.array([10.0]))
    single = pending([of], one(0.1), one(0.01), np.array([10.0]))
    assert both.announced[0, 0] == pytest.approx(single.announced[0, 0], rel=1e-3)
    assert both.unannounced[0, 0] == pytest.approx(0.1 * single.unannounced[0, 0])
    assert both.recall[0, 0] == pytest.approx(0.99)


def test_values_of_waiting_are_convex_and_begin_at_the_price() -> None:
    number, ones = np.linspace(0.0, 4.0, 200), np.ones(200)
    delay = delay_waiting_value(number, 0.2 * ones, 2.0 * ones, 3.0 * ones)
    due = deadline_waiting_value(number, 0.2 * ones, 2.0 * ones, 3.0 * ones, 15.0 * ones)
    for value in (delay, due):
        assert value[0] == pytest.approx(3.0)
        assert value[-1] == 0.0
        assert (np.diff(value, 2) >= -1e-9).all()
    assert (deadline_waiting_value(number, 0.2 * ones, 2.0 * ones, 9.0 * ones, 15.0 * ones) == 0).all()


@given(st.floats(0.0, 3.0), st.floats(0.01, 20.0), st.floats(0.0, 1.0), st.floats(1e-4, 1.0))
def test_reading_a_source_never_costs(before: float, window: float, recall: float, false_rate: float) -> None:
    ones = np.ones(1)
    gain = gain_of_reading(
        before * ones,
        window * ones,
        0.2 * ones,
        (recall, false_rate),
        lambda number: delay_waiting_value(number, 0.2 * ones, ones, 2.0 * ones),
    )
    assert gain[0] >= 0.0
    if recall == 0.0:
        assert gain[0] == pytest.approx(0.0, abs=0.2)


def told(objective: str, n: int = 40, deadline: float = 100.0) -> tuple[Allocator, float]:
    """`whittle` that has learned that a pushed source tells of every change, and the time."""
    allocator = create("whittle", budget=0.2, objective=objective, rng=np.random.default_rng(0), deadline=deadline)
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    allocator.add_source(7, np.arange(n))
    rng, now, last = np.random.default_rng(1), START, np.full(n, START)
    waiting = np.zeros(n, bool)
    for _ in range(1_500):
        now += 5.0
        new = rng.random(n) < 0.01
        if new.any():
            which = np.flatnonzero(new)
            allocator.signal(which, 7, np.full(len(which), np.nan), now)
        waiting |= new
        chosen = allocator.select(now - last, now, np.ones(n, bool), 1)
        allocator.observe(chosen, now - last[chosen], EvidenceBatch(waiting[chosen]), now)
        waiting[chosen], last[chosen] = False, now
    everyone = np.arange(n)
    for slot in everyone:  # all polled just now
        allocator.observe(
            np.array([slot]), np.array([now - last[slot] + 1.0]), EvidenceBatch(np.array([False])), now + 1
        )
    return allocator, now + 1.0


@pytest.mark.parametrize("objective", ["delay", "interest"])
def test_what_was_signalled_is_polled(objective: str) -> None:
    allocator, now = told(objective)
    allocator.signal(np.array([3]), 7, np.array([np.nan]), now + 1.0)
    found = allocator.urgency(np.full(40, 10.0), now + 10.0)
    assert found.argmax() == 3
    assert found[3] > 5 * np.delete(found, 3).max()


def test_deadline_polls_what_was_signalled_before_it_is_late() -> None:
    allocator, now = told("deadline")
    allocator.signal(np.array([3]), 7, np.array([now + 1.0]), now + 1.0)
    soon, nearly_late, late = (allocator.urgency(np.full(40, gap), now + gap) for gap in (50.0, 93.0, 300.0))
    assert nearly_late.argmax() == 3
    assert nearly_late[3] > 1_000 * soon[3]  # there is time: the poll may find more later
    assert late[3] < nearly_late[3] + late.max()  # what is late counts no longer


@pytest.mark.parametrize("objective", ["delay", "deadline", "interest"])
def test_the_choice_with_signals_is_that_of_a_look_at_all(objective: str) -> None:
    n = 600
    allocator = create("whittle", budget=1.0, objective=objective, rng=np.random.default_rng(0), deadline=120.0)
    allocator.add(np.arange(n), np.ones(n), np.ones(n), half_life=np.full(n, 200.0))
    allocator.add_source(0, np.arange(0, n, 2))
    allocator.add_source(1, np.arange(0, n, 5))
    rng, now, last = np.random.default_rng(4), START, np.full(n, START)
    for _ in range(1_200):
        now += 1.0
        for source in range(2):
            which = np.unique(rng.integers(0, n // 10, 1)) * 10
            allocator.signal(which, source, np.full(len(which), now - 3.0 * source), now)
        wanted = allocator.urgency(now - last, now)
        chosen = allocator.select(now - last, now, np.ones(n, bool), 1)
        assert wanted[chosen[0]] == pytest.approx(wanted.max(), rel=1e-6)
        gap = now - last[chosen]
        allocator.observe(chosen, gap, EvidenceBatch(rng.random(1) < -np.expm1(-gap / 300)), now)
        last[chosen] = now


def test_only_deadlines_keep_the_ages_of_signals() -> None:
    for times, rows in ((SignalTimes.NONE, 0), (SignalTimes.FIRST, 3)):
        signals = Signals(times)
        signals.add(1, np.arange(3), None, 100.0, 8, -1)
        assert len(signals.pairs.time) == rows
        signals.receive(np.array([1, 2]), 1, np.array([np.nan, START]), START + 5.0, np.ones(2))
        if rows:
            np.testing.assert_allclose(signals.pairs.oldest_age(np.arange(3), START + 10.0), [-np.inf, 5.0, 10.0])
            signals.polled(np.array([2]), START + 11.0)
            signals.add(2, np.arange(2), None, 100.0, 8, -1)
            np.testing.assert_allclose(signals.pairs.oldest_age(np.arange(3), START + 12.0), [-np.inf, 7.0, -np.inf])
