"""The interpolated index of feeds against the formulas, and choices among many feeds in pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.finite_feeds import MAX_TABULATED, GammaTable, finite_index, incomplete_gamma, most_collected
from pollerd.allocation.whittle.index import BelievedFeeds
from pollerd.allocation.whittle.lazy_top_k import LazyTopK

ITEMS = (1, 2, 3, 5, 10, 20, 50, 100, 200, MAX_TABULATED)


def interpolated(
    gap: NDArray[np.float64], rates: NDArray[np.float64], decay: NDArray[np.float64], items: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns index and limit of feeds at one rate each, float64[m]."""
    each = np.arange(len(gap))
    feeds = BelievedFeeds(each, each, rates, np.ones(len(gap)), decay, items, GammaTable())
    most, _ = feeds.gain(np.zeros((len(gap), 1)), np.zeros(len(gap)), decay)
    return feeds.index(gap, np.zeros(len(gap))), most


@pytest.mark.parametrize("items", ITEMS)
def test_interpolation_is_near_the_incomplete_gamma_function(items: int) -> None:
    mean = np.geomspace(items / 100, 20 * items + 50, 4_000)
    exact = incomplete_gamma(np.full(4_000, float(items)), mean)[0]
    table = GammaTable()
    found = table.lower(*table.places(np.full(4_000, float(items))), np.sqrt(mean))
    assert np.abs(found - exact).max() < 4e-8
    likely = exact > 1e-6
    assert np.abs(found[likely] / exact[likely] - 1.0).max() < 1e-3


@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize(("share", "error"), [(1e-2, 5e-5), (1e-3, 3e-4), (1e-4, 2e-3)])
def test_the_interpolated_index_is_near_the_formula(items: int, share: float, error: float) -> None:
    """Over λτ from M/100 to beyond 20 M and μτ from 1e-6 to 50, where the index is above a share of its limit."""
    came, faded = np.meshgrid(np.geomspace(items / 100, 20 * items + 50, 200), np.geomspace(1e-6, 50.0, 80))
    rates, decay, shown = came.ravel(), faded.ravel(), np.full(came.size, float(items))
    exact, limit = finite_index(1.0, rates, decay, shown), most_collected(rates, decay, shown)
    index, most = interpolated(np.ones(len(rates)), rates, decay, shown)
    np.testing.assert_allclose(most, limit, rtol=1e-9)
    reached = exact > share * limit
    assert np.abs(index[reached] / exact[reached] - 1.0).max() < error
    assert np.abs((index - exact) / limit).max() < 1e-6


@given(st.lists(st.sampled_from([1.0, 7.0, 7.5, 20.0, 513.0, 4e3]), min_size=1, max_size=6), st.floats(1e-3, 1e3))
def test_numbers_of_items_without_a_table_go_by_the_formula(items: list[float], gap: float) -> None:
    shown = np.array(items)
    rates, decay = np.full(len(shown), 1.0), np.full(len(shown), 0.05)
    index, _ = interpolated(np.full(len(shown), gap), rates, decay, shown)
    exact = finite_index(gap, rates, decay, shown)
    np.testing.assert_allclose(index, exact, rtol=2e-3, atol=1e-6 * float(most_collected(1.0, 0.05, shown.max())))
    odd = ~GammaTable.tabulated(shown)
    np.testing.assert_array_equal(odd, np.isin(shown, [7.5, 513.0, 4e3]))
    np.testing.assert_allclose(index[odd], exact[odd], rtol=1e-14)


def test_an_expectation_is_that_of_its_rates() -> None:
    feeds = BelievedFeeds(
        np.array([0, 2]),
        np.array([0, 0, 1]),
        np.array([1.0, 3.0, 2.0]),
        np.array([0.25, 0.75, 1.0]),
        np.array([0.1, 0.2]),
        np.array([5.0, 8.0]),
        GammaTable(),
    )
    index = feeds.index(np.array([2.0, 9.0, 4.0]), np.array([-1.0, -1.0, -1.0]))
    one = 0.25 * finite_index(2.0, 1.0, 0.1, 5.0) + 0.75 * finite_index(2.0, 3.0, 0.1, 5.0)
    np.testing.assert_allclose(index, [float(one), -1.0, float(finite_index(4.0, 2.0, 0.2, 8.0))], rtol=1e-4)


