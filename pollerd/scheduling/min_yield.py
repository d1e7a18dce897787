"""How long a site is believed unchanged: until then a poll of it would find too little (ADR 17).

A site is worth a poll once the chance that it has changed reaches `min_yield`. That chance is the expectation over
what is believed of its rate, not that at the mean rate: a poll finds one change at most, however many there were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

POINTS = 6
"""Gaps at which the chance is asked for; between them -log(1 - chance) is nearly straight over logarithms."""
SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 1e8
"""The ends of these gaps: below the first the chance grows with the gap, no wait is longer than the last, 3 years."""
FIRST_WAIT_SECONDS = 30.0
"""The wait after a site's first poll is at most this, after the second twice as long, and so on, whatever is believed
of sites in general: what is known of others must not silence a page before it was looked at."""
_DOUBLINGS = 30


class Believer(Protocol):
    """The part of the allocator contract that waits follow from."""

    def change_probability(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Believed chance, float64[k], that the slots changed in so many seconds; nan: nothing is believed."""


@dataclass(frozen=True)
class Bounds:
    """What holds for each of k sites, float64[k].

    min_yield: from 0 (no wait) to below 1; longest: s, above 0, what no wait exceeds.
    """

    min_yield: NDArray[np.float64]
    longest: NDArray[np.float64]

    def of(self, rows: NDArray[np.int64]) -> Bounds:
        """Those of some sites."""
        return Bounds(self.min_yield[rows], self.longest[rows])


def first_waits(polls: NDArray[np.int32]) -> NDArray[np.float64]:
    """The longest wait, s, after so many polls of a site, int[k]: 30 s, 1 min, 2 min, 4 min ..."""
    return FIRST_WAIT_SECONDS * np.exp2(np.clip(polls - 1, 0, _DOUBLINGS))


def waits(believer: Believer, slots: NDArray[np.int64], bounds: Bounds) -> NDArray[np.float64]:
    """Seconds, float64[k], after the last informative poll of slots int64[k] in which they are believed unchanged.

    Until then the chance of a change is below their min_yield; 0 where nothing is believed, or no yield is wanted.
    """
    out = np.zeros(len(slots))
    wanted = np.flatnonzero(bounds.min_yield > 0)
    if wanted.size:
        some = bounds.of(wanted)
        longest = np.minimum(some.longest, LONGEST_SECONDS)
        gaps = _gaps(longest)
        expected = _expected_changes(_chances(believer, slots[wanted], gaps))
        out[wanted] = np.minimum(_crossing(gaps, expected, _expected_changes(some.min_yield)), longest)
    return out


def _gaps(longest: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[k, POINTS], s, evenly spread over logarithms."""
    part = np.linspace(0.0, 1.0, POINTS)
    shortest = np.minimum(SHORTEST_SECONDS, longest)[:, None]
    return np.asarray(shortest * (longest[:, None] / shortest) ** part)


def _chances(believer: Believer, slots: NDArray[np.int64], gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[k, POINTS], never falling from gap to gap; nan: nothing is believed."""
    asked = believer.change_probability(np.repeat(slots, POINTS), gaps.ravel())
    chance = np.clip(asked.reshape(gaps.shape), 0.0, 1.0)  # summed in float32 it may be a little more
    return np.asarray(np.maximum.accumulate(chance, axis=1))


def _expected_changes(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many changes a rate that is known would bring at this chance of one or more, any shape."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log1p(-chance))


def _crossing(
    gaps: NDArray[np.float64], expected: NDArray[np.float64], level: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Gaps float64[k] at which what is expected reaches the level; inf where it does not, 0 where nothing is."""
    rows = np.arange(len(gaps))
    after = (expected < level[:, None]).sum(1)
    high = np.clip(after, 1, POINTS - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = np.log(gaps), np.log(expected)
        slope = (y[rows, high] - y[rows, high - 1]) / (x[rows, high] - x[rows, high - 1])
        between = np.exp(x[rows, high - 1] + (np.log(level) - y[rows, high - 1]) / slope)
        below = gaps[:, 0] * level / expected[:, 0]
    found = np.where(after == 0, below, np.where(after == POINTS, np.inf, between))
    return np.nan_to_num(found, nan=0.0, posinf=np.inf)
