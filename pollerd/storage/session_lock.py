"""The lock that a writer to PostgreSQL holds, and that ends with the writing session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import asyncpg

from pollerd.errors import DatabaseInUseError
from pollerd.storage.locks import lock_key
from pollerd.texts import _

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
            who = _("nodes are running on the database {place}: {nodes}", place=place, nodes=", ".join(nodes))
            raise DatabaseInUseError(who if nodes else _("another daemon holds the database {place}", place=place))

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
    _place, key = await key_here(connection, name)
    return key & _CLASS_BITS


async def living_nodes(connection: asyncpg.Connection) -> list[str]:
    """Returns the names of the nodes whose sessions are open, with their versions; a new database has none."""
    if await connection.fetchval("SELECT to_regclass('node')") is None:
        return []
    rows = await connection.fetch(_LIVING, await class_here(connection, "pollerd nodes"))
    return [f"{name} ({version})" for name, version in rows]


async def try_for_a_while(connection: asyncpg.Connection, attempt: str, *arguments: Any) -> bool:
    """Repeats an attempt to take a lock: the server needs a moment to notice that a killed daemon is gone."""
    for _attempt in range(_TRIES):
        if await connection.fetchval(attempt, *arguments):
            return True
        await asyncio.sleep(_TRY_AGAIN_SECONDS)
    return False
