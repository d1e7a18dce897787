"""Partitions of hosts: how many there are, and in which one each host is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, delete, select

from pollerd.cluster.partitions import PARTITIONS, PARTITIONS_MOST, partition_of
from pollerd.errors import InvalidValueError
from pollerd.storage.db.schema.cluster import host_partition, partitioning
from pollerd.storage.db.schema.sites import host, site
from pollerd.storage.db.statements import Statements
from pollerd.storage.sites.lists.marks import is_marked

_PIECE = 5_000


class HostPartitions:
    """Reads and fills in the partitions of hosts."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._number: int | None = None

    def number(self, connection: Connection) -> int:
        """Returns the number of partitions; sets it at the first node's start."""
        if self._number is None:
            first = self._sql.insert_for(partitioning).values(id=1, partitions=PARTITIONS)
            connection.execute(first.on_conflict_do_nothing())
            self._number = connection.execute(select(partitioning.c.partitions)).scalar_one()
        return self._number

    def assign(self, connection: Connection, hosts: Mapping[str, int]) -> None:
        """Gives hosts, name -> id, their partitions; those that have one keep it."""
        number = self.number(connection)
        rows = [{"host_id": id_, "partition": partition_of(name, number)} for name, id_ in hosts.items()]
        if rows:
            connection.execute(self._sql.insert_for(host_partition).on_conflict_do_nothing(), rows)

    def assign_missing(self, connection: Connection) -> int:
        """Gives partitions to up to 5,000 hosts that have none, because a daemon that ran alone added them.

        Returns to how many; 0: all have one.
        """
        without = select(host.c.name, host.c.id).outerjoin(host_partition, host_partition.c.host_id == host.c.id)
        some = connection.execute(without.where(host_partition.c.host_id.is_(None)).limit(_PIECE)).all()
        self.assign(connection, dict(some))
        return len(some)

    def hosts_in(self, connection: Connection, partition: int, after: int, limit: int) -> list[int]:
        """Returns ids above `after` of hosts in the partition, ascending."""
        c = host_partition.c
        found = select(c.host_id).where(c.partition == partition, c.host_id > after).order_by(c.host_id)
        return list(connection.execute(found.limit(limit)).scalars())

    def sites_of(self, connection: Connection, host_ids: Iterable[int]) -> list[int]:
        """Returns the ids of the sites of these hosts, ascending."""
        found = select(site.c.id).where(self._sql.among(site.c.host_id, "hosts"), ~is_marked(site.c.id))
        given = {"hosts": self._sql.many(list(host_ids))}
        return list(connection.execute(found.order_by(site.c.id), given).scalars())

    def of_host(self, connection: Connection, name: str) -> int:
        """Returns the partition of the host "name:port": the stored one, or that which it would get."""
        found = select(host_partition.c.partition).join(host, host.c.id == host_partition.c.host_id)
        stored = connection.execute(found.where(host.c.name == name)).scalar_one_or_none()
        return partition_of(name, self.number(connection)) if stored is None else int(stored)

    def of_sites(self, connection: Connection, site_ids: Iterable[int]) -> dict[int, int]:
        """Returns site id -> partition, of those of these sites that are there."""
        found = select(site.c.id, host_partition.c.partition).join(
            host_partition, host_partition.c.host_id == site.c.host_id
        )
        rows = connection.execute(found.where(self._sql.among(site.c.id, "sites")), {"sites": self._sql.many(site_ids)})
        return dict(rows.all())


def set_partitions(connection: Connection, sql: Statements, number: int) -> None:
    """Sets the number of partitions, 1 to 4096, while no node is there; hosts are dealt out anew at the next start.

    Raises `InvalidValueError` for another number.
    """
    if not 1 <= number <= PARTITIONS_MOST:
        raise InvalidValueError("partitions", f"1 to {PARTITIONS_MOST}", number)
    connection.execute(delete(host_partition))
    new = sql.insert_for(partitioning).values(id=1, partitions=number)
    connection.execute(new.on_conflict_do_update(index_elements=["id"], set_={"partitions": number}))
