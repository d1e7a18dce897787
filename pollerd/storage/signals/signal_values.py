"""Values of signal sources, as stored."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

SignalKind = Literal["sitemap", "feed", "list", "links", "push"]
"""How a signal source says that pages changed; "push": programs report to the API."""
SignalHosts = Literal["same", "any"]


class SignalOrigin(StrEnum):
    """Who said that a signal source is one."""

    API = "api"
    FILE = "file"
    """The list that the daemon runs with; it wins."""
    INDEX = "index"
    """The index of sitemaps in which it stands."""


class ListedSignalSource(Struct, frozen=True):
    """A signal source as a list or export names it: by the normalised URL of its site, or a name."""

    kind: SignalKind
    url: str | None = None
    name: str | None = None
    hosts: SignalHosts = "same"

    @property
    def key(self) -> str:
        """Its URL or name: no two have the same."""
        return self.url or self.name or ""


class SignalSourceSpec(Struct, frozen=True):
    """A signal source as given: a site that is polled for it, or, for kind "push", a name."""

    kind: SignalKind
    site_id: int | None = None
    name: str | None = None
    hosts: SignalHosts = "same"
    """Which pages it may speak for: those of its own host, or any. A pushed one has no host: any."""


class SignalSource(Struct, frozen=True):
    """A signal source as stored. Times are UTC epoch seconds."""

    id: int
    spec: SignalSourceSpec
    url: str | None
    """URL of its site; None: pushed."""
    created_at: float
    last_read_at: float | None
    """When it was last read successfully, or a pushed one reported last."""
    last_signal_at: float | None
    signals: int
    """Number of signals of known sites since it was added."""
    pages: int
    """Number of sites that it speaks for."""
    last_detail: str
    origin: SignalOrigin = SignalOrigin.API
    index_id: int | None = None
    """Id of the source in whose index of sitemaps it stands, if that made it one."""
    made_site: bool = False
    """Whether its site was added for that."""

    @property
    def key(self) -> str:
        """Its URL or name: no two have the same."""
        return self.url or self.spec.name or ""


class ListedDate(Struct, frozen=True, gc=False):
    """What a document or report says of a URL: changed at `date`, UTC epoch s, None: no date given."""

    url: str
    date: float | None = None


class StoredSignal(Struct, frozen=True, gc=False):
    """What a source said last of a site. date: as it was said. signalled_at: epoch s when it was news, None: never."""

    site_id: int
    date: float | None
    signalled_at: float | None


class SourceOfSite(Struct, frozen=True, gc=False):
    """A signal source that speaks for a site, and what it said last of it."""

    source_id: int
    source: str
    """The source's URL or name."""
    date: float | None
    signalled_at: float | None
    signals: int
    waiting: bool
    """Whether no informative poll of the site has followed its last signal."""


def waits(signalled_at: float | None, last_seen_at: float | None) -> bool:
    """Returns whether a signal waits for a poll: no informative one has followed it. Times are epoch s; None: never."""
    return signalled_at is not None and (last_seen_at is None or signalled_at > last_seen_at)
