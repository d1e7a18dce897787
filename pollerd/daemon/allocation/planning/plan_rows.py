"""The sites of a plan, as columns copied from the tables: all of a short list, a sample of a long one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.objectives.priced_sites import deadlines
from pollerd.allocation.core.split import PeriodBounds
from pollerd.daemon.allocation.forecast import SAMPLE_SITES, sample
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.model import STATE_CODE, SiteState

KNOWN_POLLS = 20
"""Polls from which on the rate of a site is known well enough for a plan."""
_LEAST_CAPACITY = 1e-12
_BLOCKED = STATE_CODE[SiteState.BLOCKED]


@dataclass(frozen=True)
class PlanRows:
    """k sites that take part in the plan, float64[k] where nothing else is said."""

    slots: NDArray[np.int64]
    site_id: NDArray[np.int64]
    sites: NDArray[np.float64]
    """How many sites each row stands for."""
    asked: NDArray[np.bool_]
    """Whose changes count."""
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    half_life: NDArray[np.float64]
    deadline: NDArray[np.float64]
    """Seconds, with the default for those without their own."""
    polls: NDArray[np.int32]
    last_poll: NDArray[np.float64]
    """Epoch s; -inf: never."""
    min_interval: NDArray[np.float64]
    unchanged: NDArray[np.float64]
    """Seconds for which a site is left alone after a poll, by belief or by what it announces."""
    announced: NDArray[np.bool_]
    """Whether that is what it announces."""
    bounds: PeriodBounds
    host_interval: NDArray[np.float64]
    """float64[h] s between two requests, of the hosts that `bounds.host` counts."""

    @property
    def sampled(self) -> bool:
        """Whether rows stand for more than themselves."""
        return bool((self.sites > 1.0).any())


def plan_rows(scheduler: SchedulerState, tagged: NDArray[np.int64] | None) -> PlanRows:
    """Returns the rows of the plan; tagged: ids of the sites whose changes count, int64[m], None: all.

    Sites that are paused, gone, closed now or blocked do not take part. Of a long list, half of a sample at least is
    of the sites whose changes count.
    """
    sites = scheduler.sites
    live = scheduler.live() & (sites.state[: sites.size] != _BLOCKED)
    if tagged is None:
        slots = sample(live)
        return _rows(
            scheduler, live, slots, np.full(len(slots), _stands_for(live, slots)), np.ones(len(slots), np.bool_)
        )
    counting = np.zeros(len(live), np.bool_)
    known = sites.slots_of(tagged)
    counting[known[known >= 0]] = True
    asked, others = _half(live & counting), _half(live & ~counting)
    numbers = np.repeat(
        [_stands_for(live & counting, asked), _stands_for(live & ~counting, others)], [len(asked), len(others)]
    )
    of_asked = np.repeat([True, False], [len(asked), len(others)])
    return _rows(scheduler, live, np.concatenate([asked, others]), numbers, of_asked)


def _half(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    return sample(chosen, SAMPLE_SITES // 2)


def _stands_for(chosen: NDArray[np.bool_], slots: NDArray[np.int64]) -> float:
    return float(np.count_nonzero(chosen)) / max(len(slots), 1)


def _rows(
    scheduler: SchedulerState,
    live: NDArray[np.bool_],
    slots: NDArray[np.int64],
    number: NDArray[np.float64],
    asked: NDArray[np.bool_],
) -> PlanRows:
    sites, hosts, settings = scheduler.sites, scheduler.hosts, scheduler.settings
    own, longest = sites.min_interval[slots], sites.max_interval[slots]
    min_interval = np.where(np.isnan(own), settings.min_interval_seconds, own)
    unchanged = sites.quiet_waits(slots)
    used, host = np.unique(sites.host[slots], return_inverse=True)
    # a sample has a part of a host's sites, which are allowed that part of its polls
    here = np.bincount(host, minlength=len(used))
    there = np.bincount(sites.host[: sites.size][live], minlength=hosts.size)[used]
    interval = hosts.interval()[used]
    with np.errstate(divide="ignore"):
        capacity = np.maximum(here / np.maximum(there, 1) / interval, _LEAST_CAPACITY)
    return PlanRows(
        slots=slots,
        site_id=sites.site_id[slots],
        sites=number,
        asked=asked,
        weight=sites.weight[slots],
        cost=sites.cost[slots],
        half_life=sites.half_lives(slots),
        deadline=deadlines(sites.deadline[slots], scheduler.deadline),
        polls=sites.polls[slots],
        last_poll=sites.last_poll[slots],
        min_interval=min_interval,
        unchanged=unchanged,
        announced=(unchanged > min_interval) & (sites.announced_ttl[slots] >= unchanged),
        bounds=PeriodBounds(
            shortest=np.maximum(min_interval, unchanged),
            longest=np.where(np.isnan(longest), settings.max_interval_seconds, longest),
            capped=sites.changes_always(slots),
            host=host.astype(np.int64),
            capacity=capacity,
        ),
        host_interval=interval,
    )
