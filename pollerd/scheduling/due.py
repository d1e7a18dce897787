"""When something may be polled next, so that nobody need look before."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.columns import stretches
from pollerd.scheduling.eligibility import SUSPECT_AFTER
from pollerd.scheduling.politeness.hosts import HostTable
from pollerd.scheduling.sites import SiteTable

_COMMIT_SECONDS = 0.25
"""A poll under way is not over and committed sooner."""
_CHOSEN_SECONDS = 1.0
"""So often, at most, sites of a long list are chosen."""
_SUSPECT_SECONDS = 5.0
"""Sites that change at nearly every poll may be asked twice in a row: they are looked at so often."""


def next_due(sites: SiteTable, hosts: HostTable, now: float, min_interval: float) -> float:
    """Seconds until a site may be polled, 0 or more, inf where none ever may unless something happens.

    Never too late, as long as nothing happens meanwhile; too early where a rule of choosing that is not looked at here
    makes a site wait, or where a poll under way takes long. Polls that end by a failure make none wait shorter. Of a
    long list up to a second too late, which is how often it is chosen from.
    """
    n = sites.size
    if not n:
        return np.inf
    if sites.eligibility.update(now, min_interval):
        return _due_of_many(sites, now)
    host_at = hosts.ready_at()
    host_at = np.where(hosts.busy[: hosts.size], np.maximum(host_at, now + hosts.interval() + _COMMIT_SECONDS), host_at)
    asked_at = hosts.last_start[: hosts.size]
    first = min(_first_due(sites, part, host_at, asked_at, now, min_interval) for part in stretches(n))
    wait = max(first - now, 0.0)
    return min(wait, _SUSPECT_SECONDS) if sites.changes_always(after=SUSPECT_AFTER).any() else wait


def _due_of_many(sites: SiteTable, now: float) -> float:
    """`next_due` of a long list: a look at all of it and all hosts costs more than to choose in vain once a second.

    While sites wait for their hosts alone, it is when choosing would be looked at next anyway.
    """
    if sites.eligibility.ready[: sites.size].any():
        return _CHOSEN_SECONDS
    wait = max(sites.eligibility.next_look() - now, 0.0)
    return min(wait, _CHOSEN_SECONDS) if sites.eligibility.suspect[: sites.size].any() else wait


def _first_due(
    sites: SiteTable,
    part: slice,
    host_at: NDArray[np.float64],
    asked_at: NDArray[np.float64],
    now: float,
    min_interval: float,
) -> float:
    """When the first site of those rows may be polled, epoch s.

    host_at, asked_at float64[hosts]: when each host may be asked, and when it was last, epoch s.
    """
    spaced = np.where(sites.asap[part], sites.not_before[part], sites.next_allowed(min_interval, part))
    host = sites.host[part]
    ended = np.maximum(asked_at[host] + sites.interval(min_interval, part), now + _COMMIT_SECONDS)
    at = np.maximum(np.where(sites.in_flight[part], ended, spaced), host_at[host])
    return float(at[sites.in_force(part)].min(initial=np.inf))
