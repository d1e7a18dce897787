"""The budget's promise, checked on a log of starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def window_lengths(budget: float) -> tuple[float, ...]:
    """Windows that the promise holds for, from the shortest up, in seconds."""
    shortest = max(1.0, 1.0 / budget)
    return (shortest, 1.3 * shortest, 2.0 * shortest, 3.7 * shortest)


def most_in_window(starts: Sequence[float], seconds: float) -> int:
    """The most starts that any closed window of this length holds: the fullest begins at a start."""
    times = np.sort(np.asarray(starts, np.float64))
    ends = np.searchsorted(times, times + seconds, side="right")
    return int((ends - np.arange(len(times))).max(initial=0))


def assert_windows(starts: Sequence[float], budget: float, *, slack: float = 0.0) -> None:
    """In any window of T >= max(1, 1/budget) seconds at most budget·T + 1 (+ slack) polls start."""
    for seconds in window_lengths(budget):
        found = most_in_window(starts, seconds)
        assert found <= budget * seconds + 1 + slack, f"{found} starts in {seconds} s at budget {budget}"
