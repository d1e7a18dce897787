"""Scores the detection of known true changes, compared with polling all sites equally often."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.cli.demo.web.sites import DemoSite

SLACK_SECONDS = 0.05
"""Tolerance: a poll is dated at its start; the site answers a moment later, with its changes up to then."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Results of polling one site.

    begin: time of its first answer (epoch s): earlier changes cannot be found, None: not yet. polls: their number, the
    first included. found: times (epoch s, ascending) of the polls that found a change.
    """

    begin: float | None
    polls: int
    found: Sequence[float]


@dataclass(frozen=True, slots=True)
class Score:
    """Sums over all sites except those that differ at every request, unless stated otherwise.

    happened: true changes since each site's first answer. found: polls that found some. noticed: true changes that
    those polls detected (two changes between two polls are found as one). delays: seconds from each noticed change to
    the poll that detected it, float64[noticed]. share: share of repeated polls that found something; uniform_share: the
    share expected of as many polls spread equally over the same sites and time, given the same true changes. Both
    shares include all sites; nan while no poll was a repeated one.
    """

    happened: int
    found: int
    noticed: int
    delays: NDArray[np.float64]
    share: float
    uniform_share: float

    @property
    def merged(self) -> int:
        """Changes detected together with a later one."""
        return max(self.noticed - self.found, 0)

    @property
    def waiting(self) -> int:
        """Changes not yet detected."""
        return self.happened - self.noticed


def score(
    sites: Sequence[DemoSite], truth: Mapping[str, NDArray[np.float64]], watched: Mapping[str, Watched], now: float
) -> Score:
    """Scores the changes found by `now` (epoch s). `truth` and `watched` are by URL; sites not watched are omitted."""
    seen = [(site, watched[site.url], _begin(watched[site.url])) for site in sites if site.url in watched]
    seen = [row for row in seen if math.isfinite(row[2])]
    tame = [row for row in seen if math.isfinite(row[0].true_rate_per_second)]
    happened = [happened_since(truth[site.url], begin) for site, _, begin in tame]
    delays = [detection_delays(changes, one.found) for changes, (_, one, _) in zip(happened, tame, strict=True)]
    repeated = sum(one.polls - 1 for _, one, _ in seen)
    period = sum(now - begin for _, _, begin in seen) / repeated if repeated else math.nan
    uniform = sum(
        (now - begin) / period
        if math.isinf(site.true_rate_per_second)
        else uniform_finds(happened_since(truth[site.url], begin), period, now)
        for site, _, begin in seen
    )
    return Score(
        happened=sum(map(len, happened)),
        found=sum(len(one.found) for _, one, _ in tame),
        noticed=sum(map(len, delays)),
        delays=np.concatenate([np.empty(0), *delays]),
        share=sum(len(one.found) for _, one, _ in seen) / repeated if repeated else math.nan,
        uniform_share=uniform / repeated if repeated else math.nan,
    )


def happened_since(changes: NDArray[np.float64], begin: float) -> NDArray[np.float64]:
    """Returns the changes after `begin`."""
    return changes[changes > begin]


def detection_delays(changes: NDArray[np.float64], found: Sequence[float]) -> NDArray[np.float64]:
    """Returns the seconds from each change (ascending) to the first finding poll at or after it.

    float64[k], each >= 0, k <= len(changes): changes not yet found are omitted.
    """
    polls = np.asarray(found, np.float64)
    nexts = np.searchsorted(polls, changes - SLACK_SECONDS)
    noticed = nexts < len(polls)
    return np.maximum(polls[nexts[noticed]] - changes[noticed], 0.0)


def uniform_finds(changes: NDArray[np.float64], period: float, end: float) -> float:
    """Returns the expected number of finding polls if a site is polled every `period` seconds (> 0) until `end`.

    Exact for the given changes (ascending, up to `end`), over a first poll at a time drawn uniformly from one period: a
    poll finds something if a change lies within the period before it, so each change contributes min(time to the next
    change or the end, period) / period.
    """
    if not len(changes):
        return 0.0
    return float(np.minimum(np.diff(changes, append=end), period).sum() / period)


def _begin(one: Watched) -> float:
    return math.nan if one.begin is None else one.begin
