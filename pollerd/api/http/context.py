"""What the API needs of the running daemon. The daemon's control object fits without knowing of this."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

import numpy as np
from fastapi import Depends, Request
from numpy.typing import NDArray

from pollerd.model import Site, SiteSpec
from pollerd.storage import AddResult, KnownHost, RestoreResult, SiteChanges, SiteRestore, Store


class LiveView(Protocol):
    """What only the running daemon knows of a site."""

    @property
    def rate_per_day(self) -> float | None:
        """Believed changes per day."""

    @property
    def next_poll_at(self) -> float | None:
        """Earliest moment of the next poll, epoch s."""


class HostsPort(Protocol):
    """Shows hosts, with the attributes that `schemas.hosts` names, and pauses them."""

    async def views(self, known: Sequence[KnownHost]) -> Sequence[object]:
        """The hosts as they stand."""

    def ids(self, *, paused: bool | None, unreachable: bool | None) -> NDArray[np.int64] | None:
        """Hosts that are so; None: nothing is asked for."""

    async def override(self, name: str, *, paused: bool, until: float | None, by: str) -> object:
        """Raises NotFoundError, InvalidValueError."""


class SitesPort(Protocol):
    """Adds, changes and removes sites. What `explain` returns has the attributes of `schemas.explanation`."""

    async def add(self, specs: Sequence[SiteSpec], *, respect_deleted: bool = False) -> AddResult:
        """Adds what is new."""

    async def add_one(self, spec: SiteSpec) -> Site:
        """Raises DuplicateError with the existing id."""

    async def restore(self, pieces: Callable[[], Iterator[list[SiteRestore]]]) -> RestoreResult:
        """All of them or none. Raises InvalidValueError."""

    async def update(self, site_id: int, changes: SiteChanges) -> Site:
        """Raises NotFoundError, DuplicateError."""

    async def delete(self, site_id: int) -> None:
        """Raises NotFoundError."""

    async def poll_now(self, site_id: int) -> Site:
        """Raises NotFoundError."""

    async def pause_all(self, tag: str | None, paused: bool, *, by: str) -> int:
        """Pauses or resumes all sites, or all with a tag; how many were not so before."""

    async def pause(self, site_id: int, paused: bool) -> Site:
        """Raises NotFoundError."""

    def live(self, site_ids: Sequence[int]) -> Mapping[int, LiveView]:
        """Sites that the daemon does not know are left out."""

    async def explain(self, site_id: int) -> object:
        """Raises NotFoundError."""


class AllocationPort(Protocol):
    """Shows and steers the allocation. The views have the attributes that `schemas.allocation` names."""

    async def over_budgets(self) -> object:
        """The present allocation, and what other budgets would bring."""

    async def set(
        self,
        *,
        allocator: str | None = None,
        objective: str | None = None,
        budget: float | None = None,
        shadows: Sequence[str] | None = None,
    ) -> object:
        """Raises InvalidValueError."""


class CollectionPort(Protocol):
    """Shows the focused crawler's collection."""

    async def view(self) -> object | None:
        """What `collection.Collection` shows; None where no topic was ever set."""


class HealthPort(Protocol):
    """Answers the health checks."""

    def alive(self) -> bool:
        """Whether the loop turns."""

    async def not_ready(self) -> str | None:
        """Why the daemon cannot work; None where all is well."""


class GaugesPort(Protocol):
    """Keeps the gauges up to date."""

    def refresh(self) -> None:
        """Sets the gauges that follow the daemon's tables; called before the metrics are read."""


class ControlPort(Protocol):
    """The running daemon, by subject."""

    @property
    def sites(self) -> SitesPort:
        """Which sites there are, and how they are polled."""

    @property
    def hosts(self) -> HostsPort:
        """What is known of hosts, and what may be done to them."""

    @property
    def allocation(self) -> AllocationPort:
        """How the budget is spent."""

    @property
    def collection(self) -> CollectionPort:
        """What the focused crawler found."""

    @property
    def health(self) -> HealthPort:
        """How the daemon is."""

    @property
    def gauges(self) -> GaugesPort:
        """The metrics that are read from its tables."""


@dataclass(frozen=True, slots=True)
class ApiPorts:
    """The two things that calls work on, and a turn."""

    control: ControlPort
    store: Store
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by calls that read a site and then write what follows from it: none may come between."""


async def _ports(request: Request) -> ApiPorts:
    found: ApiPorts = request.app.state.ports
    return found


async def _caller(request: Request) -> str:
    """Who makes a call that changes something, as far as that is known: what it took to be let in."""
    return "a token of scope write" if request.app.state.tokens.needed else "somebody on this machine"


Daemon = Annotated[ApiPorts, Depends(_ports)]
Caller = Annotated[str, Depends(_caller)]
