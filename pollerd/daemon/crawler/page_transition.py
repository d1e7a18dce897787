"""Decides what one answer means for a page of the focused crawler: collected, kept, dropped or retried. Pure."""

from __future__ import annotations

from msgspec import Struct

from pollerd.crawling.pages.reading import PageReading
from pollerd.crawling.pages.topics import TopicSettings
from pollerd.daemon.state.poll_effect import PollEffect
from pollerd.model import OutcomeKind, PageState
from pollerd.storage import OutLinkDraft, PageRecord

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
    before: PageStatus, effect: PollEffect, reading: PageReading | None, topic: TopicSettings
) -> PageTransition | None:
    """Returns the page's transition after the poll; None: no change."""
    if reading is not None:
        return _of_reading(before, effect, reading, topic)
    kind = effect.poll.outcome
    if before.on_trial:
        if kind in _AT_ONCE or kind.informative or effect.failures >= TRIES:
            return PageTransition(PageState.REJECTED, _AT_ONCE.get(kind, kind.value))
        return None
    if before.own and (kind is OutcomeKind.GONE or (kind is OutcomeKind.NOT_FOUND and effect.failures >= MISSING)):
        return PageTransition(PageState.GONE, _AT_ONCE[kind])
    return None


def _of_reading(before: PageStatus, effect: PollEffect, reading: PageReading, topic: TopicSettings) -> PageTransition:
    if not before.own:
        return PageTransition(PageState.COLLECTED)
    moved = effect.context.redirect_url
    if moved is not None and (before.on_trial or effect.context.redirect_count >= MOVED):
        return PageTransition(PageState.REJECTED, "moved", moved)
    if reading.canonical is not None:
        return PageTransition(PageState.REJECTED, "has another canonical URL", reading.canonical)
    if reading.listing:
        return PageTransition(PageState.REJECTED, "a list of pages")
    if reading.noindex:
        return PageTransition(PageState.REJECTED, "noindex")
    if reading.relevance < (topic.relevance_min if before.on_trial else topic.relevance_kept):
        return PageTransition(PageState.REJECTED, "irrelevant")
    return PageTransition(PageState.COLLECTED)


def page_record(
    before: PageStatus,
    found: PageTransition,
    reading: PageReading | None,
    links: tuple[OutLinkDraft, ...] | None,
) -> PageRecord:
    """Returns the transition as it is stored, with the page's links; None: they are unchanged."""
    ended = before.own and found.state is not PageState.COLLECTED
    taken = before.own and found.state is PageState.COLLECTED and reading is not None
    return PageRecord(
        page_id=before.page_id,
        state=found.state,
        depth=before.depth,
        reason=found.reason,
        relevance=None if reading is None else reading.relevance,
        out_links=links,
        weight=reading.relevance if taken and reading is not None else None,
        ended=ended,
        on_trial=before.on_trial,
    )
