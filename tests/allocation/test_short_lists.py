"""Few sites and a budget far larger than they need: what is believed of them goes by their polls, not by the budget."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.learned_state import pack, unpack
from pollerd.allocation.registry import create
from pollerd.allocation.whittle.belief import VERSION
from pollerd.allocation.whittle.whittle import Whittle
from pollerd.errors import InvalidValueError

N = 50
BUDGET = 5.0
HOUR, DAY, MONTH = 3600.0, 86_400.0, 30.44 * 86_400.0
START = 1.75e9


def polled(rates: NDArray[np.float64], days: float, seed: int, longest: float = 8 * HOUR) -> Whittle:
    """Polls of N Poisson pages: 30 s after the first one, then a quarter longer each time, up to `longest` s."""
    rng, slots = np.random.default_rng(seed), np.arange(N)
    allocator = Whittle(BUDGET)
    allocator.add(slots, np.ones(N), np.ones(N))
    gap, now = 30.0, START
    allocator.observe(slots, np.full(N, np.inf), EvidenceBatch(np.zeros(N, bool)), now)
    while now < START + days * DAY:
        now += gap
        changed = rng.random(N) < -np.expm1(-rates * gap)
        allocator.observe(slots, np.full(N, gap), EvidenceBatch(changed), now)
        gap = min(1.4 * gap, longest)
    return allocator


def test_pages_that_change_once_a_month_are_believed_to() -> None:
    """After a season, three changes a page; the mean over fifty pages is known to a twelfth, the test allows 2."""
    told = np.concatenate([polled(np.full(N, 1 / MONTH), 90.0, seed).rates() for seed in range(3)])
    assert 0.5 < np.exp(np.mean(np.log(told * MONTH))) < 2.0


def test_the_interval_of_monthly_rates_holds_the_truth() -> None:
    """Rates from a week to a season; 100 pages, of which at least 80: once in 500 where 90 % is right."""
    held = 0
    for seed in range(2):
        rates = np.exp(np.random.default_rng(seed).uniform(np.log(1 / (3 * MONTH)), np.log(4 / MONTH), N))
        low, high = polled(rates, 90.0, seed).rate_interval(np.arange(N))
        held += int(((low <= rates) & (rates <= high)).sum())
    assert held >= 80


@pytest.mark.parametrize("days", [1 / 24, 1.0, 30.0])
def test_silence_is_believed_as_far_as_it_goes(days: float) -> None:
    """Seen quiet for T: told to change less often than every T, yet not as if it were quiet for years."""
    allocator = polled(np.zeros(N), days, 1)
    low, high = allocator.rate_interval(np.arange(N))
    silent = days * DAY
    assert (allocator.rates() < 1 / silent).all()
    assert (high > 1 / (100 * silent)).all(), "fifty pages were quiet for so long, no more is known"
    assert (low >= 1 / (8 * 365 * DAY)).all()


def test_a_page_that_wakes_is_seen_to() -> None:
    allocator, slots = polled(np.full(N, 1 / MONTH), 60.0, 2), np.arange(N)
    before, now = allocator.rates()[0], START + 61 * DAY
    for _ in range(12):
        now += HOUR
        changed = slots == 0
        allocator.observe(slots, np.full(N, HOUR), EvidenceBatch(changed), now)
    assert allocator.rates()[0] > 1 / (4 * HOUR) > 20 * before
    assert np.median(allocator.rates()[1:]) < 3 / MONTH


def test_a_change_a_minute_is_believed_of_a_long_list() -> None:
    """A million sites at one poll a second: a cycle of 11 days."""
    n, slots = 1_000_000, np.arange(2)
    allocator = create("whittle", budget=1.0, rng=np.random.default_rng(0))
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    rng, now = np.random.default_rng(3), START
    for _ in range(100):
        now += 60.0
        changed = np.array([rng.random() < -np.expm1(-1.0), False])
        allocator.observe(slots, np.full(2, 60.0), EvidenceBatch(changed), now)
    assert 1 / 120 < allocator.rates_of(slots)[0] < 1 / 30


def test_what_a_list_drifts_by_goes_by_how_often_it_changes() -> None:
    """Per cycle where a page changes within some tens of them, else by the page's own changes; and it is stored."""
    slots, gap = np.arange(N), np.full(N, DAY)
    busy, quiet = (polled(rates, 3.0, 1) for rates in (np.full(N, 1.0 / 60), np.full(N, 1 / MONTH)))
    np.testing.assert_allclose(busy.belief.drift_time(slots, gap), DAY * BUDGET / N)
    assert (quiet.belief.drift_time(slots, gap) < 16.0).all()
    again = Whittle(BUDGET)
    again.add(slots, np.ones(N), np.ones(N))
    again.restore(slots, quiet.site_state(slots), quiet.shared_state())
    np.testing.assert_array_equal(again.belief.drift_time(slots, gap), quiet.belief.drift_time(slots, gap))


@pytest.mark.parametrize("window", [(-20.0, 0.0, 1.0), (-20.0, -1.0, 1.0), (1e6, 0.9, 1.0), (-20.0, 0.9, 0.5)])
def test_a_window_that_none_can_be_is_refused(window: tuple[float, float, float]) -> None:
    allocator, slots = polled(np.zeros(N), 0.01, 1), np.arange(N)
    arrays = unpack("whittle", VERSION, allocator.shared_state()) | {"window": np.array(window)}
    with pytest.raises(InvalidValueError, match="a window"):
        allocator.restore(slots, allocator.site_state(slots), pack("whittle", VERSION, arrays))
