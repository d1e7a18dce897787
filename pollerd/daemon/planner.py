"""The planner: the budget at which a share of changes is found in time, and the share that the current one finds."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.index import CrossingTimes, Delays, typical_rates
from pollerd.allocation.objectives import deadlines, priced_sites
from pollerd.allocation.periods import (
    Goal,
    PeriodBounds,
    Preference,
    Split,
    by_price,
    by_shares,
    by_urgency,
    gaps_around,
    plan,
)
from pollerd.daemon.forecast import SAMPLE_SITES, sample
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.unchanged import announced_waits, gate_bounds
from pollerd.errors import InvalidValueError
from pollerd.model import STATE_CODE, SiteState
from pollerd.planning import BudgetPlan, HeldBack, MeasuredDelays, PlanLimit, TagPlan
from pollerd.ranges import BUDGET, PLAN
from pollerd.scheduling.min_yield import SHORTEST_SECONDS, Bounds, Chances, chances
from pollerd.storage.history import HistoryStore
from pollerd.storage.tags import TagStore
from pollerd.texts import _

# Rows of a plan: sites as columns copied from the tables, all of a short list, a sample of a long one.

KNOWN_POLLS = 20
"""Polls from which on the rate of a site is known well enough for a plan."""
_MIN_CAPACITY = 1e-12
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
    told: NDArray[np.float64]
    """Seconds for which a site is left alone as it announces so, at most."""
    gate: Bounds
    """What a poll has to save, and the other bounds of the time for which a site is left alone by belief."""
    usual: NDArray[np.bool_]
    """Whether what a poll has to save is the daemon's min_saving, and not the site's own."""
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
    unchanged = sites.unchanged_waits(slots)
    told = np.zeros(len(slots)) if sites.is_default("announced_ttl") else announced_waits(scheduler, slots)
    used, host = np.unique(sites.host[slots], return_inverse=True)
    # a sample has a part of a host's sites, which are allowed that part of its polls
    here = np.bincount(host, minlength=len(used))
    site_counts = np.bincount(sites.host[: sites.size][live], minlength=hosts.size)[used]
    interval = hosts.interval()[used]
    with np.errstate(divide="ignore"):
        capacity = np.maximum(here / np.maximum(site_counts, 1) / interval, _MIN_CAPACITY)
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
        told=told,
        gate=gate_bounds(scheduler, slots),
        usual=np.isnan(sites.min_saving[slots]) & (sites.min_yield[slots] != 0),
        bounds=PeriodBounds(
            shortest=np.maximum(min_interval, unchanged),
            longest=np.where(np.isnan(longest), settings.max_interval_seconds, longest),
            capped=sites.changes_always(slots),
            host=host.astype(np.int64),
            capacity=capacity,
        ),
        host_interval=interval,
    )


# Beliefs of a plan: rates and urgencies of the allocator in force, read while the loop runs.

_PIECE = 1_024
"""Sites whose beliefs are read between two turns of the loop: a millisecond or two."""


@dataclass(frozen=True)
class PlanBeliefs:
    """What the allocator wants and believes of k rows."""

    rates: NDArray[np.float64]
    """float64[k] expected changes of a site per second; nan: not estimated."""
    preference: Callable[[], Preference]
    """Works out how often it wants to poll: for a thread, takes up to a second."""
    chances: Chances
    """Of changes of each row, from a second on."""

    @property
    def estimated(self) -> bool:
        """Whether any rate is estimated."""
        return not bool(np.isnan(self.rates).all())


async def plan_beliefs(scheduler: SchedulerState, rows: PlanRows) -> PlanBeliefs:
    """Returns what the allocator in force believes; no slot may be reused meanwhile."""
    allocator, slots, objective = scheduler.allocator, rows.slots, scheduler.objective
    chances = await _chances_of(allocator, slots, rows.gate.longest)
    if not len(slots):
        return PlanBeliefs(np.empty(0), lambda: by_shares(np.empty(0)), chances)
    belief = await _belief_of(allocator, slots)
    rates = typical_rates(belief)
    if allocator.polls_at_price:
        settings = rows.weight, rows.cost, rows.half_life, np.zeros(len(slots))
        return PlanBeliefs(rates, lambda: by_price(priced_sites(belief, *settings, objective, rows.deadline)), chances)
    shares = allocator.shares(slots)
    if shares is not None:
        return PlanBeliefs(rates, lambda: by_shares(shares), chances)
    cycle = float((rows.cost * rows.sites).sum()) / scheduler.budget
    starvation, at = allocator.starvation_gap * allocator.budget, float(rows.last_poll.max(initial=0.0))
    gaps = gaps_around(cycle, allocator.starvation_gap, allocator.urgency_jumps)
    table = await _urgencies(allocator, slots, gaps, at)
    return PlanBeliefs(rates, lambda: by_urgency(table, starvation), chances)


async def _chances_of(allocator: Allocator, slots: NDArray[np.int64], longest: NDArray[np.float64]) -> Chances:
    """Returns the chances of changes of the slots int64[k], read in pieces, up to gaps float64[k] s."""
    parts = [chances(allocator, slots[:0], np.empty(0), np.empty(0))]
    for at in range(0, len(slots), _PIECE):
        some = slice(at, at + _PIECE)
        parts.append(chances(allocator, slots[some], np.full(len(slots[some]), SHORTEST_SECONDS), longest[some]))
        await asyncio.sleep(0)
    log_gaps, expected = (np.concatenate([getattr(part, name) for part in parts]) for name in ("log_gaps", "expected"))
    return Chances(log_gaps, expected)


async def _belief_of(allocator: Allocator, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns `Allocator.belief_of` of the slots int64[k], read in pieces."""
    parts = []
    for at in range(0, len(slots), _PIECE):
        parts.append(allocator.belief_of(slots[at : at + _PIECE]))
        await asyncio.sleep(0)
    rates, shares = zip(*parts, strict=True)
    if rates[0].shape[1] == 1:
        return np.concatenate(rates), np.concatenate(shares)
    if all(np.array_equal(rate, rates[0]) for rate in rates):
        return rates[0], np.concatenate(shares)
    return allocator.belief_of(slots)  # its grid of rates changed meanwhile, which is rare


