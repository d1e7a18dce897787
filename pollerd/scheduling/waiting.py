"""Explains why sites are not polled more often: how many wait for what, and which limit binds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from pollerd.model import STATE_CODE, SiteState
from pollerd.scheduling.capacity import reach
from pollerd.scheduling.politeness.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

_USED_WELL = 0.9
"""Share of the budget from which the budget itself is the binding limit."""


class PollLimit(StrEnum):
    """Limits that keep sites from being polled more often."""

    BUDGET = "budget"
    NO_SITES = "no_sites"
    PRIVATE = "private"
    FIRST_ANSWERS = "first_answers"
    HOST_INTERVAL = "host_interval"
    MIN_YIELD = "min_yield"
    TTL = "ttl"
    MIN_INTERVAL = "min_interval"
    BACKOFF = "backoff"
    ROBOTS = "robots"
    BLOCKED = "blocked"
    CLOSED = "closed"
    PAUSED = "paused"
    GONE = "gone"


_SPENT = frozenset({PollLimit.HOST_INTERVAL, PollLimit.MIN_YIELD, PollLimit.TTL, PollLimit.MIN_INTERVAL})
"""Limits under which sites can still be polled, possibly at more than the budget."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Number of sites by what limits them; each site counts once, at the first limit that applies, in this order."""

    paused: int = 0
    gone: int = 0
    closed: int = 0
    """Outside of their windows."""
    private: int = 0
    """At private addresses, while the daemon runs without allow_private."""
    blocked: int = 0
    """Forbidden by robots.txt, or at addresses that are never polled."""
    backing_off: int = 0
    unreachable: int = 0
    """Robots.txt of the host was never obtained, and failed recently."""
    unanswered: int = 0
    """Never polled yet."""
    host: int = 0
    """Limited by the interval of the host, which the site shares."""
    belief: int = 0
    """Limited by min_yield: believed unchanged for longer than min_interval."""
    ttl: int = 0
    """Limited by the announced TTL."""
    interval: int = 0
    """Limited by min_interval."""
    hosts: int = 0
    """Number of hosts of the sites counted under `host`."""
    crawl_delay: bool = False
    """Whether most of those hosts ask for a longer interval than ours."""
    own_interval: bool = False
    """Whether most of the sites counted under `interval` have their own min_interval."""
    spendable: float = field(default=0.0, compare=False)
    """Attainable cost per second of the sites from `unanswered` on, under an unlimited budget."""

    @property
    def sites(self) -> int:
        """Number of all sites."""
        held = (self.paused, self.gone, self.closed, self.private, self.blocked, self.backing_off)
        return sum(held) + self.unreachable + self.unanswered + self.host + self.belief + self.ttl + self.interval

    def binding(self, used: float, budget: float) -> PollLimit:
        """Returns the binding limit: the budget (cost per second), given the used part, or what most sites wait for."""
        if not self.sites:
            return PollLimit.NO_SITES
        most = max(self._counts, key=lambda each: each[1])[0]
        within_budget = most in _SPENT and self.spendable >= budget
        return PollLimit.BUDGET if within_budget or used >= _USED_WELL * budget else most

    @property
    def _counts(self) -> tuple[tuple[PollLimit, int], ...]:
        return (
            (PollLimit.PRIVATE, self.private),
            (PollLimit.FIRST_ANSWERS, self.unanswered),
            (PollLimit.HOST_INTERVAL, self.host),
            (PollLimit.MIN_YIELD, self.belief),
            (PollLimit.TTL, self.ttl),
            (PollLimit.MIN_INTERVAL, self.interval),
            (PollLimit.BACKOFF, self.backing_off),
            (PollLimit.ROBOTS, self.unreachable),
            (PollLimit.BLOCKED, self.blocked),
            (PollLimit.CLOSED, self.closed),
            (PollLimit.PAUSED, self.paused),
            (PollLimit.GONE, self.gone),
        )


def waiting(sites: SiteTable, hosts: HostTable, settings: SchedulingSettings, now: float) -> Waiting:
    """Counts the sites by the limit that holds them back; `now` epoch s."""
    n = sites.size
    left = sites.occupied()
    state, host, later = sites.state[:n], sites.host[:n], sites.not_before[:n] > now
    unknown = np.isneginf(hosts.robots_at[: hosts.size]) & (hosts.robots_retry_at[: hosts.size] > now)
    counts = {}
    for name, holds in (
        ("paused", sites.paused[:n]),
        ("gone", state == STATE_CODE[SiteState.GONE]),
        ("closed", ~sites.open_now(slice(0, n)) & np.ones(n, np.bool_)),
        ("private", at_private_addresses(sites)),
        ("blocked", state == STATE_CODE[SiteState.BLOCKED]),
        ("backing_off", later & (state != STATE_CODE[SiteState.ACTIVE])),
        ("unreachable", unknown[host] if hosts.size else later),
        ("unanswered", np.isneginf(sites.last_poll[:n])),
    ):
        held = left & holds
        counts[name] = int(np.count_nonzero(held))
        left &= ~holds
    pollable = left | held  # sites without an answer are also being polled
    allowed = reach(sites, hosts, settings)
    active = left[allowed.slots]
    by_host = active & (allowed.stretch > 1.0)
    by_ttl = active & allowed.ttl_holds & ~by_host
    by_belief = active & allowed.quiet & ~by_host & ~by_ttl
    by_interval = active & ~by_host & ~allowed.quiet
    crowded = np.unique(host[allowed.slots[by_host]])
    return Waiting(
        **counts,
        host=int(np.count_nonzero(by_host)),
        belief=int(np.count_nonzero(by_belief)),
        ttl=int(np.count_nonzero(by_ttl)),
        interval=int(np.count_nonzero(by_interval)),
        hosts=len(crowded),
        crawl_delay=_most(hosts.interval()[crowded] > settings.host_interval_seconds),
        spendable=allowed.of(pollable[allowed.slots]),
        own_interval=_most(~np.isnan(sites.min_interval[allowed.slots[by_interval]])),
    )


def at_private_addresses(sites: SiteTable) -> NDArray[np.bool_]:
    """Returns bool[size]: sites refused for a private address, and sites of the same hosts not yet polled."""
    n = sites.size
    refused = sites.private[:n]
    if sites.is_as_ever("private") or not refused.any():
        return refused
    hosts = np.bincount(sites.host[:n][refused], minlength=int(sites.host[:n].max()) + 1) > 0
    return refused | (hosts[sites.host[:n]] & np.isneginf(sites.last_poll[:n]) & sites.occupied())


def _most(holds: NDArray[np.bool_]) -> bool:
    return bool(holds.size and holds.mean() > 0.5)
