"""Followers, which bring this node in step with changes of the others: partitions, sites, budget, allocation."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.daemon.budget import Budget
from pollerd.daemon.commit import Journal
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.sites import SiteRemoval, add_stored, adopt_stored, stored_ttls
from pollerd.daemon.forecast import Forecast, reported_curve
from pollerd.daemon.loading import ScheduleLoader
from pollerd.daemon.nodes.shared_hosts import SharedHosts
from pollerd.daemon.notifier import Notifier
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.settings import BUDGET_MIN
from pollerd.daemon.sources import SourceReader
from pollerd.daemon.stages import SiteCache
from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.inheritance import read_by_polls
from pollerd.storage.grants import GrantAnswer, GrantReport, GrantStore
from pollerd.storage.node_news import News, NewsTable
from pollerd.storage.nodes import ClusterStore
from pollerd.storage.sites import SiteStore
from pollerd.storage.store import Store
from pollerd.storage.values import HostRow, ScheduleRows
from pollerd.telemetry import ClusterInstruments

# Partitions: their sites are loaded into memory, and removed again.

_SITES_AT_ONCE = 1_000
_REMOVED_AT_ONCE = 50
_DRAIN_STEP_SECONDS = 0.05


class PartitionLoader:
    """Loads and unloads the sites of partitions. The caller holds the partitions' locks."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        sites: SiteStore,
        scheduler: SchedulerState,
        removal: SiteRemoval,
        journal: Journal,
        shared: SharedHosts,
        clock: Callable[[], float],
    ) -> None:
        self._cluster, self._store, self._scheduler = cluster, sites, scheduler
        self._removal, self._journal, self._clock = removal, journal, clock
        self._shared = shared
        self._sites_of: dict[int, set[int]] = {}
        self._log = structlog.get_logger("pollerd.cluster")

    @property
    def loaded(self) -> frozenset[int]:
        """Partitions whose sites are in memory."""
        return frozenset(self._sites_of)

    def holds(self, partition: int) -> bool:
        """Returns whether the partition's sites are in memory."""
        return partition in self._sites_of

    def sizes(self) -> dict[int, int]:
        """Returns the number of sites of each loaded partition."""
        return {partition: len(sites) for partition, sites in self._sites_of.items()}

    def sites_of(self, partition: int) -> frozenset[int]:
        """Returns the ids of the partition's sites in memory."""
        return frozenset(self._sites_of.get(partition, ()))

    async def load(self, partition: int, quiet_seconds: float) -> int:
        """Brings the sites of a partition in; returns how many.

        quiet_seconds: how long requests of a holder that died may still be under way; no host is asked before they end.
        Raises DatabaseUnavailableError; then nothing of it is in memory.
        """
        self._sites_of[partition] = ids_here = set[int]()
        try:
            await self._load(partition, quiet_seconds)
        except BaseException:
            self.drop(partition)
            raise
        return len(ids_here)

    async def _load(self, partition: int, quiet_seconds: float) -> None:
        scheduler = self._scheduler
        await self._shared.load(partition)
        async with scheduler.changing_sites:
            async for hosts, site_ids in self._cluster.contents(partition):
                ids = np.array([host.id for host in hosts], np.int64)
                known = scheduler.hosts.slots_of_ids(ids)
                for column in (scheduler.hosts.paused_until, scheduler.hosts.throttles):
                    column[known[known >= 0]] = 0  # of an earlier time in which this node held them
                self._add_hosts(hosts, all_hosts=quiet_seconds > 0)
                for start in range(0, len(site_ids), _SITES_AT_ONCE):
                    await self.add(partition, site_ids[start : start + _SITES_AT_ONCE], quiet_seconds)
        self._shared.open(partition, quiet_seconds)
        scheduler.due.set()

    def _add_hosts(self, hosts: Sequence[HostRow], *, all_hosts: bool) -> None:
        """Brings hosts in; another process may have asked them until now (see `HostTable.asked_until`)."""
        table = self._scheduler.hosts
        loader = ScheduleLoader(self._scheduler)
        loader.add_hosts(hosts)
        here = table.slots_of_ids(np.array([host.id for host in hosts], np.int64)).astype(np.int64)
        loader.set_hosts_right(here, self._clock())
        table.asked_until(here, self._clock(), all_hosts=all_hosts)

    async def _add_missing_hosts(self, host_ids: NDArray[np.int64]) -> None:
        """Brings in those of these hosts that are not in memory: their first sites were added at another node."""
        missing = np.unique(host_ids[self._scheduler.hosts.slots_of_ids(host_ids) < 0])
        if len(missing):
            self._add_hosts(await self._store.hosts.among(missing.tolist()), all_hosts=False)

    async def add(self, partition: int, site_ids: Sequence[int], quiet_seconds: float = 0.0) -> None:
        """Brings sites of a loaded partition in, ascending; those in memory already, or not stored, are skipped."""
        scheduler = self._scheduler
        ids = np.array(site_ids, np.int64)
        missing = ids[scheduler.sites.slots_of(ids) < 0].tolist()
        rows, faults = await self._store.schedule.of(missing)
        learned = await self._store.schedule.learned_of(scheduler.allocator_name, missing)
        ttls = await stored_ttls(scheduler, self._store, rows)
        await self._add_missing_hosts(rows.host_id)
        here = self._sites_of.get(partition)
        if here is None or not len(rows):
            return
        slots = add_stored(scheduler, rows, faults, learned, ttls, now=self._clock())
        here.update(rows.site_id.tolist())
        if quiet_seconds:
            quiet = self._clock() + quiet_seconds
            scheduler.sites.not_before[slots] = np.maximum(scheduler.sites.not_before[slots], quiet)
            scheduler.sites.touch(slots)

    async def unload(self, partition: int, patience: float) -> None:
        """Takes the sites of a partition out. Polls in flight have `patience` seconds to end and be committed.

        Those that do not are called off: they never happened. Requests of sites of other partitions that were
        redirected to hosts of it have as long to end; see `visited`.
        """
        self._shared.close(partition)
        left = self._sites_of.pop(partition, set())
        sites = self._scheduler.sites
        until = time.monotonic() + patience
        while left or (self.visited(partition) and time.monotonic() < until):
            done = 0
            for site_id in sorted(left):
                slot = sites.slot_of(site_id)
                if slot is None or not sites.in_flight[slot] or time.monotonic() >= until:
                    self._removal.remove(site_id)
                    left.discard(site_id)
                    done += 1
                    if done % _REMOVED_AT_ONCE == 0:
                        await asyncio.sleep(0)
            if left or self.visited(partition):
                await self._journal.flush()
                await asyncio.sleep(_DRAIN_STEP_SECONDS)
        await self._journal.flush()
        await self._scheduler.budget_fit.fit_in_steps()

    def drop(self, partition: int) -> None:
        """Takes the sites of a partition out at once, because another node holds it; what was not committed is lost."""
        self._shared.close(partition)
        for site_id in sorted(self._sites_of.pop(partition, ())):
            self._removal.remove(site_id)

    async def share_hosts(self, names: Collection[str] | None) -> None:
        """Asks hosts of this node's partitions with claims from now on: these, or all that are marked (None)."""
        await self._shared.adopt(names)

    def visited(self, partition: int) -> bool:
        """Returns whether a request of a site of another partition may be under way to a host of this one."""
        return self._shared.visited(partition)

    def forget(self, site_id: int) -> None:
        """Takes one site out that is gone."""
        for here in self._sites_of.values():
            here.discard(site_id)
        self._removal.remove(site_id)


