"""To which hosts of other partitions than their own site's requests may be written, at the moment of writing."""

from __future__ import annotations

import math
import time


class HostPermits:
    """What was lent to this node, and until when; and hosts of its own that it lost while requests to them waited."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._lost: dict[str, int] = {}

    def __call__(self, host: str) -> bool:
        """Returns whether a request to the host may be written now."""
        return host not in self._lost and time.monotonic() < self._until.get(host, math.inf)

    def lend(self, host: str, until: float) -> None:
        """Notes that another node lends the host until then (monotonic s)."""
        self._until[host] = until
        self._lost.pop(host, None)

    def lent(self, host: str) -> bool:
        """Returns whether another node lends the host now."""
        return time.monotonic() < self._until.get(host, -math.inf)

    def give_back(self, host: str) -> None:
        """Ends `lend`."""
        self._until.pop(host, None)

    def lose(self, host: str, partition: int) -> None:
        """Permits no more requests to a host of a partition that this node lost."""
        self._lost[host] = partition

    def regain(self, partition: int) -> None:
        """Ends `lose` for all hosts of the partition."""
        self._lost = {host: its for host, its in self._lost.items() if its != partition}
