"""Jobs: does one thing to many sites, a thousand at a time, goes on after a restart, and can be undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from pollerd.daemon.control import bulk_actions
from pollerd.daemon.control.many_sites import ManySites, Planned
from pollerd.daemon.state.storage_health import RETRY_CAP_SECONDS
from pollerd.errors import DatabaseUnavailableError, InvalidValueError, PermanentError
from pollerd.model import JobAction, JobState, Site, SiteSpec
from pollerd.storage import Job, JobSpec, JobStore, SiteBefore, SiteStore

AT_ONCE = 1_000
"""A job on at most so many sites ends within the call that starts it."""
PURGED_AFTER_SECONDS = 86_400.0
"""Time after which sites that a job deleted are purged."""
_LATE_SECONDS = 3_600.0
"""So much later, that no job is being undone."""
_PURGE_EVERY_SECONDS = 600.0
_OF_THE_CRAWLER = "site: must be one that a user, a list or a source added; given: one of the focused crawler's"


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
        self._log.warning("job_started", job=job.id, action=spec.action.value, sites=job.total, by=by)
        return await self._begun(job, job.total if job.total_is_exact else AT_ONCE + 1)

    async def undo(self, job_id: int, *, by: str) -> Job:
        """Takes back what a job did. Raises NotFoundError, InvalidValueError if that is not possible (now)."""
        async with self._stepping:
            job = await self._jobs.get(job_id)
            if (why := not_undoable(job, self._clock())) is not None:
                raise InvalidValueError("job", why, job.state.value)
            if job.state is not JobState.UNDOING:
                job = await self._jobs.begin_undo(job_id)
        self._log.warning("job_undone", job=job.id, action=job.spec.action.value, sites=job.changed, by=by)
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
        purged = await self._sites.purge(now - PURGED_AFTER_SECONDS - _LATE_SECONDS)
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
                self._log.error("job_failed", job=job.id, reason=str(error))
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
        action, value = job.spec.action, job.spec.value
        planned = await self._many.plan(ids, lambda site: bulk_actions.after(action, value, site.spec))
        there = list(planned.before)
        if action is JobAction.POLL:
            await self._jobs.keep(job.id, [SiteBefore(site_id, {}) for site_id in there])
            self._many.poll_soon(there)
            return []
        if action is JobAction.DELETE:
            others = await self._many.not_deletable(there)
            there = [site_id for site_id in there if site_id not in set(others)]
            await self._jobs.keep(job.id, [SiteBefore(site_id, {}) for site_id in there])
            await self._many.delete(there)
            return [(site_id, _OF_THE_CRAWLER) for site_id in others]
        before = [SiteBefore(i, bulk_actions.before(action, planned.before[i])) for i in planned.wanted]
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
        action, value = job.spec.action, job.spec.value
        ids = [one.site_id for one in changes]
        if action is JobAction.DELETE:
            return await self._many.bring_back(ids)
        kept = {one.site_id: one.before for one in changes}

        def spec_of(site: Site) -> SiteSpec:
            return bulk_actions.taken_back(action, value, kept[site.id], site.spec)

        planned = await self._many.plan(ids, spec_of)
        await self._change(action, planned)
        return len(planned.wanted)


def not_undoable(job: Job, now: float) -> str | None:
    """Returns what a job must be in order to be undone, if it is not that now."""
    if job.spec.action is JobAction.POLL:
        return "one that changed something: polls cannot be taken back"
    if job.state is JobState.RUNNING:
        return "one that has ended"
    if job.state is JobState.UNDONE:
        return "one that is not undone yet"
    if job.undo_until is None or job.undo_until < now:
        return "one of the last 24 hours"
    return None
