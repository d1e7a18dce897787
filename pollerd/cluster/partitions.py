"""The partition of a host: a hash of its registrable domain, so that hosts of one owner are always in one process."""

from __future__ import annotations

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
