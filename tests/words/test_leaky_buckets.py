"""Leaky buckets let bursts through up to their size, and then so many a second."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.limits import LeakyBuckets


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.1, 20)), max_size=40), st.floats(20, 100), st.floats(0.01, 10))
def test_what_waits_as_it_is_told_fits_and_the_long_run_is_bounded(
    steps: list[tuple[float, float]], size: float, per_second: float
) -> None:
    buckets = LeakyBuckets(size, per_second)
    began = now = 1_000.0
    added = 0.0
    for pause, units in steps:
        now += pause
        now += buckets.wait(now, units=units)
        assert buckets.wait(now, units=units) == pytest.approx(0.0, abs=1e-6)
        buckets.add(now, units=units)
        added += units
        assert added <= size + per_second * (now - began) + 1e-6


def test_what_is_taken_back_was_not_added() -> None:
    buckets = LeakyBuckets(2, 0.5)
    buckets.add(0.0)
    buckets.add(0.0)
    assert buckets.wait(0.0) == 2.0
    buckets.take_back(0.0)
    assert buckets.wait(0.0) == 0.0
    buckets.take_back(0.0, units=5)
    assert buckets.wait(0.0, units=2) == 0.0


def test_keys_are_counted_apart_and_the_last_ones_are_known() -> None:
    buckets = LeakyBuckets(1, 1.0, most_keys=2)
    buckets.take_back(0.0, "nobody")
    for key in ("a", "b", "a", "c"):
        buckets.add(0.0, key)
    assert len(buckets) == 2
    assert [buckets.wait(0.0, key) for key in ("a", "b", "c")] == [2.0, 0.0, 1.0]


def test_what_does_not_fit_is_not_added() -> None:
    buckets = LeakyBuckets(100, 10)
    assert buckets.take(0.0, units=95) == 0.0
    assert buckets.take(0.0, units=10) == 0.5
    assert buckets.take(0.5, units=10) == 0.0
    assert buckets.take(0.5, units=10) == 1.0
