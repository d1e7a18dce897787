"""Equals do not come in the order of their slots."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.allocation import EvidenceBatch, create
from pollerd.allocation.ties import far_apart, tie_breaks

SITES = 200


@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 7), (8, 3), (1_000, 999), (1_000_003, 100)])
def test_places_are_different_and_spread(n: int, k: int) -> None:
    places = np.sort(far_apart(n, k))
    assert len(set(places.tolist())) == k
    assert places.min() >= 0
    assert places.max() < n
    assert np.diff(np.r_[places, places[0] + n]).max() <= n / k + 1


def test_factors_differ_and_hardly_move_an_index() -> None:
    factors = tie_breaks(np.arange(10_000))
    assert len(np.unique(factors)) == len(factors)
    assert np.all((factors >= 1) & (factors - 1 < 1e-9))


@pytest.mark.parametrize("objective", ["changes", "freshness", "interest"])
@pytest.mark.parametrize("start", [0.0, np.inf])
def test_the_first_round_meets_all_once_and_neighbours_at_a_distance(objective: str, start: float) -> None:
    """`start`: the gap of pages not polled yet, a time like any other or never."""
    allocator = create("whittle", budget=1.0, objective=objective, rng=np.random.default_rng(0))
    allocator.add(np.arange(SITES), np.ones(SITES), np.ones(SITES))
    last = np.full(SITES, -start)
    met = []
    for now in np.arange(1.0, SITES + 1.0):
        (slot,) = allocator.select(now - last, now, np.ones(SITES, bool), 1)
        if np.isfinite(now - last[slot]):
            allocator.observe(np.array([slot]), np.array([now - last[slot]]), EvidenceBatch(np.array([False])), now)
        last[slot] = now
        met.append(slot)
    assert sorted(met) == list(range(SITES))
    assert np.median(np.abs(np.diff(met))) > SITES / 10
