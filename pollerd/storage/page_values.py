"""Values of the focused crawler for storage. Times are epoch seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from pollerd.model import PageState


class PageRow(NamedTuple):
    """A page and its link context; the last five fields describe the page on which it was discovered, if any.

    `value`: its value, larger is requested sooner; None: it is not on the frontier.
    """

    id: int
    url: str
    host_id: int
    state: str
    own: bool
    depth: int
    step: int
    value: float | None
    relevance: float | None
    site_id: int | None
    parent_id: int | None
    anchor: float
    parents: int
    parents_sum: float
    parents_best: float
    anchors: int
    anchor_sum: float
    child_count: int | None
    children_retrieved: int | None
    children_relevance: float | None
    parent_host: int | None
    parent_relevance: float | None


class OutLinkDraft(Struct, frozen=True, gc=False):
    """A link to a page, known or new. anchor: score of its text; modified_at: from a sitemap (epoch s).

    counted: whether it is visible to readers and belongs to the link graph.
    """

    url: str
    anchor: float = 0.0
    modified_at: float | None = None
    counted: bool = True


class PageRecord(Struct, frozen=True, gc=False):
    """The result of one poll for a page. `relevance` None: it was not read, and keeps its relevance.

    `out_links` None: its links are unchanged. `weight`: the new weight of its site, None: unchanged. `ended`: its site
    is deleted. `on_trial`: whether it was on trial before.
    """

    page_id: int
    state: PageState
    depth: int
    reason: str = ""
    relevance: float | None = None
    out_links: tuple[OutLinkDraft, ...] | None = None
    weight: float | None = None
    ended: bool = False
    on_trial: bool = False

    @property
    def is_judged(self) -> bool:
        """Whether its trial ends with this poll."""
        return self.on_trial and self.state is not PageState.ASKED


class CrawlUpdate(Struct, frozen=True, gc=False):
    """What a batch changes in the collection besides its polls. `dropped`: (page, site) that are displaced.

    `learned`: the learned frontier value; None: unchanged. `step`: requests of the crawler so far.
    """

    step: int
    dropped: tuple[tuple[int, int], ...] = ()
    learned: bytes | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A page that is a site now: on trial, or in the collection."""

    page_id: int
    site_id: int
    host_id: int
    host: str
    url: str
    state: PageState
    own: bool
    depth: int
    step: int
    """Number of the crawler's requests before it was discovered."""
    value: float
    relevance: float | None
    """Last score; None if it was never read."""
    around: PageRow
    """Its link context."""
    unread: bool = False
    """Whether it was not read for the topic, or not since the topic's words changed."""


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """The stored collection at the crawler's start."""

    topic: str
    requests: int
    learned: bytes | None
