"""Explanations of the schedule: when a site is polled next, why not now, and what limits polling as a whole."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pollerd import quantities
from pollerd.allocation.coming_changes import coming_changes
from pollerd.allocation.index import DEFAULT_HALF_LIFE_S, typical_rates
from pollerd.columns import chunks
from pollerd.daemon.budget import BudgetMeter
from pollerd.daemon.calibration import CalibrationSums
from pollerd.daemon.forecast import Forecast, sample
from pollerd.daemon.proofs import WHOLE_PAGE
from pollerd.daemon.prover import StillNoise
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.signals import SignalYield
from pollerd.daemon.stages import SiteCache
from pollerd.daemon.unchanged import AT_ONCE, announced_waits, saving_of
from pollerd.daemon.views import (
    AllocationView,
    BenefitPointView,
    ComingChangesView,
    ExplanationView,
    FeedView,
    LiveSite,
    NoiseView,
    ShadowView,
    SignalYieldView,
    WaitsFor,
)
from pollerd.detection.noise.learning import noise_of_pair, refused_rules, rules_of
from pollerd.errors import HolderUnavailableError, NotFoundError
from pollerd.inheritance import DEFAULT, effective
from pollerd.model import STATES, FeedWindow, SiteState
from pollerd.scheduling.capacity import PollLimit, Waiting, at_private_addresses, waiting
from pollerd.scheduling.eligibility import LONG
from pollerd.scheduling.min_yield import least_savings
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.storage.sites import SiteStore
from pollerd.storage.values import SiteContext
from pollerd.texts import N_, _, n_

# The binding limit, in words, for the status line, /allocation and doctor.

POLLS_TO_PREDICT = 5
"""Polls of a site before its coming changes are predicted."""
SHARE = 0.02
"""Largest share of the time spent on finding the binding limit; for long lists the answer is some seconds old."""
_REMEDIES = {
    PollLimit.MIN_YIELD: N_("a lower min-yield finds changes sooner"),
    PollLimit.TTL: N_("most sites ask not to be polled sooner (respect-ttl is on)"),
}


_PACED = frozenset({PollLimit.MIN_INTERVAL, PollLimit.HOST_INTERVAL})
"""What binds where no site is left alone."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The binding limit, and the setting behind it."""

    limit: PollLimit
    reason: str | None
    """None: the budget itself binds."""
    private: str | None = None
    """Notice about sites at private addresses, given whatever limit binds."""
    closed: str | None = None
    """Notice about sites outside of their windows, given whatever limit binds."""

    def in_short(self) -> str | None:
        """Returns the text for a line that also shows the rate; None: there is nothing to report."""
        unspent = self.limit in _REMEDIES or self.limit is PollLimit.MIN_SAVING
        reason = _("budget not used up: {reason}", reason=self.reason) if unspent else self.reason
        return ", ".join(dict.fromkeys(text for text in (reason, self.private, self.closed) if text)) or None

    def in_full(self, rate: float, budget: float) -> str:
        """Returns the full text for the user; rate and budget in polls per second."""
        if self.limit is PollLimit.NO_SITES:
            return _("no sites to poll")
        used = f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"
        reasons = ", ".join(dict.fromkeys(text for text in (self.reason, self.private, self.closed) if text))
        if self.reason is not None:
            unspent = N_("the budget is not used up ({used} of {budget:g} polls/s): {reasons}")
            return _(unspent, used=used, budget=budget, reasons=reasons)
        spent = N_("the budget is the limit ({used} of {budget:g} polls/s): a larger one finds changes sooner")
        text = _(spent, used=used, budget=budget)
        return f"{text}; {reasons}" if reasons else text


