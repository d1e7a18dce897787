"""Runs of the daemon, the current allocation, notification of new changes, and the sequences of ids."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import structlog
from sqlalchemy import Connection, delete, func, insert, select, update

from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.storage.changes import last_change_id
from pollerd.storage.commit import PartitionHolder
from pollerd.storage.encoding import split_names
from pollerd.storage.engine import Database, database_url
from pollerd.storage.locks import WriterLocks, place_of
from pollerd.storage.schema import allocation, daemon_run, last_batch, learned, metadata, poll
from pollerd.storage.settings import StorageSettings
from pollerd.storage.statements import Statements, run, run_each
from pollerd.storage.values import AllocationRow, RunInfo

_PIECE = 2_000


def start_run(connection: Connection, version: str, now: float, writer: str = "") -> RunInfo:
    """Records the start of a daemon; returns how the writer's previous run ended."""
    c = daemon_run.c
    mine = select(c.stopped_at).where(c.writer == writer)
    last = connection.execute(mine.order_by(c.id.desc()).limit(1)).one_or_none()
    clean = last is None or last.stopped_at is not None
    started = insert(daemon_run).values(started_at=now, version=version, writer=writer).returning(c.id)
    return RunInfo(connection.execute(started).scalar_one(), clean, None if last is None else last.stopped_at)


def end_run(connection: Connection, run_id: int, now: float, writer: str = "") -> None:
    """Records that the run stopped cleanly; then none of the writer's batches is repeated."""
    connection.execute(update(daemon_run).where(daemon_run.c.id == run_id).values(stopped_at=now))
    if writer:
        connection.execute(delete(last_batch).where(last_batch.c.writer == writer))


def load_allocation(connection: Connection) -> AllocationRow | None:
    """Returns the current allocation; None before the first."""
    c = allocation.c
    columns = c.allocator, c.objective, c.budget, c.shared_state, c.learned_through, c.deadline
    row = connection.execute(select(*columns, c.shadows)).one_or_none()
    return None if row is None else AllocationRow(*row[:-1], shadows=split_names(row.shadows))


def last_poll_id(connection: Connection) -> int:
    """Returns the id of the last committed poll, 0 before the first."""
    last: int | None = connection.execute(select(func.max(poll.c.id))).scalar_one()
    return last or 0


def save_allocation(connection: Connection, sql: Statements, row: AllocationRow) -> None:
    """Stores the current allocation. Its shared state, if given, includes all polls committed so far."""
    values: dict[str, Any] = {
        "allocator": row.allocator,
        "objective": row.objective,
        "budget": row.budget,
        "shadows": ",".join(row.shadows),
    }
    if row.deadline is not None:
        values["deadline"] = row.deadline
    if row.shared_state is not None:
        values |= {"shared_state": row.shared_state, "learned_through": last_poll_id(connection)}
    statement = sql.insert_for(allocation).values(id=1, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))


def replace_learned(
    connection: Connection, sql: Statements, row: AllocationRow, states: Iterable[tuple[int, bytes]]
) -> None:
    """Stores another allocation, with the learned states, (site id, state), of sites that still exist."""
    save_allocation(connection, sql, row)
    connection.execute(delete(learned))
    # In pieces: the loop runs between them.
    for piece in _pieces(states):
        living = {r[0] for r in connection.exec_driver_sql(sql.living_sites, (sql.id_list(dict(piece)),))}
        rows = [(site_id, row.allocator, state) for site_id, state in piece if site_id in living]
        run_each(connection, sql.upsert_learned, rows)


def replace_learned_here(
    connection: Connection,
    sql: Statements,
    node: PartitionHolder,
    row: AllocationRow,
    states: Iterable[tuple[int, bytes]],
) -> None:
    """Stores what a node learned with another allocator: of those of its sites that it still holds, and in common."""
    run_each(connection, sql.upsert_node_state, [(node.info.name, row.allocator, row.shared_state, time.time())])
    held = sql.id_list(node.held)
    for piece in _pieces(states):
        here = {r[0] for r in run(connection, sql.held_sites, sql.id_list(dict(piece)), held)}
        run_each(connection, sql.upsert_learned, [(i, row.allocator, state) for i, state in piece if i in here])


