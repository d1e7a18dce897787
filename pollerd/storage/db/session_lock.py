"""Ensures one daemon per PostgreSQL database, by a lock that ends with the writing session."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import asyncpg

from pollerd.errors import DatabaseInUseError

_TRY_AGAIN_SECONDS = 0.1
_TRIES = 20


class SessionLock:
    """A PostgreSQL advisory lock on the writing session itself.

    Only the holder commits: when its session ends, the transaction ends with it, and the next session starts by taking
    the lock. So two daemons never commit at once, whatever happens to connections.
    """

    def __init__(self) -> None:
        self._session: asyncpg.Record | None = None
        """Process id and start time of the last session that held the lock."""

    async def connect(self, *arguments: Any, **options: Any) -> asyncpg.Connection:
        """Returns a connection, made by `asyncpg.connect`, that holds the lock.

        Raises `DatabaseInUseError` if another session holds it.
        """
        connection = await asyncpg.connect(*arguments, **options)
        try:
            await self._take(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _take(self, connection: asyncpg.Connection) -> None:
        await self._end_lost_session(connection)
        place = await connection.fetchval("SELECT current_database() || '/' || current_schema()")
        key = int.from_bytes(hashlib.sha256(f"pollerd:{place}".encode()).digest()[:8], signed=True)
        if not await _try_for_a_while(connection, key):
            raise DatabaseInUseError(f"another daemon holds the database {place}")
        self._session = await connection.fetchrow(
            "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        )

    async def _end_lost_session(self, connection: asyncpg.Connection) -> None:
        """Ends our last session if the network lost it: the server might keep it, and the lock, for hours."""
        if self._session is not None:
            await connection.fetchval(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2",
                *self._session,
            )


async def _try_for_a_while(connection: asyncpg.Connection, key: int) -> bool:
    # The server needs a moment to notice that a killed daemon is gone.
    for _ in range(_TRIES):
        if await connection.fetchval("SELECT pg_try_advisory_lock($1)", key):
            return True
        await asyncio.sleep(_TRY_AGAIN_SECONDS)
    return False
