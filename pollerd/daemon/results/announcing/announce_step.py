"""The announcing step, where there are rules: adds to each record the notices of what it brought about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import orjson
from msgspec.structs import replace

from pollerd.daemon.results.announcing.changed_lines import LinesOfChanges
from pollerd.daemon.results.announcing.rules_in_force import RulesInForce, new_event_id
from pollerd.daemon.results.announcing.site_events import PollEvent, events_of
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.detection.selection.conditions.line_changes import LineChanges
from pollerd.events import EventKind, Incident, Notice
from pollerd.notifications.rules.facts import Facts
from pollerd.notifications.rules.incidents import IncidentStep, SiteHealth, incident_step
from pollerd.notifications.rules.rule import Rule
from pollerd.storage import HistoryStore, PollRecord, SiteContext, SiteStore
from pollerd.timestamps import rfc3339
from pollerd.urls import host_of


class AnnounceStep:
    """Asks the rules about each event of a batch. Changes nothing itself, so that it may be repeated."""

    def __init__(self, *, rules: RulesInForce, sites: SiteStore, history: HistoryStore, runtime: Runtime) -> None:
        self._rules, self._sites = rules, sites
        self._lines = LinesOfChanges(store=history, runtime=runtime)
        self._clock = runtime.clock

    async def announce(self, results: Sequence[PollResult], records: Sequence[PollRecord]) -> tuple[PollRecord, ...]:
        """Returns the records with their notices. Raises DatabaseUnavailableError."""
        now = self._clock()
        lines = await self._lines.of(results, records) if self._rules.wants_lines else {}
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
        lines: Mapping[tuple[int, str], LineChanges],
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
        data = _data({**event.data, "url": context.url})
        notice = _notice(new_event_id(), event.kind, record, data, selection)
        return self._rules.notices(rules, notice, now=now)

    async def _incidents(self, result: PollResult, record: PollRecord, now: float) -> tuple[PollRecord, list[Notice]]:
        """Returns the record with the incidents that it opens and closes, and their notices."""
        context, opened, closed = result.context, list[Incident](), list[int]()
        there = self._rules.incidents_of(context.site_id)
        notices: list[Notice] = []
        since = record.last_seen_at if record.last_seen_at is not None else await self._added_at(context)
        health = SiteHealth(record.failures, max(now - since, 0.0), record.poll.outcome)
        for rule in self._watching(context, there.keys(), now):
            step = incident_step(rule, health, rule.id in there, now)
            if step is IncidentStep.OPEN:
                incident = Incident(rule.id, context.site_id, new_event_id(), since)
                opened.append(incident)
                notices += self._failing(rule, incident, context, record, now)
            elif step is IncidentStep.CLOSE:
                closed.append(rule.id)
                notices += self._recovered(rule, there[rule.id], context, record, now)
        if opened or closed:
            record = replace(record, incidents_opened=tuple(opened), incidents_closed=tuple(closed))
        return record, notices

    def _watching(self, context: SiteContext, open_ids: Iterable[int], now: float) -> list[Rule]:
        """Returns the rules that watch whether the site fails, and those with an incident of it."""
        found: dict[int, Rule] = {}
        for kind in (EventKind.FAILING, EventKind.RECOVERED):
            facts = Facts(kind, context.site_id, context.tags, host_of(context.url))
            found |= {rule.id: rule for rule in self._rules.rules.matching(facts, now)}
        for rule_id in open_ids:
            rule = self._rules.rule(rule_id)
            if rule is not None:
                found[rule_id] = rule
        return list(found.values())

    def _failing(
        self, rule: Rule, incident: Incident, context: SiteContext, record: PollRecord, now: float
    ) -> tuple[Notice, ...]:
        if EventKind.FAILING not in rule.events:
            return ()
        data = {
            "incident": incident.id,
            "since": rfc3339(incident.since),
            "failures": record.failures,
            "outcome": record.poll.outcome.value,
            "detail": record.poll.detail,
            "url": context.url,
        }
        notice = _notice(f"{incident.id}-failing", EventKind.FAILING, record, _data(data))
        return self._rules.notices((rule,), notice, now=now)

    def _recovered(
        self, rule: Rule, incident: Incident, context: SiteContext, record: PollRecord, now: float
    ) -> tuple[Notice, ...]:
        if EventKind.RECOVERED not in rule.events:
            return ()
        data = {"incident": incident.id, "since": rfc3339(incident.since), "url": context.url}
        notice = _notice(f"{incident.id}-recovered", EventKind.RECOVERED, record, _data(data))
        return self._rules.notices((rule,), notice, now=now)

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
