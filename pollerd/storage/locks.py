"""Locks: of one daemon on a SQLite file, and between daemons that write into one PostgreSQL database."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

from sqlalchemy import Connection

from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError, file_fault
from pollerd.texts import _

# PostgreSQL. Each lock ends with its transaction.

MAX_IDLE_SECONDS = 5
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
        ends a holder that is silent for `MAX_IDLE_SECONDS`, so that one that stands still holds nobody up for longer.
        """
        if self.several:
            connection.exec_driver_sql(_TAKE_BRIEFLY, (self._numbers, f"{MAX_IDLE_SECONDS}s"))

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


# SQLite: one daemon per file. The lock ends with its process.


class FileLock:
    """A lock on a file beside the database; the kernel releases it when the process ends, however that happens."""

    def __init__(self, path: Path) -> None:
        """Raises `DatabaseInUseError` if another process holds it, `DatabaseUnavailableError`."""
        try:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise DatabaseUnavailableError(file_fault(path, error)) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            self.release()
            raise DatabaseInUseError(
                _("another daemon (process {holder}) holds {path}", holder=holder, path=path)
            ) from error
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            self.release()
            raise DatabaseUnavailableError(file_fault(path, error)) from error

    def release(self) -> None:
        """Releases the lock; may be called twice. The file stays: else two daemons could lock two files of one name."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
