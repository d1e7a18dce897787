"""Nodes of a database: the nodes that are present, and the partitions they hold."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, func, select, text, update

from pollerd.errors import ConflictError, InvalidValueError, NotFoundError
from pollerd.partitions import PARTITIONS, PARTITIONS_MOST, partition_of
from pollerd.storage import migrate
from pollerd.storage.engine import Database, database_url
from pollerd.storage.hosts import HostStore
from pollerd.storage.node_news import News, NewsListener, create_triggers
from pollerd.storage.node_values import SERVER_NOW, LivingNode, LockTable, ServerConnections, TakenUnit
from pollerd.storage.schema import (
    drained_node,
    holding,
    host,
    host_partition,
    node,
    node_question,
    node_state,
    partition_size,
    partitioning,
    shared_host,
    site,
)
from pollerd.storage.settings import StorageSettings
from pollerd.storage.soft_delete import is_soft_deleted
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, in_pieces, reads, writes
from pollerd.storage.values import HostRow
from pollerd.texts import N_, _

if TYPE_CHECKING:
    from pollerd.storage.node_session import NodeSession


# The number of partitions, and the partition of each host.

_PIECE = 5_000


class HostPartitions(Subject):
    """How many partitions there are, and which hosts have one."""

    def __init__(self, *, database: Database, sql: Statements) -> None:
        self._database, self._sql = database, sql
        self._number: int | None = None

    @writes
    def number(self, connection: Connection) -> int:
        """Returns the number of partitions; sets it at the first node's start."""
        if self._number is None:
            first = self._sql.insert_for(partitioning).values(id=1, partitions=PARTITIONS)
            connection.execute(first.on_conflict_do_nothing())
            self._number = connection.execute(select(partitioning.c.partitions)).scalar_one()
        return self._number

    def assign(self, connection: Connection, hosts: Mapping[str, int]) -> None:
        """Gives hosts, name -> id, their partitions; those that have one keep it."""
        number = self.number.within(connection)
        rows = [{"host_id": id_, "partition": partition_of(name, number)} for name, id_ in hosts.items()]
        if rows:
            connection.execute(self._sql.insert_for(host_partition).on_conflict_do_nothing(), rows)

    @writes
    def assign_missing(self, connection: Connection) -> int:
        """Gives partitions to up to 5,000 hosts that have none, because a daemon that ran alone added them.

        Returns to how many; 0: all have one.
        """
        without = select(host.c.name, host.c.id).outerjoin(host_partition, host_partition.c.host_id == host.c.id)
        some = connection.execute(without.where(host_partition.c.host_id.is_(None)).limit(_PIECE)).all()
        self.assign(connection, dict(some))
        return len(some)


def set_partitions(connection: Connection, sql: Statements, number: int) -> None:
    """Sets the number of partitions, 1 to 4096, while no node is there; hosts are dealt out anew at the next start.

    Raises `InvalidValueError` for another number.
    """
    if not 1 <= number <= PARTITIONS_MOST:
        raise InvalidValueError("partitions", _("1 to {partitions_most}", partitions_most=PARTITIONS_MOST), number)
    connection.execute(delete(host_partition))
    connection.execute(delete(shared_host))
    connection.execute(delete(partition_size))
    new = sql.insert_for(partitioning).values(id=1, partitions=number)
    connection.execute(new.on_conflict_do_update(index_elements=["id"], set_={"partitions": number}))


async def set_number_of_partitions(url: str, number: int) -> None:
    """Sets the number, 1 to 4096.

    Raises `InvalidValueError`, also for SQLite, `DatabaseInUseError` while a daemon holds the database, and
    `DatabaseUnavailableError`.
    """
    target = database_url(url)
    if target.get_backend_name() == "sqlite":
        raise InvalidValueError("database", _("PostgreSQL's, which alone several nodes can share"), "sqlite")
    await migrate.upgrade(url, create=False)
    database = Database(target, StorageSettings(), create=False, exclusive=True)
    try:
        await database.lock()
        sql = Statements(database.engine.dialect)
        await database.write(lambda c: set_partitions(c, sql, number))
    finally:
        await database.close()


# The store of a node.

_HOSTS_AT_ONCE = 500
_STATE_SECONDS = 30 * 86_400.0
"""How long what a node learned in common is kept for one of its name, since it was stored."""
_GONE_SECONDS = 3_600.0
"""How long starts of nodes are remembered."""
_CONNECTIONS = text(
    "SELECT (SELECT sum(numbackends)::int FROM pg_stat_database),"
    " current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
)
_QUESTION_SECONDS = 60.0
"""After which nobody waits for an answer any more."""
_MAX_KNOWN = 10_000
"""Hosts whose partitions are kept in memory: they do not change while a node runs."""
NOBODY = 0
"""In `holding`: released, but requests of a holder that died may be under way; `since`: when its end was noticed."""


