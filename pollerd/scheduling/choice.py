"""The choice of sites to poll in a tick: requested by hand, overdue, to be confirmed, new, then by the allocator."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pollerd.columns import chunks, rows_of
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.min_yield import NoiseCap
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

# Sites on trial by the focused crawler, on one scale with the allocator's sites.

BAR_SHARE, PATIENCE_SECONDS = 0.5, 1.0
"""While a site on trial waits for its host, for at most this time, sites with less than this share of its value are not
polled: where the budget exceeds what the best hosts permit, the rest would go to the least valuable pages."""


@dataclass(frozen=True)
class TrialCandidates:
    """The sites on trial and the allocator's sites on one scale.

    on_trial : bool[size]; `value` float64[size], their urgencies; `bar` and `bar_of_others`: urgencies below which no
    site on trial, and no other site, is polled now; `again_in`: seconds until an awaited site on trial may be polled,
    inf without one.
    """

    on_trial: NDArray[np.bool_]
    value: NDArray[np.float64]
    bar: float
    bar_of_others: float
    again_in: float


class Trials:
    """Compares the sites on trial with the allocator's sites."""

    def __init__(self, sites: SiteTable, hosts: HostTable) -> None:
        self._sites, self._hosts = sites, hosts
        self.value_unit = math.nan
        """Urgency of a site on trial with value 1; nan if the allocator's urgency has no such scale: then sites on
        trial are treated as new sites."""

    def rivals(self, now: float) -> TrialCandidates | None:
        """Returns the candidates, or None if there are none or they are not comparable with the other sites.

        Both bars are `BAR_SHARE` of the best value on trial that can be requested soon; the bar of other sites also
        counts requests under way, since their links are about to arrive. A site of infinite value comes first, but sets
        no bar.
        """
        sites, hosts = self._sites, self._hosts
        on_trial = sites.on_trial()
        if on_trial is None:
            return None
        value = self.value_unit * sites.value[: sites.size]
        slots = np.flatnonzero(np.isfinite(value) & ~sites.paused[: sites.size])
        host = sites.host[slots]
        ready = np.maximum(hosts.ready_at()[host], sites.not_before[slots])
        under_way, started_recently = sites.in_flight[slots], hosts.last_start[host] > now - PATIENCE_SECONDS
        soon = (ready <= now + PATIENCE_SECONDS) & ((~hosts.busy[host] & ~under_way) | started_recently)
        bars = BAR_SHARE * value[slots]
        bar = float(bars[soon & ~under_way].max(initial=0.0))
        later = ready[soon & ~under_way & (ready > now) & (value[slots] >= bar)]
        again_in = float(later.min(initial=math.inf)) - now
        return TrialCandidates(on_trial, value, bar, float(bars[soon].max(initial=0.0)), again_in)


_ROUNDS = 6
"""Maximum number of calls to the allocator per group when it returns several sites of one host."""

_MOSTLY = 0.5
"""Chance of showing a change from which proofs come before other polls of sites with the same weight and cost."""

_ENOUGH_SHARE = 0.1
"""Share of places that may stay empty until the next tick: with many sites, another call costs more than they yield."""


