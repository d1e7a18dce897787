"""Jobs: one action on many sites, a thousand at a time, which goes on after a restart and can be undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import structlog
from msgspec.structs import replace

from pollerd.daemon.control.sites import SiteRemoval, SiteReturn, adopt_stored, screenshot_conflict
from pollerd.daemon.faults import RETRY_CAP_SECONDS
from pollerd.daemon.scheduler_state import SchedulerState, by_render, weight_and_cost
from pollerd.daemon.stages import SiteCache
from pollerd.errors import DatabaseUnavailableError, InvalidValueError, PermanentError
from pollerd.inheritance import inherit, polled_otherwise
from pollerd.model import JobAction, JobState, Site
from pollerd.site_settings import INHERITED, Kind, RespectTtl, SiteSpec
from pollerd.storage.jobs import Job, JobSpec, JobStore, SiteBefore
from pollerd.storage.sites import SiteStore
from pollerd.storage.values import NewSettings
from pollerd.texts import N_, _, n_

# Edits of up to a thousand sites at once: first in the database, then in memory.

_REMOVED_AT_ONCE = 20
ChangeSpec = Callable[[Site], SiteSpec]
"""Returns the new settings of a site. Raises InvalidValueError if it cannot have them."""


@dataclass
class Planned:
    """What is to be changed of some sites."""

    wanted: dict[int, SiteSpec] = field(default_factory=dict)
    """Site id -> its new settings, of those that differ."""
    before: dict[int, SiteSpec] = field(default_factory=dict)
    """Site id -> its settings now."""
    refused: list[tuple[int, InvalidValueError]] = field(default_factory=list)
    """(site id, reason) of sites that cannot have the new settings."""


class ManySites:
    """Changes many sites. The caller holds `SchedulerState.changing_sites`."""

    def __init__(
        self,
        *,
        store: SiteStore,
        scheduler: SchedulerState,
        site_cache: SiteCache,
        removal: SiteRemoval,
        clock: Callable[[], float],
    ) -> None:
        self._store, self._scheduler, self._site_cache = store, scheduler, site_cache
        self._removal, self._clock = removal, clock
        self._return = SiteReturn(store=store, scheduler=scheduler, clock=self._clock)
        self.changing = scheduler.changing_sites
        """Held while sites are changed."""

    async def plan(self, site_ids: Sequence[int], change: ChangeSpec) -> Planned:
        """Returns what the change makes of those of these sites that are there."""
        planned = Planned()
        for site in await self._store.get_many(site_ids):
            try:
                spec = change(site)
                self._admit(site, spec)
            except InvalidValueError as error:
                planned.refused.append((site.id, error))
                continue
            planned.before[site.id] = site.spec
            if spec != site.spec:
                planned.wanted[site.id] = spec
        return planned

    def _admit(self, site: Site, spec: SiteSpec) -> None:
        """Raises InvalidValueError if the site cannot have these settings."""
        tags = self._store.tags.in_force
        if spec.tags != site.spec.tags and (refusal := screenshot_conflict(spec, tags)) is not None:
            raise refusal
        new = inherit(spec, tags)
        if weight_and_cost(new) != weight_and_cost(inherit(site.spec, tags)):
            try:
                self._scheduler.admit(site.id, *weight_and_cost(new))
            except InvalidValueError as error:
                raise by_render(error, new) from error

    async def pause(self, site_ids: Sequence[int], paused: bool) -> None:
        """Pauses or resumes these sites, and changes nothing else."""
        await self._store.pause_some(site_ids, paused)
        self._scheduler.pause_many(np.array(site_ids, np.int64), paused)
        self._scheduler.due.set()

    async def set_settings(self, specs: Mapping[int, SiteSpec]) -> None:
        """Gives sites new settings, but for URL and pause; what was learned of them stays."""
        now, ids, tags = self._clock(), sorted(specs), self._store.tags.in_force
        before = {site.id: site.spec for site in await self._store.get_many(ids)} if tags else {}
        await self._store.put_settings([NewSettings(i, specs[i], resumed=False) for i in ids], now)
        rows, faults = await self._store.schedule.of(ids)
        adopt_stored(self._scheduler, self._site_cache, rows, faults, dict.fromkeys(ids, now), now)
        otherwise = [i for i, spec in before.items() if polled_otherwise(inherit(spec, tags), inherit(specs[i], tags))]
        slots = self._scheduler.sites.slots_of(np.array(otherwise, np.int64))
        self._scheduler.poll_anew(slots[slots >= 0])
        await self._scheduler.budget_fit.fit_in_steps()
        self._scheduler.due.set()

    async def delete(self, site_ids: Sequence[int]) -> None:
        """Marks the sites as deleted: they are polled no more, and their rows stay until they are purged."""
        await self._store.soft_deletion.mark(site_ids, self._clock())
        for place, site_id in enumerate(site_ids):
            self._removal.remove(site_id)
            if place % _REMOVED_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def bring_back(self, site_ids: Sequence[int]) -> int:
        """Brings back those of these sites that are marked as deleted; returns how many."""
        back = await self._store.soft_deletion.unmark(site_ids)
        await self._return.restore_deleted(site_ids)
        self._scheduler.due.set()
        return len(back)

    async def not_deletable(self, site_ids: Sequence[int]) -> list[int]:
        """Returns those of these sites that only the focused crawler adds and removes."""
        return await self._store.crawled_among(site_ids)

    def poll_soon(self, site_ids: Sequence[int]) -> int:
        """Has the sites polled before all others, as soon as their hosts allow; returns how many are known."""
        table = self._scheduler.sites
        slots = table.slots_of(np.array(site_ids, np.int64))
        slots = slots[slots >= 0]
        table.asap[slots] = True
        table.touch(slots)
        self._scheduler.due.set()
        return len(slots)


# Actions: the settings of a site after each, and before it was undone.

_MAX_TAGS = 64
_NAMES: dict[JobAction, tuple[str, ...]] = {
    JobAction.PAUSE: ("paused",),
    JobAction.RESUME: ("paused",),
    JobAction.TAG: ("tags",),
    JobAction.UNTAG: ("tags",),
    **{
        action: tuple(name for name, setting in INHERITED.items() if setting.bulk == action)
        for action in (JobAction.WEIGHT, JobAction.LIMITS)
    },
}
"""Settings that an action changes."""
_TRUSTS = frozenset(name for name, setting in INHERITED.items() if setting.kind is Kind.TRUST)


def after(action: JobAction, value: Mapping[str, Any], spec: SiteSpec) -> SiteSpec:
    """Returns the settings after the action. Raises InvalidValueError if the site cannot have them."""
    match action:
        case JobAction.PAUSE | JobAction.RESUME:
            return replace(spec, paused=action is JobAction.PAUSE)
        case JobAction.TAG:
            return _tagged(spec, value["tag"])
        case JobAction.UNTAG:
            return replace(spec, tags=tuple(tag for tag in spec.tags if tag != value["tag"]))
        case JobAction.WEIGHT:
            return replace(spec, weight=value["weight"])
        case JobAction.LIMITS:
            return _limited(replace(spec, **_typed(value)))
        case JobAction.DELETE | JobAction.POLL:
            return spec


def _tagged(spec: SiteSpec, tag: str) -> SiteSpec:
    if tag in spec.tags:
        return spec
    if len(spec.tags) >= _MAX_TAGS:
        raise InvalidValueError(
            "tags", _("at most {max_tags}", max_tags=_MAX_TAGS), n_("{count} tag", "{count} tags", _MAX_TAGS + 1)
        )
    return replace(spec, tags=(*spec.tags, tag))


def _limited(spec: SiteSpec) -> SiteSpec:
    shortest, longest = spec.min_interval, spec.max_interval
    if shortest is not None and longest is not None and shortest > longest:
        raise InvalidValueError("max_interval", _("at least min_interval ({shortest:g} s)", shortest=shortest), longest)
    return spec


def _typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of settings with their types, which the JSON of a job does not keep."""
    trusts = {name: value for name, value in values.items() if name in _TRUSTS and value is not None}
    return {**values, **{name: RespectTtl(value) for name, value in trusts.items()}}


