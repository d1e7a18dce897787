"""Runs of the daemon, the current allocation, and the sequences of ids."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select, update

from pollerd.errors import InvalidValueError
from pollerd.storage.encoding import split_names
from pollerd.storage.engine import Database, database_url
from pollerd.storage.history import HistoryStore
from pollerd.storage.hosts import HostStore
from pollerd.storage.locks import WriterLocks, place_of
from pollerd.storage.schema import allocation, daemon_run, last_batch, learned, metadata
from pollerd.storage.settings import StorageSettings
from pollerd.storage.statements import Statements, run, run_each
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.storage.values import AllocationRow, RunInfo
from pollerd.texts import _

if TYPE_CHECKING:
    from pollerd.storage.node_session import NodeSession

_PIECE = 2_000


class Runs(Subject):
    """Runs of the daemon: when each began, and whether it stopped cleanly."""

    def __init__(self, *, database: Database, sql: Statements, hosts: HostStore, writer: str) -> None:
        """writer: who this one is, where there are several; else empty."""
        self._database, self._sql, self._hosts, self._writer = database, sql, hosts, writer
        self.run_id: int | None = None
        """Of this process, once it has begun."""

    async def start(self, version: str, now: float) -> RunInfo:
        """Records the start of a daemon; returns how the previous run of this writer ended.

        Deletes hosts without sites, unless another writer may poll: it knows them by their ids.
        """
        info = await self._start(version, now)
        self.run_id = info.run_id
        return info

    @writes
    def _start(self, connection: Connection, version: str, now: float) -> RunInfo:
        if not self._sql.locks.several:
            self._hosts.drop_empty.within(connection)
        c = daemon_run.c
        mine = select(c.stopped_at).where(c.writer == self._writer)
        last = connection.execute(mine.order_by(c.id.desc()).limit(1)).one_or_none()
        clean = last is None or last.stopped_at is not None
        started = insert(daemon_run).values(started_at=now, version=version, writer=self._writer).returning(c.id)
        return RunInfo(connection.execute(started).scalar_one(), clean, None if last is None else last.stopped_at)

    async def end(self, now: float) -> None:
        """Records that the run stopped cleanly; does nothing without `start`."""
        if self.run_id is not None:
            await self._end(self.run_id, now)

    @writes
    def _end(self, connection: Connection, run_id: int, now: float) -> None:
        connection.execute(update(daemon_run).where(daemon_run.c.id == run_id).values(stopped_at=now))
        if self._writer:  # then none of its batches is repeated
            connection.execute(delete(last_batch).where(last_batch.c.writer == self._writer))


class AllocationStore(Subject):
    """The current allocation, and what its allocator has learned."""

    def __init__(self, *, database: Database, sql: Statements, history: HistoryStore, node: NodeSession | None) -> None:
        """node: this one, if it is one of several."""
        self._database, self._sql, self._history, self._node = database, sql, history, node

    @reads
    def load(self, connection: Connection) -> AllocationRow | None:
        """Returns the current allocation; None before the first."""
        c = allocation.c
        columns = c.allocator, c.objective, c.budget, c.shared_state, c.learned_through, c.deadline
        row = connection.execute(select(*columns, c.shadows)).one_or_none()
        return None if row is None else AllocationRow(*row[:-1], shadows=split_names(row.shadows))

    @writes
    def save(self, connection: Connection, row: AllocationRow) -> None:
        """Stores the current allocation; `Batch.shared_state` is stored only for its allocator.

        Without `shared_state` the stored one stays; a given one is assumed to include all polls committed so far.
        """
        values: dict[str, Any] = {
            "allocator": row.allocator,
            "objective": row.objective,
            "budget": row.budget,
            "shadows": ",".join(row.shadows),
        }
        if row.deadline is not None:
            values["deadline"] = row.deadline
        if row.shared_state is not None:
            values |= {
                "shared_state": row.shared_state,
                "learned_through": self._history.last_poll_id.within(connection),
            }
        statement = self._sql.insert_for(allocation).values(id=1, **values)
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))

    @writes
    def replace_learned(self, connection: Connection, row: AllocationRow, states: Iterable[tuple[int, bytes]]) -> None:
        """Stores another allocation with all its learned states, (site id, state) for each site that still exists.

        One of several nodes stores what it learned of the sites that it holds; the allocation is of all (`shared`).
        """
        sql, node = self._sql, self._node
        if node is None:
            self.save.within(connection, row)
            connection.execute(delete(learned))
        else:
            common = (node.info.name, row.allocator, row.shared_state, time.time())
            run_each(connection, sql.upsert_node_state, [common])
        held = () if node is None else (sql.id_list(node.held),)
        # In pieces: the loop runs between them.
        for piece in _pieces(states):
            ids = sql.id_list(dict(piece))
            here = {r[0] for r in run(connection, sql.held_sites if held else sql.living_sites, ids, *held)}
            run_each(connection, sql.upsert_learned, [(i, row.allocator, state) for i, state in piece if i in here])


def _pieces(states: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    left = iter(states)
    while piece := list(islice(left, _PIECE)):
        yield piece


# Ids given next are raised past those that a failover lost.

MOST = 10**12
"""Numbers stay far below 2^53, up to which JavaScript tells one from the next."""
_RAISE = "SELECT setval($1::text::regclass, nextval($1::text::regclass) + $2::bigint)"
_SEQUENCE = "SELECT pg_get_serial_sequence($1, 'id')"


async def raise_numbers(url: str, by: int) -> dict[str, int]:
    """Sets the numbers of every table ahead by so many (1 to 10^12); returns the last one passed over, by table.

    For a database that lacks its newest commits, as a replica may that became the primary: readers, and whoever kept a
    number, know numbers that the database would give again, to something else. No number is given twice if at most `by`
    were given since what the database has. May be repeated. Raises `InvalidValueError`, also for SQLite, and
    `DatabaseUnavailableError`.
    """
    if not 1 <= by <= MOST:
        raise InvalidValueError("by", _("1 to {most}", most=MOST), by)
    target = database_url(url)
    if target.get_backend_name() == "sqlite":
        raise InvalidValueError("database", _("PostgreSQL's: a SQLite file has no replicas"), "sqlite")
    database = Database(target, StorageSettings(), create=False)
    try:
        return await database.write(lambda c: _raise(c, by))
    finally:
        await database.close()


def _raise(connection: Connection, by: int) -> dict[str, int]:
    # Nobody must be between drawing a number and its commit: a reader could see a later one first.
    WriterLocks(place_of(connection)).number_events(connection)
    counts: dict[str, int] = {}
    for table in metadata.sorted_tables:
        if "id" in table.c and (sequence := _scalar(connection, _SEQUENCE, table.name)) is not None:
            counts[table.name] = int(_scalar(connection, _RAISE, sequence, by))
    return counts


def _scalar(connection: Connection, sql: str, *parameters: Any) -> Any:
    return connection.exec_driver_sql(sql, parameters).scalar_one()


# The id up to which all contents are committed: several writers commit them out of the order of their ids.

_LOOK_AGAIN_SECONDS = 0.05
_LOOKS = 100
# Whoever inserts holds this lock from before its first id is drawn until its end.
_UNDER_WAY = """
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND relation = 'content'::regclass AND mode = 'RowExclusiveLock' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def settled_content_id(database: Database, sql: Statements) -> int | None:
    """Returns an id up to which no more contents will be committed; None: any, there is one writer.

    Waits for the transactions that are writing contents now, for a few seconds at most: where one lasts longer it
    returns 0, and another time will do.
    """
    if not sql.locks.several:
        return None
    newest = await database.read(lambda c: int(run(c, sql.last_content_id)[0][0]))
    waited_for = await database.read(_under_way)
    for _look in range(_LOOKS):
        if not waited_for:
            return newest
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        waited_for &= await database.read(_under_way)
    return 0


def _under_way(connection: Connection) -> set[str]:
    """Returns the transactions that write contents."""
    return {str(row[0]) for row in run(connection, _UNDER_WAY)}
