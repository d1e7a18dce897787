"""The values of the focused crawler that go into storage and come out of it. Times are epoch seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from pollerd.model import PageState


class PageRow(NamedTuple):
    """A page and what is known around it; the last five are of the page that it was discovered on, if any.

    `value`: its value, larger is asked for sooner; None: it is not on the frontier.
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
    """A link to a page, known or new. anchor: score of its text; modified_at: what a sitemap says (epoch s).

    counted: it is one that a reader sees, and belongs to the link graph.
    """

    url: str
    anchor: float = 0.0
    modified_at: float | None = None
    counted: bool = True


class PageRecord(Struct, frozen=True, gc=False):
    """What became of a page by one poll of its site. `relevance` None: it was not read, and stays.

    `out_links` None: its links stay as they are. `weight` of its site from now on, None: as it is. `ended`: its site
    goes. `on_trial`: it was before.
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
    """What a batch brings to the collection besides its polls. `dropped`: (page, site) that have to make room.

    `learned`: what the request controller knows; None: as it was. `step`: requests of the crawler so far.
    """

    step: int
    dropped: tuple[tuple[int, int], ...] = ()
    learned: bytes | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A page that is a site now: on trial, or held in the collection."""

    page_id: int
    site_id: int
    host_id: int
    host: str
    url: str
    state: PageState
    own: bool
    depth: int
    step: int
    """How many requests of the crawler there had been when it was discovered."""
    value: float
    relevance: float | None
    """As scored last; None where it was never read."""
    around: PageRow
    """What is known around it."""
    unread: bool = False
    """It was never read for the topic, or not since the topic's words changed."""


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """The collection as the crawler finds it at its start."""

    topic: str
    requests: int
    learned: bytes | None