class Selector(Protocol):
    """Part of the allocator contract that the choice needs."""

    def select(
        self, elapsed: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        """Returns at most k eligible slots, most urgent first."""

    def select_seen(
        self, last_seen: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        """Like `select`, from the times of the last informative polls; used for long lists."""

    def urgency_of(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """Returns the urgency of each slot; called only while sites are on trial."""

    def rates_of(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the believed rate of each slot, 1/s; called only while proofs compete with sites of other weights."""

    def readings_due(self) -> NDArray[np.int64]:
        """Returns the slots whose polls read a source of signals that is due."""


StillUnchanged = Callable[[NDArray[np.int64], float], NDArray[np.bool_]]
"""Returns which of slots int64[k] wait on at an epoch s, as their sources are silent, bool[k]."""


@dataclass(frozen=True)
class _Wants:
    """The allocator's view of the sites; elapsed float64[size] s, None: not computed because the list is long."""

    allocator: Selector
    sites: SiteTable
    elapsed: NDArray[np.float64] | None
    now: float
    still_unchanged: StillUnchanged | None

    def unlikely(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns those of the slots, just chosen, that need no poll yet, as their sources are silent."""
        return slots[:0] if self.still_unchanged is None else slots[self.still_unchanged(slots, self.now)]

    def first(self, free: NDArray[np.bool_], k: int) -> NDArray[np.int64]:
        """Returns at most k of the free slots, most urgent first."""
        if self.elapsed is None:
            return self.allocator.select_seen(self.sites.last_seen[: self.sites.size], self.now, free, k)
        return self.allocator.select(self.elapsed, self.now, free, k)

    def urgency(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the urgency of each slot, float64[k]."""
        return self.allocator.urgency_of(slots, self.sites.elapsed_of(slots, self.now), self.now)

    def chance(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the believed chance that a poll of each slot finds a change, float64[k]; 0.5 if nothing is known."""
        mean = self.allocator.rates_of(slots) * self.sites.elapsed_of(slots, self.now)
        return np.where(np.isfinite(mean), -np.expm1(-mean), 0.5)


@dataclass
class Choice:
    """Slots to poll, most urgent first, and slots whose host needs its robots.txt first."""

    polls: list[int] = field(default_factory=list)
    robots: list[int] = field(default_factory=list)
    sites_due: bool = False
    """Whether any site could be polled now under an unlimited budget."""
    again_in: float = math.inf
    """Seconds until an awaited site on trial may be polled."""


class Chooser:
    """Builds the mask of eligible sites and picks from it, at most one site per host."""

    def __init__(
        self,
        sites: SiteTable,
        hosts: HostTable,
        settings: SchedulingSettings,
        still_unchanged: StillUnchanged | None = None,
    ) -> None:
        """still_unchanged: asked of sites that are about to be polled; None: none has sources of signals."""
        self.sites, self.hosts, self.settings = sites, hosts, settings
        self._still_unchanged = still_unchanged
        self.noise, self.trials = NoiseCap(sites), Trials(sites, hosts)
        self._new_credit = 0.0

    def eligible(self, now: float, uniform_period: float) -> NDArray[np.bool_]:
        """Returns bool[size]: sites that may be polled now.

        `uniform_period` (s) is the gap that round robin would leave each site. A site that changes at nearly every poll
        waits at least that long, or it would consume the whole budget before its changes are understood.
        """
        self.sites.timetable.turn(now)
        return self._eligible(now, uniform_period, self.hosts.ready(now), np.empty(0, np.int64))

    def _eligible(
        self, now: float, uniform_period: float, open_hosts: NDArray[np.bool_], readings: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """`eligible`, given the hosts ready for a request, bool[hosts].

        readings int64[m]: slots of sources that are due. They do not wait: an honest list of many pages always changes.
        """
        sites = self.sites
        if sites.eligibility.update(now, self.settings.min_interval_seconds):
            mask = sites.eligibility.ready[: sites.size].copy()
            changing = np.flatnonzero(sites.eligibility.changing[: sites.size])
        else:
            mask = sites.pollable(now, self.settings.min_interval_seconds)
            changing = np.flatnonzero(sites.changes_always())
        if self.hosts.lines.waiting:
            self._line_up(mask)
        for part in rows_of(mask):
            mask[part] &= open_hosts.take(sites.host[part])
        if changing.size:
            exempt = np.isin(changing, readings)
            due = sites.last_poll[changing] + self.noise.floors(uniform_period, changing, exempt) <= now
            mask[changing] &= due | sites.asap[changing]
        return mask

    def _line_up(self, mask: NDArray[np.bool_]) -> None:
        """Gives sites that may be polled, bool[size], a place in the queues of their hosts."""
        queued = np.zeros(self.hosts.size, np.bool_)
        queued[list(self.hosts.lines.waiting)] = True
        for part in rows_of(mask):
            wanting = mask[part] & queued.take(self.sites.host[part])
            if wanting.any():
                for host in np.unique(self.sites.host[part][wanting]).tolist():
                    self.hosts.lines.join_polls(host)

    def _end_turns(self, unclaimed: NDArray[np.bool_]) -> None:
        """Lets redirected requests go on at the hosts, bool[hosts], that could be polled now and were not chosen."""
        for host in list(self.hosts.lines.waiting):
            if unclaimed[host]:
                self.hosts.lines.end_polls_turn(host)

    def _to_prove(self, now: float, open_hosts: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns the slots that wait for a proof poll and can have it now, int64[k], one a host, in their order."""
        sites = self.sites
        slots = sites.proofs.in_order(now)
        if not len(slots):
            return slots
        slots = slots[sites.askable(now, slots) & open_hosts[sites.host[slots]]]
        _, first = np.unique(sites.host[slots], return_index=True)
        return slots[np.sort(first)]

    def choose(self, allocator: Selector, now: float, k: int, uniform_period: float, robots_room: int) -> Choice:
        """Picks at most k sites to poll, plus at most `robots_room` whose host needs its robots.txt first.

        In this order: sites to be polled at once, overdue sites, the proof polls that come before others, due readings
        of the allocator, new and known sites by their shares, and the proof polls for which budget is left. Before
        these last, a proof poll takes the place of a chosen poll that is worth less.
        """
        self.sites.timetable.turn(now)
        open_hosts = self.hosts.ready(now)
        readings = allocator.readings_due()
        mask = self._eligible(now, uniform_period, open_hosts, readings)
        to_prove = self._to_prove(now, open_hosts) if self.sites.proofs else np.empty(0, np.int64)
        choice = Choice(sites_due=bool(mask.any() or len(to_prove)))
        if not choice.sites_due:
            if self.hosts.lines.waiting:
                self._end_turns(open_hosts)
            return choice
        n = self.sites.size
        due = self.hosts.robots_wanted(now)
        turn = _Turn(self.sites.host[:n], due, mask, choice, k, robots_room)
        turn.take(np.flatnonzero(mask & self.sites.asap[:n]))
        turn.take(self.sites.overdue(mask, now, self.settings.max_interval_seconds))
        eligibility, long = self.sites.eligibility, self.sites.eligibility.is_kept
        elapsed = None if long else self.sites.elapsed(now)
        wants = _Wants(allocator, self.sites, elapsed, now, self._still_unchanged)
        compared = self._take_proofs_first(turn, to_prove, now) if len(to_prove) else to_prove
        before_others = len(choice.polls)
        known = eligibility.known[:n] if long else np.isfinite(self.sites.last_poll[:n])
        if readings.size and (mask & ~known).any():
            # Before new sites: those of its own host would leave it no turn.
            turn.take(readings[mask[readings]])
        rivals = None if math.isnan(self.trials.value_unit) else self.trials.rivals(now)
        if rivals is None:
            for group, limit in self._shares(turn, known, ~known):
                turn.take_from(wants, group, limit)
        else:
            on_trial, choice.again_in = rivals.on_trial, rivals.again_in
            *new, (group, limit) = self._shares(turn, known | on_trial, ~known & ~on_trial) or [(known, 0)]
            for fresh, share in new:
                turn.take_from(wants, fresh, share)
            turn.take_by_value(wants, group & ~on_trial, rivals, limit)
        if len(compared):
            self._displace(turn, before_others, compared, wants)
        if len(to_prove):
            self._take_proofs(turn, to_prove)  # those for which budget is left over
        if self.hosts.lines.waiting:
            self._end_turns(open_hosts & ~turn.claimed)
        return choice

    def _take_proofs_first(self, turn: _Turn, slots: NDArray[np.int64], now: float) -> NDArray[np.int64]:
        """Takes the proof polls of slots int64[k] that come before all others.

        Those of noisy sites as far as their share goes; the rest if no other poll can be worth more, because all sites
        have the same weight and cost. Otherwise returns the rest, to be compared with the polls that are chosen.
        """
        sites, proofs = self.sites, self.sites.proofs
        noisy = proofs.is_noisy(slots)
        noise, clean = slots[noisy], slots[~noisy]
        first = sites.is_default("weight") and sites.is_default("cost") and proofs.confirms >= _MOSTLY
        if first:
            self._take_proofs(turn, clean)
        self._take_proofs(turn, noise[: proofs.affordable(noise, sites.cost[noise], now)], paid=True)
        return clean[:0] if first else clean

    def _take_proofs(self, turn: _Turn, slots: NDArray[np.int64], *, paid: bool = False) -> None:
        before = len(turn.choice.polls)
        turn.take(slots)
        self.sites.proofs.choose(turn.choice.polls[before:], paid=paid)

    def _displace(self, turn: _Turn, begin: int, slots: NDArray[np.int64], wants: _Wants) -> None:
        """Puts proof polls of slots int64[k], not noisy, in place of chosen ones from `begin` on that are worth less.

        A proof is worth weight / cost · the chance that it shows a change, another poll weight / cost · the chance that
        it finds one. One host has one poll: a proof takes the place of the poll of its host.
        """
        sites, polls = self.sites, turn.choice.polls
        others = np.array(polls[begin:], np.int64)
        value = np.where(np.isnan(sites.value[others]), wants.chance(others), np.inf)  # inf: a trial of the crawler
        value_of = dict(zip(others.tolist(), (value * sites.weight[others] / sites.cost[others]).tolist(), strict=True))
        of_host = {int(sites.host[slot]): slot for slot in value_of}
        worth = sites.proofs.confirms * sites.weight[slots] / sites.cost[slots]
        order = np.argsort(-worth, kind="stable")
        for slot, host, gain in zip(
            slots[order].tolist(), sites.host[slots[order]].tolist(), worth[order].tolist(), strict=True
        ):
            rival = of_host.get(host)
            if rival is None:
                if turn.claimed[host] or turn.robots_wanted[host]:
                    continue
                if turn.left <= 0:
                    rival = min(value_of, key=value_of.__getitem__, default=None)
                    if rival is None or value_of[rival] >= gain:
                        return  # those that follow are worth less
            if rival is not None:
                if value_of[rival] >= gain:
                    continue
                del value_of[rival], of_host[int(sites.host[rival])]
                polls.remove(rival)
            turn.claimed[host] = True
            polls.insert(begin, slot)
            begin += 1
            sites.proofs.choose([slot])

    def _shares(
        self, turn: _Turn, is_known: NDArray[np.bool_], is_new: NDArray[np.bool_]
    ) -> list[tuple[NDArray[np.bool_], int]]:
        """Splits the places: new sites get at most half while known sites are due; otherwise one group gets all."""
        left = turn.left
        if left <= 0:
            return []
        if not (turn.mask & is_new).any():
            return [(is_known, left)]
        if not (turn.mask & is_known).any():
            return [(is_new, left)]
        self._new_credit = min(self._new_credit + left / 2, left / 2 + 1)
        share = min(int(self._new_credit), left)
        self._new_credit -= share
        return [(is_new, share), (is_known, left - share)]


class _Turn:
    """State of one tick: the free places, the claimed hosts, and the picks."""

    def __init__(
        self,
        host: NDArray[np.int32],
        robots_wanted: NDArray[np.bool_],
        mask: NDArray[np.bool_],
        choice: Choice,
        k: int,
        robots_room: int,
    ) -> None:
        self.host, self.robots_wanted, self.mask, self.choice = host, robots_wanted, mask, choice
        self.k, self.robots_room = k, robots_room
        self.claimed = np.zeros(len(robots_wanted), np.bool_)

    @property
    def left(self) -> int:
        """Number of polls that may still be picked."""
        return self.k - len(self.choice.polls)

    def take(self, slots: NDArray[np.int64], limit: int | None = None) -> int:
        """Takes slots in order, one per host, while there is room; returns the number of polls taken."""
        room = self.left if limit is None else min(limit, self.left)
        taken = 0
        for slot, host in zip(slots.tolist(), self.host[slots].tolist(), strict=True):
            if taken >= room:
                break
            if self.claimed[host]:
                continue
            self.claimed[host] = True
            if not self.robots_wanted[host]:
                self.choice.polls.append(slot)
                taken += 1
            elif len(self.choice.robots) < self.robots_room:
                self.choice.robots.append(slot)
        return taken

    def take_from(self, wants: _Wants, group: NDArray[np.bool_], limit: int) -> None:
        """Fills up to `limit` places from the group by the allocator, with further calls when hosts collide."""
        enough, free = limit * _ENOUGH_SHARE, self.mask & group
        for _ in range(_ROUNDS):
            self._narrow(free)
            if limit <= 0 or not free.any():
                return
            slots = wants.first(free, limit)
            if not len(slots):
                return
            if len(unlikely := wants.unlikely(slots)):
                free[unlikely] = self.mask[unlikely] = False
                slots = slots[free[slots]]
            limit -= self.take(slots, limit)
            if limit < enough:
                return

    def take_by_value(self, wants: _Wants, group: NDArray[np.bool_], rivals: TrialCandidates, limit: int) -> None:
        """Fills up to `limit` places from the group and from the sites on trial, most urgent first."""
        enough = limit * _ENOUGH_SHARE
        for _ in range(_ROUNDS):
            tried = np.flatnonzero(self._free(rivals.on_trial))
            named = wants.first(self._free(group), limit) if limit > 0 else tried[:0]
            if len(unlikely := wants.unlikely(named)):
                self.mask[unlikely] = False
                named = named[self.mask[named]]
            slots = np.concatenate([named, tried])
            if limit <= 0 or not len(slots):
                return
            value = np.concatenate([wants.urgency(named), rivals.value[tried]])
            above_bar = value >= np.repeat([rivals.bar_of_others, rivals.bar], [len(named), len(tried)])
            order = np.argsort(-value, kind="stable")
            limit -= self.take(slots[order[above_bar[order]]], limit)
            if limit < enough:
                return

    def _free(self, group: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns bool[size]: sites of the group whose host is unclaimed and has, or may be asked for, a robots.txt."""
        free = self.mask & group
        self._narrow(free)
        return free

    def _narrow(self, free: NDArray[np.bool_]) -> None:
        """Clears in `free`, bool[size], sites whose host is claimed, or needs a robots.txt that may not be requested.

        A cleared site stays cleared for the rest of the tick: when few are left, only those are checked again.
        """
        closed = self.claimed
        if len(self.choice.robots) >= self.robots_room:
            closed = closed | self.robots_wanted
        if closed.any():
            open_hosts = ~closed
            for part in rows_of(free):
                free[part] &= open_hosts.take(self.host[part])


# The time of the next possible poll, until which the daemon can sleep.

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
    first = math.inf
    for part in chunks(n):
        first = min(first, _first_due(sites, part, host_at, asked_at, now, min_interval))
    if sites.proofs:
        first = min(first, _proof_due(sites, host_at, now))
    return max(first - now, 0.0)


def _due_of_many(sites: SiteTable, now: float) -> float:
    """`next_due` of a long list: checking all sites and hosts costs more than a vain choice once a second.

    While sites wait for their hosts only, returns the time of the next choice.
    """
    if sites.eligibility.ready[: sites.size].any():
        return _CHOSEN_SECONDS
    wait = max(sites.eligibility.next_look() - now, 0.0)
    return min(wait, _CHOSEN_SECONDS) if len(sites.proofs) else wait


def _proof_due(sites: SiteTable, host_at: NDArray[np.float64], now: float) -> float:
    """Returns when the first proof poll can start, epoch s: whatever it may cost, as budget is left over by then."""
    slots = sites.proofs.in_order(now)
    slots = slots[sites.watched(slots) & ~sites.in_flight[slots]]
    if not len(slots):
        return np.inf
    return float(np.maximum(sites.not_before[slots], host_at[sites.host[slots]]).min())


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
