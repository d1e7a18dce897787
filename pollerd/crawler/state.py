"""State of the focused crawler in memory: pages on trial, pages collected, and the value of the frontier."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import structlog
from msgspec import Struct
from numpy.typing import NDArray

from pollerd.crawler.controllers import FrontierRows, FrontierValue, RequestSettings, discovered
from pollerd.crawler.pages import PageReading, words_of
from pollerd.crawler.topics import TopicSettings
from pollerd.crawler.traps import ShapeLimits
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.model import OutcomeKind, PageState
from pollerd.storage.crawler.collection import CollectionStore
from pollerd.storage.crawler.frontier import FIRST_VALUE, Frontier
from pollerd.storage.page_values import OutLinkDraft, PageRecord, PageRow, Trial
from pollerd.storage.values import PollRecord
from pollerd.texts import _

# Stored rows of frontier pages, as the columns that their value is computed from.


def frontier_rows(rows: Sequence[PageRow]) -> FrontierRows:
    """Returns the rows, at least one, as columns."""
    columns: Any = PageRow._make(zip(*rows, strict=True))
    return FrontierRows(
        urls=columns.url,
        parents=_numbers(columns.parents),
        parents_sum=_numbers(columns.parents_sum),
        parents_best=_numbers(columns.parents_best),
        anchors=_numbers(columns.anchors),
        anchor_sum=_numbers(columns.anchor_sum),
        same_host=np.array([host == parent for host, parent in zip(columns.host_id, columns.parent_host, strict=True)]),
        child_count=_numbers(columns.child_count),
        children_retrieved=_numbers(columns.children_retrieved),
        children_relevance=_numbers(columns.children_relevance),
    )


def when_discovered(row: PageRow) -> FrontierRows:
    """Returns one row as it was when the page was discovered."""
    known = row.parent_id is not None
    relevance = row.parent_relevance or 0.0
    return discovered(
        [row.url], relevance, np.array([row.anchor]), np.array([row.host_id == row.parent_host]), known=known
    )


def _numbers(values: Any) -> NDArray[np.float64]:
    """Returns a column; missing values become 0."""
    return np.array([value or 0.0 for value in values], np.float64)


# Transitions of a page by one answer: collected, kept, dropped or retried. Pure.

TRIES = 3
"""Consecutive failures after which a page on trial is given up."""
MISSING = 4
"""Consecutive 404s after which a page of the collection is gone."""
MOVED = 3
"""Consecutive permanent redirects after which a page of the collection gets its new URL."""
_AT_ONCE = {
    OutcomeKind.GONE: "gone",
    OutcomeKind.NOT_FOUND: "not found",
    OutcomeKind.DENIED: "denied",
    OutcomeKind.BLOCKED_ADDRESS: "blocked address",
    OutcomeKind.TOO_LARGE: "too large",
    OutcomeKind.UNDECODABLE: "undecodable",
    OutcomeKind.CLIENT_ERROR: "refused",
}


class PageStatus(Struct, frozen=True, gc=False):
    """The page before the poll: on trial or collected, found by the crawler (`own`) or given by the user."""

    page_id: int
    depth: int
    on_trial: bool
    own: bool


class PageTransition(Struct, frozen=True, gc=False):
    """The page's new state, and its new URL if that changes."""

    state: PageState
    reason: str = ""
    instead: str | None = None


def page_transition(
    before: PageStatus, record: PollRecord, reading: PageReading | None, topic: TopicSettings
) -> PageTransition | None:
    """Returns the page's transition after the poll; None: no change."""
    if reading is not None:
        return _of_reading(before, record, reading, topic)
    kind = record.poll.outcome
    if before.on_trial:
        if kind in _AT_ONCE or kind.informative or record.failures >= TRIES:
            return PageTransition(PageState.REJECTED, _AT_ONCE.get(kind, kind.value))
        return None
    if before.own and (kind is OutcomeKind.GONE or (kind is OutcomeKind.NOT_FOUND and record.failures >= MISSING)):
        return PageTransition(PageState.GONE, _AT_ONCE[kind])
    return None


def _of_reading(before: PageStatus, record: PollRecord, reading: PageReading, topic: TopicSettings) -> PageTransition:
    if not before.own:
        return PageTransition(PageState.COLLECTED)
    moved = record.context.redirect_url
    if moved is not None and (before.on_trial or record.context.redirect_count >= MOVED):
        return PageTransition(PageState.REJECTED, "moved", moved)
    if reading.canonical is not None:
        return PageTransition(PageState.REJECTED, _("has another canonical URL"), reading.canonical)
    if reading.listing:
        return PageTransition(PageState.REJECTED, _("a list of pages"))
    if reading.noindex:
        return PageTransition(PageState.REJECTED, "noindex")
    if reading.relevance < (topic.relevance_min if before.on_trial else topic.relevance_kept):
        return PageTransition(PageState.REJECTED, "irrelevant")
    return PageTransition(PageState.COLLECTED)


