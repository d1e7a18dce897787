"""Hosts that nodes of different partitions ask: one row each, which whoever asks the host claims before, its owner too.

A claim is a mutual exclusion with a time for the next one. It is held until it is released, with the time at which the
host may be asked again, or until a bound is over at which nothing of it can be under way any more: so no two nodes ask
a host at once, and none sooner than its interval, also where a holder dies. All times are of the server's clock, and
what nodes state are durations, so that their clocks play no part.

A row is in force only while its `owner` is the node that `holding` names for the partition: an owner that does not know
yet that its host is shared asks it without a claim, so nobody else may have one. Rows are locked without waiting
(SKIP LOCKED): a node that stands still within a transaction holds up nobody, and no order of locks can deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select, text

from pollerd.storage.engine import Database
from pollerd.storage.schema import shared_host
from pollerd.storage.transactions import Subject, reads, writes

TURN_SECONDS = 3.0
"""How long a host that may be asked is kept for the node whose turn it is."""

_NOW = "CROSS JOIN (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock"
_USES = (
    "unnest(CAST(:names AS text[]), CAST(:partitions AS int[]), CAST(:spacing AS float8[]), CAST(:gaps AS float8[]),"
    " CAST(:paused AS float8[])) AS use (name, partition, spacing, gap, paused)"
)
_PAUSED = (  # also earlier than it was, if somebody ended the pause
    "paused_until = CASE WHEN use.paused > 0 OR host.owner = :mine AND host.holder = :mine THEN clock.now + use.paused"
    " ELSE host.paused_until END"
)
_LOCK = text("SELECT name FROM shared_host WHERE name = ANY(CAST(:names AS text[])) FOR UPDATE SKIP LOCKED")
_ADD = text(
    "INSERT INTO shared_host (name, partition, wanted_at)"
    f" SELECT use.name, use.partition, clock.now FROM {_USES} {_NOW} ORDER BY use.name ON CONFLICT DO NOTHING"
)
_CONFIRM = text(
    "UPDATE shared_host AS host SET owner = :mine, gap = use.gap,"
    f" next_free = greatest(host.next_free, clock.now + use.spacing), {_PAUSED}"
    f" FROM {_USES} {_NOW} WHERE host.name = use.name AND host.partition = use.partition"
    " AND EXISTS (SELECT 1 FROM holding WHERE unit = use.partition AND node_id = :mine) RETURNING host.name"
)
_CLAIM = text(
    "WITH asked AS ("
    " SELECT host.name, use.gap, clock.now, coalesce(host.owner = holding.node_id, false) AS known,"
    "  (host.holder IS NULL OR host.holder = :mine OR host.held_until <= clock.now) AS unheld,"
    "  (host.waiting IS NULL OR host.waiting = :mine OR host.waiting_until <= clock.now) AS my_turn"
    f" FROM {_USES} {_NOW} JOIN shared_host AS host ON host.name = use.name"
    " LEFT JOIN holding ON holding.unit = host.partition"
    "), claim AS ("
    " SELECT asked.*, known AND unheld AND my_turn AND host.next_free <= now AS free"
    " FROM asked JOIN shared_host AS host USING (name)"
    ") UPDATE shared_host AS host SET"
    " wanted_at = CASE WHEN host.owner = :mine THEN host.wanted_at ELSE now END,"
    " holder = CASE WHEN free THEN :mine ELSE host.holder END,"
    " held_until = CASE WHEN free THEN now + :hold ELSE host.held_until END,"
    " next_free = CASE WHEN free THEN now + :write + greatest(claim.gap, host.gap) ELSE host.next_free END,"
    " waiting = CASE WHEN free THEN NULL WHEN my_turn THEN :mine ELSE host.waiting END,"
    " waiting_until = CASE WHEN free THEN 0 WHEN my_turn AND unheld THEN greatest(now, host.next_free) + :turn"
    "  WHEN my_turn THEN now + :turn ELSE host.waiting_until END"
    " FROM claim WHERE host.name = claim.name"
    " RETURNING host.name, free, known, CASE WHEN unheld THEN greatest(host.next_free - now, 0) ELSE 0 END,"
    " host.paused_until, host.paused_until - now, host.gap"
)
_RENEW = text(
    "UPDATE shared_host AS host SET held_until = clock.now + :hold,"
    " next_free = clock.now + :write + greatest(use.gap, host.gap)"
    f" FROM {_USES} {_NOW} WHERE host.name = use.name AND host.holder = :mine RETURNING host.name"
)
_RELEASE = text(
    "UPDATE shared_host AS host SET holder = NULL, held_until = 0, next_free = clock.now + greatest(use.spacing, 0),"
    " gap = CASE WHEN host.owner = :mine THEN use.gap ELSE greatest(host.gap, use.gap) END,"
    f" {_PAUSED}"
    f" FROM {_USES} {_NOW} WHERE host.name = use.name AND host.holder = :mine RETURNING host.name, host.paused_until"
)
_END = text(
    "DELETE FROM shared_host AS host USING"
    " (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock"
    " WHERE host.name = ANY(CAST(:names AS text[])) AND host.owner = :mine AND host.wanted_at < clock.now - :unwanted"
    " AND (host.holder IS NULL OR host.holder = :mine OR host.held_until <= clock.now)"
    " RETURNING host.name, greatest(host.next_free - clock.now, 0), host.paused_until, host.paused_until - clock.now"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostUse:
    """A shared host as this node knows it; durations in s."""

    name: str
    partition: int
    spacing: float = 0.0
    """Until it may be asked again, without pauses; 0 or less: now."""
    gap: float = 0.0
    """Least time between two requests to it."""
    paused: float = 0.0
    """How long it is still paused; 0: it is not."""


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """What came of a claim; durations in s."""

    claimed: bool
    known: bool
    """Whether the holder of its partition knows that it is shared: else nobody else may ask it."""
    wait: float
    """Until its interval is over; 0: only another node's request, or turn, is in the way."""
    paused_until: float
    """Epoch s of the server: tells one pause from another."""
    paused: float
    """How long it is still paused; 0 or less: it is not."""
    gap: float


