"""How often a policy would poll, against how often it does when it is let choose."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.periods import desired_periods
from pollerd.allocation.registry import create

NOW, PAGES, BUDGET = 1.75e9, 60, 0.2


def taught(name: str) -> Allocator:
    rng = np.random.default_rng(5)
    rates = rng.lognormal(-6.0, 1.0, PAGES)
    allocator = create(name, budget=BUDGET, rng=rng)
    allocator.add(np.arange(PAGES), np.ones(PAGES), np.ones(PAGES))
    for turn in range(60):
        gap = rng.uniform(100.0, 600.0, PAGES)
        changed = rng.random(PAGES) < -np.expm1(-rates * gap)
        allocator.observe(np.arange(PAGES), gap, EvidenceBatch(changed), NOW + turn)
    return allocator


def wished(allocator: Allocator, floor: float = 0.0) -> NDArray[np.float64]:
    slots = np.arange(PAGES)
    return desired_periods(allocator, slots, np.ones(PAGES), np.full(PAGES, floor), BUDGET, NOW + 100)


@pytest.mark.parametrize("name", ["whittle", "uniform"])
def test_the_wish_is_what_select_comes_to(name: str) -> None:
    allocator = taught(name)
    every = wished(allocator)
    assert (1 / every).sum() == pytest.approx(BUDGET, rel=1e-6)
    count, last, now = np.zeros(PAGES), np.full(PAGES, NOW), NOW
    for turn in range(6_000):
        now += 1 / BUDGET
        (slot,) = allocator.select(now - last, NOW + 100, np.ones(PAGES, np.bool_), 1)
        last[slot] = now
        count[slot] += turn >= 1_000
    seen = 5_000 / BUDGET / np.maximum(count, 1)
    often = count >= 30
    assert often.sum() > 10
    np.testing.assert_allclose(every[often], seen[often], rtol=0.15)


def test_uniform_wishes_round_robin() -> None:
    np.testing.assert_allclose(wished(taught("uniform")), PAGES / BUDGET, rtol=1e-5)


def test_a_tree_that_has_not_chosen_would_start_in_proportion_to_the_rates() -> None:
    allocator = taught("htraa")
    rates = allocator.rates()
    np.testing.assert_allclose(wished(allocator), rates.sum() / rates / BUDGET, rtol=1e-5)


def test_a_tree_that_chooses_wishes_its_amounts() -> None:
    allocator = taught("htraa")
    allocator.select(np.full(PAGES, 10.0), NOW, np.ones(PAGES, np.bool_), 1)
    shares = allocator.shares(np.arange(PAGES))
    assert shares is not None
    assert shares.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(wished(allocator), 1 / shares / BUDGET, rtol=1e-5)


@pytest.mark.parametrize("name", ["whittle", "uniform", "htraa"])
def test_floors_are_kept_and_the_budget_is_spent(name: str) -> None:
    every = wished(taught(name), floor=200.0)
    assert every.min() >= 200.0
    assert (1 / every).sum() == pytest.approx(BUDGET, rel=1e-6)
