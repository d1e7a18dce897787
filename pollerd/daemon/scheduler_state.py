"""The polled sites: the site table, the host table and the allocator, kept consistent."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from operator import attrgetter

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.objectives import deadlines
from pollerd.allocation.registered import DEFAULT_DEADLINE_S
from pollerd.columns import chunks
from pollerd.daemon.budget import BudgetFit
from pollerd.errors import InvalidValueError, refusal
from pollerd.model import STATE_CODE, Site, SiteState
from pollerd.scheduling.eligibility import LONG
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.min_yield import NoiseCap
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable
from pollerd.site_settings import NUMERIC_SETTINGS, SiteSpec, Windows
from pollerd.storage.values import SettingsColumns, SiteContext
from pollerd.texts import _

# Commands that changed the active allocator, queued for its followers.

AllocatorCommand = Callable[[Allocator], None]
"""Changes an allocator: adds or removes sites, observes evidence, sets the budget."""


class CommandQueue:
    """The commands that one follower has not executed yet, oldest first.

    Holds at most `most` of them. One more overflows it: it then drops all and accepts no more.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._commands: list[AllocatorCommand] = []
        self.overflowed = False
        """Whether the follower fell too far behind and has missed commands."""

    def __len__(self) -> int:
        """Returns the number of commands."""
        return len(self._commands)

    def put(self, command: AllocatorCommand) -> None:
        """Appends a command."""
        if self.overflowed:
            return
        self._commands.append(command)
        if len(self._commands) > self._most:
            self.overflowed = True
            self._commands.clear()

    def take(self) -> list[AllocatorCommand]:
        """Removes and returns all commands."""
        commands, self._commands = self._commands, []
        return commands


_HOSTS_ENOUGH = 100
"""Number of hosts beyond which more make no difference: see `hosts_that_must_fail`."""
_NOTICEABLE = 0.01


def _optional(value: float | None) -> float:
    return math.nan if value is None else value


def by_render(error: InvalidValueError, spec: SiteSpec) -> InvalidValueError:
    """Returns the refusal of a site's cost; of a rendered one it names `render`, which is what costs."""
    if error.field != "cost" or not spec.render:
        return error
    return refusal(
        "render",
        _("a rendered poll costs {cost:g}, and cost must be {allowed}", cost=spec.cost or 0, allowed=error.allowed),
    )


def weight_and_cost(spec: SiteSpec) -> tuple[float, float]:
    """Returns weight and cost of a site, or what holds where it has none."""
    weight, cost = spec.weight, spec.cost
    return 1.0 if weight is None else weight, 1.0 if cost is None else cost


