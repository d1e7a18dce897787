"""Waits of sites whose polls are not worth it yet (ADR 17), and limits of those that nearly always change.

A poll saves waiting time of a change that may have happened. With P(u) the chance that a site has changed u seconds
after its last informative poll, it is worth it from the smallest τ on with (weight / cost) ∫₀^τ P(u) du >= min_saving.
P(τ), or min_yield if that is larger, is the site's bar: it is polled once its present chance is as large. The chance is
the expectation over the belief of its rate, not the one at the mean rate: a poll finds at most one change, however many
there were. For a known rate τ is about √(2 min_saving · cost / (weight · rate)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling.sites import SiteTable

POINTS = 5
"""Number of gaps at which the probability is evaluated; between them -log(1 - p) is nearly linear in log-log scale."""
_BETWEEN = 5
"""Steps of the integral between two of them."""
SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 1e8
"""Ends of the range of gaps, unless less is to be saved: below the first the probability is that of one rate; the last,
3 years, is the longest wait."""
FIRST_WAIT_SECONDS = 300.0
"""Maximum wait after a site's first poll, doubled with each poll, whatever the priors say: beliefs about other sites
must not silence a page before it was observed."""
_DOUBLINGS = 30
_TINY, _FEW = 1e-300, 1e-4
"""Expected numbers of changes: in place of 0; for which two terms of the series suffice."""
_CERTAIN = 1.0 - 2.0**-53
_PARTS = np.linspace(0.0, 1.0, POINTS)
_STEPS = np.array(
    [np.interp(np.linspace(0.0, 1.0, _BETWEEN * (POINTS - 1) + 1), _PARTS, unit) for unit in np.eye(POINTS)]
)
"""float64[POINTS, m]: times values at the points, float64[k, POINTS], these and `_BETWEEN` - 1 between each two."""


class RateModel(Protocol):
    """Part of the allocator contract from which waits are computed."""

    def change_probabilities(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns believed change probabilities, float64[k, m], of slots int64[k] over float64[k, m] s; nan: none."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of each of k sites, float64[k].

    saving: min_saving · cost / weight, s, from 0 (no wait), inf: never; min_yield: from 0 to below 1; longest: maximum
    wait, s, above 0.
    """

    saving: NDArray[np.float64]
    min_yield: NDArray[np.float64]
    longest: NDArray[np.float64]

    def of(self, rows: NDArray[np.int64]) -> Bounds:
        """Returns the bounds of some sites."""
        return Bounds(self.saving[rows], self.min_yield[rows], self.longest[rows])


def least_savings(savings: NDArray[np.float64], min_yield: NDArray[np.float64], usual: float) -> NDArray[np.float64]:
    """Returns the min_saving in force, float64[k] s, of sites with these settings, float64[k] each, nan: the default.

    A min_yield of 0 without a min_saving says that a site may always be polled: it did before there was one.
    """
    return np.where(np.isnan(savings), np.where(min_yield == 0.0, 0.0, usual), savings)


