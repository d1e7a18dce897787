"""Times until which sites are probably unchanged, by estimate or by their TTL.

Choosing only compares these times with the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.objectives import deadlines
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.scheduling.min_yield import LONGEST_SECONDS, Bounds, first_waits, least_savings, waits
from pollerd.scheduling.settings import HINT_TTL_SECONDS, LONGEST_TTL_SECONDS
from pollerd.site_settings import RespectTtl
from pollerd.storage.values import StoredTtls

AT_ONCE = 65_536
"""Largest list computed before the first choice, in half a second; longer ones are computed in the background."""
_PIECE = 512
_SHARE = 0.05
"""Share of the time for processing all sites of a long list."""


_AHEAD_POINTS = 6
"""Moments at which the chance of a site with sources is evaluated, if it is too small now and nothing more is said."""


def note_unchanged(scheduler: SchedulerState, slots: NDArray[np.int64], now: float) -> None:
    """Recomputes until when the slots int64[k] are not polled, by belief or by announced TTL, as of `now`, epoch s.

    A site whose last poll failed is polled as soon as its backoff is over, to learn whether it is back.
    """
    sites = scheduler.sites
    seen = sites.last_seen[slots]
    known = np.isfinite(seen) & (sites.failures[slots] == 0) & (sites.site_id[slots] >= 0)
    until = np.full(len(slots), -np.inf)
    some = slots[known]
    if some.size:
        wait = _least_waits(scheduler, some, now)
        if not sites.is_default("announced_ttl"):
            wait = np.maximum(wait, announced_waits(scheduler, some))
        until[known] = np.where(wait > 0, seen[known] + wait, -np.inf)
    if sites.proofs.left:
        left = [sites.proofs.left.get(slot, -np.inf) for slot in slots.tolist()]
        until[known] = np.maximum(until, left)[known]
    others = slots[sites.unchanged_until[slots] != until]  # empty for the millions never polled
    sites.put("unchanged_until", slots, until)
    sites.touch(others)


def leave_until_regular(scheduler: SchedulerState, slot: int, at: float) -> None:
    """Leaves a site alone for as long after its poll at `at` (epoch s) as it was left before it: its change is proven
    by its next regular poll. A poll requested by hand comes sooner.
    """
    longest = min(float(_longest(scheduler, np.array([slot]))[0]), LONGEST_TTL_SECONDS)
    gap = at - float(scheduler.sites.last_seen[slot])
    scheduler.sites.proofs.left[slot] = at + min(max(gap, 0.0), longest)
    note_unchanged(scheduler, np.array([slot]), at)


def gate_bounds(scheduler: SchedulerState, slots: NDArray[np.int64]) -> Bounds:
    """Returns what holds of the slots int64[k] by the settings."""
    settings, least = scheduler.settings, scheduler.sites.min_yield[slots]
    return Bounds(
        saving=saving_of(scheduler, slots),
        min_yield=np.where(np.isnan(least), settings.min_yield, least),
        longest=np.minimum(_longest(scheduler, slots), settings.max_silence_seconds),
    )


def saving_of(scheduler: SchedulerState, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns how much sooner a poll of each of the slots int64[k] has to bring news, float64[k] s, inf at weight 0."""
    sites = scheduler.sites
    least = least_savings(sites.min_saving[slots], sites.min_yield[slots], scheduler.settings.min_saving_seconds)
    with np.errstate(divide="ignore"):
        return np.divide(least * sites.cost[slots], sites.weight[slots], out=np.zeros(len(slots)), where=least > 0)


def _least_waits(scheduler: SchedulerState, slots: NDArray[np.int64], now: float) -> NDArray[np.float64]:
    """Returns how long after their last informative polls the slots int64[k] are worth another, float64[k] s.

    A signal counts as soon as it is here; the silence of sources when the site is about to be polled, since it goes on
    until then.
    """
    sites, bounds = scheduler.sites, gate_bounds(scheduler, slots)
    wait, bar = waits(scheduler.allocator, slots, bounds)
    longest = np.minimum(bounds.longest, first_waits(sites.polls[slots], bounds.saving))
    if scheduler.objective == "deadline" and scheduler.deadlines_fit():
        longest = np.minimum(longest, deadlines(sites.deadline[slots], scheduler.deadline))
    wait = np.minimum(wait, longest)
    signals = scheduler.allocator.signals_waiting(slots)
    if np.isnan(signals).all():  # no sources
        return wait
    elapsed = sites.elapsed_of(slots, now)
    some = (signals > 0) | (~np.isnan(signals) & (wait <= elapsed))
    which = np.flatnonzero(some & (bar > 0) & (elapsed < longest))
    if which.size:
        chance = scheduler.allocator.present_chance(slots[which], elapsed[which], now)
        wait[which] = np.minimum(wait[which], elapsed[which])
        early = which[chance < bar[which]]
        if early.size:
            wait[early] = elapsed[early] + _until_likely(scheduler, slots[early], bar[early], now)
    return np.minimum(wait, longest)


