"""How much could be spent at all: what intervals, min_yields and politeness leave of any budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

_NO_INTERVAL = 1e-200
_NO_BOUND = 1e100


@dataclass(frozen=True)
class Reach:
    """How often each of the live sites can be polled, whatever the budget: slots int64[k], ascending.

    interval: float64[k] s, that the site's own settings and what is believed of it leave between two polls; stretch:
    float64[k] >= 1, by how much longer its host, shared with others, makes that; cost float64[k].
    """

    slots: NDArray[np.int64]
    cost: NDArray[np.float64]
    interval: NDArray[np.float64]
    quiet: NDArray[np.bool_]
    """bool[k]: the interval is that in which the site is believed unchanged, or says so."""
    told: NDArray[np.bool_]
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
class Crowding:
    """What is kept of a `Reach`: a few bytes a host, nothing of each site."""

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


def reach(
    sites: SiteTable, hosts: HostTable, settings: SchedulingSettings, *, whatever_is_believed: bool = False
) -> Reach:
    """How often sites can be polled: as soon as their intervals and their hosts allow.

    The intervals are min_interval, and how long the site is believed unchanged (`quiet_until`), but where
    `whatever_is_believed`. A short list under an ample budget is not polled at the budget's pace: an allocator that
    took the budget for granted would believe in gaps that never happen.
    """
    n = sites.size
    slots = np.flatnonzero(sites.in_force())
    part = slice(0, n) if len(slots) == n else slots  # of a million rows a view is there at once
    interval = np.full(len(slots), settings.min_interval_seconds)
    if not sites.is_as_ever("min_interval"):
        own = sites.min_interval[part]
        interval = np.where(np.isnan(own), interval, own)
    quiet = told = np.zeros(len(slots), np.bool_)
    if not (whatever_is_believed or sites.is_as_ever("quiet_until")):
        wait = sites.quiet_waits(part)
        quiet = wait > interval
        told = quiet & (sites.told_ttl[part] >= wait)
        interval = np.maximum(interval, wait)
    interval = np.maximum(interval, _NO_INTERVAL)
    host = sites.host[part]
    demand = np.bincount(host, 1.0 / interval, hosts.size)
    by_host = np.maximum(demand * hosts.interval(), 1.0)
    return Reach(slots, sites.cost[part], interval, quiet, told, by_host[host], by_host)