async def _urgencies(
    allocator: Allocator, slots: NDArray[np.int64], gaps: NDArray[np.float64], at: float
) -> CrossingTimes:
    """Returns the urgencies of the slots int64[k] at gaps float64[m] s, read in pieces; at: epoch s."""
    table = np.empty((len(slots), len(gaps)), np.float32)
    for begin in range(0, len(slots), _PIECE):
        some = slots[begin : begin + _PIECE]
        for column, gap in enumerate(gaps):
            urgency = allocator.urgency_of(some, np.full(len(some), gap), at)
            table[begin : begin + _PIECE, column] = np.fmax(urgency, 0.0)
            await asyncio.sleep(0)
    return CrossingTimes(gaps, table)


# Limits: what keeps which sites from being polled often enough, whatever the budget.

_LONGER = 1 + 1e-6
"""Factor by which a period must exceed what the site itself allows, for its host to be the reason."""


def held_back(
    rows: PlanRows, unlimited: NDArray[np.float64], changes: NDArray[np.float64], within: float
) -> tuple[HeldBack, ...]:
    """Returns what holds back the sites that count, the limits by which most changes are missed first.

    unlimited: float64[k] s, periods if polls cost nothing; changes: float64[k], expected changes per second.
    """
    with np.errstate(invalid="ignore"):
        missed = np.where(rows.asked, changes * np.maximum(1.0 - within / unlimited, 0.0), 0.0)
    total = float(changes.sum(where=rows.asked))
    items = []
    left = missed > 0
    for limit, holds, span in _limits(rows, unlimited):
        held = left & holds
        left &= ~holds
        if held.any():
            hosts = np.unique(rows.bounds.host[held])
            spans = rows.host_interval[hosts] if limit is PlanLimit.HOST_INTERVAL else span[held]
            typical = float(np.median(spans))
            items.append(
                HeldBack(
                    limit=limit,
                    sites=round(float(rows.sites[held].sum())),
                    hosts=len(hosts),
                    seconds=typical if math.isfinite(typical) else None,
                    share=float(missed[held].sum()) / total,
                )
            )
    return tuple(sorted(items, key=lambda item: -item.share))


def _limits(
    rows: PlanRows, unlimited: NDArray[np.float64]
) -> tuple[tuple[PlanLimit, NDArray[np.bool_], NDArray[np.float64]], ...]:
    """Returns each limit, which rows it holds, bool[k], and how long, float64[k] s; the first one counts."""
    by_itself = np.maximum(rows.bounds.shortest, np.finfo(np.float64).tiny)
    quiet = rows.unchanged > rows.min_interval
    everyone = np.ones(len(unlimited), np.bool_)
    return (
        (PlanLimit.NEVER_POLLED, np.isinf(unlimited), unlimited),
        (PlanLimit.HOST_INTERVAL, unlimited > by_itself * _LONGER, unlimited),
        (PlanLimit.TTL, rows.announced, rows.unchanged),
        (PlanLimit.MIN_SAVING, quiet & (rows.gate.saving > 0), rows.unchanged),
        (PlanLimit.MIN_YIELD, quiet, rows.unchanged),
        (PlanLimit.MIN_INTERVAL, everyone, rows.min_interval),
    )


# Delays by tag: as expected at the current budget, and as measured.

