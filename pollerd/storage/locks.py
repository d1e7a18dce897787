"""Locks: of one daemon on a file, and of sessions that write to PostgreSQL.

Ensures that who writes to a PostgreSQL database holds a lock, which ends with the writing session.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
from sqlalchemy import Connection

from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError

# Locks between daemons that write into one PostgreSQL database at once. Each ends with its transaction.

MOST_IDLE_SECONDS = 5
"""How long the holder of the lock on numbers may keep the server waiting for its next statement."""
_TAKE = "SELECT pg_advisory_xact_lock($1::bigint)"
_TAKE_BRIEFLY = f"{_TAKE}, set_config('idle_in_transaction_session_timeout', $2, true)"


def lock_key(name: str) -> int:
    """Returns the number of the advisory lock of this name, int64."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)


def place_of(connection: Connection) -> str:
    """Returns database and schema, `database/schema`."""
    return str(connection.exec_driver_sql("SELECT current_database() || '/' || current_schema()").scalar_one())


class WriterLocks:
    """What writers of one database wait for. Where there is only one, every method returns at once."""

    def __init__(self, place: str | None = None) -> None:
        """place: database and schema, `database/schema`; None: there is one writer."""
        self._place = place
        self._numbers = self._key("numbers")
        self.channel = f"pollerd_{self._numbers & (2**64 - 1):016x}"
        """The channel of NOTIFY on which writers tell of new changes: one for each schema."""

    @property
    def several(self) -> bool:
        """Whether there may be several writers."""
        return self._place is not None

    def number_events(self, connection: Connection) -> None:
        """Waits until the numbers of changes and notices may be drawn; nobody else draws any until we have committed.

        To be called before the first of them is inserted, last in the transaction, but before an existing notice is
        updated: an insertion of the same notice would wait for the update, and the update for this lock. The server
        ends a holder that is silent for `MOST_IDLE_SECONDS`, so that one that stands still holds nobody up for longer.
        """
        if self.several:
            connection.exec_driver_sql(_TAKE_BRIEFLY, (self._numbers, f"{MOST_IDLE_SECONDS}s"))

    def prune(self, connection: Connection) -> None:
        """Waits until nobody else prunes."""
        if self.several:
            connection.exec_driver_sql(_TAKE, (self._key("pruning"),))

    def add_sites(self, connection: Connection) -> None:
        """Waits until nobody else adds hosts or sites: two would add the same one."""
        if self.several:
            connection.exec_driver_sql(_TAKE, (self._key("sites"),))

    def make_triggers(self, connection: Connection) -> None:
        """Waits until nobody else makes triggers."""
        if self.several:
            connection.exec_driver_sql(_TAKE, (self._key("triggers"),))

    def note_seen(self, connection: Connection, reader: str) -> None:
        """Waits until nobody else notes what this reader has seen."""
        if self.several:
            connection.exec_driver_sql(_TAKE, (self._key(f"seen:{reader}"),))

    def _key(self, name: str) -> int:
        return lock_key(f"pollerd:{self._place}:{name}")


_TRY_AGAIN_SECONDS = 0.1
_TRIES = 20
_CLASS_BITS = 0x7FFF_FFFF
_LIVING = (
    "SELECT name, version FROM node WHERE id IN (SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory'"
    " AND granted AND objsubid = 2 AND classid = $1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) ORDER BY name"
)
OpenConnection = Callable[[], Awaitable[asyncpg.Connection]]


class SessionLock:
    """A PostgreSQL advisory lock on the writing session itself, which one daemon holds alone.

    Only the holder commits: when its session ends, the transaction ends with it, and the next session starts by taking
    the lock. So two daemons never commit at once, whatever happens to connections. Several writers hold it shared: none
    of them commits while a daemon that must be alone does.
    """

    application = "pollerd writer"
    """Name of the session for operators of the server."""

    def __init__(self, *, shared: bool = False) -> None:
        """shared: with others that share it."""
        self.attempt = f"SELECT pg_try_advisory_lock{'_shared' if shared else ''}($1)"
        self._session: asyncpg.Record | None = None
        """Process id and start time of the last session that held the lock."""

    @property
    def session_settings(self) -> dict[str, str]:
        """Settings of the session beside those that all have."""
        return {}

    async def connect(self, *arguments: Any, **options: Any) -> asyncpg.Connection:
        """Returns a connection, made by `asyncpg.connect`, that holds the lock.

        Raises `DatabaseInUseError` if another session holds it.
        """
        open_one = partial(asyncpg.connect, *arguments, **options)
        connection = await open_one()
        try:
            await self._end_lost_session(connection)
            await self.take(connection, open_one)
            self._session = await connection.fetchrow(
                "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            )
        except BaseException:
            connection.terminate()
            raise
        return connection

    def answered(self, asked_at: float) -> None:
        """Notes that the server has answered what was sent on this session at `asked_at` (monotonic s), or later."""

    async def take(self, connection: asyncpg.Connection, open_one: OpenConnection) -> None:
        """Takes the lock on a new connection. Raises `DatabaseInUseError` if another session holds it.

        open_one: opens another connection to the same place.
        """
        place, key = await key_here(connection, "pollerd")
        if not await try_for_a_while(connection, self.attempt, key):
            nodes = await living_nodes(connection)
            who = f"nodes are running on the database {place}: {', '.join(nodes)}"
            raise DatabaseInUseError(who if nodes else f"another daemon holds the database {place}")

    async def _end_lost_session(self, connection: asyncpg.Connection) -> None:
        """Ends our last session if the network lost it: the server might keep it, and the lock, for hours."""
        if self._session is not None:
            await connection.fetchval(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2",
                *self._session,
            )


async def key_here(connection: asyncpg.Connection, name: str) -> tuple[str, int]:
    """Returns database and schema as "database/schema", and the key, int64, of the lock of this name on them."""
    place = await connection.fetchval("SELECT current_database() || '/' || current_schema()")
    return place, lock_key(f"{name}:{place}")


async def class_here(connection: asyncpg.Connection, name: str) -> int:
    """Returns the class of the locks of this name: "pollerd nodes" (of nodes, by id), "pollerd units"."""
    _, key = await key_here(connection, name)
    return key & _CLASS_BITS


async def living_nodes(connection: asyncpg.Connection) -> list[str]:
    """Returns the names of the nodes whose sessions are open, with their versions; a new database has none."""
    if await connection.fetchval("SELECT to_regclass('node')") is None:
        return []
    rows = await connection.fetch(_LIVING, await class_here(connection, "pollerd nodes"))
    return [f"{name} ({version})" for name, version in rows]


async def try_for_a_while(connection: asyncpg.Connection, attempt: str, *arguments: Any) -> bool:
    """Repeats an attempt to take a lock: the server needs a moment to notice that a killed daemon is gone."""
    for _ in range(_TRIES):
        if await connection.fetchval(attempt, *arguments):
            return True
        await asyncio.sleep(_TRY_AGAIN_SECONDS)
    return False


# Ensures one daemon per SQLite file, by a lock that ends with its process.


class FileLock:
    """A lock on a file beside the database; the kernel releases it when the process ends, however that happens."""

    def __init__(self, path: Path) -> None:
        """Raises `DatabaseInUseError` if another process holds it, `DatabaseUnavailableError`."""
        try:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise DatabaseUnavailableError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            self.release()
            raise DatabaseInUseError(f"another daemon (process {holder}) holds {path}") from error
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            self.release()
            raise DatabaseUnavailableError(f"{path}: {error.strerror}") from error

    def release(self) -> None:
        """Releases the lock; may be called twice. The file stays: else two daemons could lock two files of one name."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
