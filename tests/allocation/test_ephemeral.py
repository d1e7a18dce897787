"""The discrete Whittle index against its continuous limit, and against the subsidy problem that defines it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.index import amplitude_and_rate, index
from pollerd.allocation.lspe.sources import Sources, order, whittle_index
from pollerd.errors import InvalidValueError

LAST = 120
"""Epochs after which the brute force takes a state to stay what it is."""


def one(arrivals: float, value: float, decay: float, cost: float = 1.0, epoch: float = 1.0) -> Sources:
    return Sources(np.array([arrivals]), np.array([value]), np.array([decay]), np.array([cost]), epoch)


def index_after(epochs: NDArray[np.float64], sources: Sources) -> NDArray[np.float64]:
    """Returns γ of mean states, η >= 1 epochs after a poll: `(u*/C) (1 - α^η (1 + η (1 - α)))`, float64[..., n]."""
    alpha = sources.retained
    return np.asarray(sources.ceiling / sources.cost * (1.0 - alpha**epochs * (1.0 + epochs * (1.0 - alpha))))


def waiting_wins(state: float, source: Sources, price: float) -> bool:
    """Relative value iteration of the subsidy problem ([E] equation 7 with a subsidy of price times C for waiting).

    States: `state` and what it becomes if left alone, then u and what that becomes. Damped, for optimal paths are
    periodic.
    """
    alpha, gain, subsidy = source.retained[0], source.gain[0], price * source.cost[0]
    begin = np.array([state, gain])
    states = np.empty((2, LAST))
    for age in range(LAST):
        states[:, age] = begin
        begin = alpha * begin + gain
    after_waiting = np.minimum(np.arange(LAST) + 1, LAST - 1)
    value = np.zeros((2, LAST))
    for _ in range(20_000):
        wait, poll = subsidy + value[:, after_waiting], states + value[1, 0]
        best = np.maximum(wait, poll)
        moved = best - value
        value = 0.5 * value + 0.5 * (best - best[1, 0])
        if np.ptp(moved) < 1e-10 * source.ceiling[0]:
            break
    return bool(wait[0, 0] > poll[0, 0])


def brute_force_index(state: float, source: Sources) -> float:
    low, high = 0.0, 3.0 * max(state, float(source.ceiling[0])) / float(source.cost[0])
    for _ in range(34):
        price = (low + high) / 2
        low, high = (low, price) if waiting_wins(state, source, price) else (price, high)
    return (low + high) / 2


@pytest.mark.parametrize(
    ("state", "source"),
    [
        (200.0, one(250, 1.0, 0.7)),
        (269.0684, one(250, 1.0, 0.7)),
        (350.0, one(250, 0.7, 0.35, cost=3.0)),
        (20.0, one(250, 0.08, 0.21, cost=0.5)),
        (3.0, one(7.0, 1.3, 2.0, epoch=0.5)),
    ],
)
def test_index_is_where_the_subsidy_problem_is_indifferent(state: float, source: Sources) -> None:
    got = whittle_index(np.array([state]), source)[0]
    assert got == pytest.approx(brute_force_index(state, source), rel=1e-6)


def test_from_the_ceiling_on_the_subsidy_problem_says_the_value() -> None:
    source = one(250, 1.0, 0.7, cost=2.0)
    for state in source.ceiling[0] * np.array([1.0, 1.2]):
        assert brute_force_index(state, source) == pytest.approx(state / 2.0, rel=1e-6)
        states = np.array([state])
        assert whittle_index(states, source, "value")[0] == pytest.approx(state / 2.0)
        assert whittle_index(states, source)[0] == np.inf
        assert whittle_index(states, source, "printed")[0] == 0.0


RATES = st.floats(1e-3, 1e3)


@settings(max_examples=200, deadline=None)
@given(RATES, RATES, st.floats(1e-6, 1e3), st.floats(0.1, 10), st.floats(1e-3, 20), st.integers(1, 10_000))
def test_small_epochs_lead_to_the_continuous_index(
    arrivals: float, value: float, decay: float, cost: float, z: float, epochs: int
) -> None:
    """z = μτ is kept, and cut into so many epochs: the difference is within the stated bound, which falls as 1/η."""
    source = one(arrivals, value, decay, cost, epoch=z / decay / epochs)
    amplitude, rate = amplitude_and_rate("interest", source.arrivals, source.value, np.array([np.log(2) / decay]))
    continuous = index(np.array([z / decay]), amplitude, rate, source.cost)[0]
    discrete = index_after(np.array([float(epochs)]), source)[0]
    full = source.ceiling[0] / cost
    bound = full * z * np.exp(-z) * (z / epochs) / 2
    assert -1e-9 * full <= discrete - continuous <= bound + 1e-9 * full


@settings(max_examples=200, deadline=None)
@given(RATES, st.floats(0.05, 3.0), st.floats(0.1, 10), st.integers(1, 12))
def test_on_its_own_states_the_theorem_simplifies(arrivals: float, decay: float, cost: float, epochs: int) -> None:
    source, age = one(arrivals, 1.0, decay, cost), np.array([float(epochs)])
    full = source.ceiling[0] / cost
    assert whittle_index(source.after(age), source)[0] == pytest.approx(index_after(age, source)[0], abs=1e-9 * full)


@settings(max_examples=200, deadline=None)
@given(RATES, st.floats(0.05, 3.0), st.floats(0, 0.9999), st.floats(0, 0.9999))
def test_index_rises_with_the_state_up_to_the_ceiling(arrivals: float, decay: float, a: float, b: float) -> None:
    source = one(arrivals, 1.0, decay)
    low, high = (whittle_index(source.ceiling * share, source)[0] for share in sorted((a, b)))
    assert -1e-9 * source.ceiling[0] <= low <= high + 1e-9 * source.ceiling[0]
    assert high <= source.ceiling[0] * (1 + 1e-9)


def four() -> Sources:
    return Sources(np.full(4, 250.0), np.array([1.0, 0.7, 0.2, 0.08]), np.array([0.7, 0.35, 0.7, 0.21]))


def test_mean_states_are_the_dynamics_left_alone() -> None:
    sources, state = four(), np.zeros(4)
    nobody = np.zeros(4, bool)
    for age in range(1, 9):
        state = sources.next_states(state, nobody, sources.gain)
        np.testing.assert_allclose(state, sources.after(np.full(4, float(age))), rtol=1e-12)
    polled = np.array([True, False, False, True])
    following: NDArray[np.float64] = sources.next_states(state, polled, sources.gain)
    np.testing.assert_allclose(following[polled], sources.gain[polled])
    assert (following[~polled] > state[~polled]).all()


def test_order_is_by_index_then_by_what_waits() -> None:
    sources = four()
    state = np.array([300.0, 510.0, 80.0, 96.0])
    gamma = whittle_index(state, sources)
    assert np.isposinf(gamma).tolist() == [False, True, True, True]
    assert order(state, sources).tolist() == [1, 3, 2, 0]
    assert order(sources.gain, sources).tolist() == np.argsort(-whittle_index(sources.gain, sources)).tolist()


def test_a_site_without_arrivals_is_worth_nothing() -> None:
    assert whittle_index(np.array([0.0]), one(0.0, 1.0, 0.5)).tolist() == [0.0]


def test_bad_values_are_named() -> None:
    for field, numbers in {
        "arrivals": (-1.0, 1.0, 1.0),
        "value": (1.0, np.nan, 1.0),
        "decay": (1.0, 1.0, 0.0),
        "cost": (1.0, 1.0, 1.0, 0.0),
        "epoch": (1.0, 1.0, 1.0, 1.0, 0.0),
    }.items():
        with pytest.raises(InvalidValueError, match=field):
            one(*numbers)
    with pytest.raises(InvalidValueError, match="beyond"):
        whittle_index(np.ones(4), four(), "finite")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="state"):
        four().next_states(np.ones(3), np.zeros(3, bool), np.ones(3))
