"""Partitions of the hosts, the quota of partitions per node, and the roles that one node takes for all.

A host's partition is a hash of its registrable domain, so that the hosts of one owner are always in one process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from functools import cache

import xxhash
from publicsuffixlist import PublicSuffixList

PARTITIONS = 64
"""Partitions of a new database."""
PARTITIONS_MOST = 4096
"""More would only make the lock table long: a node holds a lock for each."""


def registrable_domain(host: str) -> str:
    """Returns the domain of the host "name:port" that somebody registered: "example.co.uk" of "a.b.example.co.uk:443".

    By the Public Suffix List, with its private part: pages of two users of one hosting service have different owners.
    Returns the name itself for an address and for a name without such a domain.
    """
    name = host.rpartition(":")[0] or host
    if name.startswith("[") or name.replace(".", "").isdigit():
        return name
    return _suffixes().privatesuffix(name.rstrip(".").lower()) or name


def partition_of(host: str, partitions: int) -> int:
    """Returns the partition, 0 to `partitions` - 1, of the host "name:port"."""
    return xxhash.xxh3_64_intdigest(registrable_domain(host).encode()) % partitions


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


# Quotas: nodes hold equally many units (partitions or roles), and few units move when a node comes or goes.


def quota(held: Mapping[int, int], node: int, units: int) -> int:
    """Returns how many of `units` the node should hold.

    held: how many each living node holds, by its id, `node` among them. All nodes that see the same numbers agree, and
    the quotas add up to `units`. Those that hold most get what cannot be divided, so that as few as possible move.
    """
    least, rest = divmod(units, len(held))
    order = sorted(held, key=lambda one: (-held[one], one))
    return least + (order.index(node) < rest)


def to_take(free: Collection[int], node: int, number: int) -> list[int]:
    """Returns up to `number` of the free units for the node to try.

    Nodes that try at once begin at different ones, so that few attempts are in vain.
    """
    order = sorted(free)
    start = (node * 2_654_435_761) % max(len(order), 1)
    return [*order[start:], *order[:start]][:number]


def to_release(held: Iterable[int], quota: int) -> list[int]:
    """Returns the units that are held beyond the quota: those with the highest numbers."""
    return sorted(held)[quota:]


# Roles: a role's unit is a negative number; partitions are the units from 0.


class NodeRole(StrEnum):
    """Work that one node of a database does for all: whoever holds it, as a partition is held."""

    DELIVERY = "delivery"
    """Sends messages and digests."""
    SOURCES = "sources"
    """Reads sitemaps and feeds that list sites."""
    JOBS = "jobs"
    """Changes many sites."""
    RETENTION = "retention"
    """Deletes what is past its retention."""
    HUBS = "hubs"
    """Subscribes at WebSub hubs."""

    @property
    def unit(self) -> int:
        """Its unit, below 0; those from 0 are partitions."""
        return -1 - list(NodeRole).index(self)


ROLE_OF_UNIT = {role.unit: role for role in NodeRole}


# Allocators that must run in one process: each has one state over all sites.

UNSPLIT = frozenset({"htraa", "lakg", "gpoks", "lspe"})
"""Allocators whose state cannot be split over several nodes."""


def unsplit_among(names: Iterable[str]) -> list[str]:
    """Returns those of these allocators whose state cannot be split, in order."""
    return [name for name in names if name in UNSPLIT]
