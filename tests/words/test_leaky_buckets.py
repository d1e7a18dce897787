"""Leaky buckets let bursts through up to their size, and then so many a second."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.errors import TooManyError
from pollerd.limits import REPORT_COST, LeakyBucket, LeakyBuckets, ReportLimit


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.1, 20)), max_size=40), st.floats(20, 100), st.floats(0.01, 10))
def test_what_waits_as_it_is_told_fits_and_the_long_run_is_bounded(
    steps: list[tuple[float, float]], size: float, per_second: float
) -> None:
    clock = Clock()
    bucket = LeakyBucket(size, per_second, clock)
    began, added = clock.now, 0.0
    for pause, units in steps:
        clock.now += pause
        clock.now += bucket.wait(units)
        assert bucket.wait(units) == pytest.approx(0.0, abs=1e-6)
        bucket.add(units)
        added += units
        assert added <= size + per_second * (clock.now - began) + 1e-6


def test_what_is_taken_back_was_not_added() -> None:
    clock = Clock()
    bucket = LeakyBucket(2, 0.5, clock)
    bucket.add()
    bucket.add()
    assert bucket.wait() == 2.0
    bucket.take_back()
    assert bucket.wait() == 0.0
    bucket.take_back(5)
    assert bucket.wait(2) == 0.0


def test_keys_are_counted_apart_and_the_last_ones_are_known() -> None:
    buckets = LeakyBuckets(1, 1.0, Clock(), most_keys=2)
    buckets.take_back("nobody")
    for key in ("a", "b", "a", "c"):
        buckets.add(key)
    assert len(buckets) == 2
    assert [buckets.wait(key) for key in ("a", "b", "c")] == [2.0, 0.0, 1.0]


def test_a_report_that_does_not_fit_is_not_counted() -> None:
    clock = Clock()
    limit = ReportLimit(clock, most=100, per_second=10, what="reads")
    limit.take(95)
    with pytest.raises(TooManyError, match="too many reads: try again in 1 s"):
        limit.take(1)
    clock.now += 0.5
    limit.take(1)
    with pytest.raises(TooManyError) as raised:
        limit.take(1)
    assert raised.value.seconds == REPORT_COST / 10
