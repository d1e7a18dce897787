"""The announcing step, where there are rules: adds to each record the notices of what it brought about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson
from msgspec.structs import replace

from pollerd.daemon.results.announcing.changed_lines import Lines, LinesOfChanges
from pollerd.daemon.results.announcing.incident_notices import SiteStanding, incident_notices
from pollerd.daemon.results.announcing.rules_in_force import RulesInForce, new_event_id
from pollerd.daemon.results.announcing.site_events import PollEvent, events_of
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.events import EventKind, Notice
from pollerd.notifications.rules.facts import Facts
from pollerd.notifications.rules.incidents import SiteHealth
from pollerd.storage import HistoryStore, PollRecord, SiteContext, SiteStore
from pollerd.urls import host_of


class AnnounceStep:
    """Asks the rules about each event of a batch. Changes nothing itself, so that it may be repeated."""

    def __init__(self, *, rules: RulesInForce, sites: SiteStore, history: HistoryStore, runtime: Runtime) -> None:
        self._rules, self._sites = rules, sites
        self._lines = LinesOfChanges(store=history, runtime=runtime)
        self._clock = runtime.clock

    async def lines_of(self, results: Sequence[PollResult]) -> tuple[Lines, frozenset[int]]:
        """Returns the lines of the changes, and the ids of sites whose results leave the batch for theirs. Raises
        DatabaseUnavailableError.
        """
        return await self._lines.of(results)

    async def announce(
        self, results: Sequence[PollResult], records: Sequence[PollRecord], lines: Lines
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

    async def _incidents(
        self, result: PollResult, record: PollRecord, now: float
    ) -> tuple[PollRecord, tuple[Notice, ...]]:
        """Returns the record with the incidents that it opens and closes, and their notices."""
        since = record.last_seen_at if record.last_seen_at is not None else await self._added_at(result.context)
        poll = record.poll
        health = SiteHealth(record.failures, max(now - since, 0.0), poll.outcome)
        found = incident_notices(self._rules, SiteStanding(result.context, health, since, poll.detail, poll.at), now)
        if found.opened or found.closed:
            record = replace(record, incidents_opened=found.opened, incidents_closed=found.closed)
        return record, found.notices

    async def _added_at(self, context: SiteContext) -> float:
        """Returns when a site was added that was never seen working."""
        found = await self._sites.get_many([context.site_id])
        return found[0].created_at if found else self._clock()


def _notice(event_id: str, kind: EventKind, record: PollRecord, data: str, selection: str | None = None) -> Notice:
    """Returns a notice of an event of the poll, without rule, channel and time."""
    poll = record.poll
    return Notice(event_id, kind, poll.at, 0, 0, 0.0, site_id=poll.site_id, selection=selection, data=data)


def _data(fields: Mapping[str, object]) -> str:
    return orjson.dumps(fields).decode()
