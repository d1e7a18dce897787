"""Jobs on many sites in the database, with the settings that they replaced. Times are epoch seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from pollerd.errors import NotFoundError
from pollerd.model import JobAction, JobState
from pollerd.shown import SHOWN, Moment
from pollerd.storage import encoding
from pollerd.storage.engine import Database
from pollerd.storage.schema import job, job_change, site
from pollerd.storage.site_lists import SiteListing
from pollerd.storage.statements import Statements, run_each
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.storage.undo import UNDO_SECONDS, forget_copies
from pollerd.storage.values import ListPage, SiteFilter
from pollerd.texts import N_


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What is to be done: to the sites that fit the filter, or to those with these ids."""

    action: JobAction
    value: Mapping[str, Any]
    """What the action needs, by name."""
    filter: SiteFilter | None = None
    ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """A job and how far it is."""

    __pydantic_config__ = SHOWN
    id: int
    action: JobAction
    value: Mapping[str, Any]
    """What the action needs, by name."""
    state: JobState
    total: int
    """Sites that fitted when it began."""
    total_is_exact: bool
    """false: there were more."""
    seen: int
    """Sites that were looked at so far."""
    changed: int
    """Sites to which it makes a difference."""
    refused: int
    """Sites that cannot have it."""
    restored: int
    """Sites for which it was undone so far."""
    detail: str
    """Why it failed, or why the first site was refused."""
    by: str
    created_at: Moment
    ended_at: Moment | None
    undo_until: Moment | None
    """Until then it can be undone; None: it cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobProgress):
    """A job as stored. Exactly one of `filter` and `ids` is given."""

    filter: SiteFilter | None
    ids: tuple[int, ...] | None
    newest_id: int
    """Newer sites are left alone."""
    position: int
    """All sites with ids up to this one were seen; while it is undone, of those that it changed."""


@dataclass(frozen=True, slots=True)
class SiteBefore:
    """A site that a job changed, and what it was before."""

    site_id: int
    before: Mapping[str, Any]


BATCH = 1_000
"""Sites that are changed in one transaction."""
KEPT_SECONDS = 30 * 86_400.0
"""Time for which ended jobs are listed."""


class JobStore(Subject):
    """Jobs, and what they changed."""

    def __init__(self, *, database: Database, sql: Statements, listing: SiteListing) -> None:
        self._database, self._sql, self._listing = database, sql, listing

    @writes
    def start(self, connection: Connection, spec: JobSpec, by: str, now: float) -> Job:
        """Stores a new job. Raises `InvalidValueError` for a filter with too many words."""
        newest = connection.execute(select(func.coalesce(func.max(site.c.id), 0))).scalar_one()
        total, exact = self._total(connection, spec)
        statement = insert(job).values(
            action=spec.action.value,
            value=msgspec.json.encode(spec.value).decode(),
            filter=None if spec.filter is None else msgspec.json.encode(spec.filter).decode(),
            ids=None if spec.ids is None else msgspec.json.encode(sorted(set(spec.ids))).decode(),
            newest_id=newest,
            by=by,
            state=JobState.RUNNING.value,
            total=total,
            total_is_exact=exact,
            created_at=now,
            undo_until=None if spec.action is JobAction.POLL else now + UNDO_SECONDS,
        )
        [job_id] = connection.execute(statement.returning(job.c.id)).scalars()
        return self.get.within(connection, job_id)

    def _total(self, connection: Connection, spec: JobSpec) -> tuple[int, bool]:
        if spec.ids is not None:
            return len(set(spec.ids)), True
        counted = self._listing.count(connection, spec.filter or SiteFilter())
        if counted is not None:
            return counted.sites, counted.is_exact
        return connection.execute(select(func.count()).select_from(site)).scalar_one(), True

    @reads
    def get(self, connection: Connection, job_id: int) -> Job:
        """Returns the job. Raises `NotFoundError`."""
        row = connection.execute(select(job).where(job.c.id == job_id)).one_or_none()
        if row is None:
            raise NotFoundError(N_("job"), job_id)
        return _job(row)

    @reads
    def list_jobs(self, connection: Connection, limit: int = 100, cursor: str | None = None) -> ListPage[Job]:
        """Returns jobs, newest first. Raises `InvalidValueError` for a bad cursor or limit (1 to 1000)."""
        position = encoding.Position.of("j", cursor, None, unnamed=encoding.Order.NEWEST)
        rows = connection.execute(position.select(select(job), job.c.id, limit))
        return position.page([_job(row) for row in rows], limit)

    @reads
    def last_undoable(self, connection: Connection, now: float) -> Job | None:
        """Returns the newest job that has ended and can be undone; None: there is none."""
        c = job.c
        fitting = (c.state == JobState.DONE.value, c.undo_until > now, c.changed > 0)
        row = connection.execute(select(job).where(*fitting).order_by(c.id.desc()).limit(1)).one_or_none()
        return None if row is None else _job(row)

    @reads
    def open_jobs(self, connection: Connection) -> list[int]:
        """Returns the ids of jobs that have not ended, oldest first."""
        statement = select(job.c.id).where(job.c.ended_at.is_(None)).order_by(job.c.id)
        return list(connection.execute(statement).scalars())

    async def next_sites(self, bulk_job: Job) -> list[int]:
        """Returns ids of the sites that come next, ascending; fewer than `BATCH`: there are no more."""
        if bulk_job.ids is not None:
            return [site_id for site_id in bulk_job.ids if bulk_job.position < site_id <= bulk_job.newest_id][:BATCH]
        return await self._next_fitting(bulk_job)

    @reads
    def _next_fitting(self, connection: Connection, bulk_job: Job) -> list[int]:
        site_filter = bulk_job.filter or SiteFilter()
        return self._listing.ids_after(connection, site_filter, bulk_job.position, bulk_job.newest_id, BATCH)

    async def keep(self, job_id: int, before: Sequence[SiteBefore]) -> None:
        """Keeps what sites were, before they are changed. Those kept already stay, and are not counted twice."""
        if before:
            await self._keep(job_id, before)

    @writes
    def _keep(self, connection: Connection, job_id: int, before: Sequence[SiteBefore]) -> None:
        ids = self._sql.id_list(entry.site_id for entry in before)
        c = job_change.c
        statement = select(c.site_id).where(c.job_id == job_id, self._sql.in_list(c.site_id, "sites"))
        kept = set(connection.execute(statement, {"sites": ids}).scalars())
        rows = [
            (job_id, entry.site_id, msgspec.json.encode(entry.before).decode())
            for entry in before
            if entry.site_id not in kept
        ]
        run_each(connection, self._sql.insert_job_change, rows)
        changed = job.c.changed + len(rows)
        connection.execute(update(job).where(job.c.id == job_id).values(changed=changed))

    @writes
    def advance(
        self, connection: Connection, bulk_job: Job, position: int, *, seen: int, refused: int, detail: str
    ) -> Job:
        """Notes that sites up to `position` were seen, and how many of them. Returns the job as it is then."""
        values = {"position": position, "seen": job.c.seen + seen, "refused": job.c.refused + refused}
        mine = update(job).where(job.c.id == bulk_job.id)
        connection.execute(mine.values(**values, detail=bulk_job.detail or detail))
        # Sites that were changed just before a kill may not fit the filter any more.
        connection.execute(mine.where(job.c.seen < job.c.changed).values(seen=job.c.changed))
        return self.get.within(connection, bulk_job.id)

    @writes
    def end(self, connection: Connection, bulk_job: Job, state: JobState, now: float, detail: str | None = None) -> Job:
        """Ends the job in this state."""
        more = {} if detail is None else {"detail": detail}
        values = {"state": state.value, "ended_at": now, "seen": max(bulk_job.seen, bulk_job.changed), **more}
        return self._change(connection, bulk_job.id, values)

    @writes
    def begin_undo(self, connection: Connection, job_id: int) -> Job:
        """Lets the job be undone."""
        return self._change(connection, job_id, {"state": JobState.UNDOING.value, "ended_at": None, "position": 0})

    @reads
    def next_changes(self, connection: Connection, bulk_job: Job) -> list[SiteBefore]:
        """Returns what is undone next, by site id; none: that was all."""
        c = job_change.c
        statement = select(c.site_id, c.before).where(c.job_id == bulk_job.id, c.site_id > bulk_job.position)
        rows = connection.execute(statement.order_by(c.site_id).limit(BATCH))
        return [SiteBefore(site_id, msgspec.json.decode(before)) for site_id, before in rows]

    @writes
    def advance_undo(self, connection: Connection, bulk_job: Job, position: int, *, restored: int) -> Job:
        """Notes that changes of sites up to `position` are undone, and of how many."""
        return self._change(connection, bulk_job.id, {"position": position, "restored": job.c.restored + restored})

    async def forget_expired(self, now: float) -> None:
        """Forgets what jobs changed that can no longer be undone, some at a time, and old jobs."""
        while await self._forget_some(now):
            pass

    @writes
    def _forget_some(self, connection: Connection, now: float) -> bool:
        """Returns whether there may be more to forget."""
        forget_copies(connection, now)
        connection.execute(delete(job).where(job.c.ended_at < now - KEPT_SECONDS, job.c.undo_until.is_(None)))
        expired = select(job.c.id).where(job.c.undo_until < now, job.c.ended_at.is_not(None)).limit(1)
        job_id = connection.execute(expired).scalar_one_or_none()
        if job_id is None:
            return False
        c = job_change.c
        some = select(c.site_id).where(c.job_id == job_id).order_by(c.site_id).limit(10 * BATCH)
        last = connection.execute(select(func.max(some.subquery().c.site_id))).scalar_one()
        if last is None:
            connection.execute(update(job).where(job.c.id == job_id).values(undo_until=None))
        else:
            connection.execute(delete(job_change).where(c.job_id == job_id, c.site_id <= last))
        return True

    def _change(self, connection: Connection, job_id: int, values: dict[str, Any]) -> Job:
        connection.execute(update(job).where(job.c.id == job_id).values(values))
        return self.get.within(connection, job_id)


def _job(row: Any) -> Job:
    state = JobState(row.state)
    return Job(
        id=row.id,
        action=JobAction(row.action),
        value=msgspec.json.decode(row.value),
        state=state,
        total=row.total,
        total_is_exact=row.total_is_exact,
        seen=row.seen,
        changed=row.changed,
        refused=row.refused,
        restored=row.restored,
        detail=row.detail,
        by=row.by,
        created_at=row.created_at,
        ended_at=row.ended_at,
        undo_until=None if state is JobState.UNDONE else row.undo_until,
        filter=None if row.filter is None else msgspec.json.decode(row.filter, type=SiteFilter),
        ids=None if row.ids is None else msgspec.json.decode(row.ids, type=tuple[int, ...]),
        newest_id=row.newest_id,
        position=row.position,
    )
