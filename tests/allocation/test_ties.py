"""Equals do not come in the order of their slots."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create
from pollerd.allocation.slots import tie_breaks

SITES = 200


def test_factors_differ_and_hardly_move_an_index() -> None:
    factors = tie_breaks(np.arange(10_000))
    assert len(np.unique(factors)) == len(factors)
    assert np.all((factors >= 1) & (factors - 1 < 1e-9))


@pytest.mark.parametrize("objective", ["changes", "freshness", "interest"])
def test_the_first_round_meets_all_once_and_neighbours_at_a_distance(objective: str) -> None:
    allocator = create("whittle", budget=1.0, objective=objective, rng=np.random.default_rng(0))
    allocator.add(np.arange(SITES), np.ones(SITES), np.ones(SITES))
    last = np.zeros(SITES)
    met = []
    for now in np.arange(1.0, SITES + 1.0):
        (slot,) = allocator.select(now - last, now, np.ones(SITES, bool), 1)
        allocator.observe(np.array([slot]), np.array([now - last[slot]]), EvidenceBatch(np.array([False])), now)
        last[slot] = now
        met.append(slot)
    assert sorted(met) == list(range(SITES))
    assert np.median(np.abs(np.diff(met))) > SITES / 10