def before_action(action: JobAction, spec: SiteSpec) -> dict[str, Any]:
    """Returns what is kept of a site's settings, so that the action can be taken back."""
    return {name: getattr(spec, name) for name in _NAMES.get(action, ())}


def taken_back(action: JobAction, value: Mapping[str, Any], kept: Mapping[str, Any], spec: SiteSpec) -> SiteSpec:
    """Returns the settings without what the action did; what was changed since then stays as it is.

    kept: as `before` returned it.
    """
    was: dict[str, Any] = {name: tuple(v) if name == "tags" else v for name, v in kept.items()}
    match action:
        case JobAction.TAG:
            return replace(spec, tags=tuple(tag for tag in spec.tags if tag != value["tag"]))
        case JobAction.UNTAG:
            return replace(spec, tags=_with_tag(spec.tags, value["tag"], was["tags"]))
        case _:
            did = {"paused": action is JobAction.PAUSE} if "paused" in was else value
            mine = {name: was[name] for name in was if name in did and getattr(spec, name) == did[name]}
            return replace(spec, **_typed(mine))


def _with_tag(tags: tuple[str, ...], tag: str, was: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the tags with this one: in its former place, if they are otherwise what they were."""
    if tag in tags:
        return tags
    return was if tuple(other for other in was if other != tag) == tags else (*tags, tag)


AT_ONCE = 1_000
"""A job on at most so many sites ends within the call that starts it."""
PURGED_AFTER_SECONDS = 86_400.0
"""Time after which sites that a job deleted are purged."""
_LATE_SECONDS = 3_600.0
"""So much later, that no job is being undone."""
_PURGE_EVERY_SECONDS = 600.0
_OF_THE_CRAWLER = N_("site: must be one that a user, a list or a source added; given: one of the focused crawler's")


class JobControl:
    """Starts and undoes jobs, and runs those that are open, one batch after the other."""

    def __init__(
        self, *, jobs: JobStore, sites: SiteStore, many: ManySites, clock: Callable[[], float], alone: bool = True
    ) -> None:
        """alone: no other node runs jobs of this database."""
        self._alone = alone
        self._jobs, self._sites, self._many, self._clock = jobs, sites, many, clock
        self._stepping, self._more = asyncio.Lock(), asyncio.Event()
        self._log = structlog.get_logger("pollerd.control")

    async def start(self, spec: JobSpec, *, by: str) -> Job:
        """Starts a job; a small one has ended when this returns. `by`: the user, for the log and the list of jobs.

        Raises InvalidValueError.
        """
        job = await self._jobs.start(spec, by, self._clock())
        self._log.warning("job_started", job_id=job.id, action=spec.action.value, sites=job.total, by=by)
        return await self._begun(job, job.total if job.total_is_exact else AT_ONCE + 1)

    async def undo(self, job_id: int, *, by: str) -> Job:
        """Takes back what a job did. Raises NotFoundError, InvalidValueError if that is not possible (now)."""
        async with self._stepping:
            job = await self._jobs.get(job_id)
            if (why := not_undoable(job, self._clock())) is not None:
                raise InvalidValueError("job", why, job.state.value)
            if job.state is not JobState.UNDOING:
                job = await self._jobs.begin_undo(job_id)
        self._log.warning("job_undone", job_id=job.id, action=job.action.value, sites=job.changed, by=by)
        return await self._begun(job, job.changed)

    def look_again(self) -> None:
        """Looks for open jobs: another node may have started one."""
        self._more.set()

    async def _begun(self, job: Job, sites: int) -> Job:
        if sites > AT_ONCE or not self._alone:  # one node does all jobs of several
            self._more.set()
            return job
        try:
            while job.ended_at is None:
                job = await self._step(job.id)
        except DatabaseUnavailableError:
            self._more.set()  # it goes on once the database answers
        return job

    async def run(self) -> None:
        """Runs open jobs until cancelled, those of earlier runs first, and purges what cannot be undone any more."""
        while True:
            self._more.clear()
            try:
                await self.run_open()
                await self.purge()
            except DatabaseUnavailableError as error:
                self._log.warning("jobs_put_off", reason=str(error))
                await asyncio.sleep(RETRY_CAP_SECONDS)
                continue
            try:
                async with asyncio.timeout(_PURGE_EVERY_SECONDS):
                    await self._more.wait()
            except TimeoutError:
                continue

    async def run_open(self) -> None:
        """Runs all open jobs to their ends, the oldest first."""
        while open_jobs := await self._jobs.open_jobs():
            job = await self._step(open_jobs[0])
            while job.ended_at is None:
                job = await self._step(job.id)

    async def purge(self) -> None:
        """Deletes what is kept for undoing jobs that cannot be undone any more."""
        now = self._clock()
        await self._jobs.forget_expired(now)
        purged = await self._sites.soft_deletion.purge(now - PURGED_AFTER_SECONDS - _LATE_SECONDS)
        if purged:
            self._log.info("deleted_sites_purged", sites=purged)

    async def _step(self, job_id: int) -> Job:
        """Does or undoes one batch; returns the job as it is then."""
        async with self._stepping:
            job = await self._jobs.get(job_id)
            if job.ended_at is not None:
                return job
            try:
                return await (self._undo_some(job) if job.state is JobState.UNDOING else self._do_some(job))
            except DatabaseUnavailableError:
                raise
            except PermanentError as error:
                self._log.error("job_failed", job_id=job.id, reason=str(error))
                return await self._jobs.end(job, JobState.FAILED, self._clock(), str(error))

    async def _do_some(self, job: Job) -> Job:
        ids = await self._jobs.next_sites(job)
        if not ids:
            return await self._jobs.end(job, JobState.DONE, self._clock())
        async with self._many.changing:
            refused = await self._do(job, ids)
        detail = str(refused[0][1]) if refused else ""
        return await self._jobs.advance(job, ids[-1], seen=len(ids), refused=len(refused), detail=detail)

    async def _do(self, job: Job, ids: Sequence[int]) -> list[tuple[int, object]]:
        """Does it to these sites; returns (site id, reason) of those that refuse it."""
        action, value = job.action, job.value
        planned = await self._many.plan(ids, lambda site: after(action, value, site.spec))
        existing = list(planned.before)
        if action is JobAction.POLL:
            await self._jobs.keep(job.id, [SiteBefore(site_id, {}) for site_id in existing])
            self._many.poll_soon(existing)
            return []
        if action is JobAction.DELETE:
            others = await self._many.not_deletable(existing)
            existing = [site_id for site_id in existing if site_id not in set(others)]
            await self._jobs.keep(job.id, [SiteBefore(site_id, {}) for site_id in existing])
            await self._many.delete(existing)
            return [(site_id, _(_OF_THE_CRAWLER)) for site_id in others]
        before = [SiteBefore(i, before_action(action, planned.before[i])) for i in planned.wanted]
        await self._jobs.keep(job.id, before)
        await self._change(action, planned)
        return list(planned.refused)

    async def _change(self, action: JobAction, planned: Planned) -> None:
        if not planned.wanted:
            return
        if action in (JobAction.PAUSE, JobAction.RESUME):
            for paused in (True, False):
                ids = [i for i, spec in planned.wanted.items() if spec.paused is paused]
                if ids:
                    await self._many.pause(ids, paused)
        else:
            await self._many.set_settings(planned.wanted)

    async def _undo_some(self, job: Job) -> Job:
        changes = await self._jobs.next_changes(job)
        if not changes:
            return await self._jobs.end(job, JobState.UNDONE, self._clock())
        async with self._many.changing:
            restored = await self._undo(job, changes)
        return await self._jobs.advance_undo(job, changes[-1].site_id, restored=restored)

    async def _undo(self, job: Job, changes: Sequence[SiteBefore]) -> int:
        """Takes back what it did to these sites; returns of how many."""
        action, value = job.action, job.value
        ids = [change.site_id for change in changes]
        if action is JobAction.DELETE:
            return await self._many.bring_back(ids)
        kept = {change.site_id: change.before for change in changes}

        def spec_of(site: Site) -> SiteSpec:
            return taken_back(action, value, kept[site.id], site.spec)

        planned = await self._many.plan(ids, spec_of)
        await self._change(action, planned)
        return len(planned.wanted)


def not_undoable(job: Job, now: float) -> str | None:
    """Returns what a job must be in order to be undone, if it is not that now."""
    if job.action is JobAction.POLL:
        return _("one that changed something: polls cannot be taken back")
    if job.state is JobState.RUNNING:
        return _("one that has ended")
    if job.state is JobState.UNDONE:
        return _("one that is not undone yet")
    if job.undo_until is None or job.undo_until < now:
        return _("one of the last 24 hours")
    return None
