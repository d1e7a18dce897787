"""The rules in force: the rules themselves, the channels that they name, and the incidents under way."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson

from pollerd.events import EventKind, Incident, Notice
from pollerd.notifications.matching import Facts, IncidentStep, RuleSet, SiteHealth, incident_step
from pollerd.notifications.rules import Rule
from pollerd.notifications.schedule import due_at
from pollerd.storage.values import SiteContext
from pollerd.timestamps import rfc3339
from pollerd.urls import host_of

_NONE: Mapping[int, Incident] = {}
_MAX_DIGESTS = 50_000
"""Digests that are remembered: two days of a thousand rules with one an hour."""


class RulesInForce:
    """The rules as stored; replaced as a whole when one changes. Empty, it costs nothing."""

    def __init__(self) -> None:
        self._rules = RuleSet(())
        self._by_id: dict[int, Rule] = {}
        self._channels: Mapping[str, int] = {}
        self._incidents: dict[int, dict[int, Incident]] = {}
        self._closed_digests: dict[str, None] = {}

    def __bool__(self) -> bool:
        """Whether any rule is enabled."""
        return bool(self._rules)

    @property
    def rules(self) -> RuleSet:
        """The rules, to be asked which of them match."""
        return self._rules

    @property
    def all(self) -> tuple[Rule, ...]:
        """All rules, by id."""
        return self._rules.rules

    @property
    def tags(self) -> frozenset[str]:
        """The tags that rules name: only of these must be known which sites have them."""
        return frozenset(tag for rule in self.all for tag in rule.scope.tags)

    @property
    def wants_lines(self) -> bool:
        """Whether a rule looks for words in the lines of changes."""
        return any(rule.enabled and (rule.words.added or rule.words.removed) for rule in self.all)

    def replace(self, rules: Iterable[Rule], channels: Mapping[str, int]) -> None:
        """Puts rules in force in place of those before; `channels`: ids by name. Raises InvalidValueError."""
        self._rules, self._channels = RuleSet(rules), channels
        self._by_id = {rule.id: rule for rule in self._rules.rules}
        for of_site in self._incidents.values():
            for rule_id in of_site.keys() - self._by_id.keys():
                del of_site[rule_id]

    def notices(self, rules: Iterable[Rule], notice: Notice, *, now: float) -> tuple[Notice, ...]:
        """Returns a notice for each channel of the rules, like the one given: each channel is told once."""
        notices: dict[int, Notice] = {}
        for rule in rules:
            due = due_at(rule.id, now, rule.digest, rule.quiet, self._closed_digests)
            for name in rule.channels:
                channel_id = self._channels.get(name)
                if channel_id is None or (channel_id in notices and notices[channel_id].due_at <= due.at):
                    continue
                notices[channel_id] = Notice(
                    event_id=notice.event_id,
                    kind=notice.kind,
                    at=notice.at,
                    rule_id=rule.id,
                    channel_id=channel_id,
                    due_at=due.at,
                    digest=due.digest,
                    site_id=notice.site_id,
                    selection=notice.selection,
                    data=notice.data,
                )
        return tuple(notices.values())

    def notices_of_daemon(self, notice: Notice, now: float) -> tuple[Notice, ...]:
        """Returns notices of an event that concerns no site."""
        return self.notices(self._rules.matching(Facts(notice.kind), now), notice, now=now)

    def close_digests(self, keys: Iterable[str]) -> None:
        """Lets these digests take nothing more in, also if the clock is put back: the next one does."""
        for key in keys:
            self._closed_digests.pop(key, None)
            self._closed_digests[key] = None
        while len(self._closed_digests) > _MAX_DIGESTS:
            del self._closed_digests[next(iter(self._closed_digests))]

    # Incidents.

    def incidents_of(self, site_id: int) -> Mapping[int, Incident]:
        """Returns the open incidents of the site by the ids of their rules."""
        return self._incidents.get(site_id, _NONE)

    def rule(self, rule_id: int) -> Rule | None:
        """Returns the rule; None if it is gone."""
        return self._by_id.get(rule_id)

    @property
    def watches_failures(self) -> bool:
        """Whether a rule tells of sites that fail, or of those that answer again."""
        return self._rules.listens(EventKind.FAILING) or self._rules.listens(EventKind.RECOVERED)

    @property
    def shortest_patience(self) -> float | None:
        """The shortest time after which a rule calls a site failing, s; None: no rule goes by time."""
        watching = (rule for rule in self.all if rule.enabled and EventKind.FAILING in rule.events)
        return min((rule.failing.after for rule in watching if rule.failing.after is not None), default=None)

    def opened(self, incidents: Iterable[Incident]) -> None:
        """Notes committed incidents."""
        for incident in incidents:
            self._incidents.setdefault(incident.site_id, {})[incident.rule_id] = incident

    def closed(self, site_id: int, rule_ids: Iterable[int]) -> None:
        """Notes that incidents of the site have ended."""
        of_site = self._incidents.get(site_id, {})
        for rule_id in rule_ids:
            of_site.pop(rule_id, None)
        if not of_site:
            self._incidents.pop(site_id, None)

    def forget(self, site_id: int) -> None:
        """Drops the incidents of a site that was removed."""
        self._incidents.pop(site_id, None)


def notice_of_daemon(kind: EventKind, event_id: str, at: float, data: str) -> Notice:
    """Returns a notice of an event of no site, without rule, channel and time."""
    return Notice(event_id, kind, at, 0, 0, 0.0, data=data)


def new_event_id() -> str:
    """Returns an id that no other event has: "evt_" and 32 hexadecimal digits."""
    return f"evt_{secrets.token_hex(16)}"


# Incidents that a site's state opens and closes, by the rules that watch for failures, and the notices of them.


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
    incidents = rules.incidents_of(context.site_id)
    notices: list[Notice] = []
    for rule in _watching(rules, context, incidents.keys(), now):
        step = incident_step(rule, state.health, rule.id in incidents, now)
        if step is IncidentStep.OPEN:
            incident = Incident(rule.id, context.site_id, new_event_id(), state.since)
            opened.append(incident)
            notices += _failing(rules, rule, incident, state, now)
        elif step is IncidentStep.CLOSE:
            closed.append(rule.id)
            notices += _recovered(rules, rule, incidents[rule.id], state, now)
    return IncidentNotices(tuple(opened), tuple(closed), tuple(notices))


def _watching(rules: RulesInForce, context: SiteContext, open_ids: Iterable[int], now: float) -> list[Rule]:
    """Returns the rules that watch whether the site fails, and those with an incident of it."""
    matching: dict[int, Rule] = {}
    for kind in (EventKind.FAILING, EventKind.RECOVERED):
        facts = Facts(kind, context.site_id, context.tags, host_of(context.url))
        matching |= {rule.id: rule for rule in rules.rules.matching(facts, now)}
    for rule_id in open_ids:
        rule = rules.rule(rule_id)
        if rule is not None:
            matching[rule_id] = rule
    return list(matching.values())


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
