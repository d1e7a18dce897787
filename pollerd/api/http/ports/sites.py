"""Sites, their hosts and tags, and what is done to many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pollerd.model import Site, SiteSpec, Tags, TagSettings
from pollerd.storage import (
    AddResult,
    ImportCheck,
    Job,
    JobSpec,
    KnownHost,
    Rebase,
    RestoreResult,
    SiteChanges,
    SiteRestore,
)


class LiveView(Protocol):
    """In-memory values of a site."""

    @property
    def rate_per_day(self) -> float | None:
        """Believed changes per day."""

    @property
    def next_poll_at(self) -> float | None:
        """Earliest time of the next poll, epoch s."""

    @property
    def learned_half_life(self) -> float | None:
        """Learned from reads, s."""


class HostsPort(Protocol):
    """Shows hosts, with the attributes named in `schemas.hosts`, and pauses them."""

    async def views(self, known: Sequence[KnownHost]) -> Sequence[object]:
        """Returns the current state of the hosts."""

    def ids(self, *, paused: bool | None, unreachable: bool | None) -> NDArray[np.int64] | None:
        """Returns ids of the hosts that match; None: no filter is given."""

    async def override(self, name: str, *, paused: bool, until: float | None, by: str) -> object:
        """Pauses a host or ends its pause. Raises NotFoundError, InvalidValueError."""


class SitesPort(Protocol):
    """Adds, changes and removes sites. The result of `explain` has the attributes of `schemas.explanation`."""

    async def add(self, specs: Sequence[SiteSpec], *, respect_deleted: bool = False) -> AddResult:
        """Adds new sites."""

    async def add_one(self, spec: SiteSpec) -> Site:
        """Adds one site. Raises DuplicateError with the existing id."""

    async def would_add(self, specs: Sequence[SiteSpec]) -> ImportCheck:
        """Returns what adding these sites would do, without doing it."""

    async def restore(self, pieces: Callable[[], Iterator[list[SiteRestore]]]) -> RestoreResult:
        """Adds or changes all of them or none. Raises InvalidValueError."""

    async def update(self, site_id: int, changes: SiteChanges) -> Site:
        """Changes a site. Raises NotFoundError, DuplicateError."""

    async def delete(self, site_id: int) -> None:
        """Deletes a site. Raises NotFoundError."""

    async def poll_now(self, site_id: int) -> Site:
        """Has a site polled next. Raises NotFoundError."""

    async def pause_all(self, tag: str | None, paused: bool, *, by: str) -> int:
        """Pauses or resumes all sites, or all with a tag; returns how many changed."""

    async def pause(self, site_id: int, paused: bool) -> Site:
        """Pauses or resumes a site. Raises NotFoundError."""

    async def shown(self, site_ids: Sequence[int]) -> Mapping[int, LiveView]:
        """Returns in-memory values, or stored ones of sites of other nodes; unknown sites are left out."""

    async def current(self, site_id: int) -> LiveView | None:
        """Returns the in-memory values of a site, of whichever node; None: there are none, or none gives them."""

    async def explain(self, site_id: int) -> object:
        """Explains why a site is polled as it is. Raises NotFoundError, HolderUnavailableError."""


class JobsPort(Protocol):
    """Does one thing to many sites."""

    async def start(self, spec: JobSpec, *, by: str) -> Job:
        """Starts a job; a small one has ended then. Raises InvalidValueError."""

    async def undo(self, job_id: int, *, by: str) -> Job:
        """Takes back what a job did. Raises NotFoundError, InvalidValueError if it cannot be undone."""


class PreviewPort(Protocol):
    """Previews selections. The results have the attributes of `schemas.selections`."""

    async def of_url(self, wanted: SiteSpec) -> object:
        """Returns what its selections keep of a page, which is got now. Raises InvalidValueError."""

    async def of_stored(self, site_id: int, selections: str) -> object:
        """Returns what they keep of a site's stored content. Raises NotFoundError, InvalidValueError."""


class TagsPort(Protocol):
    """Settings of tags."""

    def all(self) -> Tags:
        """Returns the tags that have settings, by name."""

    def get(self, name: str) -> TagSettings:
        """Returns the settings of a tag. Raises NotFoundError."""

    async def put(self, given: TagSettings, *, by: str, rebase: Rebase | None = None) -> TagSettings:
        """Gives a tag settings in place of those that it had. Raises InvalidValueError."""

    async def delete(self, name: str, *, by: str) -> None:
        """Takes the settings of a tag away. Raises NotFoundError."""
