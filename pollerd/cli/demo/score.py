"""The score of detecting known true changes, compared with polling all sites equally often."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.app.demo_web import DemoSite

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
    shares include all sites; nan while no poll was a repeated one. mean_delay, uniform_mean_delay: mean seconds from a
    change to the poll that found it, and as expected of those equal polls; changes that are not found yet count with
    the time since them. nan before the first change, and while no poll was a repeated one.
    """

    happened: int
    found: int
    noticed: int
    delays: NDArray[np.float64]
    share: float
    uniform_share: float
    mean_delay: float = math.nan
    uniform_mean_delay: float = math.nan

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
    delays = [
        detection_delays(changes, site_watched.found)
        for changes, (_, site_watched, _) in zip(happened, tame, strict=True)
    ]
    repeated = sum(site_watched.polls - 1 for _, site_watched, _ in seen)
    period = sum(now - begin for _, _, begin in seen) / repeated if repeated else math.nan
    uniform = sum(
        (now - begin) / period
        if math.isinf(site.true_rate_per_second)
        else uniform_finds(happened_since(truth[site.url], begin), period, now)
        for site, _, begin in seen
    )
    return Score(
        happened=sum(map(len, happened)),
        found=sum(len(site_watched.found) for _, site_watched, _ in tame),
        noticed=sum(map(len, delays)),
        delays=np.concatenate([np.empty(0), *delays]),
        share=sum(len(site_watched.found) for _, site_watched, _ in seen) / repeated if repeated else math.nan,
        uniform_share=uniform / repeated if repeated else math.nan,
        mean_delay=_mean_delay(happened, delays, now),
        uniform_mean_delay=uniform_mean_delay(happened, period, now),
    )


def _mean_delay(happened: Sequence[NDArray[np.float64]], delays: Sequence[NDArray[np.float64]], now: float) -> float:
    """Returns the mean over all changes; the last ones of a site that are not found yet are as old as they are."""
    waiting = [now - changes[len(found) :] for changes, found in zip(happened, delays, strict=True)]
    values = np.concatenate([np.empty(0), *delays, *waiting])
    return float(values.mean()) if len(values) else math.nan


def uniform_mean_delay(happened: Sequence[NDArray[np.float64]], period: float, now: float) -> float:
    """Returns the mean seconds until equal polls find these changes, one every `period` seconds; nan without changes.

    Exact over a first poll at a time drawn uniformly: a change waits for a time drawn from (0, period), or until now:
    of one that is `age` old the mean is period / 2 if age >= period, else age - age² / (2 period).
    """
    ages = now - np.concatenate([np.empty(0), *happened])
    if not len(ages) or not math.isfinite(period):
        return math.nan
    capped = np.minimum(ages, period)
    return float((capped - capped**2 / (2.0 * period)).mean())


def happened_since(changes: NDArray[np.float64], begin: float) -> NDArray[np.float64]:
    """Returns the changes after `begin`."""
    return changes[changes > begin]


def detection_delays(changes: NDArray[np.float64], finds: Sequence[float]) -> NDArray[np.float64]:
    """Returns the seconds from each change (ascending) to the first finding poll at or after it.

    float64[k], each >= 0, k <= len(changes): changes not yet found are omitted.
    """
    polls = np.asarray(finds, np.float64)
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


def _begin(watched: Watched) -> float:
    return math.nan if watched.begin is None else watched.begin
