"""What the outside may do to the running daemon. The API gets this, and never reaches further in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pollerd import allocation
from pollerd.daemon.calibration import Calibration
from pollerd.daemon.collection import CollectionOutlook, CollectionView
from pollerd.daemon.dispatcher import Dispatcher
from pollerd.daemon.explorer import Explorer
from pollerd.daemon.fleet import Fleet
from pollerd.daemon.forecast import Forecast
from pollerd.daemon.gate import BudgetGate, check_budget
from pollerd.daemon.intake import Intake
from pollerd.daemon.journal import Journal
from pollerd.daemon.memories import Memories
from pollerd.daemon.meter import Meter
from pollerd.daemon.outlook import Outlook
from pollerd.daemon.robots import RobotsKeeper
from pollerd.daemon.settings import DaemonSettings
from pollerd.daemon.shadows import Shadows
from pollerd.daemon.succession import Succession
from pollerd.daemon.views import AllocationView, Explanation, Live, Status
from pollerd.detection import noise_of
from pollerd.errors import DatabaseUnavailableError, DuplicateError, InvalidValueError, NotFoundError, SchemaError
from pollerd.model import Site, SiteSpec
from pollerd.storage import AddResult, AllocationRow, SiteChanges, Store
from pollerd.telemetry import Instruments
from pollerd.urls import host_of, origin_of

OBJECTIVES = ("changes", "freshness", "interest")
_HEALTHY_TICKS = 3
_HEALTHY_FLOOR_SECONDS = 1.0


class Control:
    """Adds, changes and removes sites, steers the allocation, and tells how the daemon is.

    Every change goes to the database first, then to memory, one at a time.
    """

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        gate: BudgetGate,
        dispatcher: Dispatcher,
        robots: RobotsKeeper,
        intake: Intake,
        journal: Journal,
        memories: Memories,
        meter: Meter,
        calibration: Calibration,
        settings: DaemonSettings,
        instruments: Instruments,
        rng: np.random.Generator,
        clock: Callable[[], float],
        explorer: Explorer | None = None,
    ) -> None:
        """`explorer`: the topic robot, where there is one."""
        self._explorer = explorer
        self._store, self._fleet, self._gate, self._dispatcher = store, fleet, gate, dispatcher
        self._robots, self._intake, self._journal, self._memories = robots, intake, journal, memories
        self._meter, self._settings, self._rng, self._clock = meter, settings, rng, clock
        self._calibration = calibration
        self._objective = settings.objective
        self.turn = asyncio.Lock()
        """Held by whoever changes which sites there are."""
        self._allocating = asyncio.Lock()
        self.forecast = Forecast(fleet, lambda: self._objective, clock)
        self.shadows = Shadows(store, fleet, journal, self.forecast, instruments, lambda: self._objective, rng, clock)
        self.outlook = Outlook(
            fleet, meter, self.forecast, calibration, self.shadows.views, lambda: self._objective, clock
        )
        self.collection_outlook = CollectionOutlook(store, fleet, clock)

    # --- sites ---------------------------------------------------------------------------------------------------

    async def add_sites(self, specs: Sequence[SiteSpec], *, respect_deleted: bool = False) -> AddResult:
        """Adds sites whose URLs are normalised; those that exist, or were deleted, are named in the result.

        `respect_deleted`: leave out URLs that a user deleted (the list that is read at every start does).
        Sites that the allocator in charge cannot hold are refused, one by one.
        """
        async with self.turn:
            refused = self._fleet.refusals(specs)
            if self._fleet.allocator.most_sites is not None:
                there = {site.spec.url for site in (await self._store.list_sites(limit=1000)).items}
                refused |= self._fleet.beyond(specs, there)
            places = [i for i in range(len(specs)) if i not in refused]
            specs = [specs[i] for i in places]
            hosts = [host_of(spec.url) for spec in specs]
            result = await self._store.add_sites(specs, hosts, self._clock(), respect_deleted=respect_deleted)
            self._fleet.add(
                [site_id for site_id, _, _ in result.added],
                [(host_id, hosts[i]) for _, i, host_id in result.added],
                [specs[i] for _, i, _ in result.added],
            )
        self._fleet.fit_budget_to_growth()
        self._dispatcher.wake()
        return _renumbered(result, places, refused) if refused else result

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
                self._fleet.admit(
                    site_id, changes.get("weight", before.spec.weight), changes.get("cost", before.spec.cost)
                )
            now = self._clock()
            site = await self._store.update_site(site_id, changes, now)
            self._fleet.unasked[site_id] = now
            self._memories.forget(site_id)
            if site.spec.url != before.spec.url:
                host_id = await self._store.host_id(site.host)
                self.drop(site_id)
                self._journal.forget(site_id)
                self._intake.forget(site_id)
                self._fleet.add([site_id], [(host_id, site.host)], [site.spec])
                self._fleet.carry_on(site)
            self._fleet.update(site_id, site.spec)
            if "paused" in changes:
                self._fleet.set_paused(site_id, changes["paused"])
        self._dispatcher.wake()
        return site

    async def delete_site(self, site_id: int) -> None:
        """Stops polling the site at once and forgets it. Raises NotFoundError."""
        async with self.turn:
            await self._store.delete_site(site_id, self._clock())
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
        slot = self._fleet.remove(site_id)
        if self._explorer is not None:
            self._explorer.forget(site_id)
        self._memories.forget(site_id)
        if slot is not None:
            self._dispatcher.abandon(slot)

    async def poll_now(self, site_id: int) -> Site:
        """The site is polled next, as soon as its host allows. Raises NotFoundError."""
        site = await self._store.get_site(site_id)
        slot = self._slot(site_id)
        self._fleet.sites.asap[slot] = True
        self._dispatcher.wake()
        return site

    async def pause_site(self, site_id: int, paused: bool) -> Site:
        """Pauses or resumes a site; resuming also clears its backoff and brings a gone site back."""
        return await self.update_site(site_id, {"paused": paused})

    def live(self, site_ids: Sequence[int]) -> dict[int, Live]:
        """What only the running daemon knows of the sites."""
        return self.outlook.live(site_ids)

    async def explain(self, site_id: int) -> Explanation:
        """Why the site is polled as it is. Raises NotFoundError."""
        explanation = self.outlook.explain(site_id)
        memory = (await self._memories.get([site_id])).get(site_id)
        if explanation is None or memory is None:
            raise NotFoundError("site", site_id)
        return replace(explanation, mask=noise_of(memory.baseline.mask))

    def _slot(self, site_id: int) -> int:
        slot = self._fleet.sites.slot_of(site_id)
        if slot is None:
            raise NotFoundError("site", site_id)
        return slot

    # --- allocation ----------------------------------------------------------------------------------------------

    def allocation(self) -> AllocationView:
        """What the budget brings under the present belief, without the benefit curve."""
        return self.outlook.allocation()

    async def collection(self) -> CollectionView | None:
        """The topic robot's collection; None where there never was one."""
        return await self.collection_outlook.view()

    async def allocation_over_budgets(self) -> AllocationView:
        """`allocation`, and what other budgets would bring."""
        return await self.outlook.allocation_over_budgets()

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
        name = self._fleet.allocator_name if allocator is None else allocator
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
            if (name, goal) != (self._fleet.allocator_name, self._objective):
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
        fresh = allocation.create(name, budget=self._fleet.spendable(budget), objective=objective, rng=self._rng)
        succession = Succession(self._store, self._fleet, fresh)
        await succession.prepare()
        # No poll may come between the polls replayed and the first that the new allocator sees.
        async with self.turn, self._journal.still():
            shared, learned = await succession.finish()
            await self._store.replace_learned(AllocationRow(name, objective, budget, shared), learned)
            self._fleet.replace_allocator(name, fresh)
            self._objective = objective
            self._calibration.begin_anew()

    def _set_budget(self, budget: float) -> None:
        self._gate.budget = budget
        self._robots.set_budget(budget)
        self._fleet.fit_budget(budget)

    # --- health --------------------------------------------------------------------------------------------------

    def alive(self) -> bool:
        """Whether the scheduler's loop turned within three ticks (and at least a second)."""
        limit = max(_HEALTHY_TICKS * self._settings.tick_seconds, _HEALTHY_FLOOR_SECONDS)
        return time.monotonic() - self._dispatcher.turned_at <= limit

    async def not_ready(self) -> str | None:
        """Why the daemon cannot do its work: the database; None where all is well."""
        if self._journal.failure is not None:
            return self._journal.failure
        try:
            await self._store.check()
        except (DatabaseUnavailableError, SchemaError) as error:
            return str(error)
        return None

    def status(self) -> Status:
        """One look at the daemon."""
        sites = self._fleet.sites
        return Status(
            sites=len(sites),
            in_flight=self._dispatcher.in_flight,
            polls=int(sites.polls[: sites.size].sum()),
            changes=int(sites.changes[: sites.size].sum()),
            rate=self._meter.rate(),
            budget=self._gate.budget,
            offline=self._intake.offline,
            storage_failure=self._journal.failure,
        )


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
