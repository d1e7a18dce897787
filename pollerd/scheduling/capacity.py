"""How much could be spent at all: what min_intervals and politeness leave of any budget."""

from __future__ import annotations

import numpy as np

from pollerd.model import STATE_CODE, SiteState
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable


def capacity(sites: SiteTable, hosts: HostTable, settings: SchedulingSettings) -> float:
    """Cost per second when every site is polled as soon as its min_interval and its host allow; inf without bounds.

    A short list under an ample budget is not polled at the budget's pace: an allocator that took the budget for
    granted would believe in gaps that never happen.
    """
    n = sites.size
    live = sites.occupied() & ~sites.paused[:n] & (sites.state[:n] != STATE_CODE[SiteState.GONE])
    if not live.any():
        return float("inf")
    host, cost = sites.host[:n][live], sites.cost[:n][live]
    own = sites.min_interval[:n][live]
    minimum = np.where(np.isnan(own), settings.min_interval_seconds, own)
    with np.errstate(divide="ignore"):
        demand = np.bincount(host, cost / minimum, hosts.size)
        starts = 1.0 / hosts.interval()
    count = np.bincount(host, minlength=hosts.size)
    mean_cost = np.bincount(host, cost, hosts.size) / np.maximum(count, 1)
    supply = np.where(count > 0, starts * np.where(count > 0, mean_cost, 1.0), 0.0)
    return float(np.minimum(demand, supply).sum())