# Sites, tags and hosts that other nodes changed in the database.

_AT_ONCE = 1_000


class SiteFollower:
    """Adopts what is stored of sites in the partitions of this node."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        store: SiteStore,
        loader: PartitionLoader,
        scheduler: SchedulerState,
        site_cache: SiteCache,
        clock: Callable[[], float],
    ) -> None:
        self._cluster, self._store, self._loader = cluster, store, loader
        self._scheduler, self._site_cache, self._clock = scheduler, site_cache, clock

    async def adopt(self, site_ids: Sequence[int]) -> None:
        """Adopts these sites as they are stored: new ones, changed ones, and those that are gone."""
        for start in range(0, len(site_ids), _AT_ONCE):
            async with self._scheduler.changing_sites:
                await self._some(sorted(site_ids[start : start + _AT_ONCE]))
        self._scheduler.due.set()

    async def adopt_all(self) -> None:
        """Adopts all sites of the partitions of this node, and all tags: news of some may have been missed."""
        await self._loader.share_hosts(None)
        await self._store.tags.load()
        for partition in sorted(self._loader.loaded):
            known = self._loader.sites_of(partition)
            stored: list[int] = []
            async for _, site_ids in self._cluster.contents(partition):
                stored += site_ids
            await self.adopt(sorted({*known, *stored}))

    async def adopt_tag(self, name: str) -> None:
        """Adopts the settings of a tag, which its sites inherit."""
        before = self._store.tags.in_force.get(name)
        tags = await self._store.tags.load()
        async for columns, _ in self._store.tags.tagged(name, tags):
            await self.adopt(columns.site_id.tolist())
            if read_by_polls(before) != read_by_polls(tags.get(name)):
                self.poll_anew(columns.site_id.tolist())

    async def share_hosts(self, names: Collection[str]) -> None:
        """Asks these hosts with claims only, if they are of this node: another one wants to ask them, too."""
        await self._loader.share_hosts(names)

    async def adopt_hosts(self, host_ids: Sequence[int]) -> None:
        """Adopts pauses of hosts, and ends of pauses, by hand."""
        hosts = self._scheduler.hosts
        for row in await self._store.hosts.among(host_ids):
            slot = hosts.slot_of(row.name)
            if slot is not None and row.override is not None:
                hosts.override(slot, row.override)
                if not row.override.paused:
                    self._scheduler.end_backoffs(self._scheduler.backing_off_on(slot, self._clock()).tolist())
        self._scheduler.due.set()

    def poll_anew(self, site_ids: Sequence[int]) -> None:
        """Has those of these sites that are here polled before all others, not after their backoffs."""
        slots = self._scheduler.sites.slots_of(np.array(site_ids, np.int64))
        self._scheduler.poll_anew(slots[slots >= 0])
        self._scheduler.due.set()

    def poll_soon(self, site_ids: Sequence[int]) -> None:
        """Has those of these sites that are here polled before all others."""
        slots = self._scheduler.sites.slots_of(np.array(site_ids, np.int64))
        for slot in slots[slots >= 0].tolist():
            self._scheduler.poll_soon(slot)
        self._scheduler.due.set()

    async def _some(self, site_ids: Sequence[int]) -> None:
        partitions = await self._cluster.partitions_of_sites(site_ids)
        rows, faults = await self._store.schedule.of(site_ids)
        stored = set(rows.site_id.tolist())
        moved = self._moved(rows)
        for site_id in site_ids:
            if site_id not in stored or site_id in moved or not self._loader.holds(partitions.get(site_id, -1)):
                self._loader.forget(site_id)
        for partition in {partitions[site_id] for site_id in stored if site_id in partitions}:
            if self._loader.holds(partition):
                of_it = [site_id for site_id in sorted(stored) if partitions.get(site_id) == partition]
                await self._loader.add(partition, of_it)
        self._adopt_settings(rows, faults, await self._cluster.settings_changed_at(site_ids))

    def _moved(self, rows: ScheduleRows) -> set[int]:
        """Returns the ids of sites that are on another host by now."""
        table, hosts = self._scheduler.sites, self._scheduler.hosts
        slots = table.slots_of(rows.site_id)
        known = slots >= 0
        here: NDArray[np.int64] = hosts.host_id[table.host[slots[known]]]
        return set(rows.site_id[known][here != rows.host_id[known]].tolist())

    def _adopt_settings(self, rows: ScheduleRows, faults: dict[int, str], changed_at: dict[int, float]) -> None:
        adopt_stored(self._scheduler, self._site_cache, rows, faults, changed_at, self._clock())
        for site_id, paused in zip(rows.site_id.tolist(), rows.paused.tolist(), strict=True):
            if self._scheduler.is_paused(site_id) != paused:
                self._scheduler.set_paused(site_id, paused)


# The grant: the share of this node in the budget of all, and its reports of the value of more.

_REPORT_SECONDS = 3.0
_SOON_SECONDS = 1.0
"""Between two reports while others have not yet given back what this node is to have, and after an error."""


_FALL_SECONDS, _RISE_SECONDS = 10.0, 5.0
"""For how long a grant must not be spent before less is asked for, and be spent entirely before more is."""
_SPENT_SHARE, _ALL_SHARE = 0.95, 0.98
"""Shares of the grant: below the first it is not spent, from the second on entirely."""
_LEAST_SHARE = 0.01
"""Share of the whole budget that a node asks for in any case: who has nothing cannot show that it could spend more."""
_FIRST_RISE, _MOST_RISE, _RISE_POWER = 1.05, 2.0, 1.5
"""By what a grant grows at first after it fell, at most, and how that itself grows: a slow node wastes little."""


class SpendingLimit:
    """The most that this node can spend, found from what it did.

    A grant of which the share s is spent falls by s², or by half: a loop that turns late loses less of a smaller one.
    While all of it is spent it grows, faster and faster.
    """

    def __init__(self, now: float) -> None:
        self.able = math.inf
        """Polls per second; inf: whatever it is given."""
        self._rise = _FIRST_RISE
        self._judged_at, self._judged_lost = now, 0.0
        self._full_at = now
        self._looked_at, self._looked_lost = now, 0.0

    def look(self, now: float, lost: float, grant: float, whole: float) -> float:
        """Returns what this node can spend.

        lost: for how long in all it did not spend although sites were due, s. grant: of this node, whole: of all.
        """
        if not self._all_spent(now, lost):
            self._full_at = now
        elif self.able < math.inf and now - self._full_at >= _RISE_SECONDS:
            self._restart(now, lost)
            self.able = self.able * self._rise if self.able * self._rise < whole else math.inf
            self._rise = min(self._rise**_RISE_POWER, _MOST_RISE)
        if now - self._judged_at >= _FALL_SECONDS:
            spent = 1 - (lost - self._judged_lost) / (now - self._judged_at)
            self._restart(now, lost)
            if spent < _SPENT_SHARE and grant > 0:
                self.able = max(min(self.able, grant) * max(spent**2, 0.5), whole * _LEAST_SHARE, BUDGET_MIN)
                self._rise = _FIRST_RISE
        return self.able

    def pass_over(self, now: float, lost: float) -> float:
        """As `look`, after a time that shows nothing: there were no sites, or none might be polled."""
        self._looked_at, self._looked_lost = now, lost
        self._restart(now, lost)
        return self.able

    def _all_spent(self, now: float, lost: float) -> bool:
        """Returns whether all was spent since the last look."""
        idle, since = lost - self._looked_lost, now - self._looked_at
        self._looked_at, self._looked_lost = now, lost
        return since > 0 and idle <= (1 - _ALL_SHARE) * since

    def _restart(self, now: float, lost: float) -> None:
        self._judged_at, self._judged_lost, self._full_at = now, lost, now


class GrantFollower:
    """Keeps the node's budget at its grant."""

    def __init__(
        self,
        *,
        store: Store,
        cluster: ClusterStore,
        grants: GrantStore,
        scheduler: SchedulerState,
        budget: Budget,
        forecast: Forecast,
        instruments: ClusterInstruments,
    ) -> None:
        """budget: its rate is that of all nodes, until this one gets its first grant."""
        self._store, self._cluster, self._grants = store, cluster, grants
        self._scheduler, self._budget, self._forecast = scheduler, budget, forecast
        self._whole, self._instruments = budget.rate, instruments
        self._spending = 0.0
        self._limit = SpendingLimit(time.monotonic())
        self._log = structlog.get_logger("pollerd.cluster")

    async def run(self) -> None:
        """Reports until cancelled."""
        while True:
            try:
                answer = await self._report()
            except DatabaseUnavailableError as error:  # what it has stays its own meanwhile
                self._log.warning("budget_report_put_off", reason=str(error))
                await asyncio.sleep(_SOON_SECONDS)
            else:
                await asyncio.sleep(_SOON_SECONDS if answer.grant < answer.target else _REPORT_SECONDS)

    async def adopt_budget(self) -> None:
        """Gives all nodes the budget that somebody set. Raises DatabaseUnavailableError."""
        stored = await self._store.allocation.load()
        if stored is not None and stored.budget != self._whole:
            await self._grants.set_budget(stored.budget)
            self._whole = stored.budget

    async def leave(self) -> None:
        """Gives back what this node has; it writes no more requests. Raises DatabaseUnavailableError."""
        await self._grants.leave(str(self._cluster.node_id))

    async def _report(self) -> GrantAnswer:
        cost, curve = await reported_curve(self._forecast, self._whole)
        now, lost = time.monotonic(), self._budget.gate.lost_seconds() - self._budget.meter.idle_seconds()
        if cost > 0 and self._cluster.may_write():
            able = self._limit.look(now, lost, self._spending, self._whole)
        else:
            able = self._limit.pass_over(now, lost)
        spent = self._budget.meter.rate()
        self._instruments.spent.set(spent)
        while True:
            # By its id, which no later process has: what a dead one had may still be spent.
            report = GrantReport(
                node=str(self._cluster.node_id),
                spending=self._spending,
                cost=cost,
                curve=curve,
                able=None if math.isinf(able) else able,
                spent=spent,
            )
            answer = await self._grants.report(report, self._cluster.living_names, self._whole)
            if answer.budget != self._whole:
                # That of the nodes before, whatever this one was started with; or a new one.
                self._log.info("budget_of_all_nodes", budget=answer.budget, previous=self._whole)
            self._whole = answer.budget
            lowered = answer.grant < self._spending
            self._spend(answer.grant)
            self._instruments.grant.set(answer.grant)
            self._instruments.grant_target.set(answer.target)
            self._instruments.price.set(answer.price)
            self._instruments.clock_ahead.set(answer.clock_ahead)
            if not lowered:
                return answer

    def _spend(self, grant: float) -> None:
        if grant < BUDGET_MIN:
            self._spending = 0.0
            self._budget.granted.clear()
        elif grant != self._spending:
            self._spending = self._budget.rate = grant
            self._scheduler.budget_fit.fit(grant)
            self._budget.granted.set()
            self._scheduler.due.set()