class BindingWatch:
    """Counts the sites by what they wait for, within `SHARE` of the time.

    A long list is counted in a thread while polling continues; meanwhile the previous count is reported.
    """

    def __init__(self, *, scheduler: SchedulerState, meter: BudgetMeter, clock: Callable[[], float]) -> None:
        self._scheduler, self._meter, self._clock = scheduler, meter, clock
        self._waiting: Waiting | None = None
        self._due = 0.0
        self._counting: asyncio.Task[Waiting] | None = None

    async def ready(self) -> None:
        """Makes the first count of a long list in a thread, so that `now` does not block the loop for seconds."""
        if self._waiting is None and self._scheduler.sites.size > LONG:
            self._waiting = await asyncio.to_thread(self._count, self._clock())

    def now(self) -> Binding:
        """Returns the binding limit; for long lists it is some seconds old. The first call counts at once."""
        counts, scheduler = self._counted(), self._scheduler
        bound = binding(counts, scheduler.settings, self._meter.rate(), scheduler.budget)
        shows_saving = scheduler.settings.min_saving_seconds and bound.limit in _PACED
        if not shows_saving or scheduler.estimates_chances():
            return bound
        without = _(
            "{allocator_name} does not estimate chances of changes: --min-saving has no effect",
            allocator_name=scheduler.allocator_name,
        )
        return replace(bound, reason=f"{bound.reason}; {without}")

    def _counted(self) -> Waiting:
        if self._counting is not None and self._counting.done():
            self._waiting, self._counting = self._counting.result(), None
        if self._waiting is None or (time.monotonic() >= self._due and self._scheduler.sites.size <= LONG):
            self._waiting = self._count(self._clock())
        elif time.monotonic() >= self._due and self._counting is None:
            self._counting = asyncio.create_task(asyncio.to_thread(self._count, self._clock()), name="count_waiting")
        return self._waiting

    def _count(self, at: float) -> Waiting:
        scheduler, began = self._scheduler, time.monotonic()
        counts = waiting(scheduler.sites, scheduler.hosts, scheduler.settings, at)
        now = time.monotonic()
        self._due = now + (now - began) * (1 / SHARE - 1)
        return counts


def binding(waiting: Waiting, settings: SchedulingSettings, rate: float, budget: float) -> Binding:
    """Returns the binding limit for these counts; `rate` of the budget is used, both in cost per second."""
    limit = waiting.binding(rate, budget)
    private = _private(waiting.private) if waiting.private else None
    closed = _closed(waiting.closed) if waiting.closed else None
    reason = private if limit is PollLimit.PRIVATE else _reason(limit, waiting, settings)
    return Binding(limit, reason, private, closed)


def _reason(limit: PollLimit, waiting: Waiting, settings: SchedulingSettings) -> str | None:
    reasons = {
        PollLimit.NO_SITES: _("no sites: add one with `pollerd sites add URL`"),
        PollLimit.FIRST_ANSWERS: _("waiting for the first answers"),
        PollLimit.HOST_INTERVAL: _hosts(waiting, settings),
        PollLimit.MIN_SAVING: _saving(waiting),
        PollLimit.MIN_INTERVAL: _interval(waiting, settings),
        PollLimit.BACKOFF: n_(
            "{count} site waits after failures", "{count} sites wait after failures", waiting.backing_off
        ),
        PollLimit.ROBOTS: n_(
            "{count} site waits because its robots.txt cannot be fetched",
            "{count} sites wait because their robots.txt cannot be fetched",
            waiting.unreachable,
        ),
        PollLimit.BLOCKED: n_(
            "{count} site is blocked by robots.txt or its address",
            "{count} sites are blocked by robots.txt or their address",
            waiting.blocked,
        ),
        PollLimit.CLOSED: _closed(waiting.closed),
        PollLimit.PAUSED: n_("{count} site is paused", "{count} sites are paused", waiting.paused),
        PollLimit.GONE: n_("{count} site is gone", "{count} sites are gone", waiting.gone),
        **{limit: _(remedy) for limit, remedy in _REMEDIES.items()},
    }
    return reasons.get(limit)


def _private(sites: int) -> str:
    return n_(
        "{count} site is at a private address (--allow-private)",
        "{count} sites are at private addresses (--allow-private)",
        sites,
    )


def _closed(sites: int) -> str:
    return n_("{count} site is outside its polling hours", "{count} sites are outside their polling hours", sites)


