"""Control of the running daemon's sites: added, edited, removed, and reloaded from the database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import structlog
from msgspec import structs
from numpy.typing import NDArray

from pollerd.daemon.announcer import Announcer
from pollerd.daemon.commit import Journal
from pollerd.daemon.crawl_hook import PageHook
from pollerd.daemon.explain import SiteViews
from pollerd.daemon.loading import ScheduleLoader
from pollerd.daemon.outage_filter import OutageFilter
from pollerd.daemon.poll import InFlight
from pollerd.daemon.proofs import Candidates
from pollerd.daemon.scheduler_state import SchedulerState, by_render, weight_and_cost
from pollerd.daemon.stages import SiteCache
from pollerd.daemon.unchanged import note_unchanged, recall_ttls
from pollerd.daemon.views import ExplanationView, LiveSite
from pollerd.detection.noise.learning import with_rule
from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError, refusal
from pollerd.inheritance import inherit, inherit_all, may_leak, polled_otherwise
from pollerd.model import Site, SiteState
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import NUMERIC_SETTINGS, SiteSpec, Tags, differing
from pollerd.storage.sites import SiteStore
from pollerd.storage.values import (
    AddResult,
    ImportCheck,
    NewSettings,
    RestoreResult,
    ScheduleRows,
    SettingsColumns,
    SettingsResult,
    SiteChanges,
    SiteContext,
    SiteRestore,
    StoredTtls,
)
from pollerd.texts import N_, _
from pollerd.urls import host_of, origin_of

# Removal from memory of a site that is no longer in the database.


class SiteRemoval:
    """Removes a site from every part that knows it."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        site_cache: SiteCache,
        candidates: Candidates,
        announcer: Announcer,
        in_flight: InFlight,
        hook: PageHook | None,
    ) -> None:
        self._scheduler, self._site_cache, self._candidates = scheduler, site_cache, candidates
        self._announcer = announcer
        self._in_flight, self._hook = in_flight, hook

    def remove(self, site_id: int) -> None:
        """Removes the site, if it is known, and cancels its work in flight."""
        slot = self._scheduler.remove(site_id)
        if self._hook is not None:
            self._hook.forget(site_id)
        self._site_cache.forget(site_id)
        self._candidates.drop(site_id)
        self._announcer.forget(site_id)
        if slot is not None:
            self._in_flight.abandon(slot)


# Stored sites taken into memory while the daemon runs: whole sites, or their settings.

_AT_ONCE = 1_000


class SiteReturn:
    """Takes stored sites into memory while the daemon runs, as a start does."""

    def __init__(self, *, store: SiteStore, scheduler: SchedulerState, clock: Callable[[], float]) -> None:
        self._store, self._scheduler, self._clock = store, scheduler, clock

    async def restore_deleted(self, site_ids: Sequence[int]) -> None:
        """Takes these sites in, ascending; those that are in memory already, or not stored, are skipped."""
        if not self._scheduler.alone:  # the database tells the node that polls them
            return
        ids = np.array(site_ids, np.int64)
        missing = ids[self._scheduler.sites.slots_of(ids) < 0].tolist()
        for start in range(0, len(missing), _AT_ONCE):
            await self._some(missing[start : start + _AT_ONCE])

    async def _some(self, site_ids: Sequence[int]) -> None:
        scheduler = self._scheduler
        rows, faults = await self._store.schedule.of(site_ids)
        if not len(rows):
            return
        sites = await self._store.get_many(rows.site_id.tolist())
        names = {site.id: site.host for site in sites}
        pairs = zip(rows.host_id.tolist(), rows.site_id.tolist(), strict=True)
        scheduler.hosts.add_many([(host_id, names.get(site_id, "")) for host_id, site_id in pairs])
        learned = await self._store.schedule.learned_of(scheduler.allocator_name, site_ids)
        ttls = await stored_ttls(scheduler, self._store, rows)
        add_stored(scheduler, rows, faults, learned, ttls, now=self._clock())


async def stored_ttls(scheduler: SchedulerState, store: SiteStore, rows: ScheduleRows) -> StoredTtls | None:
    """Returns what these sites announced; None if none of them is left alone for it.

    Raises DatabaseUnavailableError.
    """
    if not scheduler.settings.respect_ttl and not (rows.respect_ttl > 0).any():
        return None
    return await store.schedule.announced_ttls_of(rows.site_id.tolist())