# The allocation that was set for all nodes, followed in a separate task: a new allocator learns for a while.

_RETRY_SECONDS = 1.0


class AllocationFollower:
    """Brings this node in step whenever it may have changed."""

    def __init__(self, control: AllocationControl, grants: GrantFollower) -> None:
        self._control, self._grants = control, grants
        self._wanted = asyncio.Event()
        self._log = structlog.get_logger("pollerd.cluster")

    def look_again(self) -> None:
        """Asks for a look at what is stored."""
        self._wanted.set()

    async def run(self) -> None:
        """Follows until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._grants.adopt_budget()
                await self._control.adopt()
            except DatabaseUnavailableError as error:
                self._log.warning("allocation_put_off", reason=str(error))
                self._wanted.set()
                await asyncio.sleep(_RETRY_SECONDS)
            except InvalidValueError as error:  # it holds sites that the allocator cannot hold
                self._log.error("allocation_refused", reason=str(error), effect="the previous policy stays in use")


_GATHER_SECONDS = 0.05
"""How long news are gathered before they are looked at together."""
_SITES = frozenset({NewsTable.SITE, NewsTable.SITE_MARK})
_NOTIFYING = frozenset({NewsTable.RULE, NewsTable.CHANNEL})


NewsHandler = Callable[[Collection[int] | None], Awaitable[None]]
"""Called with the ids of rows that were written; None: some may have been missed."""


class Follower:
    """Brings each part of this node in step with what was written, by whomever."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        sites: SiteFollower,
        notifier: Notifier,
        sources: SourceReader,
        handlers: Mapping[NewsTable, NewsHandler],
        allocation: AllocationFollower,
        outbox_filled: asyncio.Event,
    ) -> None:
        """handlers: of other tables than are looked at here. outbox_filled: wakes the delivery, if this node has it."""
        self._outbox_filled, self._handlers = outbox_filled, handlers
        self._cluster, self._sites = cluster, sites
        self._notifier, self._sources, self._allocation = notifier, sources, allocation
        self._received: set[News] = set()
        self._all = False
        self._any = asyncio.Event()
        self._log = structlog.get_logger("pollerd.cluster")

    async def run(self) -> None:
        """Follows until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receive(self._cluster.listen()), name="news")
            while True:
                await self._any.wait()
                await asyncio.sleep(_GATHER_SECONDS)
                self._any.clear()
                received, self._received = self._received, set()
                everything, self._all = self._all, False
                await self._retried(self._adopt_all if everything else lambda r=received: self._adopt(r))  # type: ignore[misc]

    async def _receive(self, news: AsyncIterator[News | None]) -> None:
        async for item in news:
            if item is None:
                self._all = True
            else:
                self._received.add(item)
            self._any.set()

    async def _retried(self, call: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await call()
            except DatabaseUnavailableError as error:
                self._log.warning("news_put_off", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _adopt_all(self) -> None:
        await self._sites.adopt_all()
        self._allocation.look_again()
        await self._notifier.reload()
        await self._sources.look_again()
        for handler in self._handlers.values():
            await handler(None)
        self._outbox_filled.set()

    async def _adopt(self, received: set[News]) -> None:
        tables = {item.table for item in received}
        shared = {item.key for item in received if item.table is NewsTable.SHARED_HOST}
        if shared:
            await self._sites.share_hosts(shared)
        sites = sorted({int(item.key) for item in received if item.table in _SITES})
        if sites:
            await self._sites.adopt(sites)
        for name in sorted(item.key for item in received if item.table is NewsTable.TAG):
            await self._sites.adopt_tag(name)
        asked = sorted({int(item.key) for item in received if item.table is NewsTable.POLL_REQUEST})
        self._sites.poll_soon(asked)
        changed = sorted({int(item.key) for item in received if item.table is NewsTable.SETTINGS_POLL})
        self._sites.poll_anew(changed)
        hosts = sorted(int(item.key) for item in received if item.table is NewsTable.HOST_OVERRIDE)
        if hosts:
            await self._sites.adopt_hosts(hosts)
        if tables & _NOTIFYING:
            await self._notifier.reload()
        if NewsTable.OUTBOX in tables:
            self._outbox_filled.set()
        if NewsTable.ALLOCATION in tables:
            self._allocation.look_again()
        if NewsTable.SOURCE in tables:
            await self._sources.look_again()
        for table in tables & self._handlers.keys():
            await self._handlers[table]({int(item.key) for item in received if item.table is table})