def first_waits(polls: NDArray[np.int32], saving: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the maximum wait, s, after each number of polls of a site, int[k]: 5 min, 10 min, 20 min, 40 min ...

    At least `Bounds.saving`, float64[k]: no poll before can save so much, whatever the rate.
    """
    return np.maximum(FIRST_WAIT_SECONDS * np.exp2(np.clip(polls - 1, 0, _DOUBLINGS)), saving)


def waits(
    believer: RateModel, slots: NDArray[np.int64], bounds: Bounds
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns how many seconds after their last informative polls slots int64[k] are worth a poll, and their bars.

    float64[k] each, 0 without a belief, or if nothing is to be saved and there is no min_yield.
    """
    wait, bar = np.zeros((2, len(slots)))
    indices = np.flatnonzero((bounds.saving > 0) | (bounds.min_yield > 0))
    if indices.size:
        some = bounds.of(indices)
        first = np.where(some.saving > 0, some.saving, SHORTEST_SECONDS)
        wait[indices], bar[indices] = chances(believer, slots[indices], first, some.longest).waits(some)
    return wait, bar


@dataclass(frozen=True)
class Chances:
    """Chances of changes of k slots, as expected numbers of changes at POINTS gaps each.

    log_gaps, expected float64[k, POINTS]: logarithms of s, nondecreasing; nan: no belief.
    """

    log_gaps: NDArray[np.float64]
    expected: NDArray[np.float64]

    def waits(self, bounds: Bounds) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns `waits` within these bounds, of which the longest are no longer than the gaps."""
        longest = np.minimum(bounds.longest, LONGEST_SECONDS)
        saving = np.minimum(bounds.saving, LONGEST_SECONDS)
        wait, chance = _until_saved(self.log_gaps, self.expected, saving, longest)
        if bounds.min_yield.any():
            likely = _crossing(self.log_gaps, self.expected, _expected_changes(bounds.min_yield))
            wait = np.minimum(np.maximum(wait, likely), longest)
            chance = np.where(np.isnan(self.expected[:, 0]), 0.0, np.maximum(chance, bounds.min_yield))
        return wait, chance


def chances(
    believer: RateModel, slots: NDArray[np.int64], first: NDArray[np.float64], longest: NDArray[np.float64]
) -> Chances:
    """Returns the chances of slots int64[k] from the gap `first`, float64[k] s, on to the longest, float64[k] s."""
    log_gaps = _log_gaps(np.minimum(first, LONGEST_SECONDS), np.minimum(longest, LONGEST_SECONDS))
    return Chances(log_gaps, _expected_changes(_change_probabilities(believer, slots, np.exp(log_gaps))))


def _log_gaps(first: NDArray[np.float64], longest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns logarithms, float64[k, POINTS], of gaps from `first` to `longest`, float64[k] s, evenly spaced."""
    last = np.log(longest)[:, None]
    begin = np.minimum(np.log(first)[:, None], last)
    return np.asarray(begin + (last - begin) * _PARTS)


def _change_probabilities(
    believer: RateModel, slots: NDArray[np.int64], gaps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns float64[k, POINTS], nondecreasing over the gaps; nan: no belief."""
    chance = np.maximum.accumulate(believer.change_probabilities(slots, gaps), axis=1)
    return np.minimum(chance, _CERTAIN)  # sums in float32 may slightly exceed 1


def _expected_changes(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the expected number of changes that gives this probability of at least one at a known rate; any shape."""
    return np.asarray(-np.log1p(-chance))


def _until_saved(
    log_gaps: NDArray[np.float64],
    expected: NDArray[np.float64],
    saving: NDArray[np.float64],
    longest: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns gaps float64[k] at which the integral of the chance reaches `saving`, float64[k] s, and the chances then.

    At most `longest`, float64[k] s; 0 without a belief and where nothing is to be saved.
    """
    gaps = np.exp(log_gaps @ _STEPS)
    chance = -np.expm1(-np.exp(np.log(np.maximum(expected, _TINY)) @ _STEPS))
    widths = gaps[:, 1:] - gaps[:, :-1]
    saved = np.empty_like(gaps)
    first = np.maximum(expected[:, 0], _TINY)
    saved[:, 0] = gaps[:, 0] * np.where(first < _FEW, 0.5 * first, 1.0 - chance[:, 0] / first)
    saved[:, 1:] = 0.5 * (chance[:, 1:] + chance[:, :-1]) * widths
    np.cumsum(saved, axis=1, out=saved)
    rows = np.arange(len(gaps))
    low = np.minimum(np.maximum((saved < saving[:, None]).sum(1) - 1, 0), widths.shape[1] - 1)
    at, width = chance[rows, low], np.maximum(widths[rows, low], _TINY)
    missing = np.maximum(saving - saved[rows, low], 0.0)
    slope = (chance[rows, low + 1] - at) / width  # the chance is a straight line within a step
    beyond = 2.0 * missing / np.maximum(at + np.sqrt(at * at + 2.0 * slope * missing), _TINY)
    times = np.minimum(gaps[rows, low] + beyond, longest)
    waits_for_it = (saving > 0) & ~np.isnan(expected[:, 0])
    return np.where(waits_for_it, times, 0.0), np.where(waits_for_it, at + slope * np.minimum(beyond, width), 0.0)


def _crossing(
    log_gaps: NDArray[np.float64], expected: NDArray[np.float64], level: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns gaps float64[k] at which the expected number reaches the level; inf if never, 0 without a belief."""
    rows = np.arange(len(log_gaps))
    after = (expected < level[:, None]).sum(1)
    high = np.clip(after, 1, POINTS - 1)
    low = high - 1
    with np.errstate(divide="ignore", invalid="ignore"):  # below a second all gaps are equal; a level of 0 is no wait
        y, at = np.log(np.maximum(expected, _TINY)), np.log(level)
        slope = (y[rows, high] - y[rows, low]) / (log_gaps[rows, high] - log_gaps[rows, low])
        between = log_gaps[rows, low] + (at - y[rows, low]) / slope
        below = log_gaps[:, 0] + at - y[:, 0]
        ratio = np.exp(np.where(after == 0, below, between))
    ratio[after == POINTS] = np.inf
    ratio[np.isnan(ratio)] = 0.0
    return ratio


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
