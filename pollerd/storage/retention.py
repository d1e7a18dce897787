"""Retention: deletion of old polls, changes, notices and contents, and of contents beyond the cap, in small pieces.

Contents are deleted by age, and from the busiest sites first if the space is exceeded. A site's contents are ordered by
when they were last found. A content is half of two differences: to its predecessor and to its successor. So the oldest
is dropped first, once its successor is old enough, too. `content_use` holds the use of each site.

The work is done in pieces, each a short transaction.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import BigInteger, Connection, Double, Integer, Update, bindparam, case, delete, func, select, update

from pollerd.storage.engine import Database
from pollerd.storage.poll_days import DayPartitions
from pollerd.storage.runs import settled_content_id
from pollerd.storage.schema import (
    attempt,
    change,
    content,
    content_total,
    content_use,
    outbox,
    poll,
    selection_state,
    site,
    site_state,
)
from pollerd.storage.settings import StorageSettings
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.storage.values import PruneResult

PIECE = 5_000
"""Contents dropped in one transaction, approximately at most."""
SITES = 100
"""Most sites processed in one transaction."""
_OLDEST = (
    "SELECT * FROM (SELECT site_id, last_seen_at, id, size FROM content "
    "WHERE site_id = {} ORDER BY last_seen_at, id LIMIT {}) AS oldest"
)


@dataclass(frozen=True, slots=True)
class Dropped:
    """Result of one piece of the work."""

    sites: int = 0
    """Number of sites processed; 0: nothing is left to do."""
    contents: int = 0
    bytes: int = 0


class _Row(NamedTuple):
    """A content."""

    last_seen_at: float
    id: int
    size: int


@dataclass(frozen=True, slots=True)
class _Removal:
    """How much of a site to drop."""

    contents: int
    """Number that it keeps now."""
    most: int
    """Most to drop, not counting bases of others."""
    stay: int
    """Number of newest ones that stay."""
    before: float = math.inf
    """Drops only contents whose successor was found before this time, epoch s."""


@dataclass(frozen=True, slots=True)
class _Loss:
    """What of a site is dropped."""

    ids: list[int]
    bytes: int
    through: float
    """Differences of changes found up to this time are no longer readable, epoch s."""
    due_at: float | None
    """When the then oldest content was last current; None: there is none to drop by age."""


def kept_by_each(rows: Sequence[Any], least: int, excess: int) -> int:
    """Returns how many contents each of the sites (id, contents, bytes), most first, may keep to free about enough.

    At least `least`, unless all have no more, and at a level that frees little more than a piece. The last content of
    each is left to the next piece, so that where only some must give it the others keep no more than they do.
    """
    if not rows:
        return least
    contents = np.array([row.rank for row in rows], np.float64)
    each = np.array([row.bytes for row in rows], np.float64) / contents
    low, high = min(least, rows[0].rank - 1), rows[0].rank - 1
    least = low
    while low < high:  # the highest level that frees enough
        middle = (low + high + 1) // 2
        over = np.maximum(contents - middle, 0.0)
        if over @ each >= excess or over.sum() >= PIECE:
            low = middle
        else:
            high = middle - 1
    return int(low + 1 if least < low < rows[0].rank - 1 else low)


def _one_transaction(rows: Sequence[Any]) -> int:
    """Returns how many of the rows (site, contents) fit one transaction, which reads the bases of them all."""
    total = np.cumsum([row[1] for row in rows])
    return int(np.searchsorted(total, 20 * PIECE)) + 1


def _lose(
    connection: Connection, sql: Statements, removals: Mapping[int, _Removal], excess: float = math.inf
) -> dict[int, _Loss]:
    """Drops contents of each site, within a piece and `excess` bytes; returns losses by id of the sites reached."""
    if sql.locks.several:
        removals = _held(connection, sql, removals)
    if not removals:
        return {}
    sites = {"sites": sql.id_list(removals)}
    kept, leaning = _current(connection, sql, sites), _leaning(connection, sql, sites)
    oldest = _oldest(connection, sql, {site_id: w.most + len(leaning[site_id]) + 3 for site_id, w in removals.items()})
    losses: dict[int, _Loss] = {}
    freed, gone = 0, list[int]()
    for site_id, removal in removals.items():
        if freed >= excess:
            break
        loss = losses[site_id] = _loss(oldest[site_id], kept, leaning[site_id], removal, excess - freed)
        freed += loss.bytes
        gone += loss.ids
    if gone:
        connection.exec_driver_sql(sql.delete_contents, (sql.id_list(gone),))
    return losses


def _held(connection: Connection, sql: Statements, removals: Mapping[int, _Removal]) -> dict[int, _Removal]:
    """Returns the removals of sites that no other writer commits for now, and keeps it from them until our commit.

    Else it could make a content current again that we drop. Sites that it commits for are left to the next round.
    """
    free = select(site.c.id).where(sql.in_list(site.c.id, "sites")).with_for_update(skip_locked=True)
    held = set(connection.execute(free, {"sites": sql.id_list(removals)}).scalars())
    return {site_id: removal for site_id, removal in removals.items() if site_id in held}


def _loss(
    rows: Sequence[_Row], kept: Collection[int | None], leaning: Mapping[int, float], removal: _Removal, excess: float
) -> _Loss:
    """Returns what to drop of a site with these oldest contents.

    kept: ids that stay; leaning: last finding of a base's dependants, by the base's id.
    """
    last = min(len(rows) - 1, removal.contents - removal.stay)
    end = taken = size = 0
    while end < last and taken < removal.most and size < excess and rows[end + 1].last_seen_at < removal.before:
        row = rows[end]
        if row.id not in kept and row.id not in leaning:
            taken, size = taken + 1, size + row.size
        end += 1
    if not rows:
        return _Loss([], 0, 0.0, None)
    through = rows[end].last_seen_at
    gone = [row for row in rows[:end] if row.id not in kept and leaning.get(row.id, -math.inf) < through]
    due_at = rows[end + 1].last_seen_at if end < last else None
    return _Loss([row.id for row in gone], sum(row.size for row in gone), through, due_at)


def _oldest(connection: Connection, sql: Statements, counts: Mapping[int, int]) -> dict[int, list[_Row]]:
    """Returns the oldest contents of each site, as many as wanted, oldest first.

    In one statement, as each costs an iteration of the loop; as text, since compiling would block the loop.
    """
    of_each = (_OLDEST.format(*(("?", "?") if sql.is_sqlite else (f"${n}", f"${n + 1}"))) for n in _odd(len(counts)))
    contents: dict[int, list[_Row]] = {site_id: [] for site_id in counts}
    parameters = tuple(number for pair in counts.items() for number in pair)
    for site_id, *row in connection.exec_driver_sql(" UNION ALL ".join(of_each), parameters):
        contents[site_id].append(_Row(*row))
    for rows in contents.values():
        rows.sort()
    return contents


def _odd(count: int) -> range:
    return range(1, 2 * count, 2)


def _current(connection: Connection, sql: Statements, sites: dict[str, Any]) -> set[int | None]:
    """Returns the current content of each site and its base, and those that its selections are held against."""
    s, selected = site_state.c, selection_state.c
    statement = (
        select(s.content_id, content.c.base_id)
        .outerjoin_from(site_state, content, content.c.id == s.content_id)
        .where(sql.in_list(s.site_id, "sites"))
    )
    of_selections = select(selected.content_id, selected.announced_id).where(sql.in_list(selected.site_id, "sites"))
    rows = [*connection.execute(statement, sites), *connection.execute(of_selections, sites)]
    return {content_id for row in rows for content_id in row}


def _leaning(connection: Connection, sql: Statements, sites: dict[str, Any]) -> defaultdict[int, dict[int, float]]:
    """Returns by site the last finding of each base's dependants, by the base's id."""
    c = content.c
    statement = (
        select(c.site_id, c.base_id, func.max(c.last_seen_at))
        .where(sql.in_list(c.site_id, "sites"), c.base_id.is_not(None))
        .group_by(c.site_id, c.base_id)
    )
    weights: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for site_id, base_id, last in connection.execute(statement, sites):
        weights[site_id][base_id] = last
    return weights


def _noting(**more: Any) -> Update:
    """Returns the statement that subtracts dropped contents from what a site keeps."""
    u = content_use.c
    left = u.contents - bindparam("count", type_=Integer)
    size = u.bytes - bindparam("size", type_=BigInteger)
    # A site with nothing to drop is not asked again before it gets new contents.
    rank = left * bindparam("gives", type_=Integer)
    return (
        update(content_use)
        .where(u.site_id == bindparam("key", type_=BigInteger))
        .values(contents=left, bytes=size, rank=rank, **more)
    )


_THROUGH, _DUE_AT = bindparam("through", type_=Double), bindparam("due", type_=Double)
_NOTE_EXPIRED = _noting(due_at=_DUE_AT, expired_through=func.coalesce(_THROUGH, content_use.c.expired_through))
_NOTE_CAPPED = _noting(capped_through=func.coalesce(_THROUGH, content_use.c.capped_through))


def _note(connection: Connection, statement: Update, losses: Mapping[int, _Loss]) -> Dropped:
    """Records what was dropped, with one of the statements above."""
    expired = statement is _NOTE_EXPIRED
    rows: list[dict[str, Any]] = [
        {
            "key": site_id,
            "count": len(loss.ids),
            "size": loss.bytes,
            "gives": 1 if loss.ids or expired else 0,
            "through": loss.through if loss.ids else None,
            **({"due": loss.due_at} if expired else {}),
        }
        for site_id, loss in losses.items()
    ]
    if not rows:
        return Dropped()
    connection.execute(statement, rows)
    freed = sum(row["size"] for row in rows)
    connection.execute(update(content_total).values(bytes=content_total.c.bytes - freed))
    return Dropped(len(rows), sum(row["count"] for row in rows), freed)


# The use of each site, counted from the contents added since the last count.
#
# So commits have no extra cost, and no round of pruning reads all contents.


# Old rows, deleted in small pieces so that polling never waits long.


def prune_polls(connection: Connection, before: float) -> int:
    """Deletes up to `PIECE` of the oldest polls made before that time; returns how many."""
    oldest = select(poll.c.id).where(poll.c.at < before).order_by(poll.c.at).limit(PIECE)
    return connection.execute(delete(poll).where(poll.c.id.in_(oldest))).rowcount


def prune_changes(connection: Connection, before: float) -> int:
    """Deletes up to `PIECE` of the oldest changes detected before that time; returns how many."""
    oldest = select(change.c.id).where(change.c.detected_at < before).order_by(change.c.detected_at).limit(PIECE)
    return connection.execute(delete(change).where(change.c.id.in_(oldest))).rowcount


def prune_notices(connection: Connection, before: float) -> int:
    """Deletes up to `PIECE` of the notices that ended first, before that time; returns how many."""
    c = outbox.c
    oldest = select(c.id).where(c.ended_at.is_not(None), c.ended_at < before).order_by(c.ended_at).limit(PIECE)
    return connection.execute(delete(outbox).where(c.id.in_(oldest))).rowcount


def prune_attempts(connection: Connection, before: float) -> int:
    """Deletes up to `PIECE` of the oldest attempts to send made before that time; returns how many."""
    oldest = select(attempt.c.id).where(attempt.c.at < before).order_by(attempt.c.at).limit(PIECE)
    return connection.execute(delete(attempt).where(attempt.c.id.in_(oldest))).rowcount


# Rounds of pruning, and the signal when the next one is needed.

_SPARE = 64
"""Divisor of the cap: pruning frees this part beyond it, and runs again after this much growth."""
GROWTH_BYTES = 4 * 1024**2
"""Least growth that starts a round."""


class Pruning(Subject):
    """Deletes data past its retention, and contents over the cap, in short transactions."""

    def __init__(self, *, database: Database, sql: Statements, days: DayPartitions) -> None:
        self._database, self._sql, self._days = database, sql, days
        self._grown, self._crowded = 0, asyncio.Event()

    def note_growth(self, settings: StorageSettings, size: int) -> None:
        """Counts `size` bytes of committed contents."""
        self._grown += size
        if self._grown > max(settings.content_cap_bytes // _SPARE, GROWTH_BYTES):
            self._crowded.set()

    async def crowded(self) -> None:
        """Returns once enough was committed since the last round to need another."""
        await self._crowded.wait()

    async def prune(self, settings: StorageSettings, now: float) -> PruneResult:
        """Runs one round."""
        self._grown = 0
        self._crowded.clear()
        polls = await self._polls(now - settings.poll_retention_seconds)
        await self._days.prepare(now)
        changes = 0
        if settings.change_retention_seconds is not None:
            changes = await self._rows(prune_changes, now - settings.change_retention_seconds)
        contents, freed = await self._contents(settings, now)
        noticed_before = now - settings.delivery_retention_seconds
        notices = await self._rows(prune_notices, noticed_before)
        notices += await self._rows(prune_attempts, noticed_before)
        return PruneResult(polls, contents, freed, changes, notices)

    async def _polls(self, before: float) -> int:
        if self._database.is_sqlite:
            return await self._rows(prune_polls, before)
        return await self._days.drop(before) + await self._rows(self._days.prune_mixed.within, before)

    async def _rows(self, prune: Callable[[Connection, float], int], before: float) -> int:
        gone = 0
        while deleted := await self._piece(prune, before):
            gone += deleted
        return gone

    @writes
    def _piece(self, connection: Connection, prune: Callable[[Connection, float], int], before: float) -> int:
        self._sql.locks.prune(connection)
        return prune(connection, before)

    # Contents are pruned while nobody else prunes: what two have read, both would subtract.

    async def _contents(self, settings: StorageSettings, now: float) -> tuple[int, int]:
        """Prunes contents; returns their number and bytes."""
        keep, before = settings.keep_contents, now - settings.content_retention_seconds
        through = await settled_content_id(self._database, self._sql)
        while await self._count_new(keep, through):
            pass
        contents = freed = 0
        while (dropped := await self._expire(before, keep)).sites:
            contents, freed = contents + dropped.contents, freed + dropped.bytes
        excess = await self._excess_bytes(settings.content_cap_bytes)
        dropped_bytes = 0
        while dropped_bytes < excess and (dropped := await self._give_way(excess - dropped_bytes)).sites:
            contents, dropped_bytes = contents + dropped.contents, dropped_bytes + dropped.bytes
        return contents, freed + dropped_bytes

    @writes
    def _count_new(self, connection: Connection, keep: int, through: int | None) -> bool:
        """Counts some of the contents added since the last count; returns whether there may be more.

        through: none with larger ids, as one with a smaller id may still be committed; None: there is one writer.
        Sites that then keep more than `keep` become due.
        """
        self._sql.locks.prune(connection)
        after = connection.execute(select(content_total.c.counted_through)).scalar_one()
        added_since = select(content.c.id).where(content.c.id > after)
        if through is not None:
            added_since = added_since.where(content.c.id <= through)
        ids = added_since.order_by(content.c.id).limit(PIECE).subquery()
        last, new = connection.execute(select(func.max(ids.c.id), func.count())).one()
        if last is None:
            return False
        c, u = content.c, content_use.c
        of_sites = (
            select(c.site_id, func.count(), func.sum(c.size), func.count(), case((func.count() > keep, 0.0)))
            .where(c.id > after, c.id <= last)
            .group_by(c.site_id)
        )
        insert = self._sql.insert_for(content_use).from_select(
            ["site_id", "contents", "bytes", "rank", "due_at"], of_sites
        )
        together = u.contents + insert.excluded.contents
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=["site_id"],
                set_={
                    "contents": together,
                    "bytes": u.bytes + insert.excluded.bytes,
                    "rank": together,
                    "due_at": case((together > keep, func.coalesce(u.due_at, 0.0)), else_=u.due_at),
                },
            )
        )
        added = select(func.coalesce(func.sum(c.size), 0)).where(c.id > after, c.id <= last).scalar_subquery()
        connection.execute(update(content_total).values(counted_through=last, bytes=content_total.c.bytes + added))
        return bool(new == PIECE)

    @writes
    def _expire(self, connection: Connection, before: float, keep: int) -> Dropped:
        """Drops contents last current before this time (epoch s), except the newest `keep` of each site."""
        self._sql.locks.prune(connection)
        u = content_use.c
        due = select(u.site_id, u.contents).where(u.due_at < before).order_by(u.due_at).limit(SITES)
        rows = connection.execute(due).all()
        rows = rows[: _one_transaction(rows)]
        removals = {site_id: _Removal(contents, -(-PIECE // len(rows)), keep, before) for site_id, contents in rows}
        return _note(connection, _NOTE_EXPIRED, _lose(connection, self._sql, removals))

    @writes
    def _give_way(self, connection: Connection, excess: int) -> Dropped:
        """Drops contents of the sites that keep most, oldest first, evenly down to the level of other sites.

        So the newest of every site are dropped last, and the current one never. Stops at `excess` bytes.
        """
        self._sql.locks.prune(connection)
        u = content_use.c
        busiest = select(u.site_id, u.rank, u.bytes).where(u.rank > 1).order_by(u.rank.desc()).limit(SITES + 1)
        rows = connection.execute(busiest).all()
        first = rows[: min(_one_transaction(rows), SITES)]
        least = rows[len(first)].rank if len(rows) > len(first) else 1
        level = kept_by_each(first, least, excess)
        removals = {r.site_id: _Removal(r.rank, r.rank - level, 1) for r in first if r.rank > level}
        return _note(connection, _NOTE_CAPPED, _lose(connection, self._sql, removals, excess))

    async def _excess_bytes(self, cap: int) -> int:
        """Returns the bytes to free to get under the cap, with a margin so that they are not summed again each time."""
        if await self._bytes_at_most() <= cap:
            return 0
        used = await self._sum_up()
        return used - cap + cap // _SPARE if used > cap else 0

    @reads
    def _bytes_at_most(self, connection: Connection) -> int:
        """Returns the compressed bytes of all counted contents, including those of sites deleted since `_sum_up`."""
        return int(connection.execute(select(content_total.c.bytes)).scalar_one())

    @writes
    def _sum_up(self, connection: Connection) -> int:
        """Recomputes and returns the exact `_bytes_at_most`, from one short row per site."""
        self._sql.locks.prune(connection)
        total = select(func.coalesce(func.sum(content_use.c.bytes), 0)).scalar_subquery()
        connection.execute(update(content_total).values(bytes=total))
        return self._bytes_at_most.within(connection)