@dataclass(kw_only=True, slots=True)
class HostTurn:
    """What a node does with shared hosts, all in one transaction."""

    missing: list[HostUse] = field(default_factory=list)
    """To be marked as shared."""
    confirmed: list[HostUse] = field(default_factory=list)
    """Of this node's partitions: it asks them only with a claim from now on."""
    claimed: list[HostUse] = field(default_factory=list)
    renewed: list[HostUse] = field(default_factory=list)
    released: list[HostUse] = field(default_factory=list)
    unwanted: list[str] = field(default_factory=list)
    """Of this node's partitions: to be shared no more, unless another node wanted them lately."""

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.missing or self.confirmed or self.claimed or self.renewed or self.released or self.unwanted)


@dataclass(kw_only=True, slots=True)
class HostTurnResult:
    """What was done, by host."""

    locked: frozenset[str] = frozenset()
    """What was there, and not just being written by another node: of the others nothing was done."""
    confirmed: frozenset[str] = frozenset()
    claims: dict[str, ClaimAnswer] = field(default_factory=dict)
    renewed: frozenset[str] = frozenset()
    released: dict[str, float] = field(default_factory=dict)
    """Until when they are paused, epoch s of the server."""
    ended: dict[str, ClaimAnswer] = field(default_factory=dict)
    """No longer shared; `wait` and `paused` hold for the owner from now on."""


class SharedHostStore(Subject):
    """The rows of shared hosts, written on the node's own session: one whose session ended claims nothing."""

    def __init__(
        self,
        *,
        database: Database,
        node_id: Callable[[], int],
        write_seconds: float,
        hold_seconds: float,
        unwanted_seconds: float,
    ) -> None:
        """node_id: this node's, known with its first connection.

        write_seconds: how long after a claim was sent a request may be written. hold_seconds: after which nothing of a
        claim is under way, if nothing more is heard of it. unwanted_seconds: after so long without another node that
        wants it a host is shared no more.
        """
        self._database, self._node_id = database, node_id
        self._times = {"hold": hold_seconds, "write": write_seconds, "turn": TURN_SECONDS}
        self._unwanted = unwanted_seconds

    @reads
    def of_partition(self, connection: Connection, partition: int) -> list[str]:
        """Returns the names of the shared hosts of a partition."""
        c = shared_host.c
        return list(connection.execute(select(c.name).where(c.partition == partition)).scalars())

    @reads
    def partitions_of(self, connection: Connection, names: Collection[str] | None) -> dict[str, int]:
        """Returns name -> partition of those of these hosts that are shared; None: of all."""
        c = shared_host.c
        statement = select(c.name, c.partition)
        if names is not None:
            statement = statement.where(c.name.in_(sorted(names)))
        return dict(connection.execute(statement).all())

    @writes
    def turn(self, connection: Connection, turn: HostTurn) -> HostTurnResult:
        """Does all of it in one transaction, and returns what came of it."""
        mine = self._node_id()
        if turn.missing:
            connection.execute(_ADD, _columns(turn.missing))
        names = [use.name for use in (*turn.confirmed, *turn.claimed, *turn.renewed, *turn.released)] + turn.unwanted
        locked = frozenset(connection.execute(_LOCK, {"names": names}).scalars()) if names else frozenset[str]()
        result, parameters = HostTurnResult(locked=locked), {"mine": mine}
        if of := _columns(turn.released, locked):
            result.released = dict(connection.execute(_RELEASE, of | parameters).all())
        if of := _columns(turn.renewed, locked):
            result.renewed = frozenset(connection.execute(_RENEW, of | parameters | self._times).scalars())
        if of := _columns(turn.confirmed, locked):
            result.confirmed = frozenset(connection.execute(_CONFIRM, of | parameters).scalars())
        if of := _columns(turn.claimed, locked):
            rows = connection.execute(_CLAIM, of | parameters | self._times)
            result.claims = {row[0]: ClaimAnswer(*row[1:]) for row in rows}
        unwanted = sorted(locked.intersection(turn.unwanted))
        if unwanted:
            rows = connection.execute(_END, {"names": unwanted, "unwanted": self._unwanted, **parameters})
            result.ended = {name: ClaimAnswer(True, True, wait, until, left, 0.0) for name, wait, until, left in rows}
        return result


def _columns(uses: Sequence[HostUse], locked: Collection[str] | None = None) -> dict[str, Any]:
    """Returns the uses, those of `locked` hosts, as the arrays that `_USES` makes rows of; empty: there are none."""
    locked_uses = [use for use in uses if locked is None or use.name in locked]
    if not locked_uses:
        return {}
    return {
        "names": [use.name for use in locked_uses],
        "partitions": [use.partition for use in locked_uses],
        "spacing": [use.spacing for use in locked_uses],
        "gaps": [use.gap for use in locked_uses],
        "paused": [use.paused for use in locked_uses],
    }
