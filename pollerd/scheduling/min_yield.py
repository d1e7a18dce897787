"""How long a site is believed unchanged: until then a poll of it would find too little (ADR 17).

A site is worth a poll once the chance that it has changed reaches `min_yield`. That chance is the expectation over
what is believed of its rate, not that at the mean rate: a poll finds one change at most, however many there were.
"""

from __future__ import annotations

import math
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
_LEAST_EXPECTED = 1e-300
_PARTS = np.linspace(0.0, 1.0, POINTS)


class RateModel(Protocol):
    """The part of the allocator contract that waits follow from."""

    def change_probabilities(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Believed chances that slots int64[k] changed in float64[k, m] s, float64[k, m]; nan: nothing is believed."""


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


def waits(believer: RateModel, slots: NDArray[np.int64], bounds: Bounds) -> NDArray[np.float64]:
    """Seconds, float64[k], after the last informative poll of slots int64[k] in which they are believed unchanged.

    Until then the chance of a change is below their min_yield; 0 where nothing is believed, or no yield is wanted.
    """
    out = np.zeros(len(slots))
    wanted = np.flatnonzero(bounds.min_yield > 0)
    if wanted.size:
        some = bounds.of(wanted)
        longest = np.minimum(some.longest, LONGEST_SECONDS)
        log_gaps = _log_gaps(longest)
        expected = _expected_changes(_change_probabilities(believer, slots[wanted], np.exp(log_gaps)))
        out[wanted] = np.minimum(_crossing(log_gaps, expected, _expected_changes(some.min_yield)), longest)
    return out


def _log_gaps(longest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms, float64[k, POINTS], of gaps in s, evenly spread."""
    last = np.log(longest)[:, None]
    first = np.minimum(math.log(SHORTEST_SECONDS), last)
    return np.asarray(first + (last - first) * _PARTS)


def _change_probabilities(
    believer: RateModel, slots: NDArray[np.int64], gaps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """float64[k, POINTS], never falling from gap to gap; nan: nothing is believed."""
    asked = believer.change_probabilities(slots, gaps)
    chance = np.clip(asked, 0.0, 1.0)  # summed in float32 it may be a little more
    return np.asarray(np.maximum.accumulate(chance, axis=1))


def _expected_changes(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many changes a rate that is known would bring at this chance of one or more, any shape."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log1p(-chance))


def _crossing(
    log_gaps: NDArray[np.float64], expected: NDArray[np.float64], level: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Gaps float64[k] at which what is expected reaches the level; inf where it does not, 0 where nothing is."""
    rows = np.arange(len(log_gaps))
    after = (expected < level[:, None]).sum(1)
    high = np.clip(after, 1, POINTS - 1)
    low = high - 1
    y, at = np.log(np.maximum(expected, _LEAST_EXPECTED)), np.log(level)
    with np.errstate(divide="ignore", invalid="ignore"):  # below a second all gaps are one
        slope = (y[rows, high] - y[rows, low]) / (log_gaps[rows, high] - log_gaps[rows, low])
        between = log_gaps[rows, low] + (at - y[rows, low]) / slope
        below = log_gaps[:, 0] + at - y[:, 0]
        found = np.exp(np.where(after == 0, below, between))
    found[after == POINTS] = np.inf
    found[np.isnan(found)] = 0.0
    return found