MOST_TAGS = 50
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class DatedDelays:
    """Delays of changes whose date the page named, float64[m] s, and their sites, int64[m]."""

    site_id: NDArray[np.int64]
    seconds: NDArray[np.float64]

    def of(self, site_ids: NDArray[np.int64]) -> DatedDelays:
        """Returns those of these sites, int64[k]."""
        listed = np.isin(self.site_id, site_ids)
        return DatedDelays(self.site_id[listed], self.seconds[listed])

    def measured(self) -> MeasuredDelays | None:
        """Returns their median and 90th percentile; None: there are none."""
        if not len(self.seconds):
            return None
        median, p90 = np.quantile(self.seconds, [0.5, 0.9]).tolist()
        return MeasuredDelays(len(self.seconds), median, p90)


@dataclass(frozen=True)
class ExpectedDelays:
    """Periods float64[k] s and changes float64[k] per second of k rows."""

    periods: NDArray[np.float64]
    changes: NDArray[np.float64]
    estimated: bool
    """Whether the changes are estimated."""


def tag_plans(
    rows: PlanRows, expected: ExpectedDelays, tags: Sequence[tuple[int, str]], dated: DatedDelays, within: float
) -> tuple[TagPlan, ...]:
    """Returns the plan of each tag, those with most sites first; tags: a row for each site and tag, in any order."""
    if not tags or not len(rows.slots):
        return ()
    ids, words = zip(*tags, strict=True)
    site_id = np.array(ids, np.int64)
    names, of = np.unique(np.array(words), return_inverse=True)
    order = np.argsort(rows.site_id)
    row = order[np.minimum(np.searchsorted(rows.site_id, site_id, sorter=order), len(order) - 1)]
    at_site = rows.site_id[row] == site_id
    number = np.bincount(of[at_site], rows.sites[row[at_site]], len(names))
    known = np.flatnonzero(number)
    plans = []
    for tag in known[np.argsort(-number[known], kind="stable")][:MOST_TAGS].tolist():
        mine = row[at_site & (of == tag)]
        changes = expected.changes[mine]
        delays = Delays(expected.periods[mine], changes)
        plans.append(
            TagPlan(
                tag=str(names[tag]),
                sites=rounded(rows.sites[mine]),
                changes_per_day=per_day(changes) if expected.estimated else None,
                share=finite(delays.share(within)),
                delay_median=finite(delays.quantile(0.5)),
                delay_p90=finite(delays.quantile(0.9)),
                measured=dated.of(site_id[of == tag]).measured(),
            )
        )
    return tuple(plans)


def per_day(changes: NDArray[np.float64]) -> float:
    """Returns the changes a day of rows with so many per second."""
    return float(changes.sum()) * _DAY_SECONDS


def rounded(sites: NDArray[np.float64]) -> int:
    """Returns how many sites the rows stand for together."""
    return round(float(sites.sum()))


def finite(value: float) -> float | None:
    """Returns the number, None if it is none or infinite."""
    return value if math.isfinite(value) else None


DATED_CHANGES = 20_000
"""Newest changes among which those with a date are sought."""


@dataclass(frozen=True)
class _Periods:
    """The periods float64[k] s at today's budget, the changes float64[k] per second of each row, and the answer."""

    now: NDArray[np.float64]
    changes: NDArray[np.float64]
    needed: float | None
    most: float
    limits: tuple[HeldBack, ...]
    checks: float | None = None
    saving: float | None = None

    def expected(self, estimated: bool) -> ExpectedDelays:
        """Returns what follows for the delays; estimated: whether the changes are, or all sites count alike."""
        return ExpectedDelays(self.now, self.changes, estimated)


