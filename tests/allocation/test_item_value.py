"""Signals under `interest`: the value of what waits, its index against the exact single-page problem, and readings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.index import g
from pollerd.allocation.signals.pairs import SignalTimes
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.signals.waiting import (
    covered_shares,
    gain_of_reading_items,
    item_gain,
    item_waiting_value,
    pending_of,
)
from tests.allocation.signal_windows import prompt

START = 1.75e9
Array = NDArray[np.float64]


def one(value: float) -> Array:
    return np.array([[value]])


def found_index(value: float, rate: float, decay: float, recall: float, precision: float) -> float:
    return float(item_gain(one(value), one(rate), one(decay), one(recall), one(precision))[0, 0])


@given(st.floats(1e-7, 1.0), st.floats(1e-7, 1e-2), st.floats(1.0, 1e6), st.floats(0.0, 1.0))
def test_without_announcements_it_is_the_index_without_signals(
    rate: float, decay: float, gap: float, precision: float
) -> None:
    value = rate / decay * -np.expm1(-decay * gap)
    wanted = rate / decay * float(g(np.array(decay * gap)))
    assert found_index(value, rate, decay, 0.0, precision) == pytest.approx(wanted, rel=0.01)


def exact_levels(rate: float, recall: float, false_rate: float, gains: Array) -> list[tuple[float, float]]:
    """Returns levels S at which polls are best, and the prices for which they are, for decay 1.

    For a gain ρ a second the problem "stop with S, waiting costs ρ a second" is solved by value iteration on a grid of
    S and time; its value at S = 0 is the price at which the gain is ρ.
    """
    alpha, gamma = (1 - recall) * rate, recall * rate + false_rate
    precision, step = recall * rate / gamma, 0.004
    state = np.linspace(0.0, 3 * rate + 6 * precision, 2_000)
    later = alpha + (state - alpha) * np.exp(-step)
    signalled, jump = np.minimum(later + precision, state[-1]), -np.expm1(-gamma * step)
    levels, value = [], state.copy()
    for gain in np.sort(gains)[::-1].tolist():  # the next value is larger: a start from below
        for _ in range(50_000):
            on = (1 - jump) * np.interp(later, state, value) + jump * np.interp(signalled, state, value) - gain * step
            after = np.maximum(state, on)
            moved, value = float(np.abs(after - value).max()), after
            if moved < 1e-7:
                break
        levels.append((float(state[np.argmax(on <= state + 1e-9)]), float(value[0])))
    return levels


@pytest.mark.parametrize(
    ("rate", "recall", "false_rate"), [(1.0, 0.6, 0.15), (1.0, 0.9, 8.0), (5.0, 0.9, 0.5), (0.3, 0.6, 0.05)]
)
def test_the_index_is_within_a_quarter_of_the_exact_one(rate: float, recall: float, false_rate: float) -> None:
    precision = recall * rate / (recall * rate + false_rate)
    for level, price in exact_levels(rate, recall, false_rate, rate * np.array([0.8, 0.6, 0.4, 0.2, 0.1])):
        assert found_index(level, rate, 1.0, recall, precision) == pytest.approx(price, rel=0.26)


@given(st.floats(0.01, 100.0), st.floats(0.01, 10.0))
def test_with_a_perfect_source_an_item_is_worth_what_the_next_poll_would_miss(rate: float, decay: float) -> None:
    """A poll now, or at the next item, which comes after Exp(λ): the first gains 1 - E e^(-μ Δ) = μ / (λ + μ)."""
    found = found_index(1.0, rate, decay, 1.0, 1.0)
    if rate < decay:  # else it pays to wait for several
        assert found == pytest.approx(decay / (rate + decay), rel=0.1)
    assert decay / (rate + decay) <= found * (1 + 1e-9) <= 1.01


@given(st.floats(0.0, 1.0), st.floats(0.01, 1.0), st.floats(1e-3, 10.0))
def test_the_index_rises_with_what_waits_and_is_no_more(recall: float, precision: float, rate: float) -> None:
    value = np.linspace(0.0, 12.0, 500)[:, None]
    found = item_gain(value, one(rate), one(1.0), one(recall), one(precision))[:, 0]
    assert (np.diff(found) >= -1e-9).all()
    assert (found <= value[:, 0] * (1 + 1e-9)).all()


def test_what_waits_is_what_simulation_counts() -> None:
    """A page over a gap of 5 s, in bins of the state that its signals leave one to expect."""
    rng, rate, recall, false_rate, gap, decay, runs = np.random.default_rng(3), 0.5, 0.7, 0.2, 5.0, 0.4, 60_000
    value, worth, number = np.zeros((3, runs))
    for mean, is_item, is_signal in (((1 - recall) * rate, 1, 0), (recall * rate, 1, 1), (false_rate, 0, 1)):
        count = rng.poisson(mean * gap, runs)
        run = np.repeat(np.arange(runs), count)
        each = np.exp(-decay * gap * rng.random(len(run)))
        value += is_item * np.bincount(run, each, runs)
        worth += is_signal * np.bincount(run, each, runs)
        number += is_signal * count
    ones = np.ones((runs, 1))
    of = prompt(recall * ones, false_rate * ones, number[:, None], gap * ones)
    gaps, decays = np.full(runs, gap), np.full(runs, decay)
    whole = ones * rate / decay * -np.expm1(-decay * gap)
    told = covered_shares([of], gaps, decays)
    np.testing.assert_allclose(told[0], 1.0)
    waiting = pending_of([of], whole, rate * ones, told, [worth[:, None]])
    expected = (waiting.unannounced + waiting.announced)[:, 0]
    for place in np.array_split(np.argsort(expected), 10):
        assert value[place].mean() == pytest.approx(expected[place].mean(), abs=0.03)


def test_items_since_the_source_was_read_are_not_told_of() -> None:
    ones = np.ones((3, 1))
    of = prompt(ones, ones, ones, np.array([[0.0], [60.0], [100.0]]))
    found = covered_shares([of], np.full(3, 100.0), np.full(3, 0.01))[0][:, 0]
    older = (np.exp(-0.4) - np.exp(-1.0)) / (1 - np.exp(-1.0))
    np.testing.assert_allclose(found, [0.0, older, 1.0])


def test_the_worth_of_signals_is_kept_in_one_time_a_page() -> None:
    signals, decay = Signals(SignalTimes.JOINT), np.array([0.01, 0.02])
    signals.add(1, np.arange(3), None, 1_000.0, 8, -1)
    ages = [(0, 90.0), (1, 80.0), (0, 50.0), (0, 0.0)]
    for slot, age in ages:
        where = np.array([slot])
        signals.receive(where, 1, np.array([START - age]), START, np.full(1, 1e-3), decay[where])
    both = np.array([0, 0])  # two signals of one page at once
    signals.receive(both, 1, np.array([START + 1.0, START + 2.0]), START + 10.0, np.full(2, 1e-3), decay[both])
    now, slots = START + 10.0, np.arange(3)
    mu = np.array([0.01, 0.02, 0.01])
    found = signals.pairs.worth(slots, mu, now)[0][:, 0]
    first = sum(np.exp(-0.01 * age) for age in (100.0, 60.0, 10.0, 9.0, 8.0))
    np.testing.assert_allclose(found, [first, np.exp(-0.02 * 90.0), 0.0], rtol=1e-5)
    signals.add(2, np.arange(2), None, 1_000.0, 8, -1)  # the rows are laid out anew
    levels = [level[:, 0] for level in signals.pairs.worth(slots, mu, now)]
    np.testing.assert_allclose(np.sum(levels, 0), [first, np.exp(-0.02 * 90.0), 0.0], rtol=1e-5)
    signals.polled(np.array([0]), now)
    assert sum(level[0, 0] for level in signals.pairs.worth(slots, mu, now)) == 0.0


@pytest.mark.parametrize("price", [0.5, 8.0])
def test_the_value_of_waiting_is_convex_and_begins_at_the_price(price: float) -> None:
    """A page of amplitude 2 with weight 2: worth polls at a price of .5, and only for what was signalled at 8."""
    value, ones = np.linspace(0.0, 6.0, 300), np.ones(300)
    found = item_waiting_value(value, 0.2 * ones, 0.1 * ones, 2.0 * ones, price * ones)
    assert found[0] == pytest.approx(price, rel=1e-3)
    assert found[-1] == 0.0
    assert (np.diff(found, 2) >= -1e-9).all()


@given(st.floats(0.0, 3.0), st.floats(0.01, 50.0), st.floats(0.0, 1.0), st.floats(1e-4, 1.0), st.floats(0.01, 5.0))
def test_reading_a_source_never_costs(
    before: float, window: float, recall: float, false_rate: float, price: float
) -> None:
    ones = np.ones(1)
    quality = (recall, false_rate)
    gain = gain_of_reading_items(before * ones, window * ones, 0.2 * ones, 0.1 * ones, quality, ones, price * ones)
    assert gain[0] >= 0.0
    if recall == 0.0:
        assert gain[0] == pytest.approx(0.0, abs=1e-6)