def with_defaults(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Returns columns of settings with the defaults of those that no site or tag says; nan: the daemon's."""
    return {name: _or_default(name, values) for name, values in columns.items()}


def _or_default(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    default = NUMERIC_SETTINGS[name]
    return values if default is None else np.where(np.isnan(values), default, values)


_ALLOCATORS_SETTINGS = ("weight", "cost", "half_life", "deadline")
"""Settings of a site that allocators know."""
_SCHEDULERS_SETTINGS = tuple(name for name in NUMERIC_SETTINGS if name not in _ALLOCATORS_SETTINGS)


class SchedulerState:
    """The scheduler's state of the sites, in memory. A slot is the same site in all three parts."""

    def __init__(
        self,
        *,
        settings: SchedulingSettings,
        allocator_name: str,
        allocator: Allocator,
        objective: str = "changes",
        deadline: float = DEFAULT_DEADLINE_S,
        alone: bool = True,
    ) -> None:
        """alone: no other node shares the database; else sites come and go with their partitions (`daemon/nodes`)."""
        self.alone = alone
        self.settings, self.allocator_name, self.allocator = settings, allocator_name, allocator
        self.objective = objective
        """Objective of the budget: one of `OBJECTIVES`."""
        self.deadline = deadline
        """Seconds within which a change should be found under the objective `deadline`, of sites without their own."""
        self._followers: list[CommandQueue] = []
        self.changing_sites = asyncio.Lock()
        """Held while sites are added, removed, moved or paused."""
        self.due = asyncio.Event()
        """Set when something may be polled at once; the poller waits for it."""
        self.sites = SiteTable()
        self.settings_pending: dict[int, float] = {}
        """Site id -> when its settings changed, for sites not polled under them yet. Poll times alone do not suffice: a
        poll that starts while the change is being written uses the old settings."""
        self.hosts = HostTable(settings)
        self.budget_fit = BudgetFit(
            sites=self.sites, hosts=self.hosts, budget=allocator.budget, send_budget=self.send_budget
        )
        """Spendable part of the budget, which it passes to the allocator."""
        self._deadlines_fit: bool | None = None
        self.believes_anew = asyncio.Event()
        """Set when beliefs or intervals of all sites have changed: `SiteTable.unchanged_until` is outdated."""
        self.admissions = 0
        """How often slots were added to the allocator, or another one installed: it knows no signal source of these."""
        self.unread_sources: set[int] = set()
        """Ids of sites whose next poll is not conditional: they are signal sources that were not read yet."""
        self.unusable: dict[int, str] = {}
        """Site id -> what is wrong with its stored settings: such sites are set aside when they are chosen."""

    @property
    def budget(self) -> float:
        """The user's budget, cost per second."""
        return self.budget_fit.budget

    def poll_soon(self, slot: int) -> None:
        """Makes the slot's next poll come before all others, as soon as politeness allows."""
        self.sites.asap[slot] = True
        self.sites.touch([slot])

    def poll_anew(self, slots: NDArray[np.int64]) -> None:
        """Makes the next polls of the slots int64[k] come before all others, not after their backoffs.

        For sites whose settings have changed such that they may be read now. Pauses of their hosts go on.
        """
        waiting = slots[self.sites.state[slots] == STATE_CODE[SiteState.BACKING_OFF]]
        self.sites.not_before[waiting] = 0.0
        self.retry_blocked(slots)
        self.sites.asap[slots] = True
        self.sites.touch(slots)

    def retry_blocked(self, slots: NDArray[np.int64]) -> None:
        """Makes the blocked ones of the slots int64[k] eligible: the settings may have changed since.

        A check that ends at the guard or at known robots rules sends nothing.
        """
        blocked = slots[self.sites.state[slots] == STATE_CODE[SiteState.BLOCKED]]
        self.sites.not_before[blocked] = 0.0
        self.sites.touch(blocked)

    def admit_command(self, slots: NDArray[np.int64]) -> AllocatorCommand:
        """Returns the command that adds the slots int64[k], with their present settings, to an allocator."""
        table = self.sites
        weight, cost = table.weight[slots], table.cost[slots]
        half_life, deadline = table.half_lives(slots), table.deadline[slots]
        host, items = self.hosts.host_id[table.host[slots]], table.items_shown[slots]
        feeds = np.flatnonzero(~np.isnan(items))

        def take_in(allocator: Allocator) -> None:
            allocator.add(slots, weight, cost, half_life, deadline)
            allocator.place(slots, host)
            if feeds.size:
                allocator.set_items_shown(slots[feeds], items[feeds])

        return take_in

    def take_in(self, slots: NDArray[np.int64]) -> None:
        """Adds the slots int64[k], with their present settings, to the allocator."""
        self._do(self.admit_command(slots))
        self.admissions += 1

    def restore_learned(self, states: Sequence[tuple[int, bytes]]) -> None:
        """Restores what the active allocator had learned of sites, (site id, state); unknown sites are skipped.

        Raises InvalidValueError for states that are not of this allocator.
        """
        slots = self.sites.slots_of(np.array([site_id for site_id, _state in states], np.int64))
        known = np.flatnonzero(slots >= 0)
        widths = {len(states[i][1]) for i in known.tolist()}
        if len(widths) > 1:
            raise InvalidValueError("states", _("of one width"), sorted(widths))
        if widths:
            flat = np.frombuffer(b"".join(states[i][1] for i in known.tolist()), np.uint8)
            rows = flat.reshape(len(known), widths.pop())
            self.allocator.restore(slots[known], rows, self.allocator.shared_state())

    def adopt(self, settings: SchedulingSettings) -> None:
        """Applies new intervals; pauses and backoffs in force stay."""
        self.settings = self.hosts.settings = settings
        self.believes_anew.set()
        self.budget_fit.fit()

    def clock_set(self, seconds: float) -> None:
        """Shifts past times after the clock was set ahead, so that waits do not end early or all at once."""
        structlog.get_logger("pollerd.daemon").warning("clock_set", seconds=round(seconds, 3))
        sites, hosts = self.sites, self.hosts
        for column in (sites.last_poll, sites.last_seen, sites.proof_at, hosts.last_start, hosts.robots_at):
            column += seconds  # -inf (never) stays
        hosts.begun_at += seconds
        if not sites.is_default("unchanged_until"):
            sites.unchanged_until += seconds
        for column in (sites.not_before, hosts.paused_until, hosts.robots_retry_at):
            column[column > 0] += seconds
        sites.eligibility.touch_all()

    def add(self, site_ids: Sequence[int], hosts: Sequence[tuple[int, str]], specs: Sequence[SiteSpec]) -> None:
        """Adds new sites; `hosts` holds the stored host (id, name) of each, specs what they are polled by.

        Does nothing on one of several nodes: the database tells the one that polls them.
        """
        if not site_ids or not self.alone:
            return
        slots = self.sites.add(site_ids)
        table = self.sites
        table.host[slots] = self.hosts.add_many(hosts)
        for name in NUMERIC_SETTINGS:
            values = np.array([*map(attrgetter(name), specs)], np.float64)  # None becomes nan
            table.put(name, slots, _or_default(name, values))
        table.paused[slots] = [*map(attrgetter("paused"), specs)]
        self._open_by(slots, [*map(attrgetter("windows"), specs)])
        table.touch(slots)
        self._do(self.admit_command(slots))

    def _open_by(self, slots: NDArray[np.int64], windows: Sequence[Windows | None]) -> None:
        """Gives each of the slots int64[k] its windows."""
        if self.sites.is_default("hours") and not any(windows):
            return
        alike: defaultdict[Windows | None, list[int]] = defaultdict(list)
        for slot, its in zip(slots.tolist(), windows, strict=True):
            alike[its].append(slot)
        for its, some in alike.items():
            self.sites.timetable.put(np.array(some, np.int64), its)

    def load_windows(self, windows: Mapping[int, Windows]) -> None:
        """Gives sites their windows, by site id, at a start."""
        if windows:
            self._open_by(self.sites.slots_of(np.array(list(windows), np.int64)), list(windows.values()))

    def refusals(self, specs: Sequence[SiteSpec]) -> dict[int, InvalidValueError]:
        """Returns index -> reason for new sites that the allocator cannot hold with the existing and preceding ones."""
        refused: dict[int, InvalidValueError] = {}
        accepted: list[tuple[float, float]] = []
        for i, spec in enumerate(specs):
            kind = weight_and_cost(spec)
            if kind not in accepted:
                try:
                    self._admit(np.empty(0, np.int64), [*accepted, kind])
                except InvalidValueError as error:
                    refused[i] = by_render(error, spec)
                else:
                    accepted.append(kind)
        return refused

    def beyond(self, specs: Sequence[SiteSpec], known: Container[str]) -> dict[int, InvalidValueError]:
        """Returns index -> reason for sites beyond the allocator's maximum; `known`: URLs of existing sites."""
        most = self.allocator.most_sites
        if most is None:
            return {}
        fresh = [i for i, spec in enumerate(specs) if spec.url not in known]
        room, allowed = (
            max(most - len(self.sites), 0),
            _("at most {most} while {allocator_name} allocates", most=most, allocator_name=self.allocator_name),
        )
        return {
            i: InvalidValueError(_("number of sites"), allowed, len(self.sites) + place)
            for place, i in enumerate(fresh[room:], start=room + 1)
        }

    def admit(self, site_id: int, weight: float, cost: float) -> None:
        """Raises InvalidValueError if the allocator cannot hold the site with this weight and cost."""
        slot = self.sites.slot_of(site_id)
        if slot is not None:
            self._admit(np.array([slot]), [(weight, cost)])

    def _admit(self, slots: NDArray[np.int64], kinds: Sequence[tuple[float, float]]) -> None:
        weight, cost = np.array(kinds, np.float64).T
        self.allocator.admit(slots, weight, cost)

    def update(self, site_id: int, spec: SiteSpec) -> None:
        """Applies a site's new settings; what was learned of it stays."""
        slot = self.sites.slot_of(site_id)
        if slot is None:
            return
        table = self.sites
        for name in _SCHEDULERS_SETTINGS:
            table.put(name, slot, _optional(getattr(spec, name)))
        self._open_by(np.array([slot]), [spec.windows])
        table.touch([slot])
        new = (*weight_and_cost(spec), _optional(spec.half_life), _optional(spec.deadline))
        old = tuple(float(getattr(table, name)[slot]) for name in _ALLOCATORS_SETTINGS)
        if not np.array_equal(new, old, equal_nan=True):
            for name, value in zip(_ALLOCATORS_SETTINGS, new, strict=True):
                table.put(name, slot, value)
            self._reweigh(np.array([slot]))
        self.unusable.pop(site_id, None)

    def adopt_settings(self, columns: SettingsColumns, faults: Mapping[int, str]) -> None:
        """Applies new settings to many sites; what was learned of them stays. Unknown sites are skipped.

        faults: site id -> what could not be read of its row.
        """
        table = self.sites
        slots = table.slots_of(columns.site_id)
        known = slots >= 0
        ids, slots = columns.site_id[known], slots[known]
        new = with_defaults({name: column[known] for name, column in columns.numbers.items()})
        heavier = np.zeros(len(slots), np.bool_)
        for name, values in new.items():
            if name in _ALLOCATORS_SETTINGS:
                before = getattr(table, name)[slots]
                heavier |= (values != before) & ~(np.isnan(values) & np.isnan(before))
            table.put(name, slots, values)
        self._open_by(slots, [columns.windows.get(site_id) for site_id in ids.tolist()])
        table.touch(slots)
        if heavier.any():
            self._reweigh(slots[heavier])
        for site_id in self.unusable.keys() & set(ids.tolist()):
            del self.unusable[site_id]
        self.unusable |= faults

    def admit_settings(self, columns: SettingsColumns) -> None:
        """Raises InvalidValueError if the allocator cannot hold the sites with these weights and costs."""
        slots = self.sites.slots_of(columns.site_id)
        known = slots >= 0
        new = with_defaults({name: columns.numbers[name][known] for name in ("weight", "cost")})
        self.allocator.admit(slots[known], new["weight"], new["cost"])

    def settings_outdated(self, context: SiteContext) -> bool:
        """Returns whether the site's settings have changed since `context` was read."""
        changed_at = context.settings_changed_at
        return self.settings_pending.get(context.site_id, changed_at) != changed_at

    def polled_under(self, context: SiteContext) -> None:
        """Marks the settings of `context` as used by a poll: no longer pending, unless there are newer ones."""
        if self.settings_pending.get(context.site_id) == context.settings_changed_at:
            self.settings_pending.pop(context.site_id, None)

    def weigh(self, slot: int, weight: float) -> None:
        """Sets the weight of the site in the slot; what was learned of it stays."""
        if self.sites.weight[slot] != weight:
            self.sites.put("weight", slot, weight)
            self._reweigh(np.array([slot]))

    def learn_half_lives(self, half_lives: Mapping[int, float]) -> None:
        """Puts half-lives that were learned from reads in force, by site id, in s; nan: there is none any more.

        Where users gave one, theirs stays. Unknown sites are skipped; what was learned of rates stays.
        """
        table = self.sites
        slots = table.slots_of(np.array(list(half_lives), np.int64))
        known = slots >= 0
        slots, new = slots[known], np.array(list(half_lives.values()), np.float64)[known]
        before = table.half_lives(slots)
        table.put("learned_half_life", slots, new)
        now = table.half_lives(slots)
        moved = (now != before) & ~(np.isnan(now) & np.isnan(before))
        if moved.any():
            self._reweigh(slots[moved])
            table.touch(slots[moved])
            self.due.set()

    def _reweigh(self, slots: NDArray[np.int64]) -> None:
        """Passes the new settings of slots int64[k] to the allocator; what was learned of them stays."""
        self._do(partial(_renew, slots, self.admit_command(slots)))
        self.admissions += 1

    def carry_on(self, site: Site) -> None:
        """Restores the counts and the pause of a site that was re-added under another URL."""
        slot = self.sites.slot_of(site.id)
        if slot is None:
            return
        self.sites.polls[slot], self.sites.changes[slot] = site.polls, site.changes
        self.sites.paused[slot] = site.state is SiteState.PAUSED
        self.sites.touch([slot])

    def is_paused(self, site_id: int) -> bool:
        """Returns whether the user paused the site; False for an unknown site."""
        slot = self.sites.slot_of(site_id)
        return slot is not None and bool(self.sites.paused[slot])

    def is_open(self, slot: int, now: float) -> bool:
        """Returns whether the site in the slot is in its windows, as of `now`, epoch s."""
        if self.sites.is_default("hours"):
            return True
        self.sites.timetable.turn(now)
        return bool(self.sites.timetable.is_open(np.array([slot]))[0])

    def set_paused(self, site_id: int, paused: bool) -> None:
        """Pauses a site, or resumes it; resuming ends a backoff and brings back a gone site."""
        slot = self.sites.slot_of(site_id)
        if slot is None:
            return
        self.sites.paused[slot] = paused
        self.sites.touch([slot])
        if not paused:
            self._start_again(np.array([slot]))

    def pause_many(self, site_ids: NDArray[np.int64], paused: bool) -> None:
        """Pauses or resumes these sites and changes nothing else. Unknown sites are skipped."""
        slots = self.sites.slots_of(site_ids)
        slots = slots[slots >= 0]
        self.sites.paused[slots] = paused
        self.sites.touch(slots)

    def end_backoffs(self, site_ids: Sequence[int]) -> None:
        """Ends the backoffs of these sites."""
        slots = self.sites.slots_of(np.array(site_ids, np.int64))
        self._start_again(slots[slots >= 0])

    def _start_again(self, slots: NDArray[np.int64]) -> None:
        self.sites.state[slots] = STATE_CODE[SiteState.ACTIVE]
        self.sites.not_before[slots] = 0.0
        self.sites.failures[slots] = 0
        self.sites.touch(slots)

    def backing_off_on(self, host: int, now: float) -> NDArray[np.int64]:
        """Returns the ids, int64[k], of the sites on the host slot that are backing off."""
        table, n = self.sites, self.sites.size
        waiting = (table.host[:n] == host) & table.occupied()
        waiting &= (table.state[:n] == STATE_CODE[SiteState.BACKING_OFF]) & (table.not_before[:n] > now)
        return np.asarray(table.site_id[:n][waiting])

    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        """Passes evidence to the allocator, as `Allocator.observe`."""
        self.allocator.observe(slots, elapsed, evidence, now)
        for queue in self._followers:
            queue.put(lambda allocator: allocator.observe(slots, elapsed, evidence, now))

    def set_items_shown(self, slots: NDArray[np.int64], items: NDArray[np.float64]) -> None:
        """Notes how many items slots int64[k] show, float64[k], nan: no limit; tells the allocator what has changed."""
        before = self.sites.items_shown[slots]
        changed = (items != before) & ~(np.isnan(items) & np.isnan(before))
        if changed.any():
            some, now = slots[changed], items[changed]
            self.sites.put("items_shown", some, now)
            self._do(lambda allocator: allocator.set_items_shown(some, now))

    def add_source(self, source: int, slots: NDArray[np.int64], polled_as: int | None) -> None:
        """Makes a signal source known to the allocator, as `Allocator.add_source`."""
        self._do(lambda allocator: allocator.add_source(source, slots, polled_as=polled_as))

    def remove_source(self, source: int) -> None:
        """Has the allocator forget a signal source."""
        self._do(lambda allocator: allocator.remove_source(source))

    def signal(self, slots: NDArray[np.int64], source: int, at: NDArray[np.float64], now: float) -> None:
        """Passes signals to the allocator, as `Allocator.signal`; sites may be due earlier by them."""
        self._do(lambda allocator: allocator.signal(slots, source, at, now))
        self.sites.touch(slots)
        self.due.set()

    def source_fetched(self, source: int, now: float) -> None:
        """Says to the allocator that a signal source was read, as `Allocator.fetched`."""
        self._do(lambda allocator: allocator.fetched(source, now))

    def follow(self, most: int) -> CommandQueue:
        """Returns a queue of at most `most` commands that receives every further command to the active allocator."""
        queue = CommandQueue(most)
        self._followers.append(queue)
        return queue

    def unfollow(self, queue: CommandQueue) -> None:
        """Detaches the queue."""
        self._followers.remove(queue)

    def estimates_chances(self) -> bool:
        """Returns whether the allocator estimates how likely sites have changed; if not, no site is left alone."""
        some = np.flatnonzero(self.sites.occupied())[:1]
        return not np.isnan(self.allocator.change_probabilities(some, np.ones((len(some), 1)))).any()

    def deadlines_fit(self) -> bool:
        """Returns whether the budget allows a poll of each live site within its deadline; of a long list, at times."""
        if self._deadlines_fit is None or self.sites.size <= LONG:
            live = self.live()
            due = deadlines(self.sites.deadline[: self.sites.size], self.deadline)
            fit = float((self.sites.cost[: self.sites.size] / due).sum(where=live)) <= self.budget
            if self._deadlines_fit is not None and fit != self._deadlines_fit:
                self.believes_anew.set()
            self._deadlines_fit = fit
        return self._deadlines_fit

    def send_budget(self, budget: float) -> None:
        """Sets the allocator's budget (cost per second) if it differs noticeably from the present one."""
        if abs(budget - self.allocator.budget) > _NOTICEABLE * budget:
            self._do(partial(_set_budget, budget))

    def _do(self, command: AllocatorCommand) -> None:
        command(self.allocator)
        for queue in self._followers:
            queue.put(command)

    def remove(self, site_id: int) -> int | None:
        """Removes a site; returns its former slot."""
        slot = self.sites.slot_of(site_id)
        self.settings_pending.pop(site_id, None)
        self.unusable.pop(site_id, None)
        if slot is not None:
            slots = np.array([slot])
            self._do(lambda allocator: allocator.remove(slots))
            self.sites.remove(slot)
        return slot

    def learn_anew(self, slots: NDArray[np.int64]) -> None:
        """Discards what was learned of the slots int64[k], because it was noise."""
        self._do(lambda allocator: allocator.remove(slots))
        self._do(self.admit_command(slots))
        self.admissions += 1

    def begin_anew(self, allocator: Allocator) -> None:
        """Installs an allocator without sites or learned state as the active one."""
        self.admit_command(np.flatnonzero(self.sites.occupied()))(allocator)
        self.allocator = allocator
        self.admissions += 1

    def replace_allocator(self, name: str, allocator: Allocator, objective: str, deadline: float) -> None:
        """Installs another active allocator for this objective; it must hold the same slots."""
        self.allocator_name, self.allocator = name, allocator
        self.objective, self.deadline = objective, deadline
        self.believes_anew.set()
        self.admissions += 1

    def live(self) -> NDArray[np.bool_]:
        """Returns bool[size]: slots of sites that are polled, or will be again in these windows of theirs.

        What the budget is shared by: sites that are closed now take nothing of it.
        """
        eligibility = self.sites.eligibility
        live = eligibility.live() if eligibility.is_kept else self.sites.in_force()
        return live if self.sites.is_default("hours") else live & self.sites.open_now(slice(0, self.sites.size))

    def live_cost(self) -> float:
        """Returns the cost of one poll of every live site."""
        eligibility = self.sites.eligibility
        alike = self.sites.is_default("cost") and self.sites.is_default("hours")
        if alike and eligibility.is_kept:  # cost 1 each: called at every choice
            return float(eligibility.counts()[: STATE_CODE[SiteState.GONE]].sum())
        live = self.live()
        if self.sites.is_default("cost"):
            return float(np.count_nonzero(live))
        return float(self.sites.cost[: self.sites.size].sum(where=live))

    def uniform_period(self) -> float:
        """Returns the uniform cycle, s: Σ cost / budget.

        Round robin has no beliefs: it also uses what min_yields leave unspent.
        """
        return self.live_cost() / self.allocator.budget

    def floors(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the shortest gap between two polls of each of the slots int64[k], float64[k] s.

        Includes the noise cap, and the time that the site is believed unchanged.
        """
        minimum = self.sites.min_interval[slots]
        own = np.where(np.isnan(minimum), self.settings.min_interval_seconds, minimum)
        if self.sites.changes_always(slots).any():
            exempt = np.isin(slots, self.allocator.readings_due())
            own = np.maximum(own, NoiseCap(self.sites).floors(self.uniform_period(), slots, exempt))
        return np.maximum(own, self.sites.unchanged_waits(slots))

    def host_name(self, slot: int) -> str:
        """Returns the host "name:port" of a site's slot."""
        return self.hosts.names[int(self.sites.host[slot])]

    def hosts_polled(self, until: float) -> int:
        """Returns the number of hosts with a site that is being polled or may be polled by `until`.

        Counting stops soon after a hundred.
        """
        table, seen = self.sites, np.zeros(self.hosts.size, np.bool_)
        held = None if self.hosts.is_default("held_until") else self.hosts.held(until)
        for part in chunks(table.size):
            alive = table.in_force(part)
            alive &= table.in_flight[part] | (table.soonest(part) <= until)
            hosts = table.host[part][alive]
            seen[hosts if held is None else hosts[~held[hosts]]] = True
            if np.count_nonzero(seen) > _HOSTS_ENOUGH:
                break
        return int(np.count_nonzero(seen))


def _renew(slots: NDArray[np.int64], take_in: AllocatorCommand, allocator: Allocator) -> None:
    """Re-adds the slots; what was learned of them stays."""
    learned, shared = allocator.site_state(slots), allocator.shared_state()
    allocator.remove(slots)
    take_in(allocator)
    allocator.restore(slots, learned, shared)


def _set_budget(budget: float, allocator: Allocator) -> None:
    allocator.budget = budget