def test_costly_slots_make_a_sweep_of_more_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep through 2,000 slots of which half are costly looks at few in each choice, and at all in the end."""
    monkeypatch.setattr("pollerd.allocation.whittle.lazy_top_k.PIECE", 1_000)
    monkeypatch.setattr("pollerd.allocation.whittle.lazy_top_k.AT_ONCE", 1_500)
    n, free = 2_000, np.ones(2_000, np.bool_)
    pieces = []
    for costly in (False, True):
        top_k = LazyTopK()
        top_k.grow(n)
        top_k.set_costly(np.arange(0, n, 2), costly)
        seen, number = np.zeros(n, np.bool_), 0
        while not seen.all():
            mask = top_k.candidates(free, np.ones(n), float(number), 1e9, 1)
            slots = np.flatnonzero(mask)
            value = np.linspace(0.5, 1.0, n)[slots]
            top_k.note(slots, np.ones(len(slots)), np.ones(len(slots)), value, float(number), 1, n)
            seen |= mask
            number += 1
        pieces.append(number)
    assert pieces[0] <= 2
    assert pieces[1] > 6


@given(st.floats(1.0, 6.0), st.floats(0.01, 0.99))
def test_the_wait_is_the_longest_tried_that_stays_below_the_level(power: float, share: float) -> None:
    top_k, n = LazyTopK(), 100
    top_k.grow(n)
    gap = np.linspace(1.0, 100.0, n)
    top_k.note(np.arange(n), gap, gap, gap, 0.0, 1, n)
    level = 0.97 * np.sort(gap)[-64]
    slots, value = np.array([3]), np.array([share * level])
    start = np.array([50.0])
    top_k.limit(slots, start, start, value, 0.0)
    top_k.limit_growth(slots, start, value, lambda _, later: value * (later / start) ** power, 1.0, 0.0)
    free = np.ones(n, np.bool_)

    def due(after: float) -> bool:
        return bool(top_k.candidates(free, np.full(n, 50.0 + after), after, 1e9, 1)[3])

    reaches = 50.0 * share ** (-1.0 / power) - 50.0
    assert due(reaches + 1e-3)
    factors = [factor for factor in (1.0, 1.01, 1.03, 1.08, 1.2, 1.5, 2.5, 6.0) if share * factor**power < 1.0]
    # ... and the crossing time by the fourth power of the gap bounds all waits
    wait = min(50.0 * (max(factors) - 1.0), 50.0 * (share**-0.25 - 1.0))
    assert wait < 1e-3 or not due(0.99 * wait)


@pytest.mark.parametrize(("costly", "reached"), [(np.arange(0, 20_000, 2), 141), (np.arange(19_800, 20_000), 64)])
def test_fewer_slots_reach_the_level_where_these_are_the_costly_ones(costly: NDArray[np.int64], reached: int) -> None:
    top_k, n = LazyTopK(), 20_000
    top_k.grow(n)
    top_k.set_costly(costly, True)
    value = np.linspace(0.5, 1.0, n)
    for now in range(2):
        top_k.note(np.arange(n), np.ones(n), np.ones(n), value, float(now), 1, n)
    assert top_k.level == pytest.approx(0.97 * value[-reached])


def test_a_first_sweep_is_raised_if_many_costly_slots_become_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices double after its first pieces: those that were looked at are not looked at in each choice from then."""
    monkeypatch.setattr("pollerd.allocation.whittle.lazy_top_k.PIECE", 1_000)
    monkeypatch.setattr("pollerd.allocation.whittle.lazy_top_k.AT_ONCE", 1_500)
    n, free = 20_000, np.ones(20_000, np.bool_)
    top_k = LazyTopK()
    top_k.grow(n)
    top_k.set_costly(np.arange(0, n, 10), True)
    order = np.random.default_rng(1).permutation(n)
    seen, looked = np.zeros(n, np.bool_), []
    for now in range(200):
        mask = top_k.candidates(free, np.full(n, 1.0 + now), float(now), 1e9, 1)
        slots = np.flatnonzero(mask)
        value = np.linspace(0.5, 1.0, n)[order][slots] * (1.0 if now < 5 else 2.0)
        gap = np.full(len(slots), 1.0 + now)
        top_k.note(slots, gap, gap, value, float(now), 1, n)
        seen |= mask
        looked.append(len(slots))
        if seen.all():
            break
    assert seen.all()
    assert max(looked) < n / 2
