"""Poll rates that intervals, min_yield and politeness allow under an unlimited budget, and the limit that binds."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.model import STATE_CODE, SiteState
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.min_yield import least_savings
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

_NO_INTERVAL = 1e-200
_NO_BOUND = 1e100
PIECE = 1 << 20
"""Sites processed between two yields to other tasks; takes 10 to 30 ms."""


@dataclass(frozen=True)
class AttainableRates:
    """Attainable poll rates of the live sites under an unlimited budget: slots int64[k], ascending.

    interval: float64[k] s, time between two polls by the site's own settings and its believed rate; stretch: float64[k]
    >= 1, factor by which a host shared with other sites lengthens it; cost float64[k].
    """

    slots: NDArray[np.int64]
    cost: NDArray[np.float64]
    interval: NDArray[np.float64]
    quiet: NDArray[np.bool_]
    """bool[k]: the interval comes from min_yield or from the site's announced TTL."""
    ttl_holds: NDArray[np.bool_]
    """bool[k]: of those, the sites whose interval comes from the announced TTL."""
    stretch: NDArray[np.float64]
    by_host: NDArray[np.float64]
    """float64[hosts]: `stretch` of the sites of each host."""

    @property
    def total(self) -> float:
        """Attainable cost per second; inf without bounds or sites."""
        return self.of(slice(None)) if self.slots.size else np.inf

    def of(self, chosen: NDArray[np.bool_] | slice) -> float:
        """Returns the attainable cost per second of the chosen sites, bool[k]; inf without bounds."""
        return self._bounded(self.cost[chosen] / (self.interval[chosen] * self.stretch[chosen]))

    def polls_of(self, chosen: NDArray[np.bool_]) -> float:
        """Returns the attainable polls per second of the chosen sites, bool[k]; inf without bounds."""
        return self._bounded(1.0 / (self.interval[chosen] * self.stretch[chosen]))

    @staticmethod
    def _bounded(each: NDArray[np.float64]) -> float:
        total = float(each.sum())
        return total if total < _NO_BOUND else np.inf


@dataclass(frozen=True)
class HostLoad:
    """Summary of `AttainableRates` that is kept: a few bytes per host, nothing per site."""

    total: float
    by_host: NDArray[np.float64]

    def of(self, hosts: NDArray[np.int32]) -> NDArray[np.float64]:
        """Returns float64[k] >= 1: by which factor the hosts in slots int32[k] lengthen the intervals of their sites.

        1 for hosts that were added since.
        """
        stretch = np.ones(len(hosts))
        known = hosts < len(self.by_host)
        stretch[known] = self.by_host[hosts[known]]
        return stretch


def totals(
    sites: SiteTable, hosts: HostTable, settings: SchedulingSettings, *, whatever_is_believed: bool = False
) -> Generator[None, None, HostLoad]:
    """Computes the summary of `reach`, up to rounding. Yields after each piece of a long list, so that other tasks run.

    Updates during the computation may or may not be included.
    """
    believed = not (whatever_is_believed or sites.is_default("unchanged_until"))
    uniform_settings = not believed and sites.is_default("min_interval") and sites.is_default("cost")
    demand, spent, live = np.zeros(hosts.size), np.zeros(hosts.size), 0
    for part in _pieces(sites.size):
        eligible = sites.in_force(part) & sites.open_now(part)
        host = sites.host[part][eligible]
        live += len(host)
        if uniform_settings:
            demand = _added(demand, np.bincount(host) / max(settings.min_interval_seconds, _NO_INTERVAL))
        else:
            often = 1.0 / np.maximum(_intervals(sites, settings, part, believed)[0][eligible], _NO_INTERVAL)
            demand = _added(demand, np.bincount(host, often))
            spent = _added(spent, np.bincount(host, often * sites.cost[part][eligible]))
        yield
    by_host = np.maximum(demand * hosts.interval(slice(0, len(demand))), 1.0)
    total = float(((demand if uniform_settings else spent) / by_host).sum()) if live else np.inf
    return HostLoad(total if total < _NO_BOUND else np.inf, by_host)


def _pieces(rows: int) -> Iterator[slice]:
    return (slice(at, min(at + PIECE, rows)) for at in range(0, rows, PIECE))


def _added(sums: NDArray[np.float64], more: NDArray[Any]) -> NDArray[np.float64]:
    """Adds both arrays, with the length of the longer: hosts may be added meanwhile."""
    if len(more) > len(sums):
        sums, more = more.copy(), sums
    sums[: len(more)] += more
    return sums