def add_stored(
    scheduler: SchedulerState,
    rows: ScheduleRows,
    faults: Mapping[int, str],
    learned: Sequence[tuple[int, bytes]],
    ttls: StoredTtls | None,
    *,
    now: float,
) -> NDArray[np.int64]:
    """Adds sites whose hosts are in memory; returns their slots int64[k].

    faults: see `ScheduleLoader.add_sites`. learned: (site id, state); unusable ones are learned anew. ttls: as from
    `stored_ttls`. now: epoch s; later times are of a clock that ran ahead.
    """
    loader = ScheduleLoader(scheduler)
    loader.add_sites(rows, faults)
    slots = scheduler.sites.slots_of(rows.site_id).astype(np.int64)
    loader.set_sites_right(slots, now)
    scheduler.sites.touch(slots)
    try:
        scheduler.restore_learned(learned)
    except InvalidValueError as error:
        log = structlog.get_logger("pollerd.control")
        log.warning("learned_state_unusable", sites=len(learned), reason=str(error), effect="learning starts again")
    if ttls is not None:
        recall_ttls(scheduler, ttls)
    note_unchanged(scheduler, slots, now)
    return slots


def adopt_stored(
    scheduler: SchedulerState,
    site_cache: SiteCache,
    rows: ScheduleRows,
    faults: Mapping[int, str],
    changed_at: Mapping[int, float],
    now: float,
) -> None:
    """Gives sites in memory the settings that are stored; their next polls are full ones. Others are skipped.

    changed_at: site id -> when its settings changed, as it is stored: a poll that was prepared before does not start.
    now: epoch s.
    """
    numbers = {name: getattr(rows, name) for name in NUMERIC_SETTINGS}
    scheduler.adopt_settings(SettingsColumns(rows.site_id, numbers, rows.windows), faults)
    slots = scheduler.sites.slots_of(rows.site_id)
    known = slots >= 0
    for site_id in rows.site_id.tolist():
        site_cache.forget(site_id)
    for site_id in changed_at.keys() & set(rows.site_id[known].tolist()):
        scheduler.settings_pending[site_id] = changed_at[site_id]
    note_unchanged(scheduler, slots[known], now)


_TAKEN_OVER_AT_ONCE = 1_000


