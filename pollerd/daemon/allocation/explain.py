"""Explains the schedule: when a site is polled next, why not now, and what the budget yields."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import DEFAULT_HALF_LIFE_S
from pollerd.columns import stretches
from pollerd.daemon.allocation.binding import BindingWatch
from pollerd.daemon.allocation.forecast import Forecast, sample
from pollerd.daemon.polling.budget_meter import BudgetMeter
from pollerd.daemon.results.calibration import CalibrationSums
from pollerd.daemon.signals.signal_yield import SignalYield
from pollerd.daemon.state.believed_unchanged import AT_ONCE, announced_waits
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.views import (
    AllocationView,
    BenefitPointView,
    ExplanationView,
    LiveSite,
    ShadowView,
    SignalYieldView,
)
from pollerd.model import STATES, SiteState
from pollerd.quantities import counted
from pollerd.scheduling.waiting import at_private_addresses

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
        slots = self._scheduler.sites.slots_of(np.array(site_ids, np.int64))
        known, now = slots[slots >= 0], self._clock()
        rates, floors = self._scheduler.allocator.rates_of(known), self._scheduler.floors(known)
        found = {}
        for slot, rate, floor in zip(known.tolist(), rates.tolist(), floors.tolist(), strict=True):
            earliest = self._earliest(slot, floor)
            per_day = _number(rate * DAY_SECONDS) if self._met(slot) else None
            found[int(self._scheduler.sites.site_id[slot])] = LiveSite(
                per_day,
                None if earliest is None else max(earliest, now),
                _number(float(self._scheduler.sites.learned_half_life[slot])),
            )
        return found

    def is_half_life_learned(self, site_id: int) -> bool:
        """Returns whether a half-life learned from reads is in force for the site."""
        sites = self._scheduler.sites
        slot = sites.slot_of(site_id)
        return slot is not None and math.isnan(sites.half_life[slot]) and not math.isnan(sites.learned_half_life[slot])

    def _met(self, slot: int) -> bool:
        """Returns whether polls gave evidence on this site; before that the belief is the prior."""
        sites = self._scheduler.sites
        return bool(np.isfinite(sites.last_seen[slot]) and sites.polls[slot] > 1)

    def explain(self, site_id: int) -> ExplanationView | None:
        """Returns everything that decides when the site is polled; None for an unknown site."""
        sites, allocator, now = self._scheduler.sites, self._scheduler.allocator, self._clock()
        slot = sites.slot_of(site_id)
        if slot is None:
            return None
        one = np.array([slot], np.int64)
        elapsed = sites.elapsed_of(one, now)
        urgency = float(allocator.urgency_of(one, elapsed, now)[0])
        low, high = allocator.rate_interval(one)
        period = _number(self._forecast.period(slot))
        earliest = self._earliest(slot, float(self._scheduler.floors(one)[0]))
        soon = None if earliest is None else max(earliest, now)
        expected = None if soon is None or period is None else max(soon, float(sites.last_poll[slot]) + period)
        expected = None if expected is None else self._once_open(slot, expected)
        return ExplanationView(
            site_id=site_id,
            allocator=self._scheduler.allocator_name,
            objective=self._scheduler.objective,
            rate_per_day=_number(float(allocator.rates_of(one)[0]) * DAY_SECONDS),
            rate_low_per_day=_number(float(low[0]) * DAY_SECONDS),
            rate_high_per_day=_number(float(high[0]) * DAY_SECONDS),
            elapsed=_number(float(elapsed[0])),
            change_probability=_number(float(allocator.change_probability(one, elapsed)[0])),
            urgency=_number(urgency),
            rank=self._rank(urgency, now) if math.isfinite(urgency) else None,
            price=self._forecast.figures().benefit.price,
            budget_share=None if period is None else _number(float(sites.cost[slot]) / period / self._scheduler.budget),
            expected_interval=period,
            next_poll_at=soon,
            next_expected_poll_at=_number(expected),
            believed_unchanged_until=self._quiet_until(slot, now),
            announced_ttl=float(sites.announced_ttl[slot]) or None,
            why_not_now=self._why_not_now(slot, earliest, now),
            capped_to_uniform=self._is_capped(slot),
            failures=int(sites.failures[slot]),
            notes=allocator.notes(slot),
            host=self._scheduler.host_name(slot),
            host_override=self._scheduler.hosts.overrides.get(int(sites.host[slot])),
            half_life_in_force=float(np.nan_to_num(sites.half_lives(one)[0], nan=DEFAULT_HALF_LIFE_S)),
        )

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
            binding=binding.limit.value,
            binding_in_words=binding.in_full(rate, budget),
            price=figures.benefit.price,
            expected_detections_per_hour_as_scheduled=figures.as_scheduled * HOUR_SECONDS,
            expected_detections_per_hour_uniform=figures.benefit.uniform * HOUR_SECONDS,
            expected_detections_per_hour_best=figures.benefit.best * HOUR_SECONDS,
            timeliness=figures.timeliness,
            sites=len(self._scheduler.sites),
            late_sites=self.late_sites(),
            noisy_sites=self.noisy_sites(),
            proofs_waiting=len(self._scheduler.sites.proofs),
            maximum_intervals_feasible=self._maximum_intervals_feasible(),
            calibration=self._calibration.view(),
            one_more_poll_per_second_finds_per_hour=None,
            benefit_curve=(),
            shadows=self._shadows(),
            signals=self._signals(()),
        )

    def late_sites(self) -> int:
        """Returns the number of sites past their max_interval."""
        sites, longest = self._scheduler.sites, self._scheduler.settings.max_interval_seconds
        if longest == math.inf and sites.is_as_ever("max_interval"):
            return 0
        now = self._clock()
        return sum(int(np.count_nonzero(sites.lateness(now, longest, part) > 0)) for part in stretches(sites.size))

    def noisy_sites(self) -> int:
        """Returns the number of sites that change at nearly every poll and are limited to the uniform share."""
        sites = self._scheduler.sites
        if not sites.eligibility.is_kept:
            return int(np.count_nonzero(sites.changes_always()))
        return int(np.count_nonzero(sites.eligibility.changing[: sites.size]))

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
        times = self._scheduler.sites.timetable.windows_of(slot)
        return at if times is None else times.next_open(max(at, self._clock()))

    def _why_not_now(self, slot: int, earliest: float | None, now: float) -> str | None:
        """Returns why the site is not polled now; None: only the budget prevents it."""
        sites, hosts = self._scheduler.sites, self._scheduler.hosts
        host, state = int(sites.host[slot]), STATES[sites.state[slot]]
        noisy = self._is_capped(slot)
        waiting = earliest is not None and earliest > now
        not_before = float(sites.not_before[slot])
        resting = not_before > now
        failures = counted(int(sites.failures[slot]), "failure")
        reasons = (
            (bool(sites.paused[slot]), "paused by the user"),
            (
                state is SiteState.GONE and waiting,
                f"the server said 410 Gone; it is requested again at {_moment(earliest or now)}",
            ),
            (bool(sites.in_flight[slot]), "a poll is under way"),
            (not self._scheduler.is_open(slot, now), f"closed until {_moment(self._once_open(slot, now))}: windows"),
            (
                bool(at_private_addresses(sites)[slot]),
                "its address is private, and pollerd runs without --allow-private",
            ),
            (resting and state is SiteState.ACTIVE, f"reading its page takes long: not before {_moment(not_before)}"),
            (resting, f"{state.value} after {failures}"),
            (float(hosts.held_until[host]) > now, "its host was paused by hand"),
            (float(hosts.paused_until[host]) > now, "the host asked to be left alone"),
            (hosts.robots_at[host] == -math.inf and hosts.robots_retry_at[host] > now, "robots.txt is unreachable"),
            (bool(hosts.busy[host]), "another request to the host is under way"),
            (hosts.ready_at_of(host) > now, "the host's interval is not over"),
            (slot in sites.proofs, "its change waits for a second poll: at most a tenth of the budget goes to proofs"),
            (noisy and waiting, "held to the uniform share: it changes at nearly every poll"),
            (self._quiet_until(slot, now) is not None, self._unchanged_in_words(slot)),
            (waiting, "its min_interval is not over"),
        )
        return next((text for holds, text in reasons if holds), None)

    def _is_capped(self, slot: int) -> bool:
        """Returns whether the site changes at nearly every poll, and is not a source that is due to be read."""
        changes = self._scheduler.sites.changes_always(np.array([slot]))
        return bool(changes[0]) and slot not in self._scheduler.allocator.readings_due()

    def _quiet_until(self, slot: int, now: float) -> float | None:
        """Returns the time, epoch s, until which the site is believed unchanged; None if that time is over."""
        until = float(self._scheduler.sites.quiet_until[slot])
        return until if until > now and not self._scheduler.sites.asap[slot] else None

    def _unchanged_in_words(self, slot: int) -> str:
        sites = self._scheduler.sites
        own, until = float(sites.min_yield[slot]), float(sites.quiet_until[slot])
        share = self._scheduler.settings.min_yield if math.isnan(own) else own
        if not math.isfinite(until):
            return ""
        announced = float(sites.last_seen[slot]) + float(announced_waits(self._scheduler, np.array([slot]))[0])
        moment = _moment(until)
        if announced >= until:
            return f"its max-age or ttl holds until {moment}: respect-ttl"
        return f"believed unchanged until {moment}: min-yield {100 * share:g} %"

    def _maximum_intervals_feasible(self) -> bool:
        sites, n = self._scheduler.sites, self._scheduler.sites.size
        if self._scheduler.settings.max_interval_seconds == math.inf and sites.is_as_ever("max_interval"):
            return True
        own = sites.max_interval[:n]
        maximum = np.where(np.isnan(own), self._scheduler.settings.max_interval_seconds, own)
        load = (sites.cost[:n] / maximum)[sites.occupied() & ~sites.paused[:n]].sum()
        return bool(load <= self._scheduler.budget)


def _moment(at: float) -> str:
    """Returns the time in words, RFC 3339 in UTC."""
    if at == math.inf:
        return "ever"
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