def _hosts(waiting: Waiting, settings: SchedulingSettings) -> str:
    if waiting.crawl_delay:
        return n_(
            "{count} host limits polls by a Crawl-delay in robots.txt",
            "{count} hosts limit polls by a Crawl-delay in robots.txt",
            waiting.hosts,
        )
    return n_(
        "{count} host is polled at most every {interval} (--host-interval)",
        "{count} hosts are polled at most every {interval} each (--host-interval)",
        waiting.hosts,
        interval=quantities.duration(settings.host_interval_seconds),
    )


def _saving(waiting: Waiting) -> str:
    a_day = waiting.polls * DAY_SECONDS
    return _(
        "a check must be expected to save {saving} (--min-saving), which makes {a_day:,.{decimals}f} checks a day",
        saving=quantities.duration(waiting.saving),
        a_day=a_day,
        decimals=0 if a_day >= 10 else 1,
    )


def _interval(waiting: Waiting, settings: SchedulingSettings) -> str:
    if waiting.own_interval:
        return _("sites wait for their own minimum interval")
    return _(
        "each site is polled at most every {interval} (--min-interval)",
        interval=quantities.duration(settings.min_interval_seconds),
    )


_WAITS = {
    WaitsFor.RESUME: N_("paused by the user"),
    WaitsFor.GONE: N_("the server said 410 Gone; it is requested again at {moment}"),
    WaitsFor.ITS_POLL: N_("a poll is under way"),
    WaitsFor.WINDOW: N_("closed until {moment}: windows"),
    WaitsFor.ALLOW_PRIVATE: N_("its address is private, and pollerd runs without --allow-private"),
    WaitsFor.READING: N_("reading its page takes long: not before {moment}"),
    WaitsFor.RETRY: N_("{state} after {failures}"),
    WaitsFor.HOST_RESUME: N_("its host was paused by hand"),
    WaitsFor.HOST_PAUSE: N_("the host asked to be left alone"),
    WaitsFor.ROBOTS: N_("robots.txt is unreachable"),
    WaitsFor.HOST_REQUEST: N_("another request to the host is under way"),
    WaitsFor.HOST_INTERVAL: N_("the host's interval is not over"),
    WaitsFor.CONFIRMATION: N_("its change waits for a second poll, which shows whether it is only noise"),
    WaitsFor.UNIFORM_SHARE: N_("held to the uniform share: it changes at nearly every poll"),
    WaitsFor.MAX_AGE: N_("its max-age or ttl holds until {moment}: respect-ttl"),
    WaitsFor.LIKELIER_CHANGE: N_("probably unchanged until {moment}: {least_in_words}"),
    WaitsFor.MIN_INTERVAL: N_("its min_interval is not over"),
}
_NEVER = {
    WaitsFor.WINDOW: N_("closed: its windows never open"),
    WaitsFor.MAX_AGE: N_("its max-age or ttl holds for ever: respect-ttl"),
    WaitsFor.LIKELIER_CHANGE: N_("no change of it is worth a poll (weight, min-saving, min-yield)"),
}
"""The same if there is no such moment."""


DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3_600.0


