"""Locks between daemons that write into one PostgreSQL database at once. Each ends with its transaction."""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection

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
