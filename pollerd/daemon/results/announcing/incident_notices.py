"""Which incidents a site's state opens and closes, by the rules that watch for failures, and the notices of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson

from pollerd.daemon.results.announcing.rules_in_force import RulesInForce, new_event_id
from pollerd.events import EventKind, Incident, Notice
from pollerd.notifications.rules.facts import Facts
from pollerd.notifications.rules.incidents import IncidentStep, SiteHealth, incident_step
from pollerd.notifications.rules.rule import Rule
from pollerd.storage import SiteContext
from pollerd.timestamps import rfc3339
from pollerd.urls import host_of


class SiteStanding(NamedTuple):
    """How a site stands at a moment. Times in epoch s."""

    context: SiteContext
    health: SiteHealth
    since: float
    """When it was last seen working, or was added."""
    detail: str
    at: float
    """Of the poll that told, or of this look."""


class IncidentNotices(NamedTuple):
    """What is opened and closed, and told."""

    opened: tuple[Incident, ...]
    closed: tuple[int, ...]
    """Ids of rules."""
    notices: tuple[Notice, ...]


def incident_notices(rules: RulesInForce, state: SiteStanding, now: float) -> IncidentNotices:
    """Returns what the state of a site does to its incidents. Changes nothing."""
    context, opened, closed = state.context, list[Incident](), list[int]()
    there = rules.incidents_of(context.site_id)
    notices: list[Notice] = []
    for rule in _watching(rules, context, there.keys(), now):
        step = incident_step(rule, state.health, rule.id in there, now)
        if step is IncidentStep.OPEN:
            incident = Incident(rule.id, context.site_id, new_event_id(), state.since)
            opened.append(incident)
            notices += _failing(rules, rule, incident, state, now)
        elif step is IncidentStep.CLOSE:
            closed.append(rule.id)
            notices += _recovered(rules, rule, there[rule.id], state, now)
    return IncidentNotices(tuple(opened), tuple(closed), tuple(notices))


def _watching(rules: RulesInForce, context: SiteContext, open_ids: Iterable[int], now: float) -> list[Rule]:
    """Returns the rules that watch whether the site fails, and those with an incident of it."""
    found: dict[int, Rule] = {}
    for kind in (EventKind.FAILING, EventKind.RECOVERED):
        facts = Facts(kind, context.site_id, context.tags, host_of(context.url))
        found |= {rule.id: rule for rule in rules.rules.matching(facts, now)}
    for rule_id in open_ids:
        rule = rules.rule(rule_id)
        if rule is not None:
            found[rule_id] = rule
    return list(found.values())


def _failing(
    rules: RulesInForce, rule: Rule, incident: Incident, state: SiteStanding, now: float
) -> tuple[Notice, ...]:
    if EventKind.FAILING not in rule.events:
        return ()
    data = {
        "incident": incident.id,
        "since": rfc3339(incident.since),
        "failures": state.health.failures,
        "outcome": state.health.outcome.value,
        "detail": state.detail,
    }
    return _notices(rules, rule, EventKind.FAILING, f"{incident.id}-failing", data, state, now)


def _recovered(
    rules: RulesInForce, rule: Rule, incident: Incident, state: SiteStanding, now: float
) -> tuple[Notice, ...]:
    if EventKind.RECOVERED not in rule.events:
        return ()
    data = {"incident": incident.id, "since": rfc3339(incident.since)}
    return _notices(rules, rule, EventKind.RECOVERED, f"{incident.id}-recovered", data, state, now)


def _notices(
    rules: RulesInForce,
    rule: Rule,
    kind: EventKind,
    event_id: str,
    data: Mapping[str, object],
    state: SiteStanding,
    now: float,
) -> tuple[Notice, ...]:
    site_id = state.context.site_id
    notice = Notice(event_id, kind, state.at, 0, 0, 0.0, site_id=site_id, data=orjson.dumps(data).decode())
    return rules.notices((rule,), notice, now=now)