class SiteControl:
    """Changes sites and their settings: first in the database, then in memory, one call at a time."""

    def __init__(
        self,
        *,
        store: SiteStore,
        scheduler: SchedulerState,
        site_cache: SiteCache,
        removal: SiteRemoval,
        waiting: tuple[Journal, OutageFilter],
        views: SiteViews,
        clock: Callable[[], float],
    ) -> None:
        """`waiting`: parts that may hold results of a site, which become void when its URL changes."""
        self._store, self._scheduler, self._site_cache, self._removal = store, scheduler, site_cache, removal
        self._waiting, self._views, self._clock = waiting, views, clock
        self._return = SiteReturn(store=store, scheduler=scheduler, clock=self._clock)
        self._log = structlog.get_logger("pollerd.control")

    @property
    def scheduling(self) -> SchedulingSettings:
        """The current defaults for sites without settings of their own."""
        return self._scheduler.settings

    async def add(
        self, specs: Sequence[SiteSpec], *, respect_deleted: bool = False, source: int | None = None
    ) -> AddResult:
        """Adds sites with normalised URLs; the result names those that exist already or were deleted.

        `respect_deleted`: leaves out URLs that a user deleted (as for the list that is read at every start). Sites that
        the active allocator cannot hold are refused individually. source: id of the source that lists them; raises
        NotFoundError if it is gone.
        """
        async with self._scheduler.changing_sites:
            refused = await self._refused(specs)
            places = list(range(len(specs)))
            if refused:
                places = [i for i in places if i not in refused]
                specs = [specs[i] for i in places]
            hosts = [host_of(spec.url) for spec in specs]
            result = await self._store.add(specs, hosts, self._clock(), respect_deleted=respect_deleted, source=source)
            ids, their_hosts, added = [], [], []
            for site_id, i, host_id in result.added:
                ids.append(site_id)
                their_hosts.append((host_id, hosts[i]))
                added.append(specs[i])
            self._scheduler.add(ids, their_hosts, inherit_all(added, self._store.tags.in_force))
            if result.existing:
                await self._return.restore_deleted(sorted(result.returned))
                await self._take_in_unknown([site_id for site_id, _i in result.existing])
        if result.returned:
            result = await self._returned(result, specs)
        self._scheduler.due.set()
        return _renumbered(result, places, refused) if refused else result

    async def _refused(self, specs: Sequence[SiteSpec]) -> dict[int, InvalidValueError]:
        """Returns index -> reason of sites that cannot be added."""
        tags = self._store.tags.in_force
        refused = self._scheduler.refusals(inherit_all(specs, tags))
        for i, spec in enumerate(specs):
            if (error := screenshot_conflict(spec, tags)) is not None:
                refused[i] = error
        if self._scheduler.allocator.most_sites is not None:
            existing = {site.spec.url for site in (await self._store.page(limit=1000)).items}
            refused |= self._scheduler.beyond(specs, existing)
        return refused

    async def would_add(self, specs: Sequence[SiteSpec]) -> ImportCheck:
        """Returns what `add` would do with sites with normalised URLs, without doing it."""
        refused = await self._refused(specs)
        existing_urls = await self._store.urls_at([spec.url for spec in specs])
        existing = {i for i, spec in enumerate(specs) if spec.url in existing_urls and i not in refused}
        return ImportCheck(frozenset(existing), list(refused.items()))

    async def _returned(self, result: AddResult, specs: Sequence[SiteSpec]) -> AddResult:
        """Gives sites that a job had deleted the settings of the specs that brought them back: they count as added."""
        back = set(result.returned)
        places = [(site_id, i) for site_id, i in result.existing if site_id in back]
        await self.put_settings([specs[i] for _site_id, i in places])
        host_ids = await self._store.hosts.ids([host_of(specs[i].url) for _site_id, i in places])
        added = [(site_id, i, host_ids[host_of(specs[i].url)]) for site_id, i in places]
        existing = [(site_id, i) for site_id, i in result.existing if site_id not in back]
        return replace(result, added=[*result.added, *added], existing=existing)

    async def _take_in_unknown(self, site_ids: Sequence[int]) -> None:
        """Adds sites to memory that are only in the database: their insertion was committed but its answer was lost."""
        ids = np.array(site_ids, np.int64)
        for site_id in ids[self._scheduler.sites.slots_of(ids) < 0].tolist():
            site = await self._store.get(site_id)
            host_id = (await self._store.hosts.get(site.host)).id
            self._scheduler.add([site_id], [(host_id, site.host)], [self._inherit(site.spec)])

    def _inherit(self, spec: SiteSpec) -> SiteSpec:
        """Returns the settings by which a site is polled: its own, and those that it inherits."""
        return inherit(spec, self._store.tags.in_force)

    async def reload_from_store(self, site_ids: Sequence[int]) -> None:
        """Takes these sites into memory as they are stored: an answer that told of them may have been lost."""
        async with self._scheduler.changing_sites:
            sites = await self._store.get_many(site_ids)
            await self._take_in_unknown([site.id for site in sites])
            for site in sites:
                if site.spec.paused != self._scheduler.is_paused(site.id):
                    self._scheduler.set_paused(site.id, site.spec.paused)
        self._scheduler.due.set()

    async def discard(self, site_ids: Sequence[int]) -> None:
        """Deletes sites without marking their URLs as deleted: a list or a source may add them again."""
        async with self._scheduler.changing_sites:
            await self._store.discard(site_ids)
            for site_id in site_ids:
                self._removal.remove(site_id)

    async def add_one(self, spec: SiteSpec) -> Site:
        """Adds one site. Raises DuplicateError with the existing id, InvalidValueError if it cannot be held."""
        result = await self.add([spec])
        if result.refused:
            raise result.refused[0][1]
        if result.existing:
            raise DuplicateError(N_("site"), spec.url, result.existing[0][0])
        site_id = result.added[0][0]
        if result.returned:  # with the settings that it had
            return await self._store.get(site_id)
        return Site(site_id, spec, host_of(spec.url), SiteState.PAUSED if spec.paused else SiteState.ACTIVE, result.at)

    async def update(self, site_id: int, change: SiteChanges | Callable[[Site], SiteChanges]) -> Site:
        """Changes the settings of a site; what was learned of it stays.

        change: the changes, or what derives them from the site as it stands; none change nothing.

        Raises NotFoundError, DuplicateError, and InvalidValueError if the allocator cannot hold the changed site.
        """
        async with self._scheduler.changing_sites:
            before = await self._store.get(site_id)
            changes = change(before) if callable(change) else change
            if not changes:
                return before
            if "url" in changes:
                changes = {**changes, "host": host_of(changes["url"])}
            changes = _without_leak(before.spec, changes, self._store.tags.in_force)
            spec_values = {name: value for name, value in changes.items() if name in SiteSpec.__struct_fields__}
            own = structs.replace(before.spec, **spec_values)
            if changes.keys() & {"keep_screenshots", "render", "tags"} and (
                refusal := screenshot_conflict(own, self._store.tags.in_force)
            ):
                raise refusal
            after = self._inherit(own)
            if weight_and_cost(after) != weight_and_cost(self._inherit(before.spec)):
                try:
                    self._scheduler.admit(site_id, *weight_and_cost(after))
                except InvalidValueError as error:
                    raise by_render(error, after) from error
            now = self._clock()
            site = await self._store.update(before, changes, now)
            self._scheduler.settings_pending[site_id] = now
            self._site_cache.forget(site_id)
            if site.spec.url != before.spec.url:
                host_id = (await self._store.hosts.get(site.host)).id
                self._removal.remove(site_id)
                for part in self._waiting:
                    part.forget(site_id)
                self._scheduler.add([site_id], [(host_id, site.host)], [self._inherit(site.spec)])
                self._scheduler.carry_on(site)
            self._scheduler.update(site_id, self._inherit(site.spec))
            note_unchanged(self._scheduler, self._slots(site_id), now)
            if "paused" in changes:
                self._scheduler.set_paused(site_id, changes["paused"])
            if polled_otherwise(self._inherit(before.spec), self._inherit(site.spec)):
                await self._poll_anew([site_id])
        self._scheduler.due.set()
        return site

    async def hide_noise(self, site_id: int, rule_id: str, *, hidden: bool) -> ExplanationView:
        """Sets whether a rule of the site's mask hides something; returns how the site is explained then.

        What is shown again is compared with what was recorded last, and is not learned again. Raises NotFoundError,
        also if the site has no such rule, and HolderUnavailableError.
        """
        async with self._scheduler.changing_sites:
            now, edit = self._clock(), partial(_with_rule, rule_id=rule_id, hidden=hidden)
            if not await self._store.edit_masks(site_id, edit, now):
                raise NotFoundError(N_("noise"), rule_id)
            self._scheduler.settings_pending[site_id] = now
            self._site_cache.forget(site_id)
            await self._poll_anew([site_id])
        self._scheduler.due.set()
        return await self.explain(site_id)

    async def pause_all(self, tag: str | None, paused: bool, *, by: str) -> int:
        """Pauses or resumes all sites, or all with this tag; returns how many changed.

        Changes nothing else: a backoff continues, and a gone site stays gone. `by`: the user, for the log. Works in
        several transactions: if the database fails in between, part of the sites are changed, and a repeated call
        completes the rest.
        """
        count = 0
        async with self._scheduler.changing_sites:
            async for ids, changed in self._store.pause(tag, paused):
                self._scheduler.pause_many(ids, paused)
                count += changed
        self._log.warning("sites_paused" if paused else "sites_resumed", sites=count, tag=tag, by=by)
        self._scheduler.due.set()
        return count

    async def put_settings(self, specs: Sequence[SiteSpec]) -> SettingsResult:
        """Sets the settings of the sites at these specs' URLs exactly; what was learned of them stays.

        URLs that are no sites are skipped. Settings that the active allocator cannot hold are refused individually. One
        transaction. Raises InvalidValueError for a value that cannot be stored.
        """
        result = SettingsResult([], [])
        async with self._scheduler.changing_sites:
            existing = await self._store.at([spec.url for spec in specs])
            new_settings: list[NewSettings] = []
            for i, spec in enumerate(specs):
                site = existing.get(spec.url)
                if site is None or not differing(site.spec, spec):
                    continue
                if (refusal := screenshot_conflict(spec, self._store.tags.in_force)) is not None:
                    result.refused.append((i, refusal))
                    continue
                try:
                    self._scheduler.admit(site.id, *weight_and_cost(self._inherit(spec)))
                except InvalidValueError as error:
                    result.refused.append((i, by_render(error, spec)))
                    continue
                new_settings.append(NewSettings(site.id, spec, resumed=site.spec.paused and not spec.paused))
                result.changed.append((site.id, i))
            if new_settings:
                await self._take_settings(new_settings, {site.id: site for site in existing.values()})
        return result

    async def _take_settings(self, batch: Sequence[NewSettings], before: Mapping[int, Site]) -> None:
        now = self._clock()
        await self._store.put_settings(batch, now)
        for new_settings in batch:
            self._scheduler.settings_pending[new_settings.site_id] = now
            self._site_cache.forget(new_settings.site_id)
            self._scheduler.update(new_settings.site_id, self._inherit(new_settings.spec))
            if polled_otherwise(self._inherit(before[new_settings.site_id].spec), self._inherit(new_settings.spec)):
                await self._poll_anew([new_settings.site_id])
            if new_settings.spec.paused != before[new_settings.site_id].spec.paused:
                self._scheduler.set_paused(new_settings.site_id, new_settings.spec.paused)
        self._scheduler.due.set()

    async def restore(self, pieces: Callable[[], Iterator[list[SiteRestore]]]) -> RestoreResult:
        """Adds the sites of an export in pieces, and applies its settings to existing sites: all or none.

        Raises InvalidValueError if the active allocator cannot hold one of them.
        """
        async with self._scheduler.changing_sites:
            otherwise: list[int] = []
            result = await self._store.restore(pieces, self._admission(otherwise), self._clock())
            for start in range(0, len(result.touched), _TAKEN_OVER_AT_ONCE):
                ids = result.touched[start : start + _TAKEN_OVER_AT_ONCE]
                await self._take_over(await self._store.get_many(ids))
            await self._poll_anew(otherwise)
        self._scheduler.due.set()
        return result

    def _admission(self, otherwise: list[int]) -> Callable[[Sequence[SiteRestore], Mapping[str, Site]], None]:
        """Returns a check that raises InvalidValueError for pieces of one list that the allocator cannot hold.

        It adds the ids of sites that will be polled otherwise to the list.
        """
        first: list[SiteSpec] = []

        def admit(piece: Sequence[SiteRestore], existing: Mapping[str, Site]) -> None:
            fresh = [restore.spec for restore in piece if restore.spec.url not in existing]
            # Each piece is checked together with the very first site: allocators for equal weights require all to be
            # like it. Allocators that hold few sites hold fewer than a piece has.
            kinds = inherit_all([*first, *fresh], self._store.tags.in_force)
            refused = self._scheduler.refusals(kinds) | self._scheduler.beyond(fresh, existing)
            for error in refused.values():
                raise error
            for error in filter(
                None, (screenshot_conflict(restore.spec, self._store.tags.in_force) for restore in piece)
            ):
                raise error
            for restore in piece:
                site = existing.get(restore.spec.url)
                if site is not None:
                    self._scheduler.admit(site.id, *weight_and_cost(self._inherit(restore.spec)))
                    if polled_otherwise(self._inherit(site.spec), self._inherit(restore.over(site.spec))):
                        otherwise.append(site.id)
            first[:] = first or fresh[:1]

        return admit

    async def _take_over(self, sites: Sequence[Site]) -> None:
        """Applies the stored state of these sites to memory."""
        fresh = [site for site in sites if self._scheduler.sites.slot_of(site.id) is None]
        if fresh:
            ids = await self._store.hosts.ids([site.host for site in fresh])
            hosts = [(ids[site.host], site.host) for site in fresh]
            specs = inherit_all([site.spec for site in fresh], self._store.tags.in_force)
            self._scheduler.add([site.id for site in fresh], hosts, specs)
        now, new = self._clock(), {site.id for site in fresh}
        for site in sites:
            if site.id not in new:
                self._scheduler.settings_pending[site.id] = now
                self._site_cache.forget(site.id)
                self._scheduler.update(site.id, self._inherit(site.spec))
                if site.spec.paused != self._scheduler.is_paused(site.id):
                    self._scheduler.set_paused(site.id, site.spec.paused)

    async def delete(self, site_id: int) -> None:
        """Stops polling the site at once and forgets it. Raises NotFoundError."""
        async with self._scheduler.changing_sites:
            try:
                await self._store.delete(site_id, self._clock())
            except NotFoundError:
                self._removal.remove(site_id)  # it may have been removed by a call whose answer was lost
                raise
            self._removal.remove(site_id)

    async def delete_missing(self, urls: Collection[str]) -> int:
        """Deletes every site that is not in the list (`--sync`); returns how many."""
        async with self._scheduler.changing_sites:
            removed = await self._store.delete_missing(urls)
            for site_id in removed:
                self._removal.remove(site_id)
        return len(removed)

    async def poll_now(self, site_id: int) -> Site:
        """Has the site polled next, as soon as its host allows. Raises NotFoundError."""
        site = await self._store.get(site_id)
        await self._poll_soon(site_id)
        self._scheduler.due.set()
        return site

    async def pause(self, site_id: int, paused: bool) -> Site:
        """Pauses or resumes a site; resuming also clears its backoff and brings a gone site back."""
        return await self.update(site_id, {"paused": paused})

    def live(self, site_ids: Sequence[int]) -> dict[int, LiveSite]:
        """Returns the in-memory values of those of the sites that are polled here."""
        return self._views.live(site_ids)

    async def shown(self, site_ids: Sequence[int]) -> dict[int, LiveSite]:
        """Returns the values of these sites: from memory, or as they are stored of those that other nodes poll."""
        return await self._views.shown(site_ids)

    async def explain(self, site_id: int) -> ExplanationView:
        """Explains why the site is polled as it is. Raises NotFoundError, HolderUnavailableError."""
        return await self._views.explain(site_id)

    async def current(self, site_id: int) -> LiveSite | None:
        """Returns the in-memory values of the site, of whichever node; None: there are none, or none gives them."""
        return await self._views.current(site_id)

    def _slots(self, site_id: int) -> NDArray[np.int64]:
        """Returns the site's slot, int64[1], or int64[0]: another node polls it."""
        slots = self._scheduler.sites.slots_of(np.array([site_id], np.int64))
        return slots[slots >= 0]

    async def _poll_anew(self, site_ids: Sequence[int]) -> None:
        """Has sites with new settings polled before all others, not after their backoffs, by whichever nodes do it."""
        slots = self._scheduler.sites.slots_of(np.array(site_ids, np.int64))
        self._scheduler.poll_anew(slots[slots >= 0])
        if not self._scheduler.alone:
            for site_id in np.array(site_ids)[slots < 0].tolist():
                await self._store.ask_to_poll(site_id, anew=True)

    async def _poll_soon(self, site_id: int) -> None:
        """Has the site polled before all others, by whichever node polls it. Raises NotFoundError."""
        slot = self._scheduler.sites.slot_of(site_id)
        if slot is not None:
            self._scheduler.poll_soon(slot)
        elif self._scheduler.alone:
            raise NotFoundError(N_("site"), site_id)
        else:
            await self._store.ask_to_poll(site_id)


