"""Backoff, Retry-After, and telling our own outage from a site's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.scheduling.hosts import backoff_seconds, clamp_retry_after
from pollerd.scheduling.outage import LinkState, OutageDetector


@given(st.integers(1, 10_000), st.integers(0, 2**32 - 1))
def test_backoff_stays_within_half_the_base_and_the_cap(failures: int, seed: int) -> None:
    wait = backoff_seconds(failures, 60.0, 86_400.0, np.random.default_rng(seed))
    assert 30.0 <= wait <= 86_400.0
    assert wait <= 60.0 * 2.0 ** min(failures - 1, 20)


@pytest.mark.parametrize(
    ("given_seconds", "expected"),
    [
        (None, None),
        (-1.0, None),
        (math.nan, None),
        (math.inf, None),
        (0.0, 1.0),
        (120.0, 120.0),
        (1e9, 86_400.0),
    ],
)
def test_retry_after_is_clamped(given_seconds: float | None, expected: float | None) -> None:
    assert clamp_retry_after(given_seconds, 86_400.0) == expected


def test_one_dead_host_among_live_ones_is_blamed_once_another_answers() -> None:
    watch: OutageDetector[str] = OutageDetector()
    assert watch.failed(1, "a", 50) == ([], [])
    assert watch.answered() == ["a"]
    assert watch.state is LinkState.ONLINE


def test_when_every_host_fails_nobody_is_blamed() -> None:
    watch: OutageDetector[str] = OutageDetector()

    def state() -> LinkState:
        return watch.state

    for host in range(6):
        assert watch.failed(host, f"h{host}", 50) == ([], [])
    assert watch.failed(6, "h6", 50) == ([], [f"h{h}" for h in range(7)])
    assert state() is LinkState.OFFLINE
    assert watch.failed(7, "h7", 50) == ([], ["h7"])
    assert watch.answered() == []
    assert state() is LinkState.ONLINE


def test_the_same_dead_host_again_and_again_is_no_outage() -> None:
    watch: OutageDetector[int] = OutageDetector()
    for n in range(50):
        assert watch.failed(3, n, 50) == ([], [])
    assert watch.state is LinkState.ONLINE
    assert watch.answered() == list(range(50))


def test_a_single_host_is_blamed_at_once() -> None:
    watch: OutageDetector[str] = OutageDetector()
    assert watch.failed(1, "a", 1) == (["a"], [])


def test_two_hosts_that_both_fail_are_an_outage() -> None:
    watch: OutageDetector[str] = OutageDetector()
    watch.failed(1, "a", 2)
    assert watch.failed(2, "b", 2) == ([], ["a", "b"])


def test_held_failures_can_be_taken_back() -> None:
    watch: OutageDetector[str] = OutageDetector()
    watch.failed(1, "a", 5)
    assert watch.held() == ["a"]
    assert watch.answered() == []