class Planner:
    """Plans for the objective and the allocator in force, one plan at a time."""

    def __init__(self, *, scheduler: SchedulerState, tags: TagStore, history: HistoryStore) -> None:
        self._scheduler, self._tags, self._history = scheduler, tags, history
        self._turn = asyncio.Lock()

    async def plan(self, share: float, within: float, tag: str | None = None) -> BudgetPlan:
        """Returns the budget by which a share of the changes is learned of within so many seconds, and what today's
        brings.

        tag: only changes of sites with this tag count. Works in a thread; other plans wait. Raises InvalidValueError
        for numbers out of range and for a tag of no polled site, DatabaseUnavailableError.
        """
        PLAN["share"].check(share)
        PLAN["within"].check(within)
        async with self._turn:
            tagged = None if tag is None else await self._tags.ids_tagged(tag)
            scheduler = self._scheduler
            async with scheduler.changing_sites:  # the slots stay those of the same sites
                rows = plan_rows(scheduler, tagged)
                if tag is not None and not rows.asked.any():
                    raise InvalidValueError("tag", _("the tag of a site that is polled"), tag)
                beliefs = await plan_beliefs(scheduler, rows)
                budget, objective, name = scheduler.budget, scheduler.objective, scheduler.allocator_name
                deadline, saving = scheduler.deadline, scheduler.settings.min_saving_seconds
            periods = await asyncio.to_thread(_periods, rows, beliefs, Goal(share, within), budget, saving)
            delays = DatedDelays(*await self._history.dated_delays(DATED_CHANGES))
            tags = await self._tags.among(np.union1d(rows.site_id, delays.site_id).tolist())
            estimated = beliefs.estimated
            by_tag = await asyncio.to_thread(tag_plans, rows, periods.expected(estimated), tags, delays, within)
            now = Delays(periods.now[rows.asked], periods.changes[rows.asked])
            return BudgetPlan(
                objective=objective,
                allocator=name,
                tag=tag,
                share=share,
                within=within,
                budget=periods.needed,
                most=finite(periods.most),
                limits=periods.limits,
                checks_per_day=periods.checks,
                min_saving=periods.saving,
                current_checks_per_day=checks_a_day(rows, periods.now),
                current_min_saving=saving,
                median_weight=float(np.median(rows.weight)) if len(rows.weight) else None,
                current_budget=budget,
                current_share=finite(now.share(within)),
                delay_median=finite(now.quantile(0.5)),
                delay_p90=finite(now.quantile(0.9)),
                measured=(delays if tagged is None else delays.of(tagged)).measured(),
                sites=rounded(rows.sites[rows.asked]),
                changes_per_day=per_day(periods.changes[rows.asked]) if estimated else None,
                seldom_polled=rounded(rows.sites[rows.asked & (rows.polls < KNOWN_POLLS)]),
                sampled=rows.sampled,
                by_tag=by_tag,
                deadline=deadline if objective == "deadline" else None,
            )


def _periods(rows: PlanRows, beliefs: PlanBeliefs, goal: Goal, budget: float, saving: float) -> _Periods:
    estimated = beliefs.estimated
    rates = np.nan_to_num(beliefs.rates) if estimated else np.ones(len(rows.slots))
    changes = rates * rows.sites
    if not rows.asked.any():
        return _Periods(np.empty(0), changes, None, math.nan, ())
    split = Split(beliefs.preference(), rows.bounds, rows.cost, rows.sites)
    counting = np.where(rows.asked, changes, 0.0)
    periods = plan(split, counting, goal, budget, (BUDGET.lowest, BUDGET.highest))
    most = Delays(periods.unlimited, counting).share(goal.within)
    limits: tuple[HeldBack, ...] = ()
    if periods.needed is None and most < goal.share:
        limits = held_back(rows, periods.unlimited, changes, goal.within)
    elif periods.needed is None and not math.isnan(most):
        limits = (HeldBack(PlanLimit.LARGEST_BUDGET, rounded(rows.sites[rows.asked]), 0, None, most - goal.share),)
    checks, least = None, None
    if periods.needed is not None:
        checks = checks_a_day(rows, split.periods(periods.needed))
    elif saving > _LEAST_SAVING and any(limit.limit is PlanLimit.MIN_SAVING for limit in limits):
        checks, least = _less_saving(split, rows, beliefs.chances, counting, goal, saving)
    return _Periods(periods.now, changes, periods.needed, most, limits, checks, least)


def checks_a_day(rows: PlanRows, periods: NDArray[np.float64]) -> float:
    """Returns the polls a day of all rows with these periods, float64[k] s."""
    return float((rows.sites / periods).sum()) * _DAY_SECONDS


_STEPS = 40
"""Halvings of the logarithm of a min_saving: more than any number has digits."""
_LEAST_SAVING = 1e-3
_CAREFUL = 0.95
"""Share of the largest min_saving that is told: it is rounded, and the chances of the daemon are as of each poll."""


def _less_saving(
    split: Split,
    rows: PlanRows,
    chances: Chances,
    changes: NDArray[np.float64],
    goal: Goal,
    saving: float,
) -> tuple[float, float] | tuple[None, None]:
    """Returns the polls a day, and the largest min_saving below `saving` (s), with which the goal is reached; or None.

    The budget has to allow these polls.
    """

    def periods(least: float) -> NDArray[np.float64]:
        scaled = np.where(rows.usual, rows.gate.saving * (least / saving), rows.gate.saving)
        wait = chances.waits(replace(rows.gate, saving=scaled))[0]
        shortest = np.maximum(np.maximum(rows.min_interval, rows.told), np.where(rows.usual, wait, rows.unchanged))
        return split.within(replace(rows.bounds, shortest=shortest)).unlimited()

    def reached(least: float) -> bool:
        return Delays(periods(least), changes).share(goal.within) >= goal.share

    low, high = math.log(_LEAST_SAVING), math.log(saving)
    if not reached(math.exp(low)):
        return None, None
    for _step in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(math.exp(middle)) else (low, middle)
    least = _CAREFUL * math.exp(low)
    return checks_a_day(rows, periods(least)), least
