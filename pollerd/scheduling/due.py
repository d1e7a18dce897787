"""Computes when the next poll may happen, so that the daemon can sleep until then."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.columns import stretches
from pollerd.scheduling.politeness.hosts import HostTable
from pollerd.scheduling.sites import SiteTable

_COMMIT_SECONDS = 0.25
"""Minimum time, s, until a poll under way is committed."""
_CHOSEN_SECONDS = 1.0
"""Minimum time, s, between two choices from a long list."""


def next_due(sites: SiteTable, hosts: HostTable, now: float, min_interval: float) -> float:
    """Returns the seconds until a site may be polled, 0 or more; inf if only an event can make one pollable.

    Never too late while nothing happens; too early where a rule of the choice not considered here delays a site, or
    where a poll under way takes long. Assumes that polls that fail shorten no wait. For a long list up to a second too
    late, which is how often it is chosen from.
    """
    n = sites.size
    if not n:
        return np.inf
    sites.timetable.turn(now)
    if sites.eligibility.update(now, min_interval):
        return _due_of_many(sites, now)
    host_at = hosts.ready_at()
    host_at = np.where(hosts.busy[: hosts.size], np.maximum(host_at, now + hosts.interval() + _COMMIT_SECONDS), host_at)
    asked_at = hosts.last_start[: hosts.size]
    first = min(_first_due(sites, part, host_at, asked_at, now, min_interval) for part in stretches(n))
    return max(min(first, _proof_due(sites, host_at, now)) - now, 0.0)


def _due_of_many(sites: SiteTable, now: float) -> float:
    """`next_due` of a long list: checking all sites and hosts costs more than a vain choice once a second.

    While sites wait for their hosts only, returns the time of the next choice.
    """
    if sites.eligibility.ready[: sites.size].any():
        return _CHOSEN_SECONDS
    wait = max(sites.eligibility.next_look() - now, 0.0)
    return min(wait, _CHOSEN_SECONDS) if len(sites.proofs) else wait


def _proof_due(sites: SiteTable, host_at: NDArray[np.float64], now: float) -> float:
    """Returns when the first proof poll may start, epoch s; of those under way the commit tells."""
    slots = sites.proofs.in_order(now)
    slots = slots[sites.watched(slots) & ~sites.in_flight[slots]]
    if not len(slots):
        return np.inf
    at = np.maximum(sites.not_before[slots], host_at[sites.host[slots]])
    return max(float(at.min()), now + sites.proofs.affordable_in(float(sites.cost[slots].min())))


def _first_due(
    sites: SiteTable,
    part: slice,
    host_at: NDArray[np.float64],
    asked_at: NDArray[np.float64],
    now: float,
    min_interval: float,
) -> float:
    """Returns when the first site of those rows may be polled, epoch s.

    host_at, asked_at float64[hosts]: earliest next request and last request of each host, epoch s.
    """
    spaced = sites.earliest(min_interval, part)
    host = sites.host[part]
    ended = np.maximum(asked_at[host] + sites.interval(min_interval, part), now + _COMMIT_SECONDS)
    at = np.maximum(np.where(sites.in_flight[part], ended, spaced), host_at[host])
    return float(at[sites.watched(part)].min(initial=np.inf))
