"""Under `interest` pages that may turn out better are looked at, whatever good pages are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create
from pollerd.allocation.whittle.index import Exploration

SITES, HALF_LIFE_S = 60, 0.2


def learner() -> Allocator:
    allocator = create("whittle", budget=1.0, objective="interest", rng=np.random.default_rng(0))
    allocator.add(np.arange(SITES), np.ones(SITES), np.ones(SITES), np.full(SITES, HALF_LIFE_S))
    return allocator


def polled(allocator: Allocator, rates: NDArray[np.float64], polls: int, seed: int) -> list[int]:
    """Slots polled once a second; a poll counts what came since the last."""
    rng, now, last, chosen = np.random.default_rng(seed), 1e9, np.full(SITES, 1e9), []
    for _ in range(polls):
        now += 1.0
        slot = allocator.select(now - last, now, np.ones(SITES, np.bool_), 1)
        count = rng.poisson(rates[slot] * (now - last[slot]))
        allocator.observe(slot, now - last[slot], EvidenceBatch(count > 0, count=count), now)
        last[slot] = now
        chosen.append(int(slot[0]))
    return chosen


@pytest.mark.parametrize("seed", range(2))
def test_a_good_page_met_first_does_not_keep_the_best_from_being_found(seed: int) -> None:
    """The best brings four times as much. By mean rates alone it was never asked with seed 0."""
    rates = np.full(SITES, 0.002)
    rates[0], rates[SITES - 1] = 0.5, 2.0
    chosen = polled(learner(), rates, 500, seed)
    assert chosen[-100:].count(SITES - 1) > 50


def test_claims_lift_an_index_towards_twice_the_price_and_never_lower_it() -> None:
    exploration = Exploration()
    exploration.observe(np.array([4.0]))
    index, worth = np.array([0.0, 1.0, 9.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 2.0, 0.0])
    plain = exploration.with_claims(index, np.zeros(5), np.ones(5), worth)
    np.testing.assert_allclose(plain, [0.0, 1.6, 9.0, 4 / 3, 1.0])
    lifted = exploration.with_claims(index, np.full(5, 1e9), np.ones(5), worth)
    np.testing.assert_allclose(lifted, [8.0, 8.0, 9.0, 4.0, 1.0], rtol=1e-6)


def test_the_price_follows_the_middle_of_the_indices_in_steps() -> None:
    exploration, rng = Exploration(), np.random.default_rng(4)
    assert not exploration.observe(np.zeros(0))
    assert exploration.observe(np.array([50.0]))
    moved = sum(exploration.observe(rng.lognormal(1.0, 0.5, 1)) for _ in range(2_000))
    assert 0 < moved < 60
    assert exploration.price == pytest.approx(np.e, rel=0.6)


def test_the_price_is_kept() -> None:
    rates = np.geomspace(0.01, 1.0, SITES)
    one, other = learner(), learner()
    polled(one, rates, 150, 1)
    other.restore(np.arange(SITES), one.site_state(np.arange(SITES)), one.shared_state())
    elapsed = np.linspace(1.0, 60.0, SITES)
    np.testing.assert_array_equal(one.urgency(elapsed, 1e9 + 200.0), other.urgency(elapsed, 1e9 + 200.0))
