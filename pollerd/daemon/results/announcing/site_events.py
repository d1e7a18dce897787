"""Which events a poll brought about, besides those that depend on a rule. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pollerd.daemon.results.transition import REDIRECT_CONFIRMATIONS
from pollerd.daemon.state.poll_result import PollResult
from pollerd.events import EventKind
from pollerd.model import DEFAULT_SELECTION, Media, OutcomeKind, SiteState
from pollerd.storage import ChangeDraft, PollRecord


class PollEvent(NamedTuple):
    """One event of a poll."""

    kind: EventKind
    data: dict[str, Any]
    change: ChangeDraft | None = None
    selection: str = DEFAULT_SELECTION
    media: Media | None = None


def events_of(result: PollResult, record: PollRecord) -> Iterator[PollEvent]:
    """Yields what the poll found out, in the order in which it is told."""
    if record.poll.outcome is OutcomeKind.FIRST:
        yield PollEvent(EventKind.FIRST_SEEN, {}, media=record.context.baseline.media)
    if record.change is not None:
        yield PollEvent(EventKind.CHANGED, _kept(record.change), record.change, media=record.change.kind)
    missing = {state.name: state.missing for state in result.context.states}
    for one in record.selections:
        if one.change is not None:
            yield PollEvent(EventKind.CHANGED, _kept(one.change), one.change, one.state.name, one.change.kind)
        if one.state.missing and not missing.get(one.state.name):
            detail = {"selection": one.state.name, "detail": one.state.missing}
            yield PollEvent(EventKind.NOTHING_SELECTED, detail, selection=one.state.name)
    if record.state is SiteState.GONE and result.context.last_outcome is not OutcomeKind.GONE:
        yield PollEvent(EventKind.GONE, {"status": record.poll.status})
    if record.context.redirect_count == REDIRECT_CONFIRMATIONS != result.context.redirect_count:
        yield PollEvent(EventKind.MOVED, {"new_url": record.context.redirect_url})


def _kept(change: ChangeDraft) -> dict[str, Any]:
    """Returns what is told of a change even where its site was removed meanwhile."""
    return {"summary": change.summary, "kind": change.kind.value}