def _until_likely(
    scheduler: SchedulerState, slots: NDArray[np.int64], bar: NDArray[np.float64], now: float
) -> NDArray[np.float64]:
    """Returns the s until the chances of slots int64[k] reach their bars if nothing more is said; inf: not in time."""
    elapsed = scheduler.sites.elapsed_of(slots, now)
    last = 1.0 + min(scheduler.settings.max_silence_seconds, LONGEST_SECONDS)
    ahead = np.concatenate([[0.0], np.geomspace(1.0, last, _AHEAD_POINTS)])
    chance = np.stack(
        [scheduler.allocator.present_chance(slots, elapsed + seconds, now + seconds) for seconds in ahead], axis=1
    )
    np.maximum.accumulate(chance, axis=1, out=chance)
    after = (chance < bar[:, None]).sum(1)
    rows, high = np.arange(len(slots)), np.clip(after, 1, _AHEAD_POINTS)
    low, at = high - 1, chance[np.arange(len(slots)), high - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = (bar - at) / (chance[rows, high] - at)
    return np.where(after > _AHEAD_POINTS, np.inf, ahead[low] + part * (ahead[high] - ahead[low]))


def still_unchanged(scheduler: SchedulerState, slots: NDArray[np.int64], now: float) -> NDArray[np.bool_]:
    """Returns which of the slots int64[k] that are about to be polled wait on, as their sources are silent, bool[k].

    Silence about all pages of a source cannot be followed; so it is looked at where it matters.
    """
    held = np.zeros(len(slots), np.bool_)
    told = np.flatnonzero(~np.isnan(scheduler.allocator.signals_waiting(slots)))
    if told.size:
        told = told[~np.isin(slots[told], scheduler.allocator.readings_due())]
        note_unchanged(scheduler, slots[told], now)
        held[told] = scheduler.sites.unchanged_until[slots[told]] > now
    return held


def _longest(scheduler: SchedulerState, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    own = scheduler.sites.max_interval[slots]
    return np.where(np.isnan(own), scheduler.settings.max_interval_seconds, own)


def announced_waits(scheduler: SchedulerState, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the TTLs float64[k] s that the slots announce, as far as they are believed; else 0.

    A hint does not outweigh a signal that the page has changed.
    """
    announced = np.minimum(scheduler.sites.announced_ttl[slots], _believed_for(scheduler, slots))
    hinted = np.flatnonzero((announced > 0) & (_trust(scheduler, slots) == RespectTtl.HINT))
    if hinted.size:
        announced[hinted[scheduler.allocator.signals_waiting(slots[hinted]) > 0]] = 0.0
    return np.minimum(announced, _longest(scheduler, slots))


def _trust(scheduler: SchedulerState, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the `RespectTtl` of the slots, float64[k]."""
    own = scheduler.sites.respect_ttl[slots]
    return np.where(np.isnan(own), float(scheduler.settings.respect_ttl), own)


def _believed_for(scheduler: SchedulerState, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns for how long what the slots announce is believed at most, float64[k] s."""
    trust = _trust(scheduler, slots)
    hint = np.where(scheduler.sites.ttl_broken[slots], 0.0, HINT_TTL_SECONDS)
    return np.select([trust == RespectTtl.STRICT, trust == RespectTtl.HINT], [LONGEST_TTL_SECONDS, hint], 0.0)


def note_announced_ttl(
    scheduler: SchedulerState, slots: NDArray[np.int64], announced: NDArray[np.float64], broken: NDArray[np.bool_]
) -> None:
    """Stores the announced TTLs, float64[k] s, of the slots int64[k], as far as they are believed.

    broken bool[k]: whether a change was found inside such a time.
    """
    sites = scheduler.sites
    if (
        not announced.any()
        and not broken.any()
        and sites.is_default("announced_ttl")
        and sites.is_default("ttl_broken")
    ):
        return
    sites.put("ttl_broken", slots, broken)
    believed = np.clip(np.nan_to_num(announced), 0.0, _believed_for(scheduler, slots))
    sites.put("announced_ttl", slots, believed)


def listens(scheduler: SchedulerState) -> bool:
    """Returns whether the TTL of any site may be respected."""
    return bool(scheduler.settings.respect_ttl) or not scheduler.sites.is_default("respect_ttl")


def recall_ttls(scheduler: SchedulerState, stored: StoredTtls) -> None:
    """Takes in what sites announced; those that are not in memory are skipped."""
    slots = scheduler.sites.slots_of(stored.site_id)
    known = slots >= 0
    note_announced_ttl(scheduler, slots[known], stored.ttl[known], stored.broken[known])


async def note_all_quiet(scheduler: SchedulerState, clock: Callable[[], float]) -> None:
    """Runs `note_unchanged` on all sites, in pieces; for a long list polling continues meanwhile."""
    loop = asyncio.get_running_loop()
    hurry = scheduler.sites.size <= AT_ONCE
    at = 0
    while at < scheduler.sites.size:
        began = loop.time()
        slots = np.arange(at, min(at + _PIECE, scheduler.sites.size))
        note_unchanged(scheduler, slots[scheduler.sites.site_id[slots] >= 0], clock())
        at += _PIECE
        await asyncio.sleep(0.0 if hurry else (loop.time() - began) * (1 / _SHARE - 1))
    await scheduler.budget_fit.fit_in_steps()


async def keep_quiet_known(scheduler: SchedulerState, clock: Callable[[], float]) -> None:
    """Recomputes all sites whenever the beliefs or intervals of all have changed, until cancelled."""
    while True:
        await scheduler.believes_anew.wait()
        scheduler.believes_anew.clear()
        await note_all_quiet(scheduler, clock)
        scheduler.due.set()
