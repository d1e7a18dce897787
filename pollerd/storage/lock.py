"""One daemon per database, by a lock that dies with its process."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import asyncpg

from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError
from pollerd.storage.engine import Database
from pollerd.storage.failures import mapped

_PATIENCE_SECONDS = 10.0
_TRY_AGAIN_SECONDS = 0.1
_TRIES = 20


class DaemonLock(Protocol):
    """Held from creation until `release`, or the end of the process."""

    async def verify(self) -> None:
        """Raises `DatabaseUnavailableError` or `DatabaseInUseError` where the lock was lost."""

    async def release(self) -> None:
        """Let go. May be called twice."""


async def take_lock(database: Database) -> DaemonLock | None:
    """The lock of this database; None in memory, which nobody else can open.

    Raises `DatabaseInUseError` where another process holds it.
    """
    if database.path is not None:
        return FileLock(database.path.with_name(database.path.name + ".lock"))
    if database.is_sqlite:
        return None
    lock = SessionLock(database)
    await lock.take()
    return lock


class FileLock:
    """A lock on a file beside the database; the kernel drops it with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        """Raises `DatabaseInUseError`."""
        self._path = path
        try:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise DatabaseUnavailableError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise DatabaseInUseError(f"another daemon (process {holder}) holds {path}") from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    async def verify(self) -> None:
        """A file lock is never lost while its file is open."""

    async def release(self) -> None:
        """The file stays: removing it would let two daemons lock two files of one name."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class SessionLock:
    """A PostgreSQL advisory lock on a connection of its own; the server drops it with the connection."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: asyncpg.Connection | None = None
        self._key = 0

    async def take(self) -> None:
        """Raises `DatabaseInUseError` where another session holds the lock, `DatabaseUnavailableError`."""
        await self.release()
        url = self._database.url.set(drivername="postgresql")
        with mapped():
            self._connection = await asyncpg.connect(
                url.render_as_string(hide_password=False),
                timeout=_PATIENCE_SECONDS,
                command_timeout=_PATIENCE_SECONDS,
                server_settings={"application_name": "pollerd lock"},
            )
            place = await self._connection.fetchval("SELECT current_database() || '/' || current_schema()")
            self._key = int.from_bytes(hashlib.sha256(f"pollerd:{place}".encode()).digest()[:8], signed=True)
            taken = await self._try_for_a_while(self._connection)
        if not taken:
            await self.release()
            raise DatabaseInUseError(f"another daemon holds the database {place}")

    async def _try_for_a_while(self, connection: asyncpg.Connection) -> bool:
        # The server needs a moment to notice that a killed daemon is gone.
        for _ in range(_TRIES):
            if await connection.fetchval("SELECT pg_try_advisory_lock($1)", self._key):
                return True
            await asyncio.sleep(_TRY_AGAIN_SECONDS)
        return False

    async def verify(self) -> None:
        """Take the lock anew where its connection was lost; the server may have restarted."""
        if self._connection is None or self._connection.is_closed():
            await self.take()

    async def release(self) -> None:
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        # Unlocking waits for the server; closing alone would leave the lock behind for a moment.
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.fetchval("SELECT pg_advisory_unlock_all()")
        connection.terminate()
