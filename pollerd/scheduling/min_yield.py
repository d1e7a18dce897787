"""Waits of sites that probably have not changed (`min_yield`, ADR 17), and limits of those that nearly always change.

A site is due once the probability that it has changed reaches `min_yield`; a poll before would find too little. That
probability is the expectation over the belief of its rate, not the one at the mean rate: a poll finds at most one
change, however many there were.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling.sites import SiteTable

POINTS = 6
"""Number of gaps at which the probability is evaluated; between them -log(1 - p) is nearly linear in log-log scale."""
SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 1e8
"""Ends of the range of gaps: below the first the probability is proportional to the gap; the last, 3 years, is the
longest wait."""
FIRST_WAIT_SECONDS = 30.0
"""Maximum wait after a site's first poll, doubled with each poll, whatever the priors say: beliefs about other sites
must not silence a page before it was observed."""
_DOUBLINGS = 30
_MIN_EXPECTED = 1e-300
_PARTS = np.linspace(0.0, 1.0, POINTS)


class RateModel(Protocol):
    """Part of the allocator contract from which waits are computed."""

    def change_probabilities(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns believed change probabilities, float64[k, m], of slots int64[k] over float64[k, m] s; nan: none."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of each of k sites, float64[k].

    min_yield: from 0 (no wait) to below 1; longest: maximum wait, s, above 0.
    """

    min_yield: NDArray[np.float64]
    longest: NDArray[np.float64]

    def of(self, rows: NDArray[np.int64]) -> Bounds:
        """Returns the bounds of some sites."""
        return Bounds(self.min_yield[rows], self.longest[rows])


def first_waits(polls: NDArray[np.int32]) -> NDArray[np.float64]:
    """Returns the maximum wait, s, after each number of polls of a site, int[k]: 30 s, 1 min, 2 min, 4 min ..."""
    return FIRST_WAIT_SECONDS * np.exp2(np.clip(polls - 1, 0, _DOUBLINGS))


def waits(believer: RateModel, slots: NDArray[np.int64], bounds: Bounds) -> NDArray[np.float64]:
    """Returns the seconds, float64[k], after the last informative poll for which slots int64[k] are believed unchanged.

    Until then the probability of a change is below min_yield; 0 without a belief or without a min_yield.
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
    """Returns logarithms, float64[k, POINTS], of gaps in s, evenly spaced."""
    last = np.log(longest)[:, None]
    first = np.minimum(math.log(SHORTEST_SECONDS), last)
    return np.asarray(first + (last - first) * _PARTS)


def _change_probabilities(
    believer: RateModel, slots: NDArray[np.int64], gaps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns float64[k, POINTS], nondecreasing over the gaps; nan: no belief."""
    asked = believer.change_probabilities(slots, gaps)
    chance = np.clip(asked, 0.0, 1.0)  # sums in float32 may slightly exceed 1
    return np.asarray(np.maximum.accumulate(chance, axis=1))


def _expected_changes(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the expected number of changes that gives this probability of at least one at a known rate; any shape."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log1p(-chance))


def _crossing(
    log_gaps: NDArray[np.float64], expected: NDArray[np.float64], level: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns gaps float64[k] at which the expected number reaches the level; inf if never, 0 without a belief."""
    rows = np.arange(len(log_gaps))
    after = (expected < level[:, None]).sum(1)
    high = np.clip(after, 1, POINTS - 1)
    low = high - 1
    y, at = np.log(np.maximum(expected, _MIN_EXPECTED)), np.log(level)
    with np.errstate(divide="ignore", invalid="ignore"):  # below a second all gaps are equal
        slope = (y[rows, high] - y[rows, low]) / (log_gaps[rows, high] - log_gaps[rows, low])
        between = log_gaps[rows, low] + (at - y[rows, low]) / slope
        below = log_gaps[:, 0] + at - y[:, 0]
        found = np.exp(np.where(after == 0, below, between))
    found[after == POINTS] = np.inf
    found[np.isnan(found)] = 0.0
    return found


# The limit of sites that change at nearly every poll: the uniform share, and proofs of their changes.
#
# Such a page either changes faster than it is polled, or differs at every fetch (a token, a clock) and would consume
# the whole budget for nothing. A proof poll, right after a poll, tells them apart: if the page is the same both times,
# its changes are real and the limit is lifted.

_FAILURES_MOST = 3
"""Number of proofs in a row that left a difference after which proofs of a site become rare."""
_PAUSE_PERIODS = 8.0
"""Time between two rare proofs of one site, in uniform periods."""


class NoiseCap:
    """Limits always-changing sites. `period` is, or returns, the gap that round robin would leave each site (s)."""

    def __init__(self, sites: SiteTable) -> None:
        self._sites = sites

    def floors(
        self, period: float, slots: NDArray[np.int64] | None = None, exempt: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Returns float64[k]: minimum gap since the last poll of `slots` (None: all), s; 0 for sites without limit.

        exempt bool[k]: sites that are polled for something else than their own changes (None: no site is).
        """
        capped = self._sites.changes_always(slots)
        if exempt is not None:
            capped &= ~exempt
        return np.where(capped, period, 0.0)

    def wants_proof(self, slot: int, now: float, period: Callable[[], float], *, proven: bool) -> bool:
        """Returns whether a change of the slot has to be proven.

        proven: whether it is known what of the page is noise. Then only if the page changes at each of its last polls,
        and no more than every eight periods unless its last proof showed it the same; else always, unless three proofs
        in a row could not explain the page: it differs at every fetch in a way that no mask hides, and is proven no
        more often than that either. The period is asked for only where it decides: it looks at all sites.
        """
        sites = self._sites
        decided = not sites.keeps_changing(slot) if proven else bool(sites.proof_failures[slot] < _FAILURES_MOST)
        if decided:
            return not proven
        if proven and not sites.proof_failures[slot]:
            return True
        return bool(now - sites.proof_at[slot] >= _PAUSE_PERIODS * period())
