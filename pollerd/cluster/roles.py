"""What one node does for all, and the numbers by which nodes share out work."""

from __future__ import annotations

from enum import StrEnum


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
