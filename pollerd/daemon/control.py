"""What the outside may do to the running daemon. The API gets this, and never reaches further in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import structlog

from pollerd import allocation
from pollerd.daemon.allocation.explain import ScheduleExplainer
from pollerd.daemon.allocation.forecast import Forecast
from pollerd.daemon.allocation.handover import AllocatorHandover
from pollerd.daemon.allocation.shadows import Shadows
from pollerd.daemon.crawler.crawler import FocusedCrawler
from pollerd.daemon.crawler.report import CollectionReporter, CollectionView
from pollerd.daemon.host_control import HostControl
from pollerd.daemon.polling.budget_gate import BudgetGate
from pollerd.daemon.polling.budget_meter import BudgetMeter
from pollerd.daemon.polling.dispatcher import Dispatcher
from pollerd.daemon.polling.outage_filter import OutageFilter
from pollerd.daemon.polling.robots_txt import RobotsKeeper
from pollerd.daemon.polling.write_pacer import WritePacer
from pollerd.daemon.results.calibration import CalibrationSums
from pollerd.daemon.results.journal import Journal
from pollerd.daemon.state.believed_unchanged import note_quiet
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.settings import DaemonSettings, check_budget
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.daemon.state.storage_health import StorageHealth
from pollerd.daemon.state.views import AllocationView, ExplanationView, LiveSite, Status
from pollerd.detection import noise_of
from pollerd.errors import DatabaseUnavailableError, DuplicateError, InvalidValueError, NotFoundError, SchemaError
from pollerd.model import Site, SiteSpec, differing
from pollerd.storage import (
    AddResult,
    AllocationRow,
    NewSettings,
    RestoreResult,
    SettingsResult,
    SiteChanges,
    SiteRestore,
    Store,
)
from pollerd.telemetry import Instruments
from pollerd.urls import host_of, origin_of

OBJECTIVES = ("changes", "freshness", "interest")
_HEALTHY_TICKS = 3
_TAKEN_OVER_AT_ONCE = 1_000
_HEALTHY_FLOOR_SECONDS = 1.0
_CHECK_SECONDS = 3.0
"""Whoever asks whether all is well has to be answered, whatever became of the database."""


class Control:
    """Adds, changes and removes sites, steers the allocation, and tells how the daemon is.

    Every change goes to the database first, then to memory, one at a time.
    """

    def __init__(
        self,
        store: Store,
        scheduler: SchedulerState,
        gate: BudgetGate,
        dispatcher: Dispatcher,
        robots: RobotsKeeper,
        outage_filter: OutageFilter,
        journal: Journal,
        health: StorageHealth,
        memories: SiteCache,
        meter: BudgetMeter,
        calibration: CalibrationSums,
        settings: DaemonSettings,
        instruments: Instruments,
        rng: np.random.Generator,
        clock: Callable[[], float],
        explorer: FocusedCrawler | None = None,
        *,
        pacer: WritePacer,
    ) -> None:
        """`explorer`: the topic robot, where there is one."""
        self._explorer = explorer
        self._store, self._scheduler, self._gate, self._dispatcher = store, scheduler, gate, dispatcher
        self._pacer = pacer
        self._robots, self._outage_filter, self._journal, self._memories = robots, outage_filter, journal, memories
        self._health = health
        self._meter, self._settings, self._rng, self._clock = meter, settings, rng, clock
        self._calibration = calibration
        self._objective = settings.objective
        self.turn = asyncio.Lock()
        """Held by whoever changes which sites there are."""
        self._allocating = asyncio.Lock()
        self._log = structlog.get_logger("pollerd.control")
        self.hosts = HostControl(
            store=store, health=health, scheduler=scheduler, journal=journal, dispatcher=dispatcher, clock=clock
        )
        """What is known of hosts, and what may be done to them."""
        self.forecast = Forecast(scheduler, lambda: self._objective, clock)
        self.shadows = Shadows(
            store, scheduler, journal, self.forecast, instruments, lambda: self._objective, rng, clock
        )
        self.explainer = ScheduleExplainer(
            scheduler, meter, self.forecast, calibration, self.shadows.views, lambda: self._objective, clock
        )
        self.collection_outlook = CollectionReporter(store, scheduler, clock)

    # --- sites ---------------------------------------------------------------------------------------------------

    async def add_sites(self, specs: Sequence[SiteSpec], *, respect_deleted: bool = False) -> AddResult:
        """Adds sites whose URLs are normalised; those that exist, or were deleted, are named in the result.

        `respect_deleted`: leave out URLs that a user deleted (the list that is read at every start does).
        Sites that the allocator in charge cannot hold are refused, one by one.
        """
        async with self.turn:
            refused = self._scheduler.refusals(specs)
            if self._scheduler.allocator.most_sites is not None:
                there = {site.spec.url for site in (await self._store.list_sites(limit=1000)).items}
                refused |= self._scheduler.beyond(specs, there)
            places = [i for i in range(len(specs)) if i not in refused]
            specs = [specs[i] for i in places]
            hosts = [host_of(spec.url) for spec in specs]
            result = await self._store.add_sites(specs, hosts, self._clock(), respect_deleted=respect_deleted)
            self._scheduler.add(
                [site_id for site_id, _, _ in result.added],
                [(host_id, hosts[i]) for _, i, host_id in result.added],
                [specs[i] for _, i, _ in result.added],
            )
            await self._take_in_unknown([site_id for site_id, _ in result.existing])
        await self._scheduler.fit_budget_to_growth()
        self._dispatcher.wake()
        return _renumbered(result, places, refused) if refused else result

    async def _take_in_unknown(self, site_ids: Sequence[int]) -> None:
        """Sites whose adding went in although its answer was lost stand in the database, and not in memory yet."""
        ids = np.array(site_ids, np.int64)
        for site_id in ids[self._scheduler.sites.slots_of(ids) < 0].tolist():
            site = await self._store.get_site(site_id)
            host_id = await self._store.host_id(site.host)
            self._scheduler.add([site_id], [(host_id, site.host)], [site.spec])

    async def add_site(self, spec: SiteSpec) -> Site:
        """Adds one site. Raises DuplicateError with the existing id, InvalidValueError where it cannot be held."""
        result = await self.add_sites([spec])
        if result.refused:
            raise result.refused[0][1]
        if result.existing:
            raise DuplicateError("site", spec.url, result.existing[0][0])
        return await self._store.get_site(result.added[0][0])

    async def update_site(self, site_id: int, changes: SiteChanges) -> Site:
        """Changes what defines a site; what was learned of it stays.

        Raises NotFoundError, DuplicateError, and InvalidValueError where the allocator cannot hold it so.
        """
        async with self.turn:
            if "url" in changes:
                changes = {**changes, "host": host_of(changes["url"])}
            before = await self._store.get_site(site_id)
            changes = _without_leak(before.spec, changes)
            if "weight" in changes or "cost" in changes:
                self._scheduler.admit(
                    site_id, changes.get("weight", before.spec.weight), changes.get("cost", before.spec.cost)
                )
            now = self._clock()
            site = await self._store.update_site(site_id, changes, now)
            self._scheduler.settings_pending[site_id] = now
            self._memories.forget(site_id)
            if site.spec.url != before.spec.url:
                host_id = await self._store.host_id(site.host)
                self.drop(site_id)
                self._journal.forget(site_id)
                self._outage_filter.forget(site_id)
                self._scheduler.add([site_id], [(host_id, site.host)], [site.spec])
                self._scheduler.carry_on(site)
            self._scheduler.update(site_id, site.spec)
            note_quiet(self._scheduler, np.array([self._slot(site_id)]))
            if "paused" in changes:
                self._scheduler.set_paused(site_id, changes["paused"])
        self._dispatcher.wake()
        return site

    async def pause_sites(self, tag: str | None, paused: bool, *, by: str) -> int:
        """Pauses or resumes all sites, or all with this tag; how many were not so before.

        Nothing else of them changes: a backoff goes on, and a site that was gone stays so. `by`: who wants it. Some
        after the other: where the database fails in between, those before are paused, and to call again does the rest.
        """
        count = 0
        async with self.turn:
            async for ids, changed in self._store.pause_sites(tag, paused):
                self._scheduler.pause_many(ids, paused)
                count += changed
        self._log.warning("sites_paused" if paused else "sites_resumed", sites=count, tag=tag, by=by)
        self._dispatcher.wake()
        return count

    async def bring_in_line(self, specs: Sequence[SiteSpec]) -> SettingsResult:
        """Sites at the URLs of these specs get exactly their settings; what was learned of them stays.

        URLs that are no sites are passed over. Settings that the allocator in charge cannot hold are refused, one by
        one. One transaction. Raises InvalidValueError where a value cannot be kept.
        """
        result = SettingsResult([], [])
        async with self.turn:
            there = await self._store.sites_at([spec.url for spec in specs])
            wanted: list[NewSettings] = []
            for i, spec in enumerate(specs):
                site = there.get(spec.url)
                if site is None or not differing(site.spec, spec):
                    continue
                try:
                    self._scheduler.admit(site.id, spec.weight, spec.cost)
                except InvalidValueError as error:
                    result.refused.append((i, error))
                    continue
                wanted.append(NewSettings(site.id, spec, resumed=site.spec.paused and not spec.paused))
                result.changed.append((site.id, i))
            if wanted:
                await self._take_settings(wanted, {site.id: site for site in there.values()})
        return result

    async def _take_settings(self, wanted: Sequence[NewSettings], before: Mapping[int, Site]) -> None:
        now = self._clock()
        await self._store.put_settings(wanted, now)
        for one in wanted:
            self._scheduler.settings_pending[one.site_id] = now
            self._memories.forget(one.site_id)
            self._scheduler.update(one.site_id, one.spec)
            if one.spec.paused != before[one.site_id].spec.paused:
                self._scheduler.set_paused(one.site_id, one.spec.paused)
        self._dispatcher.wake()

    async def restore_sites(self, pieces: Callable[[], Iterator[list[SiteRestore]]]) -> RestoreResult:
        """Adds the sites of an export, some at a time, and gives those that are there its settings: all, or none.

        Raises InvalidValueError where the allocator in charge cannot hold one of them.
        """
        async with self.turn:
            result = await self._store.restore_sites(pieces, self._admission(), self._clock())
            for start in range(0, len(result.touched), _TAKEN_OVER_AT_ONCE):
                ids = result.touched[start : start + _TAKEN_OVER_AT_ONCE]
                await self._take_over(await self._store.get_sites(ids))
        await self._scheduler.fit_budget_to_growth()
        self._dispatcher.wake()
        return result

    def _admission(self) -> Callable[[Sequence[SiteRestore], Mapping[str, Site]], None]:
        """Raises InvalidValueError for pieces of one list of sites that the allocator cannot hold together."""
        first: list[SiteSpec] = []

        def admit(piece: Sequence[SiteRestore], there: Mapping[str, Site]) -> None:
            fresh = [one.spec for one in piece if one.spec.url not in there]
            # The first of all stands beside each piece: allocators for equal weights want all to be like it. Those
            # that hold few sites hold fewer than a piece has.
            refused = self._scheduler.refusals([*first, *fresh]) | self._scheduler.beyond(fresh, there)
            for error in refused.values():
                raise error
            for one in piece:
                if one.spec.url in there:
                    self._scheduler.admit(there[one.spec.url].id, one.spec.weight, one.spec.cost)
            first[:] = first or fresh[:1]

        return admit

    async def _take_over(self, sites: Sequence[Site]) -> None:
        """Memory follows what the database has of these sites."""
        fresh = [site for site in sites if self._scheduler.sites.slot_of(site.id) is None]
        if fresh:
            ids = await self._store.host_ids([site.host for site in fresh])
            hosts = [(ids[site.host], site.host) for site in fresh]
            self._scheduler.add([site.id for site in fresh], hosts, [site.spec for site in fresh])
        now, new = self._clock(), {site.id for site in fresh}
        for site in sites:
            if site.id not in new:
                self._scheduler.settings_pending[site.id] = now
                self._memories.forget(site.id)
                self._scheduler.update(site.id, site.spec)
                if site.spec.paused != self._scheduler.is_paused(site.id):
                    self._scheduler.set_paused(site.id, site.spec.paused)

    async def delete_site(self, site_id: int) -> None:
        """Stops polling the site at once and forgets it. Raises NotFoundError."""
        async with self.turn:
            try:
                await self._store.delete_site(site_id, self._clock())
            except NotFoundError:
                self.drop(site_id)  # it may have gone by a call whose answer was lost
                raise
            self.drop(site_id)

    async def delete_missing(self, urls: Collection[str]) -> int:
        """Deletes every site that is not in the list (`--sync`); returns how many."""
        async with self.turn:
            removed = await self._store.delete_missing(urls)
            for site_id in removed:
                self.drop(site_id)
        return len(removed)

    @property
    def objective(self) -> str:
        """What the budget is spent for."""
        return self._objective

    def drop(self, site_id: int) -> None:
        """Forgets a site that is no longer in the database, and calls off what is under way for it."""
        slot = self._scheduler.remove(site_id)
        if self._explorer is not None:
            self._explorer.forget(site_id)
        self._memories.forget(site_id)
        if slot is not None:
            self._dispatcher.abandon(slot)

    async def poll_now(self, site_id: int) -> Site:
        """The site is polled next, as soon as its host allows. Raises NotFoundError."""
        site = await self._store.get_site(site_id)
        slot = self._slot(site_id)
        self._scheduler.sites.asap[slot] = True
        self._scheduler.sites.touch([slot])
        self._dispatcher.wake()
        return site

    async def pause_site(self, site_id: int, paused: bool) -> Site:
        """Pauses or resumes a site; resuming also clears its backoff and brings a gone site back."""
        return await self.update_site(site_id, {"paused": paused})

    def live(self, site_ids: Sequence[int]) -> dict[int, LiveSite]:
        """What only the running daemon knows of the sites."""
        return self.explainer.live(site_ids)

    async def explain(self, site_id: int) -> ExplanationView:
        """Why the site is polled as it is. Raises NotFoundError."""
        explanation = self.explainer.explain(site_id)
        memory = (await self._memories.get([site_id])).get(site_id)
        if explanation is None or memory is None:
            raise NotFoundError("site", site_id)
        return replace(explanation, mask=noise_of(memory.baseline.mask))

    def _slot(self, site_id: int) -> int:
        slot = self._scheduler.sites.slot_of(site_id)
        if slot is None:
            raise NotFoundError("site", site_id)
        return slot

    # --- allocation ----------------------------------------------------------------------------------------------

    def allocation(self) -> AllocationView:
        """What the budget brings under the present belief, without the benefit curve."""
        return self.explainer.allocation()

    async def collection(self) -> CollectionView | None:
        """The topic robot's collection; None where there never was one."""
        return await self.collection_outlook.view()

    async def allocation_over_budgets(self) -> AllocationView:
        """`allocation`, and what other budgets would bring."""
        return await self.explainer.allocation_over_budgets()

    async def set_allocation(
        self,
        *,
        allocator: str | None = None,
        objective: str | None = None,
        budget: float | None = None,
        shadows: Sequence[str] | None = None,
    ) -> AllocationView:
        """Changes budget, objective, allocator or shadows while running. A new allocator learns from the stored polls.

        `shadows` begin anew, in place of those there were; so do all when the objective changes. An allocator that
        takes charge leaves the shadows.
        """
        name = self._scheduler.allocator_name if allocator is None else allocator
        goal = self._objective if objective is None else objective
        if name not in allocation.names():
            raise InvalidValueError("allocator", "one of " + ", ".join(allocation.names()), name)
        if goal not in OBJECTIVES:
            raise InvalidValueError("objective", "one of " + ", ".join(OBJECTIVES), goal)
        pace = self._gate.budget if budget is None else check_budget(budget)
        async with self._allocating:
            wanted = tuple(n for n in self.shadows.names() if n != name) if shadows is None else tuple(shadows)
            anew = shadows is not None or goal != self._objective or wanted != self.shadows.names()
            begun = self.shadows.made(wanted, goal, name) if anew else []
            if (name, goal) != (self._scheduler.allocator_name, self._objective):
                await self._switch(name, goal, pace)
            async with self.turn:
                self._set_budget(pace)
                await self._store.save_allocation(AllocationRow(name, goal, pace))
                if anew:
                    await self.shadows.put(wanted, begun)
            await self.forecast.begin_anew()
        return await self.allocation_over_budgets()

    async def _switch(self, name: str, objective: str, budget: float) -> None:
        """The polling goes on while the successor learns; the change itself is one transaction."""
        fresh = allocation.create(
            name, budget=self._scheduler.allocator_budget(budget), objective=objective, rng=self._rng
        )
        succession = AllocatorHandover(self._store, self._scheduler, fresh)
        await succession.prepare()
        # No poll may come between the polls replayed and the first that the new allocator sees.
        async with self.turn, self._journal.still():
            shared, learned = await succession.finish()
            await self._store.replace_learned(AllocationRow(name, objective, budget, shared), learned)
            self._scheduler.replace_allocator(name, fresh)
            self._objective = objective
            self._calibration.begin_anew()

    def _set_budget(self, budget: float) -> None:
        self._gate.budget = self._pacer.budget = budget
        self._robots.set_budget(budget)
        self._scheduler.fit_budget(budget)

    # --- health --------------------------------------------------------------------------------------------------

    def alive(self) -> bool:
        """Whether the scheduler's loop turned within three ticks (and at least a second) of when it was to."""
        limit = max(_HEALTHY_TICKS * self._settings.tick_seconds, _HEALTHY_FLOOR_SECONDS)
        return time.monotonic() - self._dispatcher.turns_by <= limit

    async def not_ready(self) -> str | None:
        """Why the daemon cannot do its work: the database; None where all is well."""
        if self._health.failure is not None:
            return self._health.failure
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await self._store.check()
        except (DatabaseUnavailableError, SchemaError) as error:
            return str(error)
        except TimeoutError:
            return f"the database does not answer within {_CHECK_SECONDS:g} s"
        return None

    def status(self) -> Status:
        """One look at the daemon."""
        sites = self._scheduler.sites
        return Status(
            sites=len(sites),
            in_flight=self._dispatcher.in_flight,
            polls=int(sites.polls[: sites.size].sum()),
            changes=int(sites.changes[: sites.size].sum()),
            rate=self._meter.rate(),
            budget=self._gate.budget,
            offline=self._outage_filter.offline,
            storage_failure=self._health.failure,
        )

    def binding(self) -> str | None:
        """What keeps the budget from being used, in words; None: nothing, it is used."""
        return self.explainer.binding.now().in_short()


def _renumbered(result: AddResult, places: Sequence[int], refused: Mapping[int, InvalidValueError]) -> AddResult:
    """The result for the sites at `places` of a longer list, with those that were refused."""
    return AddResult(
        added=[(site_id, places[i], host_id) for site_id, i, host_id in result.added],
        existing=[(site_id, places[i]) for site_id, i in result.existing],
        deleted=[places[i] for i in result.deleted],
        refused=list(refused.items()),
    )


def _without_leak(spec: SiteSpec, changes: SiteChanges) -> SiteChanges:
    """The changes, with headers and credentials dropped where the site moves to another origin without new ones."""
    if "url" not in changes or "access" in changes or origin_of(changes["url"]) == origin_of(spec.url):
        return changes
    return {**changes, "access": spec.access.elsewhere()}
