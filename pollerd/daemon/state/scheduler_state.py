"""The sites being polled: the site table, the host table and the allocator, kept in step."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Container, Sequence
from functools import partial
from operator import attrgetter

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.allocation import Allocator, EvidenceBatch
from pollerd.columns import stretches
from pollerd.daemon.state.allocator_commands import AllocatorCommand, CommandQueue
from pollerd.daemon.state.budget_fit import BudgetFit
from pollerd.errors import InvalidValueError
from pollerd.model import NUMERIC_SETTINGS, STATE_CODE, Site, SiteSpec, SiteState
from pollerd.scheduling import HostTable, NoiseCap, SchedulingSettings, SiteTable
from pollerd.storage import SiteContext

_HOSTS_ENOUGH = 100
"""With so many hosts it makes no difference how many more there are: see `hosts_that_must_fail`."""
_NOTICEABLE = 0.01


def _optional(value: float | None) -> float:
    return math.nan if value is None else value


class SchedulerState:
    """Everything the scheduler knows of the sites, in memory. One slot is one site in all three."""

    def __init__(
        self, *, settings: SchedulingSettings, allocator_name: str, allocator: Allocator, objective: str = "changes"
    ) -> None:
        self.settings, self.allocator_name, self.allocator = settings, allocator_name, allocator
        self.objective = objective
        """What the budget is spent for: "changes", "freshness" or "interest"."""
        self._followers: list[CommandQueue] = []
        self.changing_sites = asyncio.Lock()
        """Held while sites are added, removed, moved or paused."""
        self.due = asyncio.Event()
        """Set where something came that may be polled at once; the dispatcher waits for it."""
        self.sites = SiteTable()
        self.settings_pending: dict[int, float] = {}
        """Site id -> when its settings changed, for sites not asked under them yet. Times of polls alone do not tell:
        one that starts while the change is being written goes by the old settings."""
        self.hosts = HostTable(settings)
        self.budget_fit = BudgetFit(
            sites=self.sites, hosts=self.hosts, budget=allocator.budget, send_budget=self.send_budget
        )
        """What of the budget can be spent; the allocator is told it."""
        self.believes_anew = asyncio.Event()
        """Set where beliefs or intervals of all sites are others: `SiteTable.quiet_until` is out of date."""
        self.unusable: dict[int, str] = {}
        """Site id -> what is wrong with its settings in the database: they are set aside when their turn comes."""

    @property
    def budget(self) -> float:
        """Cost per second that the user allows."""
        return self.budget_fit.budget

    def look_again_at_blocked(self, slots: NDArray[np.int64]) -> None:
        """Of the slots int64[k], those that were blocked may be polled now: the settings may be others than then.

        A look that ends at the guard or at known robots rules sends nothing.
        """
        blocked = slots[self.sites.state[slots] == STATE_CODE[SiteState.BLOCKED]]
        self.sites.not_before[blocked] = 0.0
        self.sites.touch(blocked)

    def admit_command(self, slots: NDArray[np.int64]) -> AllocatorCommand:
        """The slots int64[k] come to an allocator, as they are now."""
        table = self.sites
        weight, cost, half_life = table.weight[slots], table.cost[slots], table.half_life[slots]
        host = self.hosts.host_id[table.host[slots]]

        def take_in(allocator: Allocator) -> None:
            allocator.add(slots, weight, cost, half_life)
            allocator.place(slots, host)

        return take_in

    def adopt(self, settings: SchedulingSettings) -> None:
        """Goes by other intervals from now on; pauses and backoffs in force stay."""
        self.settings = self.hosts.settings = settings
        self.believes_anew.set()
        self.budget_fit.fit()

    def clock_set(self, seconds: float) -> None:
        """The clock was set ahead: past moments count as so much later, so that no wait ends early, nor all at once."""
        structlog.get_logger("pollerd.daemon").warning("clock_set", ahead_by=round(seconds, 3))
        sites, hosts = self.sites, self.hosts
        for column in (sites.last_poll, sites.last_seen, sites.repeat_at, hosts.last_start, hosts.robots_at):
            column += seconds  # never stays never: -inf
        hosts.begun_at += seconds
        if not sites.is_as_ever("quiet_until"):
            sites.quiet_until += seconds
        for column in (sites.not_before, hosts.paused_until, hosts.robots_retry_at):
            column[column > 0] += seconds
        sites.eligibility.touch_all()

    def add(self, site_ids: Sequence[int], hosts: Sequence[tuple[int, str]], specs: Sequence[SiteSpec]) -> None:
        """Takes in new sites; `hosts` holds the stored host (id, name) of each."""
        if not site_ids:
            return
        slots = self.sites.add(site_ids)
        table = self.sites
        table.host[slots] = self.hosts.add_many(hosts)
        for name in NUMERIC_SETTINGS:
            table.put(name, slots, np.array([*map(attrgetter(name), specs)], np.float64))  # None becomes nan
        table.paused[slots] = [s.paused for s in specs]
        table.touch(slots)
        self._do(self.admit_command(slots))

    def refusals(self, specs: Sequence[SiteSpec]) -> dict[int, InvalidValueError]:
        """Index -> why, of new sites that the allocator cannot hold beside those there are and those before them."""
        refused: dict[int, InvalidValueError] = {}
        accepted: list[tuple[float, float]] = []
        for i, spec in enumerate(specs):
            kind = (spec.weight, spec.cost)
            if kind not in accepted:
                try:
                    self._admit(np.empty(0, np.int64), [*accepted, kind])
                except InvalidValueError as error:
                    refused[i] = error
                else:
                    accepted.append(kind)
        return refused

    def beyond(self, specs: Sequence[SiteSpec], known: Container[str]) -> dict[int, InvalidValueError]:
        """Index -> why, of sites that are too many for the allocator; `known`: URLs of sites that are there already."""
        most = self.allocator.most_sites
        if most is None:
            return {}
        fresh = [i for i, spec in enumerate(specs) if spec.url not in known]
        room, allowed = max(most - len(self.sites), 0), f"at most {most} while {self.allocator_name} allocates"
        return {
            i: InvalidValueError("number of sites", allowed, len(self.sites) + place)
            for place, i in enumerate(fresh[room:], start=room + 1)
        }

    def admit(self, site_id: int, weight: float, cost: float) -> None:
        """Raises InvalidValueError where the allocator cannot hold the site with this weight and cost."""
        slot = self.sites.slot_of(site_id)
        if slot is not None:
            self._admit(np.array([slot]), [(weight, cost)])

    def _admit(self, slots: NDArray[np.int64], kinds: Sequence[tuple[float, float]]) -> None:
        weight, cost = np.array(kinds, np.float64).T
        self.allocator.admit(slots, weight, cost)

    def update(self, site_id: int, spec: SiteSpec) -> None:
        """Takes over a site's new settings; what was learned of it stays."""
        slot = self.sites.slot_of(site_id)
        if slot is None:
            return
        table = self.sites
        for name in ("min_interval", "max_interval", "min_yield", "respect_ttl"):
            table.put(name, slot, _optional(getattr(spec, name)))
        table.touch([slot])
        new = (spec.weight, spec.cost, _optional(spec.half_life))
        old = (float(table.weight[slot]), float(table.cost[slot]), float(table.half_life[slot]))
        if not np.array_equal(new, old, equal_nan=True):
            for name, value in zip(("weight", "cost", "half_life"), new, strict=True):
                table.put(name, slot, value)
            self._reweigh(slot)
        self.unusable.pop(site_id, None)

    def settings_outdated(self, context: SiteContext) -> bool:
        """Whether the site's settings have changed since `context` was read."""
        changed_at = context.settings_changed_at
        return self.settings_pending.get(context.site_id, changed_at) != changed_at

    def polled_under(self, context: SiteContext) -> None:
        """A poll with the settings of `context` was answered: they are pending no more, unless there are newer ones."""
        if self.settings_pending.get(context.site_id) == context.settings_changed_at:
            self.settings_pending.pop(context.site_id, None)

    def weigh(self, slot: int, weight: float) -> None:
        """Gives the site in the slot another weight; what was learned of it stays."""
        if self.sites.weight[slot] != weight:
            self.sites.put("weight", slot, weight)
            self._reweigh(slot)

    def _reweigh(self, slot: int) -> None:
        """The site's settings have changed; what was learned of it stays."""
        one = np.array([slot])
        self._do(partial(_renew, one, self.admit_command(one)))

    def carry_on(self, site: Site) -> None:
        """A site that was added anew under another URL keeps its counts, and stays paused if it was."""
        slot = self.sites.slot_of(site.id)
        if slot is None:
            return
        self.sites.polls[slot], self.sites.changes[slot] = site.polls, site.changes
        self.sites.paused[slot] = site.state is SiteState.PAUSED
        self.sites.touch([slot])

    def is_paused(self, site_id: int) -> bool:
        """Whether the user paused the site; False for one that is not known."""
        slot = self.sites.slot_of(site_id)
        return slot is not None and bool(self.sites.paused[slot])

    def set_paused(self, site_id: int, paused: bool) -> None:
        """Pauses a site, or resumes it: that ends a backoff and brings back a site that was gone."""
        slot = self.sites.slot_of(site_id)
        if slot is None:
            return
        self.sites.paused[slot] = paused
        self.sites.touch([slot])
        if not paused:
            self._start_again(np.array([slot]))

    def pause_many(self, site_ids: NDArray[np.int64], paused: bool) -> None:
        """Pauses or resumes these sites; nothing else of them changes. Sites that are not known are passed over."""
        slots = self.sites.slots_of(site_ids)
        slots = slots[slots >= 0]
        self.sites.paused[slots] = paused
        self.sites.touch(slots)

    def end_backoffs(self, site_ids: Sequence[int]) -> None:
        """These sites may be polled again."""
        slots = self.sites.slots_of(np.array(site_ids, np.int64))
        self._start_again(slots[slots >= 0])

    def _start_again(self, slots: NDArray[np.int64]) -> None:
        self.sites.state[slots] = STATE_CODE[SiteState.ACTIVE]
        self.sites.not_before[slots] = 0.0
        self.sites.failures[slots] = 0
        self.sites.touch(slots)

    def backing_off_on(self, host: int, now: float) -> NDArray[np.int64]:
        """Ids of the sites on the host slot that back off, int64[k]."""
        table, n = self.sites, self.sites.size
        waiting = (table.host[:n] == host) & table.occupied()
        waiting &= (table.state[:n] == STATE_CODE[SiteState.BACKING_OFF]) & (table.not_before[:n] > now)
        return np.asarray(table.site_id[:n][waiting])

    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        """Teaches the allocator, as `Allocator.observe`."""
        self._do(lambda allocator: allocator.observe(slots, elapsed, evidence, now))

    def follow(self, most: int) -> CommandQueue:
        """A queue of at most `most` commands that gets every command to the active allocator from now on."""
        queue = CommandQueue(most)
        self._followers.append(queue)
        return queue

    def unfollow(self, queue: CommandQueue) -> None:
        """The queue gets no more commands."""
        self._followers.remove(queue)

    def send_budget(self, budget: float) -> None:
        """The allocator goes by this budget (cost per second) from now on, where it differs noticeably from its own."""
        if abs(budget - self.allocator.budget) > _NOTICEABLE * budget:
            self._do(partial(_set_budget, budget))

    def _do(self, command: AllocatorCommand) -> None:
        command(self.allocator)
        for queue in self._followers:
            queue.put(command)

    def remove(self, site_id: int) -> int | None:
        """Forgets a site; returns the slot that it had."""
        slot = self.sites.slot_of(site_id)
        self.settings_pending.pop(site_id, None)
        self.unusable.pop(site_id, None)
        if slot is not None:
            one = np.array([slot])
            self._do(lambda allocator: allocator.remove(one))
            self.sites.remove(slot)
        return slot

    def learn_anew(self, slots: NDArray[np.int64]) -> None:
        """What the polls of the slots int64[k] told of changes was noise: it is forgotten."""
        self._do(lambda allocator: allocator.remove(slots))
        self._do(self.admit_command(slots))

    def begin_anew(self, allocator: Allocator) -> None:
        """Puts in charge an allocator that holds no sites yet and has learned nothing."""
        self.admit_command(np.flatnonzero(self.sites.occupied()))(allocator)
        self.allocator = allocator

    def replace_allocator(self, name: str, allocator: Allocator, objective: str) -> None:
        """Another allocator takes over, for this objective; it must hold the same slots."""
        self.allocator_name, self.allocator, self.objective = name, allocator, objective
        self.believes_anew.set()

    def live(self) -> NDArray[np.bool_]:
        """bool[size]: slots of sites that are being polled, or will be again without the user's doing."""
        eligibility = self.sites.eligibility
        return eligibility.live() if eligibility.is_kept else self.sites.in_force()

    def live_cost(self) -> float:
        """Cost of one poll of every live site."""
        eligibility = self.sites.eligibility
        if self.sites.is_as_ever("cost") and eligibility.is_kept:  # 1 each: asked for at every choice
            return float(eligibility.counts()[: STATE_CODE[SiteState.GONE]].sum())
        live = self.live()
        if self.sites.is_as_ever("cost"):
            return float(np.count_nonzero(live))
        return float(self.sites.cost[: self.sites.size].sum(where=live))

    def uniform_period(self) -> float:
        """Seconds that round robin would leave between two polls of a site: Σ cost / budget.

        Round robin believes nothing: what min_yields leave unspent is its own.
        """
        return self.live_cost() / self.allocator.budget

    def floors(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64[k]: shortest gap between two polls of each of the slots int64[k], s.

        Its noise, and how long it is believed unchanged, are counted in.
        """
        minimum = self.sites.min_interval[slots]
        own = np.where(np.isnan(minimum), self.settings.min_interval_seconds, minimum)
        own = np.maximum(own, NoiseCap(self.sites).floors(self.uniform_period(), slots))
        return np.maximum(own, self.sites.quiet_waits(slots))

    def host_name(self, slot: int) -> str:
        """The host "name:port" of a site's slot."""
        return self.hosts.names[int(self.sites.host[slot])]

    def hosts_polled(self, until: float) -> int:
        """How many hosts have a site that is being polled, or that nothing keeps from being polled by `until`.

        Where they are more than a hundred it is not said how many more.
        """
        table, seen = self.sites, np.zeros(self.hosts.size, np.bool_)
        held = None if self.hosts.is_as_ever("held_until") else self.hosts.held(until)
        for part in stretches(table.size):
            alive = table.in_force(part)
            alive &= table.in_flight[part] | (table.not_before[part] <= until)
            hosts = table.host[part][alive]
            seen[hosts if held is None else hosts[~held[hosts]]] = True
            if np.count_nonzero(seen) > _HOSTS_ENOUGH:
                break
        return int(np.count_nonzero(seen))


def _renew(slots: NDArray[np.int64], take_in: AllocatorCommand, allocator: Allocator) -> None:
    """Takes the slots in anew; what was learned of them stays."""
    learned, shared = allocator.site_state(slots), allocator.shared_state()
    allocator.remove(slots)
    take_in(allocator)
    allocator.restore(slots, learned, shared)


def _set_budget(budget: float, allocator: Allocator) -> None:
    allocator.budget = budget
