"""Telling our own outage from a site's: while every host fails at once, no site is to blame."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")

PROBE_SECONDS = 1.0
"""While the link seems down: seconds between two probes. Polling is to go on within two of the link's return."""


class LinkState(Enum):
    """Whether we believe that our own link works."""

    ONLINE = "online"
    OFFLINE = "offline"


def hosts_that_must_fail(hosts: int) -> int:
    """How many different hosts must fail in a row, with no answer from any, before the link is blamed.

    With one host there is no telling, so its failures count at once. A few dead sites in a long list must not stop
    the daemon, hence the root.
    """
    return min(hosts, max(3, min(10, math.isqrt(hosts))))


@dataclass
class OutageDetector(Generic[T]):
    """Holds suspect failures back until something tells whose fault they are.

    `T` is whatever the caller wants back: `failed` and `answered` return the held failures that are now known to be
    the sites' own; while offline, failures are dropped, for they say nothing of a site.
    """

    state: LinkState = LinkState.ONLINE
    _held: list[tuple[int, T]] = field(default_factory=list)

    def answered(self) -> list[T]:
        """Some host answered (whatever it said): the link works. Returns the failures that count after all."""
        self.state = LinkState.ONLINE
        released = [item for _, item in self._held]
        self._held.clear()
        return released

    def failed(self, host: int, item: T, hosts: int) -> tuple[list[T], list[T]]:
        """A host could not be reached; `hosts` is how many hosts there are to poll.

        Returns (failures that count, failures that are dropped). Both empty: it is held back.
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
    def troubled(self) -> bool:
        """Whether anything is held back, or the link seems down: else an answer says nothing new."""
        return self.holding or self.state is LinkState.OFFLINE

    @property
    def holding(self) -> bool:
        """Whether anything is held back."""
        return bool(self._held)

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Forgets what is held back and no longer wanted."""
        self._held = [(host, item) for host, item in self._held if not unwanted(item)]

    def held(self) -> list[T]:
        """Takes out what is held back, unjudged."""
        items = [item for _, item in self._held]
        self._held.clear()
        return items