def _intervals(
    sites: SiteTable, settings: SchedulingSettings, part: slice | NDArray[np.int64], believed: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns `AttainableRates.interval`, `quiet` and `ttl_holds`, [k] each, of those rows, gone sites included."""
    number = len(sites.site_id[part])
    interval = np.full(number, settings.min_interval_seconds)
    if not sites.is_default("min_interval"):
        own = sites.min_interval[part]
        interval = np.where(np.isnan(own), interval, own)
    quiet = ttl_holds = np.zeros(number, np.bool_)
    if believed:
        wait = sites.unchanged_waits(part)
        quiet = wait > interval
        ttl_holds = quiet & (sites.announced_ttl[part] >= wait)
        interval = np.maximum(interval, wait)
    return interval, quiet, ttl_holds


def reach(
    sites: SiteTable, hosts: HostTable, settings: SchedulingSettings, *, whatever_is_believed: bool = False
) -> AttainableRates:
    """Computes how often sites can be polled, as their intervals and hosts allow; those closed now cannot.

    The interval of a site is the longer of min_interval and the time for which it is believed unchanged
    (`unchanged_until`); the latter is ignored with `whatever_is_believed`. A short list under an ample budget is not
    polled at the budget's pace: an allocator that assumed it would expect gaps that never happen.
    """
    n = sites.size
    slots = np.flatnonzero(sites.in_force() & sites.open_now(slice(0, n)))
    part = slice(0, n) if len(slots) == n else slots  # a view of a million rows costs nothing
    believed = not (whatever_is_believed or sites.is_default("unchanged_until"))
    interval, quiet, ttl_holds = _intervals(sites, settings, part, believed)
    interval = np.maximum(interval, _NO_INTERVAL)
    host = sites.host[part]
    demand = np.bincount(host, 1.0 / interval, hosts.size)
    by_host = np.maximum(demand * hosts.interval(), 1.0)
    return AttainableRates(slots, sites.cost[part], interval, quiet, ttl_holds, by_host[host], by_host)


# Waiting sites: how many wait for what, and which limit binds.

_USED_WELL = 0.9
"""Share of the budget from which the budget itself is the binding limit."""


class PollLimit(StrEnum):
    """Limits that keep sites from being polled more often."""

    BUDGET = "budget"
    NO_SITES = "no_sites"
    PRIVATE = "private"
    FIRST_ANSWERS = "first_answers"
    HOST_INTERVAL = "host_interval"
    MIN_SAVING = "min_saving"
    MIN_YIELD = "min_yield"
    TTL = "ttl"
    MIN_INTERVAL = "min_interval"
    BACKOFF = "backoff"
    ROBOTS = "robots"
    BLOCKED = "blocked"
    CLOSED = "closed"
    PAUSED = "paused"
    GONE = "gone"


BY_BELIEF = frozenset({PollLimit.MIN_SAVING, PollLimit.MIN_YIELD})
"""Limits by what is believed of sites."""
_SPENT = frozenset({PollLimit.HOST_INTERVAL, *BY_BELIEF, PollLimit.TTL, PollLimit.MIN_INTERVAL})
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
    """Limited by min_saving or min_yield: probably unchanged for longer than min_interval."""
    saving: float = 0.0
    """What a poll of a site counted under `belief` has to save, s, their median; 0: nothing, min_yield limits them."""
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
    polls: float = field(default=0.0, compare=False)
    """Polls per second then."""

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
            (PollLimit.MIN_SAVING if self.saving > 0 else PollLimit.MIN_YIELD, self.belief),
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
        saving=_median_saving(sites, settings, allowed.slots[by_belief]),
        spendable=allowed.of(pollable[allowed.slots]),
        polls=allowed.polls_of(pollable[allowed.slots]),
        own_interval=_most(~np.isnan(sites.min_interval[allowed.slots[by_interval]])),
    )


def _median_saving(sites: SiteTable, settings: SchedulingSettings, slots: NDArray[np.int64]) -> float:
    if not len(slots):
        return 0.0
    savings = least_savings(sites.min_saving[slots], sites.min_yield[slots], settings.min_saving_seconds)
    return float(np.median(savings))


def at_private_addresses(sites: SiteTable) -> NDArray[np.bool_]:
    """Returns bool[size]: sites refused for a private address, and sites of the same hosts not yet polled."""
    n = sites.size
    refused = sites.private[:n]
    if sites.is_default("private") or not refused.any():
        return refused
    hosts = np.bincount(sites.host[:n][refused], minlength=int(sites.host[:n].max()) + 1) > 0
    return refused | (hosts[sites.host[:n]] & np.isneginf(sites.last_poll[:n]) & sites.occupied())


def _most(holds: NDArray[np.bool_]) -> bool:
    return bool(holds.size and holds.mean() > 0.5)