class ClusterStore(Subject):
    """What a node asks of the database about nodes and partitions. All of it runs on the node's own session."""

    def __init__(
        self,
        *,
        database: Database,
        sql: Statements,
        session: NodeSession,
        hosts: HostStore,
        partitions: HostPartitions,
    ) -> None:
        self._database, self._sql, self._session, self._hosts = database, sql, session, hosts
        self.partitions = partitions
        """How many there are, and of which hosts."""
        self._known_partitions: dict[str, int] = {}
        self.older_there = True
        """Whether a node of an older version is there, which knows no shared hosts; until the first look: yes."""

    @property
    def node_id(self) -> int:
        """This node's id."""
        return self._session.node_id

    @property
    def name(self) -> str:
        """This node's name."""
        return self._session.info.name

    @property
    def wanted(self) -> int:
        """How many nodes there should be; 0: any number."""
        return self._session.info.wanted

    @property
    def held(self) -> frozenset[int]:
        """Units whose locks this node's session holds."""
        return frozenset(self._session.held)

    def holds(self, unit: int) -> bool:
        """Returns whether this node's session holds the unit's lock, and nobody else has had it meanwhile."""
        return unit in self._session.held and unit not in self._session.lost

    @property
    def silent_seconds(self) -> float:
        """How long ago this node sent what the server last answered on its session."""
        return self._session.silent_seconds

    def may_write(self) -> bool:
        """Returns whether this node may start requests (see `NodeSession.may_start`)."""
        return self._session.may_start

    @property
    def lost(self) -> frozenset[int]:
        """Units that were lost with a session; nothing may be written until they are `dropped`."""
        return frozenset(self._session.lost)

    def dropped(self, units: Iterable[int]) -> None:
        """Notes that nothing of these lost units is in memory or under way any more."""
        self._session.lost.difference_update(units)

    async def prepare(self) -> int:
        """Gives every host a partition; returns the number of partitions."""
        await self._database.write(lambda c: create_triggers(c, self._sql.locks))
        while await self.partitions.assign_missing():
            """Some more."""
        await self._count_sites()
        return await self.partitions.number()

    @writes
    def look(self, connection: Connection) -> LockTable:
        """Returns who is here and holds what; the server has heard from this node then."""
        table = self._session.look(connection)
        sizes = connection.execute(select(partition_size.c.partition, partition_size.c.sites)).all()
        living = self.living.within(connection, sorted(table.nodes))
        older = frozenset(member.id for member in living if member.revision is None)
        self.older_there = bool(older)
        return replace(
            table,
            drained=frozenset(member.id for member in living if member.drained),
            older=older,
            sites=dict(sizes),
        )

    def living_names(self, connection: Connection) -> set[str]:
        """Returns the living nodes by the names under which they have grants: their ids as text."""
        return {str(node_id) for node_id in self._session.look(connection).nodes}

    @reads
    def living(self, connection: Connection, ids: Sequence[int]) -> list[LivingNode]:
        """Returns the nodes with these ids."""
        c = node.c
        columns = c.id, c.name, c.version, c.started_at, c.revision, drained_node.c.name.is_not(None).label("drained")
        of_names = node.outerjoin(drained_node, drained_node.c.name == c.name)
        rows = connection.execute(select(*columns).select_from(of_names).where(c.id.in_(ids)).order_by(c.id))
        return [LivingNode(**row) for row in rows.mappings()]

    @writes
    def drain(self, connection: Connection, name: str) -> None:
        """Has all nodes of this name hold nothing, also after they were started again, until `undrain`.

        Raises `NotFoundError` where no node of this name is there, and `ConflictError` where nobody would be left to
        poll, or a node of an older version is there, which would not take what the node hands over.
        """
        # Two that drain the last two nodes at once would both see the other one.
        connection.execute(text("LOCK TABLE drained_node IN SHARE ROW EXCLUSIVE MODE"))
        living = self.living.within(connection, sorted(self._session.look(connection).nodes))
        if all(member.name != name for member in living):
            raise NotFoundError(N_("node"), name)
        older = [f"{member.name} ({member.version})" for member in living if member.revision is None]
        if older:
            raise ConflictError(
                _(
                    "{older} would not take what node {name} hands over: upgrade it first, or stop node {name} instead",
                    older=", ".join(older),
                    name=name,
                )
            )
        if all(member.drained or member.name == name for member in living):
            raise ConflictError(
                _(
                    "node {name} is the only one that polls: start another node first, or stop this one to end polling",
                    name=name,
                )
            )
        since = self._sql.insert_for(drained_node).values(name=name, since=SERVER_NOW)
        connection.execute(since.on_conflict_do_nothing())

    @writes
    def undrain(self, connection: Connection, name: str) -> None:
        """Ends `drain`. Raises `NotFoundError` for a name that is neither drained nor a node's that is there."""
        if connection.execute(delete(drained_node).where(drained_node.c.name == name)).rowcount:
            return
        living = self.living.within(connection, sorted(self._session.look(connection).nodes))
        if all(member.name != name for member in living):
            raise NotFoundError(N_("node"), name)

    @writes
    def note_sizes(self, connection: Connection, sizes: Mapping[int, int]) -> None:
        """Stores how many sites partitions have, by partition."""
        upsert = self._sql.insert_for(partition_size)
        new = upsert.on_conflict_do_update(index_elements=["partition"], set_={"sites": upsert.excluded.sites})
        connection.execute(new, [{"partition": number, "sites": sites} for number, sites in sorted(sizes.items())])

    @writes
    def _count_sites(self, connection: Connection) -> None:
        """Counts the sites of all partitions, if nobody has yet: a pass over all sites."""
        if connection.execute(select(partition_size.c.partition).limit(1)).first() is not None:
            return
        c, here = host_partition.c, site.join(host_partition, host_partition.c.host_id == site.c.host_id)
        counted = select(c.partition, func.count()).select_from(here).group_by(c.partition)
        first = self._sql.insert_for(partition_size).from_select(["partition", "sites"], counted)
        connection.execute(first.on_conflict_do_nothing())

    @writes
    def forget_dead(self, connection: Connection) -> None:
        """Deletes nodes that are gone and hold nothing any more, what those long gone learned, and old questions.

        For an hour after their starts they stay: `starts` counts them.
        """
        # In this order: each node has its lock before its row is seen, so a new one is not taken for dead.
        known = set(connection.execute(select(node.c.id)).scalars())
        gone = known - self._session.look(connection).nodes
        held = select(holding.c.node_id)
        old = node.c.started_at < SERVER_NOW - _GONE_SECONDS
        connection.execute(delete(node).where(node.c.id.in_(gone), node.c.id.not_in(held), old))
        connection.execute(delete(node_state).where(node_state.c.saved_at < SERVER_NOW - _STATE_SECONDS))
        connection.execute(delete(node_question).where(node_question.c.asked_at < SERVER_NOW - _QUESTION_SECONDS))

    async def take(self, units: Sequence[int], now: float) -> list[TakenUnit]:
        """Takes those of the units that are free."""
        try:
            return await self._take(units, now)
        except BaseException:
            # Locks may have been taken although this failed: the session's end releases them.
            self._session.end()
            raise

    @writes
    def _take(self, connection: Connection, units: Sequence[int], now: float) -> list[TakenUnit]:
        mine, c = self._session.node_id, holding.c
        taken = self._session.lock(connection, units)
        asked = select(c.unit, c.node_id, SERVER_NOW - c.since).where(c.unit.in_(taken))
        last = {unit: (its, ago if its == NOBODY else 0.0) for unit, its, ago in connection.execute(asked)}
        if taken:
            upsert = self._sql.insert_for(holding)
            new = {name: upsert.excluded[name] for name in ("node_id", "since")}
            rows = [{"unit": unit, "node_id": mine, "since": now} for unit in taken]
            connection.execute(upsert.on_conflict_do_update(index_elements=["unit"], set_=new), rows)
        before = [(unit, *last.get(unit, (mine, 0.0))) for unit in taken]
        return [TakenUnit(unit, its != mine, max(float(ago), 0.0)) for unit, its, ago in before]

    async def release(self, units: Sequence[int], unsettled: Mapping[int, float] | None = None) -> None:
        """Releases units of which nothing of this node is under way; their next holder need not wait.

        unsettled: those of which something of an earlier holder may be, and how long ago its end was noticed, s: their
        next holder waits for the rest.
        """
        await self._forget_holding(units, unsettled or {})
        # Only now: who takes them must see that they were released.
        await self._unlock(units)

    @writes
    def _forget_holding(self, connection: Connection, units: Sequence[int], waits: Mapping[int, float]) -> None:
        mine, settled = self._session.node_id, [unit for unit in units if unit not in waits]
        connection.execute(delete(holding).where(holding.c.unit.in_(settled), holding.c.node_id == mine))
        for unit, ago in waits.items():
            row = update(holding).where(holding.c.unit == unit, holding.c.node_id == mine)
            connection.execute(row.values(node_id=NOBODY, since=SERVER_NOW - ago))

    @writes
    def _unlock(self, connection: Connection, units: Sequence[int]) -> None:
        self._session.unlock(connection, units)

    def contents(self, partition: int) -> AsyncIterator[tuple[list[HostRow], list[int]]]:
        """Yields hosts of the partition and the ids of their sites, some hundred hosts at a time."""
        return in_pieces(
            lambda after: self._contents(partition, after), lambda piece: [host.id for host in piece[0][-1:]]
        )

    @reads
    def _contents(self, connection: Connection, partition: int, after: int) -> tuple[list[HostRow], list[int]]:
        c, sql = host_partition.c, self._sql
        here = select(c.host_id).where(c.partition == partition, c.host_id > after).order_by(c.host_id)
        ids = list(connection.execute(here.limit(_HOSTS_AT_ONCE)).scalars())
        sites = select(site.c.id).where(sql.in_list(site.c.host_id, "hosts"), ~is_soft_deleted(site.c.id))
        of_hosts = connection.execute(sites.order_by(site.c.id), {"hosts": sql.id_list(ids)})
        return self._hosts.among.within(connection, ids), list(of_hosts.scalars())

    def listen(self) -> AsyncIterator[News | None]:
        """Yields what any node writes (see `NewsListener.listen`)."""
        return NewsListener(self._database).listen()

    async def holder(self, site_id: int) -> LivingNode | None:
        """Returns the node that holds a site's partition; None: no node does, or there is no such site."""
        partition = (await self.partitions_of_sites([site_id])).get(site_id)
        holder = None if partition is None else (await self.look()).holders.get(partition)
        living = [] if holder is None else await self.living([holder])
        return living[0] if living else None

    async def partition_of_host(self, name: str) -> int:
        """Returns the partition of the host "name:port", also of one without sites."""
        known = self._known_partitions.get(name)
        if known is None:
            known = await self._partition_of(name)
            if len(self._known_partitions) >= _MAX_KNOWN:
                self._known_partitions.clear()
            self._known_partitions[name] = known
        return known

    def known_partition(self, name: str) -> int | None:
        """Returns the partition of a host if `partition_of_host` was asked for it before."""
        return self._known_partitions.get(name)

    @reads
    def _partition_of(self, connection: Connection, name: str) -> int:
        """Returns the stored partition of a host, or that which it would get."""
        statement = select(host_partition.c.partition).join(host, host.c.id == host_partition.c.host_id)
        stored = connection.execute(statement.where(host.c.name == name)).scalar_one_or_none()
        return partition_of(name, self.partitions.number.within(connection)) if stored is None else int(stored)

    @reads
    def partitions_of_sites(self, connection: Connection, site_ids: Sequence[int]) -> dict[int, int]:
        """Returns site id -> partition, of those of these sites that are there."""
        c, sql = host_partition.c, self._sql
        statement = select(site.c.id, c.partition).join(host_partition, c.host_id == site.c.host_id)
        rows = connection.execute(statement.where(sql.in_list(site.c.id, "sites")), {"sites": sql.id_list(site_ids)})
        return dict(rows.all())

    @reads
    def settings_changed_at(self, connection: Connection, site_ids: Sequence[int]) -> dict[int, float]:
        """Returns site id -> when its settings changed, epoch s, of those of these sites whose settings ever did."""
        c = site.c
        changed = select(c.id, c.settings_changed_at).where(self._sql.in_list(c.id, "sites"))
        changed = changed.where(c.settings_changed_at.is_not(None))
        parameters = {"sites": self._sql.id_list(site_ids)}
        return dict(connection.execute(changed, parameters).all())

    @reads
    def load_common(self, connection: Connection, allocator: str) -> bytes | None:
        """Returns what this allocator of the node of this name had learned of its sites in common; None: nothing.

        Where there was no node of this name: what another one stored last, which is more than nothing.
        """
        c = node_state.c
        known = select(c.shared_state).where(c.allocator == allocator)
        known = known.order_by((c.name == self.name).desc(), c.saved_at.desc()).limit(1)
        return connection.execute(known).scalar_one_or_none()

    @reads
    def starts(self, connection: Connection) -> dict[str, int]:
        """Returns how often nodes of each name were started within the last hour."""
        lately = node.c.started_at > SERVER_NOW - _GONE_SECONDS
        return dict(connection.execute(select(node.c.name, func.count()).where(lately).group_by(node.c.name)).all())

    @reads
    def connections(self, connection: Connection) -> ServerConnections:
        """Returns how many connections the server has, and may have."""
        return ServerConnections(*connection.execute(_CONNECTIONS).one())
