"""Values of sources. Times are epoch seconds, durations seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from pollerd.model import Validators

_NO_VALIDATORS = Validators()


class MemberState(StrEnum):
    """Where a page of a source stands: listed by it, or no longer."""

    JOINED = "joined"
    VANISHED = "vanished"


class SourceSpec(Struct, frozen=True):
    """User settings of a source."""

    url: str
    kind: str = "sitemap"
    """"sitemap" or "feed"."""
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    """Tags and weight of the sites that it adds."""
    site_limit: int = 100_000
    """Maximum number of sites that it may have."""
    pattern: str | None = None
    hosts: str = "same"
    """"same": pages of its own host, and of hosts whose robots.txt names it; "any"."""
    interval: float | None = None
    """Seconds between two readings; None: learned."""
    most_shrink: float = 0.5
    """Largest share by which the list may shrink and still be believed."""
    paused: bool = False


class ReadDocument(Struct, frozen=True):
    """A document that a reading fetched, with the validators of its answer."""

    url: str
    validators: Validators = _NO_VALIDATORS
    sitemaps: tuple[str, ...] = ()
    """Further documents that it lists."""
    entries: int = 0
    """Number of pages that it lists, before the pattern."""
    keys: bytes = b""
    """64-bit hashes of the pages that it brought: a document that did not change is not read again to know them."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source as stored."""

    id: int
    spec: SourceSpec
    created_at: float
    last_read_at: float | None = None
    next_read_at: float | None = None
    pace: float | None = None
    """The learned interval; None: not read yet."""
    entries: int | None = None
    """Number of pages that the last believed reading listed, before the pattern."""
    failures: int = 0
    """Consecutive readings that failed or were not believed."""
    last_detail: str = ""
    joined: int = 0
    vanished: int = 0
    """Numbers of its pages, by state; both 0 where they were not asked for."""


class Member(Struct, frozen=True, gc=False):
    """A page of a source, and its site."""

    url: str
    """As listed; the user may have moved the site."""
    site_id: int
    joined: bool
    since: float = 0.0
    paused: bool = False
    """Whether the source paused the site."""

    @property
    def id(self) -> int:
        """The site's id, by which pages of the list are read."""
        return self.site_id


class StoredMember(Struct, frozen=True, gc=False):
    """A page of a source as an export has it: by URLs, as ids are those of one database."""

    url: str
    site: str
    """URL of its site."""
    joined: bool
    added: bool
    paused: bool
    since: float

    def fields(self) -> dict[str, str | bool | float]:
        """Returns the values by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


@dataclass(frozen=True, slots=True)
class SourceRead:
    """The end of a reading, to store after all that it changed."""

    at: float
    next_at: float
    pace: float | None
    entries: int | None
    failures: int
    detail: str
    documents: Sequence[ReadDocument] | None
    """None: those of the reading before stay."""