def _with_rule(
    context: SiteContext, contents: Mapping[int, bytes], *, rule_id: str, hidden: bool
) -> SiteContext | None:
    """Returns the context after a rule of its masks was hidden or shown again; None: it has no such rule."""
    if not context.selections:
        baseline = with_rule(context.baseline, contents.get(context.content_id or 0), rule_id, hidden=hidden)
        return None if baseline is None else structs.replace(context, baseline=baseline)
    from pollerd.detection.selection.comparing import with_rule_of

    pairs = [
        (state, with_rule_of(state, contents.get(state.content_id or 0), rule_id, hidden=hidden))
        for state in context.states
    ]
    states = tuple(
        structs.replace(state, baseline=state_baseline) for state, state_baseline in pairs if state_baseline is not None
    )
    return structs.replace(context, states=states) if states else None


def screenshot_conflict(spec: SiteSpec, tags: Tags) -> InvalidValueError | None:
    """Returns the refusal of a site that itself says that screenshots are kept, but whose page no browser renders."""
    if not spec.keep_screenshots or inherit(spec, tags).render:
        return None
    return refusal("keep_screenshots", _("only a rendered site has screenshots: set render, too"))


def _renumbered(result: AddResult, places: Sequence[int], refused: Mapping[int, InvalidValueError]) -> AddResult:
    """Maps the result for the sites at `places` back to the full list, and adds the refused ones."""
    return replace(
        result,
        added=[(site_id, places[i], host_id) for site_id, i, host_id in result.added],
        existing=[(site_id, places[i]) for site_id, i in result.existing],
        deleted=[places[i] for i in result.deleted],
        refused=list(refused.items()),
    )


def _without_leak(spec: SiteSpec, changes: SiteChanges, tags: Tags) -> SiteChanges:
    """Returns the changes; a site that moves to another origin without new ones loses headers and credentials.

    So it does the tags from which it inherits some, unless it is given tags. The spelling of the old URL goes with it.
    """
    if "url" not in changes:
        return changes
    changes = {"spelling": "", **changes}
    if origin_of(changes["url"]) == origin_of(spec.url):
        return changes
    safe: dict[str, Any] = {} if "access" in changes else {"access": spec.access.elsewhere()}
    leaking = [] if "tags" in changes else may_leak(spec.tags, tags)
    if leaking:
        safe["tags"] = tuple(name for name in spec.tags if name not in leaking)
    return {**changes, **safe}