def _pieces(states: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    left = iter(states)
    while piece := list(islice(left, _PIECE)):
        yield piece


def last_poll_at(connection: Connection) -> float | None:
    """Returns when the last stored poll began (epoch s); None: there is none."""
    found = connection.execute(select(poll.c.at).order_by(poll.c.id.desc()).limit(1)).scalar()
    return None if found is None else float(found)


# Readers are woken when new changes are committed, here or by another writer.

LOOK_SECONDS = 5.0
"""A listener looks at the table so often: what became of a message that did not arrive, and is the connection alive?"""
_ANSWER_SECONDS = 10.0
_AGAIN_SECONDS = 1.0


class ChangeNotifier:
    """Notifies readers in this process of new changes, which they read from the database."""

    def __init__(self) -> None:
        self._newest = 0
        self._came = asyncio.Event()

    @property
    def newest(self) -> int:
        """The largest id announced; 0: none was."""
        return self._newest

    def announce(self, change_id: int) -> None:
        """Wakes all waiters: changes up to this id are committed."""
        if change_id > self._newest:
            self._newest = change_id
            self._came.set()
            self._came = asyncio.Event()

    async def after(self, change_id: int) -> None:
        """Returns once a change with an id above `change_id` was announced, possibly before the call."""
        while self._newest <= change_id:
            await self._came.wait()


class ChangeListener:
    """Learns of changes that other writers commit, over a connection of its own."""

    def __init__(self, *, database: Database, locks: WriterLocks, news: ChangeNotifier) -> None:
        self._database, self._channel, self._news = database, locks.channel, news
        self._log = structlog.get_logger("pollerd.storage")

    async def run(self) -> None:
        """Announces until cancelled. Connects again when the connection is lost, and looks at what came meanwhile."""
        listened = True
        while True:
            try:
                await self._listen()
                listened = True
            except DatabaseUnavailableError as error:
                if listened:
                    self._log.warning("listening_failed", reason=str(error), instead="tried again every second")
                listened = False
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _listen(self) -> None:
        """Announces until the connection ends. Raises `DatabaseUnavailableError`."""
        lost = asyncio.Event()
        listening = self._database.listening(self._channel, lambda message: self._news.announce(int(message)), lost.set)
        async with listening as read:
            # The first look comes after LISTEN: what is committed in between is seen by both.
            while not lost.is_set():
                async with asyncio.timeout(_ANSWER_SECONDS):
                    self._news.announce(await read(last_change_id))
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await lost.wait()


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
        raise InvalidValueError("by", f"1 to {MOST}", by)
    target = database_url(url)
    if target.get_backend_name() == "sqlite":
        raise InvalidValueError("database", "PostgreSQL's: a SQLite file has no replicas", "sqlite")
    database = Database(target, StorageSettings(), create=False)
    try:
        return await database.write(lambda c: _raise(c, by))
    finally:
        await database.close()


def _raise(connection: Connection, by: int) -> dict[str, int]:
    # Nobody must be between drawing a number and its commit: a reader could see a later one first.
    WriterLocks(place_of(connection)).number_events(connection)
    found: dict[str, int] = {}
    for table in metadata.sorted_tables:
        if "id" in table.c and (sequence := _scalar(connection, _SEQUENCE, table.name)) is not None:
            found[table.name] = int(_scalar(connection, _RAISE, sequence, by))
    return found


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
    for _ in range(_LOOKS):
        if not waited_for:
            return newest
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        waited_for &= await database.read(_under_way)
    return 0


def _under_way(connection: Connection) -> set[str]:
    """Returns the transactions that write contents."""
    return {str(row[0]) for row in run(connection, _UNDER_WAY)}