class ScheduleExplainer:
    """Read-only views of the schedule under the allocator's current belief."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        meter: BudgetMeter,
        forecast: Forecast,
        calibration: CalibrationSums,
        shadows: Callable[[], tuple[ShadowView, ...]],
        signal_yield: SignalYield,
        clock: Callable[[], float],
    ) -> None:
        """`shadows`: returns the views of the shadows."""
        self._scheduler, self._meter, self._forecast = scheduler, meter, forecast
        self._calibration, self._shadows, self._clock = calibration, shadows, clock
        self._signal_yield = signal_yield
        self._sample: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, np.int64))
        self.binding = BindingWatch(scheduler=scheduler, meter=meter, clock=clock)

    async def begin_anew(self) -> None:
        """Recomputes the forecast after a change of budget, objective or allocator."""
        await self._forecast.begin_anew()

    def forget_predictions(self) -> None:
        """Restarts the calibration for a new active allocator."""
        self._calibration.begin_anew()

    def live(self, site_ids: Sequence[int]) -> dict[int, LiveSite]:
        """Returns the in-memory values of the sites; unknown sites are left out."""
        sites, now = self._scheduler.sites, self._clock()
        slots = sites.slots_of(np.array(site_ids, np.int64))
        known = slots[slots >= 0]
        # Before polls gave evidence on a site the belief is the prior.
        met = known[np.isfinite(sites.last_seen[known]) & (sites.polls[known] > 1)]
        rates: dict[int, float] = {}
        if met.size:
            typical = typical_rates(self._scheduler.allocator.belief_of(met))
            rates = dict(zip(met.tolist(), typical.tolist(), strict=True))
        live_sites = {}
        for slot, floor in zip(known.tolist(), self._scheduler.floors(known).tolist(), strict=True):
            earliest, rate = self._earliest(slot, floor), rates.get(slot)
            live_sites[int(sites.site_id[slot])] = LiveSite(
                None if rate is None else _number(rate * DAY_SECONDS),
                None if earliest is None else max(earliest, now),
                _number(float(sites.learned_half_life[slot])),
                bool(sites.asap[slot]),
            )
        return live_sites

    def is_half_life_learned(self, site_id: int) -> bool:
        """Returns whether a half-life learned from reads is in force for the site."""
        sites = self._scheduler.sites
        slot = sites.slot_of(site_id)
        return slot is not None and math.isnan(sites.half_life[slot]) and not math.isnan(sites.learned_half_life[slot])

    def explain(self, site_id: int) -> ExplanationView | None:
        """Returns everything that decides when the site is polled; None for an unknown site."""
        sites, allocator, now = self._scheduler.sites, self._scheduler.allocator, self._clock()
        slot = sites.slot_of(site_id)
        if slot is None:
            return None
        slots = np.array([slot], np.int64)
        elapsed = sites.elapsed_of(slots, now)
        urgency = float(allocator.urgency_of(slots, elapsed, now)[0])
        low, high = allocator.rate_interval(slots)
        period = _number(self._forecast.period(slot))
        earliest = self._earliest(slot, float(self._scheduler.floors(slots)[0]))
        soon = None if earliest is None else max(earliest, now)
        expected = None if soon is None or period is None else max(soon, float(sites.last_poll[slot]) + period)
        expected = None if expected is None else self._once_open(slot, expected)
        waits = self._waits_for(slot, earliest, now)
        return ExplanationView(
            site_id=site_id,
            allocator=self._scheduler.allocator_name,
            objective=self._scheduler.objective,
            rate_per_day=_number(float(typical_rates(allocator.belief_of(slots))[0]) * DAY_SECONDS),
            rate_low_per_day=_number(float(low[0]) * DAY_SECONDS),
            rate_high_per_day=_number(float(high[0]) * DAY_SECONDS),
            elapsed=_number(float(elapsed[0])),
            change_probability=_number(float(allocator.change_probability(slots, elapsed)[0])),
            urgency=_number(urgency),
            rank=self._rank(urgency, now) if math.isfinite(urgency) else None,
            price=self._forecast.figures().benefit.price,
            budget_share=None if period is None else _number(float(sites.cost[slot]) / period / self._scheduler.budget),
            expected_interval=period,
            next_poll_at=soon,
            next_expected_poll_at=_number(expected),
            believed_unchanged_until=self._quiet_until(slot, now),
            announced_ttl=float(sites.announced_ttl[slot]) or None,
            why_not_now=None if waits is None else self._waits_in_words(slot, waits, earliest, now),
            capped_to_uniform=self._is_capped(slot),
            failures=int(sites.failures[slot]),
            notes=allocator.notes(slot),
            host=self._scheduler.host_name(slot),
            host_override=self._scheduler.hosts.overrides.get(int(sites.host[slot])),
            min_saving_in_force=_number(float(saving_of(self._scheduler, slots)[0])),
            half_life_in_force=float(np.nan_to_num(sites.half_lives(slots)[0], nan=DEFAULT_HALF_LIFE_S)),
            next_30_days=self._next_30_days(slot),
            waits_for=waits,
        )

    def _next_30_days(self, slot: int) -> ComingChangesView | None:
        """Returns how many changes are to come; None before there is evidence, and if the policy has no rates."""
        if self._scheduler.sites.polls[slot] < POLLS_TO_PREDICT:
            return None
        rates, weights = self._scheduler.allocator.belief_of(np.array([slot], np.int64))
        if not (np.isfinite(weights).all() and np.isfinite(rates).all() and (rates > 0).all()):
            return None
        low, median, high = coming_changes(rates, weights, 30 * DAY_SECONDS)
        return ComingChangesView(int(low[0]), int(median[0]), int(high[0]))

    def _rank(self, urgency: float, now: float) -> int:
        """Returns the rank of this urgency among all sites, from 1; estimated from a sample for long lists."""
        number, some = self._sampled()
        elapsed = self._scheduler.sites.elapsed_of(some, now)
        above = np.count_nonzero(self._scheduler.allocator.urgency_of(some, elapsed, now) > urgency)
        return 1 + round(above * number / len(some))

    def _sampled(self) -> tuple[int, NDArray[np.int64]]:
        """Returns the number of sites and a `sample` of them; for long lists reused while the number is unchanged."""
        sites = self._scheduler.sites
        number, slots = self._sample
        if len(sites) != number or sites.size <= AT_ONCE or (sites.site_id[slots] < 0).any():
            self._sample = number, slots = len(sites), sample(sites.occupied())
        return number, slots

    async def allocation_over_budgets(self) -> AllocationView:
        """Returns `allocation` with the benefit curve, computed in a thread."""
        await self.binding.ready()
        curve = await self._forecast.curve()
        points = tuple(BenefitPointView(budget, per_second * HOUR_SECONDS) for budget, per_second in curve.points)
        return replace(
            self.allocation(),
            one_more_poll_per_second_finds_per_hour=curve.one_more * HOUR_SECONDS,
            benefit_curve=points,
            # What polls are expected to find is known as the chance of a change: of other objectives no share is.
            signals=self._signals(curve.points if self._scheduler.objective == "changes" else ()),
        )

    def _signals(self, curve: Sequence[tuple[float, float]]) -> SignalYieldView | None:
        return self._signal_yield.view(curve, self._clock())

    def allocation(self) -> AllocationView:
        """Returns the yield of the budget as scheduled, under uniform and at the best split; no benefit curve."""
        figures, budget = self._forecast.figures(), self._scheduler.budget
        binding, rate = self.binding.now(), self._meter.rate()
        return AllocationView(
            allocator=self._scheduler.allocator_name,
            objective=self._scheduler.objective,
            deadline=self._scheduler.deadline,
            budget=budget,
            utilization=rate / budget,
            spendable=self._scheduler.budget_fit.spendable(budget),
            binding=binding.limit,
            binding_in_words=binding.in_full(rate, budget),
            price=figures.benefit.price,
            expected_detections_per_hour_as_scheduled=figures.as_scheduled * HOUR_SECONDS,
            expected_detections_per_hour_uniform=figures.benefit.uniform * HOUR_SECONDS,
            expected_detections_per_hour_best=figures.benefit.best * HOUR_SECONDS,
            min_saving=self._scheduler.settings.min_saving_seconds,
            median_weight=self._median_weight(),
            timeliness=figures.timeliness,
            sites=len(self._scheduler.sites),
            late_sites=self.late_sites(),
            noisy_sites=self.noisy_sites(),
            proofs_waiting=len(self._scheduler.sites.proofs),
            sites_without_text=self.sites_without_text(),
            sites_read_twice=int(np.count_nonzero(self._scheduler.sites.polls[: self._scheduler.sites.size] >= 2)),
            maximum_intervals_feasible=self._maximum_intervals_feasible(),
            calibration=self._calibration.view(),
            one_more_poll_per_second_finds_per_hour=None,
            benefit_curve=(),
            shadows=self._shadows(),
            signals=self._signals(()),
        )

    def _median_weight(self) -> float | None:
        if not len(self._scheduler.sites):
            return None
        weight = self._scheduler.sites.weight
        return 1.0 if self._scheduler.sites.is_default("weight") else float(np.median(weight[self._sampled()[1]]))

    def late_sites(self) -> int:
        """Returns the number of sites past their max_interval."""
        sites, longest = self._scheduler.sites, self._scheduler.settings.max_interval_seconds
        if longest == math.inf and sites.is_default("max_interval"):
            return 0
        now = self._clock()
        return sum(int(np.count_nonzero(sites.lateness(now, longest, part) > 0)) for part in chunks(sites.size))

    def noisy_sites(self) -> int:
        """Returns the number of sites that change at nearly every poll and are limited to the uniform share."""
        sites = self._scheduler.sites
        if not sites.eligibility.is_kept:
            return int(np.count_nonzero(sites.changes_always()))
        return int(np.count_nonzero(sites.eligibility.changing[: sites.size]))

    def sites_without_text(self) -> int:
        """Returns the number of sites whose last answer had no text that could be compared, since the start."""
        sites = self._scheduler.sites
        return 0 if sites.is_default("no_text") else int(np.count_nonzero(sites.no_text[: sites.size]))

    def _earliest(self, slot: int, floor: float) -> float | None:
        """Returns the earliest time of the next poll, epoch s, possibly past; None if there will be none."""
        sites = self._scheduler.sites
        if sites.paused[slot]:
            return None
        own = max(float(sites.last_poll[slot]) + floor, float(sites.not_before[slot]))
        soonest = max(own, self._scheduler.hosts.ready_at_of(int(sites.host[slot])))
        return _number(self._once_open(slot, soonest))

    def _once_open(self, slot: int, at: float) -> float:
        """Returns the first time from `at` on (epoch s) at which the site is in its windows; inf: never."""
        if self._scheduler.sites.is_default("hours"):
            return at
        times = self._scheduler.sites.timetable.windows_of(slot)
        return at if times is None else times.next_open(max(at, self._clock()))

    def _waits_for(self, slot: int, earliest: float | None, now: float) -> WaitsFor | None:
        """Returns what keeps the site from being polled now; None: only the budget does."""
        sites, hosts = self._scheduler.sites, self._scheduler.hosts
        host, state = int(sites.host[slot]), STATES[sites.state[slot]]
        waiting = earliest is not None and earliest > now
        resting = float(sites.not_before[slot]) > now
        reasons = (
            (bool(sites.paused[slot]), WaitsFor.RESUME),
            (state is SiteState.GONE and waiting, WaitsFor.GONE),
            (bool(sites.in_flight[slot]), WaitsFor.ITS_POLL),
            (not self._scheduler.is_open(slot, now), WaitsFor.WINDOW),
            (bool(at_private_addresses(sites)[slot]), WaitsFor.ALLOW_PRIVATE),
            (resting and state is SiteState.ACTIVE, WaitsFor.READING),
            (resting, WaitsFor.RETRY),
            (float(hosts.held_until[host]) > now, WaitsFor.HOST_RESUME),
            (float(hosts.paused_until[host]) > now, WaitsFor.HOST_PAUSE),
            (hosts.robots_at[host] == -math.inf and hosts.robots_retry_at[host] > now, WaitsFor.ROBOTS),
            (bool(hosts.busy[host]), WaitsFor.HOST_REQUEST),
            (hosts.ready_at_of(host) > now, WaitsFor.HOST_INTERVAL),
            (slot in sites.proofs, WaitsFor.CONFIRMATION),
            (waiting and self._is_capped(slot), WaitsFor.UNIFORM_SHARE),
            (self._quiet_until(slot, now) is not None, self._quiet_for(slot)),
            (waiting, WaitsFor.MIN_INTERVAL),
        )
        return next((waits for holds, waits in reasons if holds), None)

    def _quiet_for(self, slot: int) -> WaitsFor:
        """Returns what a site waits for that is estimated to be unchanged."""
        sites = self._scheduler.sites
        announced = float(sites.last_seen[slot]) + float(announced_waits(self._scheduler, np.array([slot]))[0])
        return WaitsFor.MAX_AGE if announced >= float(sites.unchanged_until[slot]) else WaitsFor.LIKELIER_CHANGE

    def _waits_in_words(self, slot: int, waits: WaitsFor, earliest: float | None, now: float) -> str:
        """Says what keeps the site from being polled now."""
        sites = self._scheduler.sites
        unchanged_until = float(sites.unchanged_until[slot])
        moments = {
            WaitsFor.GONE: earliest or now,
            WaitsFor.WINDOW: self._once_open(slot, now),
            WaitsFor.READING: float(sites.not_before[slot]),
            WaitsFor.MAX_AGE: unchanged_until,
            WaitsFor.LIKELIER_CHANGE: unchanged_until,
        }
        at = moments.get(waits, now)
        if not math.isfinite(at):
            return _(_NEVER[waits])
        return _(
            _WAITS[waits],
            moment=_moment(at),
            state=STATES[sites.state[slot]].value,
            failures=n_("{count} failure", "{count} failures", int(sites.failures[slot])),
            least_in_words=self._least_in_words(slot) if waits is WaitsFor.LIKELIER_CHANGE else "",
        )

    def _is_capped(self, slot: int) -> bool:
        """Returns whether the site changes at nearly every poll, and is not a source that is due to be read."""
        changes = self._scheduler.sites.changes_always(np.array([slot]))
        return bool(changes[0]) and slot not in self._scheduler.allocator.readings_due()

    def _quiet_until(self, slot: int, now: float) -> float | None:
        """Returns the time, epoch s, until which the site is believed unchanged; None if that time is over."""
        until = float(self._scheduler.sites.unchanged_until[slot])
        return until if until > now and not self._scheduler.sites.asap[slot] else None

    def _least_in_words(self, slot: int) -> str:
        sites, settings, slots = self._scheduler.sites, self._scheduler.settings, np.array([slot])
        least = float(least_savings(sites.min_saving[slots], sites.min_yield[slots], settings.min_saving_seconds)[0])
        own = float(sites.min_yield[slot])
        share = settings.min_yield if math.isnan(own) else own
        clauses = []
        if least > 0:
            weighed = float(saving_of(self._scheduler, slots)[0])
            of_it = (
                _(", {weighed} at its weight and cost", weighed=quantities.duration(weighed))
                if weighed != least
                else ""
            )
            clauses.append(_("min-saving {least}{of_it}", least=quantities.duration(least), of_it=of_it))
        if share > 0:
            clauses.append(_("min-yield {share:g} %", share=100 * share))
        return "; ".join(clauses)

    def _maximum_intervals_feasible(self) -> bool:
        sites, n = self._scheduler.sites, self._scheduler.sites.size
        if self._scheduler.settings.max_interval_seconds == math.inf and sites.is_default("max_interval"):
            return True
        own = sites.max_interval[:n]
        maximum = np.where(np.isnan(own), self._scheduler.settings.max_interval_seconds, own)
        load = (sites.cost[:n] / maximum)[sites.occupied() & ~sites.paused[:n]].sum()
        return bool(load <= self._scheduler.budget)


def _moment(at: float) -> str:
    """Returns the time, RFC 3339 in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# Views of values that only the process that polls a site knows: another node asks that one for them.


