"""Detection of an outage of our own link, as opposed to failures of sites: while all hosts fail, no site is blamed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")

PROBE_SECONDS = 1.0
"""Seconds between two probes while the link seems down. Polling must resume within twice this after it returns."""


class LinkState(Enum):
    """Whether our own link is believed to work."""

    ONLINE = "online"
    OFFLINE = "offline"


def hosts_that_must_fail(hosts: int) -> int:
    """Returns how many different hosts must fail in a row, without any answer, before the link is blamed.

    With one host both cases look alike, so its failures count at once. A few dead sites in a long list must not stop
    the daemon, hence the square root.
    """
    return min(hosts, max(3, min(10, math.isqrt(hosts))))


@dataclass
class OutageDetector(Generic[T]):
    """Holds back suspect failures until it is clear whether the sites or the link caused them.

    `T` is the caller's item: `failed` and `answered` return the held failures that are attributed to the sites.
    Failures while offline are dropped, because they say nothing about a site.
    """

    state: LinkState = LinkState.ONLINE
    _held: list[tuple[int, T]] = field(default_factory=list)

    def answered(self) -> list[T]:
        """Records an answer of any kind: the link works. Returns the held failures, which now count."""
        self.state = LinkState.ONLINE
        released = [item for _, item in self._held]
        self._held.clear()
        return released

    def failed(self, host: int, item: T, hosts: int) -> tuple[list[T], list[T]]:
        """Records that a host could not be reached; `hosts` is the number of hosts to poll.

        Returns (failures that count, failures that are dropped). Both empty: the failure is held back.
        """
        if self.state is LinkState.OFFLINE:
            return [], [item]
        if hosts < 2:
            return [item], []
        self._held.append((host, item))
        if len({h for h, _ in self._held}) < hosts_that_must_fail(hosts):
            return [], []
        self.state = LinkState.OFFLINE
        dropped = [held for _, held in self._held]
        self._held.clear()
        return [], dropped

    @property
    def holding(self) -> bool:
        """Whether a failure is held back."""
        return bool(self._held)

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Drops held failures that `unwanted` selects."""
        self._held = [(host, item) for host, item in self._held if not unwanted(item)]

    def held(self) -> list[T]:
        """Removes and returns the held failures without a decision."""
        items = [item for _, item in self._held]
        self._held.clear()
        return items
