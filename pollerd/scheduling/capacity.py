"""How much could be spent at all: what intervals, min_yields and politeness leave of any budget."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling.politeness.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

_NO_INTERVAL = 1e-200
_NO_BOUND = 1e100
PIECE = 1 << 20
"""Sites gone through between two turns of others: in 10 to 30 ms."""


@dataclass(frozen=True)
class AttainableRates:
    """How often each of the live sites can be polled, whatever the budget: slots int64[k], ascending.

    interval: float64[k] s, that the site's own settings and what is believed of it leave between two polls; stretch:
    float64[k] >= 1, by how much longer its host, shared with others, makes that; cost float64[k].
    """

    slots: NDArray[np.int64]
    cost: NDArray[np.float64]
    interval: NDArray[np.float64]
    quiet: NDArray[np.bool_]
    """bool[k]: the interval is that in which the site is believed unchanged, or says so."""
    ttl_holds: NDArray[np.bool_]
    """bool[k]: of those, the ones that say so."""
    stretch: NDArray[np.float64]
    by_host: NDArray[np.float64]
    """float64[hosts]: `stretch` of the sites of each host."""

    @property
    def total(self) -> float:
        """Cost per second that can be spent; inf without bounds, or sites."""
        return self.of(slice(None)) if self.slots.size else np.inf

    def of(self, chosen: NDArray[np.bool_] | slice) -> float:
        """Cost per second that can be spent on those of the sites, bool[k]; inf without bounds."""
        spent = float((self.cost[chosen] / (self.interval[chosen] * self.stretch[chosen])).sum())
        return spent if spent < _NO_BOUND else np.inf


@dataclass(frozen=True)
class HostLoad:
    """What is kept of a `AttainableRates`: a few bytes a host, nothing of each site."""

    total: float
    by_host: NDArray[np.float64]

    def of(self, hosts: NDArray[np.int32]) -> NDArray[np.float64]:
        """float64[k] >= 1: by how much longer the hosts in slots int32[k] make the intervals of their sites.

        1 for those that have come since.
        """
        stretch = np.ones(len(hosts))
        known = hosts < len(self.by_host)
        stretch[known] = self.by_host[hosts[known]]
        return stretch


def totals(
    sites: SiteTable, hosts: HostTable, settings: SchedulingSettings, *, whatever_is_believed: bool = False
) -> Generator[None, None, HostLoad]:
    """What is kept of `reach`, up to rounding. Stops after each piece of a long list, so that others have a turn.

    What happens meanwhile may be counted or not.
    """
    believed = not (whatever_is_believed or sites.is_as_ever("quiet_until"))
    uniform_settings = not believed and sites.is_as_ever("min_interval") and sites.is_as_ever("cost")
    demand, spent, live = np.zeros(hosts.size), np.zeros(hosts.size), 0
    for part in _pieces(sites.size):
        there = sites.in_force(part)
        host = sites.host[part][there]
        live += len(host)
        if uniform_settings:
            demand = _added(demand, np.bincount(host) / max(settings.min_interval_seconds, _NO_INTERVAL))
        else:
            often = 1.0 / np.maximum(_intervals(sites, settings, part, believed)[0][there], _NO_INTERVAL)
            demand = _added(demand, np.bincount(host, often))
            spent = _added(spent, np.bincount(host, often * sites.cost[part][there]))
        yield
    by_host = np.maximum(demand * hosts.interval(slice(0, len(demand))), 1.0)
    total = float(((demand if uniform_settings else spent) / by_host).sum()) if live else np.inf
    return HostLoad(total if total < _NO_BOUND else np.inf, by_host)


def _pieces(rows: int) -> Iterator[slice]:
    return (slice(at, min(at + PIECE, rows)) for at in range(0, rows, PIECE))


def _added(sums: NDArray[np.float64], more: NDArray[Any]) -> NDArray[np.float64]:
    """The sum of both, as long as the longer: hosts may come meanwhile."""
    if len(more) > len(sums):
        sums, more = more.copy(), sums
    sums[: len(more)] += more
    return sums


def _intervals(
    sites: SiteTable, settings: SchedulingSettings, part: slice | NDArray[np.int64], believed: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Of the sites in those rows, gone ones too: `AttainableRates.interval`, `quiet` and `ttl_holds`, [k] each."""
    number = len(sites.site_id[part])
    interval = np.full(number, settings.min_interval_seconds)
    if not sites.is_as_ever("min_interval"):
        own = sites.min_interval[part]
        interval = np.where(np.isnan(own), interval, own)
    quiet = ttl_holds = np.zeros(number, np.bool_)
    if believed:
        wait = sites.quiet_waits(part)
        quiet = wait > interval
        ttl_holds = quiet & (sites.announced_ttl[part] >= wait)
        interval = np.maximum(interval, wait)
    return interval, quiet, ttl_holds


def reach(
    sites: SiteTable, hosts: HostTable, settings: SchedulingSettings, *, whatever_is_believed: bool = False
) -> AttainableRates:
    """How often sites can be polled: as soon as their intervals and their hosts allow.

    The intervals are min_interval, and how long the site is believed unchanged (`quiet_until`), but where
    `whatever_is_believed`. A short list under an ample budget is not polled at the budget's pace: an allocator that
    took the budget for granted would believe in gaps that never happen.
    """
    n = sites.size
    slots = np.flatnonzero(sites.in_force())
    part = slice(0, n) if len(slots) == n else slots  # of a million rows a view is there at once
    believed = not (whatever_is_believed or sites.is_as_ever("quiet_until"))
    interval, quiet, ttl_holds = _intervals(sites, settings, part, believed)
    interval = np.maximum(interval, _NO_INTERVAL)
    host = sites.host[part]
    demand = np.bincount(host, 1.0 / interval, hosts.size)
    by_host = np.maximum(demand * hosts.interval(), 1.0)
    return AttainableRates(slots, sites.cost[part], interval, quiet, ttl_holds, by_host[host], by_host)
