"""The common clock: it follows batches, is ordinary where there are none, and bounds what the shortlist relies on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.allocation.whittle.clock import MAX_INTERVALS, ActivityClock

CYCLE = 100.0
SITES = 100


def polled(clock: ActivityClock, rng: np.random.Generator, batches: np.ndarray, cycles: int) -> float:
    """One poll a second; sites change once a cycle without batches, else at each with chance .8 and seldom besides."""
    rate = 0.1 / CYCLE if len(batches) else 1 / CYCLE
    last, now = np.full(SITES, 0.0), 0.0
    for poll in range(cycles * SITES):
        now, site = poll + 1.0, int(rng.integers(SITES))
        gap = now - last[site]
        chance = 1 - 0.2 ** np.count_nonzero((batches > last[site]) & (batches <= now)) * np.exp(-gap * rate)
        clock.extend(now, CYCLE)
        unchanged = np.exp(-clock.gap(np.array([gap]), now) / CYCLE)
        clock.observe(np.array([gap]), now, unchanged, rng.random(1) < chance, SITES, CYCLE)
        last[site] = now
    return now


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_moves_the_clock_forward(seed: int) -> None:
    """The chunks beside a batch go far faster than the others: 16 times at the least with 60 seeds."""
    clock, batches = ActivityClock(1e4), np.arange(130.0, 1_170.0, 130.0)
    now = polled(clock, np.random.default_rng(seed), batches, 10)
    near = clock.reading(batches + 5) - clock.reading(batches - 5)
    total = float(clock.reading(now) - clock.reading(0.0))
    assert near.mean() / 10 > 4 * (total - near.sum()) / (now - 80)


def test_sites_that_change_independently_leave_the_clock_as_it_is() -> None:
    """The mixture would need evidence of e^7 for another J: it comes in fewer than one run in 1,000 (Ville)."""
    clock = ActivityClock(1e4)
    now = polled(clock, np.random.default_rng(3), np.zeros(0), 20)
    at = np.linspace(0.0, now, 300)
    np.testing.assert_allclose(clock.reading(at), at, atol=0.02 * CYCLE)


def test_before_the_first_poll_common_time_is_ordinary() -> None:
    gap = np.array([0.0, 1.0, 1e9])
    assert ActivityClock(1e4).gap(gap, 1.75e9) is gap


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_gap_grows_by_more_than_the_progress(seed: int) -> None:
    rng, clock = np.random.default_rng(seed), ActivityClock(1e4)
    now, since = 0.0, np.sort(rng.uniform(-200.0, 0.0, 50))
    gaps, progress = None, 0.0
    for _ in range(120):
        now += rng.exponential(3.0)
        clock.extend(now, CYCLE)
        burst = 0.9 if rng.random() < 0.2 else 0.05
        elapsed = rng.exponential(60.0, 5)
        clock.observe(elapsed, now, np.exp(-clock.gap(elapsed, now) / CYCLE), rng.random(5) < burst, SITES, CYCLE)
        grown = clock.gap(now - since, now)
        if gaps is not None:
            assert (grown - gaps).max() <= clock.progress(now) - progress + 1e-6
        gaps, progress = grown, clock.progress(now)


def test_the_past_is_kept_for_so_many_stretches() -> None:
    clock = ActivityClock(1e4)
    for now in np.arange(1, MAX_INTERVALS + 50) * (CYCLE / 64):
        clock.extend(float(now), CYCLE)
    assert len(clock.mixed) <= MAX_INTERVALS
    assert clock.version == 1
    clock.extend(1e9, CYCLE)
    assert clock.edges[-1] > 1e9
    assert clock.gap(np.array([2e9]), 1e9)[0] == pytest.approx(2e9)