class SiteHolders(Protocol):
    """Asks the node that holds a site; `daemon.nodes.questions.HolderClient`.

    Each method raises HolderUnavailableError, DatabaseUnavailableError.
    """

    async def explanation(self, site_id: int) -> ExplanationView:
        """Returns why the site is polled as it is."""

    async def live(self, site_id: int) -> LiveSite:
        """Returns the in-memory values of the site."""


class SiteViews:
    """Views of sites in memory."""

    def __init__(
        self,
        *,
        store: SiteStore,
        scheduler: SchedulerState,
        site_cache: SiteCache,
        explainer: ScheduleExplainer,
        holders: SiteHolders | None,
        still: StillNoise,
        clock: Callable[[], float],
    ) -> None:
        """holders: None where the daemon runs alone."""
        self._still = still
        self._store, self._scheduler, self._site_cache = store, scheduler, site_cache
        self._explainer, self._holders, self._clock = explainer, holders, clock

    def live(self, site_ids: Sequence[int]) -> dict[int, LiveSite]:
        """Returns the in-memory values of those of the sites that are polled here."""
        return self._explainer.live(site_ids)

    async def shown(self, site_ids: Sequence[int]) -> dict[int, LiveSite]:
        """Returns the values of these sites: from memory, and as they are stored of those that other nodes poll."""
        live = self.live(site_ids)
        elsewhere = [site_id for site_id in site_ids if site_id not in live]
        if self._holders is None or not elsewhere:
            return live
        now = self._clock()
        for site_id, forecast in (await self._store.stored_forecasts(elsewhere)).items():
            soon = None if forecast.next_poll_at is None else max(forecast.next_poll_at, now)
            live[site_id] = LiveSite(forecast.rate_per_day, soon, forecast.learned_half_life)
        return live

    async def current(self, site_id: int) -> LiveSite | None:
        """Returns the in-memory values of the site; as they are stored, if the node that holds it gives no answer."""
        if self._holders is not None and not self._is_here(site_id):
            try:
                return await self._holders.live(site_id)
            except HolderUnavailableError:
                pass  # what is stored is at most one commit old
        return (await self.shown([site_id])).get(site_id)

    async def explain(self, site_id: int) -> ExplanationView:
        """Returns why the site is polled as it is. Raises NotFoundError, HolderUnavailableError."""
        if self._holders is None or self._is_here(site_id):
            return await self.explain_here(site_id)
        await self._store.get(site_id)
        return await self._holders.explanation(site_id)

    async def explain_here(self, site_id: int) -> ExplanationView:
        """Returns why the site is polled as it is. Raises NotFoundError if this process does not poll it."""
        explanation = self._explainer.explain(site_id)
        context = (await self._site_cache.get([site_id])).get(site_id)
        if explanation is None or context is None:
            raise NotFoundError(N_("site"), site_id)
        origins = effective((await self._store.get(site_id)).spec, self._store.tags.in_force)[1]
        if origins.get("half_life") == DEFAULT and self._explainer.is_half_life_learned(site_id):
            origins = {**origins, "half_life": "reads"}
        feed = _feed_view(context.baseline.window, explanation.rate_per_day)
        noise = tuple(_noise(context, self._still))
        mask = noise_of_pair(context.baseline.mask)
        return replace(explanation, mask=mask, noise=noise, origins=origins, feed=feed)

    def _is_here(self, site_id: int) -> bool:
        return self._scheduler.sites.slot_of(site_id) is not None


