"""How the daemon is: health, gauges, and the polls as they are committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from pollerd.api.http.ports.cluster import OtherNodeView
from pollerd.model import Poll, SiteState


class DaemonStatus(Protocol):
    """What the daemon is doing."""

    @property
    def sites(self) -> int:
        """Number of sites."""

    @property
    def polls(self) -> int:
        """Number of polls so far."""

    @property
    def rate(self) -> float:
        """Polls per second now."""

    @property
    def budget(self) -> float:
        """Polls per second allowed."""

    @property
    def offline(self) -> bool:
        """Whether our own link is believed to be down."""

    @property
    def storage_failure(self) -> str | None:
        """Why the database takes no commits; None: it does."""

    @property
    def by_state(self) -> Mapping[SiteState, int]:
        """Number of sites by state."""

    @property
    def loop_lag(self) -> float:
        """How late the event loop ran a timer, s, at worst in the last 15."""


class HealthPort(Protocol):
    """Answers the health checks."""

    def alive(self) -> bool:
        """Returns whether the loop runs."""

    async def not_ready(self) -> str | None:
        """Returns why the daemon cannot work; None if it can."""

    def status(self) -> DaemonStatus:
        """Returns the daemon's current state."""


class WatchedPollsView(Protocol):
    """What came since a position."""

    @property
    def position(self) -> int:
        """To continue from."""

    @property
    def polls(self) -> Sequence[tuple[Poll, str]]:
        """The newest of them, oldest first, each with its site's URL."""

    @property
    def skipped(self) -> int:
        """How many older ones were left out."""


class PollFeedPort(Protocol):
    """The polls as they are committed."""

    @property
    def position(self) -> int:
        """Where it stands."""

    def watching(self) -> AbstractContextManager[None]:
        """Keeps polls while the block runs."""

    def since(self, position: int, most: int) -> WatchedPollsView:
        """Returns the newest polls after a position, at most `most`."""

    def others(self) -> Sequence[OtherNodeView]:
        """Returns how the other nodes are, while somebody watches; empty without any."""


class GaugesPort(Protocol):
    """Updates the gauges."""

    def refresh(self) -> None:
        """Sets the gauges of the daemon's tables; called before the metrics are read."""