def page_record(
    before: PageStatus,
    transition: PageTransition,
    reading: PageReading | None,
    links: tuple[OutLinkDraft, ...] | None,
) -> PageRecord:
    """Returns the transition as it is stored, with the page's links; None: they are unchanged."""
    ended = before.own and transition.state is not PageState.COLLECTED
    taken = before.own and transition.state is PageState.COLLECTED and reading is not None
    return PageRecord(
        page_id=before.page_id,
        state=transition.state,
        depth=before.depth,
        reason=transition.reason,
        relevance=None if reading is None else reading.relevance,
        out_links=links,
        weight=reading.relevance if taken and reading is not None else None,
        ended=ended,
        on_trial=before.on_trial,
    )


@dataclass
class CrawledPage:
    """A page that is polled as a site. `state` and `first`: what is known around it now, and was when discovered."""

    status: PageStatus
    host: str
    relevance: float
    value: float = 0.0
    step: int = 0
    state: FrontierRows | None = None
    first: FrontierRows | None = None


@dataclass
class CrawlState:
    """Shared by the parts of the crawler; all of them run in the event loop."""

    started_at: float
    """When the collection was started, epoch s."""
    frontier_value: FrontierValue = field(default_factory=lambda: FrontierValue(RequestSettings()))
    pages: dict[int, CrawledPage] = field(default_factory=dict)
    """By site id."""
    sites: dict[int, bool] = field(default_factory=dict)
    """Id of each site that is read for the topic -> whether it belongs to the crawler."""
    unread: set[int] = field(default_factory=set)
    """Ids of sites polled before, but not read for the present topic."""
    collected: set[int] = field(default_factory=set)
    """Ids of the crawler's own sites that are no longer on trial."""
    hosts_mapped: set[str] = field(default_factory=set)
    """Hosts whose sitemaps are on the frontier."""
    stale: set[int] = field(default_factory=set)
    """Ids of frontier pages whose stored values are outdated."""
    requests: int = 0
    """Pages of the frontier requested so far."""
    updated: bool = False
    """Something was learned since pages were valued last."""
    committed: asyncio.Event = field(default_factory=asyncio.Event)
    """A page was committed."""

    def hold(self, trial: Trial) -> None:
        """Adds a page that is a site now."""
        on_trial = trial.state is PageState.ASKED
        status = PageStatus(trial.page_id, trial.depth, on_trial, trial.own)
        page = CrawledPage(status, trial.host, trial.relevance or 0.0)
        if on_trial:
            page.value, page.step = self.value_of(trial), trial.step
            page.state, page.first = frontier_rows([trial.around]), when_discovered(trial.around)
        elif trial.own:
            self.hosts_mapped.add(trial.host)
            self.collected.add(trial.site_id)
        if trial.unread and not on_trial:
            self.unread.add(trial.site_id)
        self.pages[trial.site_id] = page
        self.sites[trial.site_id] = trial.own

    def forget(self, site_id: int) -> None:
        """Forgets a site that was removed or got another URL."""
        self.pages.pop(site_id, None)
        self.sites.pop(site_id, None)
        self.collected.discard(site_id)
        self.unread.discard(site_id)

    def values(self, rows: FrontierRows) -> NDArray[np.float64]:
        """Returns Q(x, 1) of pages of the frontier, float64[k]."""
        return self.frontier_value.value(rows.states())

    def value_of(self, trial: Trial) -> float:
        """Returns the value of a page on trial; inf for those that are requested first whatever is known."""
        return math.inf if trial.value >= FIRST_VALUE else float(self.values(frontier_rows([trial.around]))[0])


# Loading at the start.

COUNTED_PAGES = 200_000
"""Newest pages whose shapes are counted at a start: a second's work."""


async def load_shapes(collection: CollectionStore) -> ShapeLimits:
    """Returns the limits of shapes, with the newest pages that are known counted. Raises DatabaseUnavailableError."""
    shapes = ShapeLimits()
    async for urls in collection.newest_urls(COUNTED_PAGES):
        shapes.count(urls)
    return shapes


async def load_crawl(
    collection: CollectionStore,
    frontier: Frontier,
    scheduler: SchedulerState,
    topic: TopicSettings,
    seeds: Sequence[str],
    clock: Callable[[], float],
) -> CrawlState:
    """Loads the collection from the store, and adds new seeds.

    Raises ConfigError if the database holds a collection on another topic, and if there are no pages to start with.
    """
    log, state = structlog.get_logger("pollerd.crawler"), CrawlState(started_at=clock())
    row = await frontier.begin(topic.name, clock(), words_of(topic))
    state.requests = row.requests
    if row.learned is not None:
        try:
            state.frontier_value.restore(row.learned)
        except InvalidValueError as error:
            log.warning("learned_state_unusable", reason=str(error), effect="learning starts again")
    async for trial in frontier.held():
        state.hold(trial)
        slot = scheduler.sites.slot_of(trial.site_id)
        if slot is not None and trial.state is PageState.ASKED:
            scheduler.sites.put("value", slot, state.value_of(trial))
    new = await frontier.add_seeds([url for url in seeds if topic.permits(url)], clock())
    status = await collection.status()
    if status is None or not any(status.pages.values()):
        raise ConfigError(_("seeds: a new collection needs some, within the topic's domains; there is none"))
    state.started_at = status.started_at
    log.info("crawl_started", topic=topic.name, pages=len(state.pages), unread=len(state.unread), seeds=new)
    return state
