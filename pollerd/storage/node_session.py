"""The session on which a node writes: it holds the node's locks, so that a node that lost one cannot commit.

A lock belongs to a session of the server. All commits of a node run on the session that took its locks, one after the
other. When that session ends, for whatever reason, the server first rolls its transaction back and then releases its
locks, so whoever takes one of them afterwards sees everything that was committed under it, and nothing more follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import asyncpg
import structlog
from sqlalchemy import Connection, text

from pollerd.errors import ConfigError, DatabaseInUseError, SchemaError
from pollerd.storage.migrate import head
from pollerd.storage.node_values import SILENT_SECONDS, LockTable, NodeInfo, clock_ahead
from pollerd.storage.session_lock import OpenConnection, SessionLock, class_here, key_here, try_for_a_while
from pollerd.texts import _

_SERVER_PATIENCE_SECONDS = 13
"""Silence of a node after which the server ends its session; longer, so that the node has stopped before."""
_CLOCK_WARNS_SECONDS, _CLOCK_REFUSES_SECONDS = 2.0, 30.0
"""Differences from the server's clock. As sessions come back, a node goes on with a larger one, and warns."""
wall_clock: Callable[[], float] = time.time
_UNSIGNED = 1 << 32

_TAKE = text("SELECT unit FROM unnest(CAST(:units AS int[])) AS unit WHERE pg_try_advisory_lock(:class, unit)")
_RELEASE = text("SELECT pg_advisory_unlock(:class, unit) FROM unnest(CAST(:units AS int[])) AS unit")
_LOOK = text(
    "SELECT classid, objid, pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid IN (:nodes, :units)"
)
_TAKE_AGAIN = (
    "SELECT pg_try_advisory_lock($1, $2) AND"
    " (EXISTS (SELECT 1 FROM holding WHERE unit = $2 AND node_id = $3) OR NOT pg_advisory_unlock($1, $2))"
)
_OLDEST_SUPPORTED = "SELECT coalesce(max(oldest), '9999') FROM schema_support"
_ADD_NODE = "INSERT INTO node (name, address, version, started_at, revision) VALUES ($1, '', $2, $3, $4) RETURNING id"
_ADD_AGAIN = (
    "INSERT INTO node (id, name, address, version, started_at, revision, joined) VALUES ($1, $2, '', $3, $4, $5, $6)"
    " ON CONFLICT (id) DO NOTHING"
)