def _noise(context: SiteContext, still: StillNoise) -> Iterator[NoiseView]:
    """Yields what is masked of a site as noise, and what is shown again."""
    contents = [(state.name, state.baseline.mask) for state in context.states] if context.selections else []
    for name, mask in contents or [(WHOLE_PAGE, context.baseline.mask)]:
        rules, selection = rules_of(mask), name or None
        counts = still.counts(context.site_id, name, mask) or (None,) * len(rules)
        for rule, count in zip(rules, counts, strict=True):
            differed, polls, since = (None,) * 3 if count is None else (count.differed, count.polls, count.since)
            yield NoiseView(rule.id, selection, rule.shown, rule.by, True, differed, polls, since)
        for rule in refused_rules(mask):
            yield NoiseView(rule.id, selection, rule.shown, rule.by, False, None, None, None)


def _feed_view(window: FeedWindow | None, rate_per_day: float | None) -> FeedView | None:
    """Returns what a feed shows, at a believed rate of items; None for other pages."""
    if window is None:
        return None
    full_after = window.shown / rate_per_day * DAY_SECONDS if window.shown and rate_per_day else None
    return FeedView(
        items=window.items,
        new=window.new,
        limited=window.limited,
        oldest_at=window.oldest_at,
        newest_at=window.newest_at,
        read_at=window.read_at,
        full_polls=window.full_polls,
        full_after=full_after,
    )
