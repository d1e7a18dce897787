"""The announcing step: adds to each record the notices of its events, by the rules. Loaded with the first rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from msgspec.structs import replace

from pollerd.daemon.rules_in_force import RulesInForce, SiteStanding, incident_notices, new_event_id
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.slow_results import LeavesBatchError, here_or_beside
from pollerd.daemon.stages import Found
from pollerd.daemon.transition import REDIRECT_CONFIRMATIONS
from pollerd.detection.selection.conditions.change_size import LineChanges
from pollerd.events import EventKind, Notice
from pollerd.model import (
    DEFAULT_SELECTION,
    Detection,
    Media,
    OutcomeKind,
    SelectionDetection,
    SiteState,
)
from pollerd.notifications.matching import Facts, SiteHealth
from pollerd.notifications.messages import changed_lines
from pollerd.storage.contents import ContentStore
from pollerd.storage.sites import SiteStore
from pollerd.storage.values import ChangeDraft, PollRecord, SiteContext
from pollerd.urls import host_of

if TYPE_CHECKING:
    from pollerd.daemon.rules_in_force import RulesInForce


Lines = Mapping[tuple[int, str], LineChanges]
"""By site and selection."""
_HERE_BYTES = 64 * 1024
"""Two contents of this total size are compared within a millisecond or two."""


class _Compared(NamedTuple):
    """One change: the id of the content before it, and what came in its place."""

    selection: str
    before: int | None
    after: bytes
    media: Media
    mask: bytes


class LinesOfChanges:
    """Reads the contents before each change, and compares."""

    def __init__(self, *, contents: ContentStore, runtime: Runtime) -> None:
        self._contents, self._workers, self._faults = contents, runtime.workers, runtime.faults

    async def of(self, results: Sequence[Found]) -> tuple[Lines, frozenset[int]]:
        """Returns the lines, and the ids of sites whose results leave the batch. Raises DatabaseUnavailableError."""
        lines, slow = dict[tuple[int, str], LineChanges](), set[int]()
        for result in results:
            if result.judgement is not None and result.judgement.lines is not None:
                lines.update(result.judgement.lines)
        known = {site_id for site_id, _ in lines}
        pairs = [
            (polled, change) for polled in results if polled.site_id not in known for change in _changes_of(polled)
        ]
        content_ids = [change.before for _, change in pairs if change.before is not None]
        contents = await self._contents.load(content_ids) if content_ids else {}
        for result, change in pairs:
            before = contents.get(change.before or 0)
            if before is None:
                continue
            try:
                lines[result.site_id, change.selection] = await self._compared(result, before, change)
            except LeavesBatchError:
                slow.add(result.site_id)
        return lines, frozenset(slow)

    async def _compared(self, result: Found, before: bytes, change: _Compared) -> LineChanges:
        arguments = (before, change.after, change.media, change.mask)
        try:
            light = len(before) + len(change.after) <= _HERE_BYTES
            return await here_or_beside(self._workers, result, changed_lines, *arguments, light=light)
        except LeavesBatchError:
            raise
        except Exception as error:  # noqa: BLE001
            # Pages are untrusted: one whose comparison raises is reported, and its rules go by the summary.
            self._faults.report(result.context, error)
            return LineChanges((), ())


def _changes_of(result: Found) -> list[_Compared]:
    """Returns the changes that the poll found, or that are recorded with it."""
    recorded = result if result.proof is None or result.proof.recorded is None else result.proof.recorded
    detection = recorded.detection
    if detection is None:
        return []
    known = {state.name: state.content_id for state in recorded.context.states}
    parts: list[tuple[str, int | None, Detection | SelectionDetection]] = [
        (selection.name, known.get(selection.name), selection) for selection in detection.selections
    ]
    if not recorded.context.selections:
        parts = [(DEFAULT_SELECTION, recorded.context.content_id, detection)]
    return [
        _Compared(name, before, part.content, part.baseline.media or Media.BINARY, part.baseline.mask)
        for name, before, part in parts
        if part.kind is OutcomeKind.CHANGED and part.content is not None
    ]


# Events of a poll, besides those that depend on a rule. Pure.


class PollEvent(NamedTuple):
    """One event of a poll."""

    kind: EventKind
    data: dict[str, Any]
    change: ChangeDraft | None = None
    selection: str = DEFAULT_SELECTION
    media: Media | None = None


def events_of(result: Found, record: PollRecord) -> Iterator[PollEvent]:
    """Yields what the poll found out, in the order in which it is told."""
    if record.poll.outcome is OutcomeKind.FIRST:
        yield PollEvent(EventKind.FIRST_SEEN, {}, media=record.context.baseline.media)
    if record.change is not None:
        yield PollEvent(EventKind.CHANGED, _kept(record.change), record.change, media=record.change.kind)
    missing = {state.name: state.missing for state in result.context.states}
    for selection in record.selections:
        if selection.change is not None:
            yield PollEvent(
                EventKind.CHANGED,
                _kept(selection.change),
                selection.change,
                selection.state.name,
                selection.change.kind,
            )
        if selection.state.missing and not missing.get(selection.state.name):
            detail = {"selection": selection.state.name, "detail": selection.state.missing}
            yield PollEvent(EventKind.NOTHING_SELECTED, detail, selection=selection.state.name)
    if record.state is SiteState.GONE and result.context.last_outcome is not OutcomeKind.GONE:
        yield PollEvent(EventKind.GONE, {"status": record.poll.status})
    no_text = record.context.baseline.no_text
    if no_text and not result.context.baseline.no_text and record.poll.outcome.informative:
        yield PollEvent(EventKind.NO_TEXT, {"detail": no_text})
    if record.context.redirect_count == REDIRECT_CONFIRMATIONS != result.context.redirect_count:
        yield PollEvent(EventKind.MOVED, {"new_url": record.context.redirect_url})


def _kept(change: ChangeDraft) -> dict[str, Any]:
    """Returns what is told of a change even where its site was removed meanwhile."""
    return {"summary": change.summary, "kind": change.kind.value}


class AnnounceStep:
    """Asks the rules about each event of a batch. Changes nothing itself, so that it may be repeated."""

    def __init__(self, *, rules: RulesInForce, sites: SiteStore, contents: ContentStore, runtime: Runtime) -> None:
        self._rules, self._sites = rules, sites
        self._lines = LinesOfChanges(contents=contents, runtime=runtime)
        self._clock = runtime.clock

    async def lines_of(self, results: Sequence[Found]) -> tuple[Lines, frozenset[int]]:
        """Returns the lines of the changes, and the ids of sites whose results leave the batch for theirs. Raises
        DatabaseUnavailableError.
        """
        return await self._lines.of(results)

    async def announce(
        self, results: Sequence[Found], records: Sequence[PollRecord], lines: Lines
    ) -> tuple[PollRecord, ...]:
        """Returns the records with their notices. Raises DatabaseUnavailableError."""
        now = self._clock()
        out = []
        for result, record in zip(results, records, strict=True):
            notices = [
                notice
                for event in events_of(result, record)
                for notice in self._notices_of(event, result.context, record, now, lines)
            ]
            if self._rules.watches_failures and (record.failures or self._rules.incidents_of(result.site_id)):
                record, of_incidents = await self._incidents(result, record, now)
                notices += of_incidents
            out.append(replace(record, notices=tuple(notices)) if notices else record)
        return tuple(out)

    def _notices_of(
        self,
        event: PollEvent,
        context: SiteContext,
        record: PollRecord,
        now: float,
        lines: Lines,
    ) -> tuple[Notice, ...]:
        if not self._rules.rules.listens(event.kind):
            return ()
        change = event.change
        known = lines.get((context.site_id, event.selection))
        facts = Facts(
            event.kind,
            context.site_id,
            context.tags,
            host_of(context.url),
            event.media,
            event.selection,
            "" if change is None else change.summary,
            change is None or change.verdict.matters,
            None if known is None else lambda: known,
        )
        rules = self._rules.rules.matching(facts, now)
        if not rules:
            return ()
        selection = None if change is None else event.selection
        data = _data(event.data)
        notice = _notice(new_event_id(), event.kind, record, data, selection)
        return self._rules.notices(rules, notice, now=now)

    async def _incidents(self, result: Found, record: PollRecord, now: float) -> tuple[PollRecord, tuple[Notice, ...]]:
        """Returns the record with the incidents that it opens and closes, and their notices."""
        since = record.last_seen_at if record.last_seen_at is not None else await self._added_at(result.context)
        poll = record.poll
        health = SiteHealth(record.failures, max(now - since, 0.0), poll.outcome)
        incidents = incident_notices(
            self._rules, SiteStanding(result.context, health, since, poll.detail, poll.at), now
        )
        if incidents.opened or incidents.closed:
            record = replace(record, incidents_opened=incidents.opened, incidents_closed=incidents.closed)
        return record, incidents.notices

    async def _added_at(self, context: SiteContext) -> float:
        """Returns when a site was added that was never seen working."""
        many = await self._sites.get_many([context.site_id])
        return many[0].created_at if many else self._clock()


def _notice(event_id: str, kind: EventKind, record: PollRecord, data: str, selection: str | None = None) -> Notice:
    """Returns a notice of an event of the poll, without rule, channel and time."""
    poll = record.poll
    return Notice(event_id, kind, poll.at, 0, 0, 0.0, site_id=poll.site_id, selection=selection, data=data)


def _data(fields: Mapping[str, object]) -> str:
    return orjson.dumps(fields).decode()