class NodeSession(SessionLock):
    """The writing session of one node."""

    application = "pollerd node"

    def __init__(self, info: NodeInfo) -> None:
        super().__init__(shared=True)
        self.info = info
        self.node_id = 0
        """Its id, from its first connection on."""
        self.held: set[int] = set()
        """Units whose locks this session holds."""
        self.joined = False
        """Whether the node has joined the others (see `SharedAllocation.join`)."""
        self.lost: set[int] = set()
        """Units that it held and that others took; see `may_start`."""
        self._classes, self._started_at = (0, 0), time.time()
        self._answered_at = float("-inf")
        self._connection: asyncpg.Connection | None = None

    @property
    def session_settings(self) -> dict[str, str]:
        """The server ends a session from which it has not heard for a while: its locks are free then."""
        return {
            "idle_session_timeout": f"{_SERVER_PATIENCE_SECONDS}s",
            "idle_in_transaction_session_timeout": f"{_SERVER_PATIENCE_SECONDS}s",
            "tcp_keepalives_idle": "5",
            "tcp_keepalives_interval": "3",
            "tcp_keepalives_count": "3",
            "tcp_user_timeout": f"{_SERVER_PATIENCE_SECONDS * 1000}",
        }

    @property
    def silent_seconds(self) -> float:
        """How long ago this node sent what the server last answered on this session."""
        return time.monotonic() - self._answered_at

    @property
    def may_start(self) -> bool:
        """Whether the node may start requests: its session is open, and has answered within the last ten seconds.

        Not while there is something in `lost`: the node may still poll what is another's.
        """
        open_ = self._connection is not None and not self._connection.is_closed()
        return open_ and not self.lost and self.silent_seconds < SILENT_SECONDS

    def answered(self, asked_at: float) -> None:
        """Notes that the server has answered what was sent on this session at `asked_at` (monotonic s), or later.

        What counts is when it was sent: a process that stood still may read an answer that is a minute old.
        """
        self._answered_at = max(self._answered_at, asked_at)

    def end(self) -> None:
        """Ends the session, and all its locks with it: it is not known what it holds."""
        if self._connection is not None:
            self._connection.terminate()

    async def take(self, connection: asyncpg.Connection, open_one: OpenConnection) -> None:
        """Introduces the node on a new connection, and takes again what it held on the last one, unless others have.

        Raises `DatabaseInUseError` while a daemon that is no node holds the database, `SchemaError` if its schema is
        not this program's, and `ConfigError` behind a connection pooler that gives each transaction another session,
        and for a clock that differs by more than 30 s.
        """
        if await _behind_pooler(connection, open_one):
            # It may have left out what was asked for at the start of the connection.
            for setting in self.session_settings.items():
                await connection.fetchval("SELECT set_config($1, $2, false)", *setting)
        place, key = await key_here(connection, "pollerd")
        if not await try_for_a_while(connection, self.attempt, key):
            why = _("without --node, or with the focused crawler")
            raise DatabaseInUseError(
                _("a daemon that runs alone holds the database {place}, {why}", place=place, why=why)
            )
        # Under the lock nobody migrates. While this node had no session, another program may have.
        revision = await connection.fetchval("SELECT version_num FROM alembic_version")
        newer = revision > head()
        if revision != head() and not (newer and await connection.fetchval(_OLDEST_SUPPORTED) <= head()):
            raise SchemaError(
                _(
                    "the database's schema is {revision}, not {head}, as this node ({info}) needs it",
                    revision=revision,
                    head=head(),
                    info=self.info.name,
                )
                + (_(": upgrade this node") if newer else "")
            )
        await self._compare_clocks(connection)
        self._classes = (
            await class_here(connection, "pollerd nodes"),
            await class_here(connection, "pollerd units"),
        )
        await self._introduce(connection, place)
        kept, asked_at = set[int](), time.monotonic()
        for unit in sorted(self.held):
            # Another may have taken and released it meanwhile: what this node knows of it is outdated then.
            if await connection.fetchval(_TAKE_AGAIN, self._classes[1], unit, self.node_id):
                kept.add(unit)
        self.lost |= self.held - kept
        self.held = kept
        self._connection = connection
        self.answered(asked_at)

    async def _compare_clocks(self, connection: asyncpg.Connection) -> None:
        """Warns if this machine's clock differs from the server's. Raises `ConfigError` for too much when it joins.

        Nodes write times that others go by: when a site was polled, until when it waits, when a change was detected.
        """
        before = wall_clock()
        server = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
        after = wall_clock()
        ahead = clock_ahead(before, server, after)
        if abs(ahead) < _CLOCK_WARNS_SECONDS:
            return
        clock_offset = (
            _("{seconds:.1f} s ahead of that of the database's server", seconds=ahead)
            if ahead > 0
            else _("{seconds:.1f} s behind that of the database's server", seconds=-ahead)
        )
        if abs(ahead) > _CLOCK_REFUSES_SECONDS and not self.node_id:
            raise ConfigError(
                _(
                    "node {info}: the clock of this machine is {clock_offset}; nodes may differ by "
                    "{clock_refuses_seconds:g} s: synchronise the clocks (NTP), and start the node again",
                    info=self.info.name,
                    clock_offset=clock_offset,
                    clock_refuses_seconds=_CLOCK_REFUSES_SECONDS,
                )
            )
        structlog.get_logger("pollerd.cluster").warning(
            "clock_differs", node=self.info.name, reason=_("its clock is {offset}", offset=clock_offset)
        )

    async def _introduce(self, connection: asyncpg.Connection, place: str) -> None:
        """Adds the node's row, and takes its lock before anybody sees the row: a row without lock is a dead node's."""
        info = self.info
        row = info.name, info.version, self._started_at, head()
        async with connection.transaction():
            if self.node_id:  # while the session was lost, another node may have tidied up
                await connection.execute(_ADD_AGAIN, self.node_id, *row, self.joined)
            else:
                self.node_id = await connection.fetchval(_ADD_NODE, *row)
            own = "SELECT pg_try_advisory_lock($1, $2)"
            if not await try_for_a_while(connection, own, self._classes[0], self.node_id):
                raise DatabaseInUseError(
                    _("another session holds the lock of node {node_id} of {place}", node_id=self.node_id, place=place)
                )

    def look(self, connection: Connection) -> LockTable:
        """Returns who is here and holds what."""
        nodes, units = self._classes
        rows = connection.execute(_LOOK, {"nodes": nodes, "units": units}).all()
        of_session = {pid: number for class_, number, pid in rows if class_ == nodes}
        holders = {
            _signed(number): of_session[pid] for class_, number, pid in rows if class_ == units and pid in of_session
        }
        return LockTable(frozenset(of_session.values()), holders)

    def lock(self, connection: Connection, units: Sequence[int]) -> list[int]:
        """Takes those of the units that are free; returns them."""
        rows = connection.execute(_TAKE, {"class": self._classes[1], "units": list(units)})
        taken = list(rows.scalars())
        self.held.update(taken)
        return taken

    def unlock(self, connection: Connection, units: Sequence[int]) -> None:
        """Releases units that this session holds."""
        connection.execute(_RELEASE, {"class": self._classes[1], "units": list(units)})
        self.held.difference_update(units)


def _signed(number: int) -> int:
    return number - _UNSIGNED if number >= _UNSIGNED // 2 else number


async def _behind_pooler(connection: asyncpg.Connection, open_one: OpenConnection) -> bool:
    """Returns whether a connection pooler stands between, one that keeps the session for the whole connection.

    Raises `ConfigError` if transactions of this connection run on changing sessions of the server. A pooler answers the
    start of a connection itself, with another process id than that of the session behind it. In its transaction mode it
    lends the session out: a second connection then finds itself on the first one's.
    """
    behind = await connection.fetchval("SELECT pg_backend_pid()")
    if behind == connection.get_server_pid():
        return False
    key = await connection.fetchval("SELECT (random() * 2147483647)::int")
    await connection.fetchval("SELECT pg_advisory_lock(2147483647, $1)", key)
    held = await connection.fetchval(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND objid = $1", key
    )
    other = await open_one()
    try:
        async with other.transaction():
            lent = await other.fetchval("SELECT pg_backend_pid()") == behind
    finally:
        other.terminate()
    if lent or not held:
        raise ConfigError(
            _(
                "database: must be reached without a connection pooler, or through one in session mode, where "
                "several nodes share it; the one between hands sessions on after each transaction"
            )
        )
    await connection.fetchval("SELECT pg_advisory_unlock(2147483647, $1)", key)
    return True
