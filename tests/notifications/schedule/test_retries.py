"""Waits between attempts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.notifications.schedule import JITTER, LONGEST_S, WAITS, next_attempt


def attempts_of(message_id: str, retry_after: float | None = None) -> list[float]:
    """The times of all attempts that fail at once, from 0."""
    times = [0.0]
    while (after := next_attempt(message_id, len(times), 0.0, times[-1], retry_after)) is not None:
        times.append(after)
    return times


@given(st.text(max_size=40))
def test_eleven_attempts_within_three_days(message_id: str) -> None:
    times = attempts_of(message_id)
    assert len(times) == len(WAITS) + 1
    assert times[-1] == LONGEST_S, "the last when three days are over"
    for wait, before, after in zip(WAITS[1:], times, times[1:], strict=False):
        assert abs(after - before - wait) <= JITTER * wait * 1.000001
    assert times == attempts_of(message_id), "the same after a restart"


def test_jitter_differs_by_message() -> None:
    assert len({next_attempt(f"event-{number}", 3, 0.0, 0.0) for number in range(50)}) == 50


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [(100.0, 100.0), (1.0, None), (-5.0, None), (math.nan, None), (1e9, LONGEST_S - 50), (math.inf, LONGEST_S - 50)],
)
def test_retry_after_replaces_a_shorter_wait(retry_after: float, wait: float | None) -> None:
    own = next_attempt("id", 1, 0.0, 50.0)
    assert own is not None
    assert 4.5 <= own - 50 <= 5.5
    assert next_attempt("id", 1, 0.0, 50.0, retry_after) == (own if wait is None else 50 + wait)


def test_after_three_days_it_is_given_up() -> None:
    assert next_attempt("id", 4, 0.0, LONGEST_S) is None
    assert next_attempt("id", 4, 0.0, LONGEST_S - 1) == LONGEST_S
    assert next_attempt("id", len(WAITS) + 1, 0.0, 10.0) is None, "the clock was put back"
    assert len(attempts_of("id", 86_400.0)) == 4
