"""Partitions of the hosts, how nodes share them out, and the roles that one node takes for all.

A host's partition is a hash of its registrable domain, so that the hosts of one owner are always in one process.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
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


# How units (partitions or roles) are shared out: evenly, and few of them move when a node comes or goes.

_EMPTY_WEIGHT = 1.0
"""Weight of a partition without sites, so that these are shared out, too."""
UNEVEN_SHARE = 0.05
"""Share of a node's mean load by which the loads of two nodes may differ before partitions move."""
_ROUNDING = 1e-9


def weight_of(sites: int) -> float:
    """Returns the weight of a partition with so many sites."""
    return _EMPTY_WEIGHT + sites


def shared_out(
    weights: Mapping[int, float], holders: Mapping[int, int], nodes: Collection[int], uneven: float = 0.0
) -> dict[int, int]:
    """Returns unit -> the node that is to hold it; empty without nodes.

    weights: of all units, > 0. holders: those of units that are held; what others than `nodes` hold counts as free.
    uneven: share of the mean load by which loads may differ before units move. Units go to whoever has least, the
    heaviest first; then they move from who has most to who has least, while that makes both more alike. All nodes that
    see the same table agree.
    """
    held: dict[int, list[tuple[float, int]]] = {node: [] for node in sorted(nodes)}
    """Node -> (weight, unit), ascending."""
    if not held:
        return {}
    free = []
    for unit, weight in weights.items():
        holder = holders.get(unit)
        if holder in held:
            held[holder].append((weight, unit))
        else:
            free.append((-weight, unit))
    load = {node: sum(weight for weight, _ in its) for node, its in held.items()}
    heap = [(its, node) for node, its in load.items()]
    heapq.heapify(heap)
    for minus, unit in sorted(free):
        least, node = heapq.heappop(heap)
        held[node].append((-minus, unit))
        load[node] = least - minus
        heapq.heappush(heap, (load[node], node))
    for its in held.values():
        its.sort()
    few = uneven * sum(load.values()) / len(load)
    while move := _move(held, load, few):
        place, source, target = move
        weight, unit = held[source].pop(place)
        insort(held[target], (weight, unit))
        load[source] -= weight
        load[target] += weight
    return {unit: node for node, its in held.items() for _, unit in its}


def _move(
    held: Mapping[int, Sequence[tuple[float, int]]], load: Mapping[int, float], few: float
) -> tuple[int, int, int] | None:
    """Returns which unit's move makes loads more alike: its place at whom, who, and to whom; None: they are alike."""
    target = min(load, key=lambda node: (load[node], node))
    for source in sorted(load, key=lambda node: (-load[node], node)):
        gap, its = load[source] - load[target], held[source]
        if gap <= few:
            return None
        # The nearest to half the gap; what weighs as much as the gap would only turn it round.
        half = bisect_left(its, (gap / 2, 0))
        near = [at for at in (half - 1, half) if 0 <= at < len(its) and its[at][0] < gap * (1 - _ROUNDING)]
        if near:
            return min(near, key=lambda at: abs(its[at][0] - gap / 2)), source, target
    return None


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
