"""Matching of events and rules, and the incidents of failing sites.

Matching is on the path of every change: a few microseconds if there are a few rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from pollerd.detection.selection.conditions.change_size import LineChanges
from pollerd.detection.selection.expressions.pattern import Pattern, compile_pattern
from pollerd.events import EventKind
from pollerd.model import Media, OutcomeKind
from pollerd.notifications.rules import Patience, PatternSettings, Rule


class Facts(Struct, frozen=True, gc=False):
    """One event, as rules see it."""

    kind: EventKind
    site_id: int | None = None
    """None: the event concerns no site; then every rule that listens to it matches."""
    tags: tuple[str, ...] = ()
    host: str = ""
    media: Media | None = None
    selection: str = ""
    summary: str = ""
    matters: bool = True
    lines: Callable[[], LineChanges] | None = None
    """Computes the lines; called once at most, and only if a rule that matches otherwise asks for words in them."""


_OF_MEDIA = frozenset({EventKind.CHANGED, EventKind.FIRST_SEEN})
_OF_SELECTION = frozenset({EventKind.CHANGED, EventKind.NOTHING_SELECTED})
_NO_LINES = LineChanges((), ())


class RuleSet:
    """All rules, compiled: what they listen to, and to which sites. Immutable; made anew when a rule changes."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Raises InvalidValueError for a pattern that cannot be compiled."""
        self.rules = tuple(sorted(rules, key=lambda rule: rule.id))
        compiled = [_CompiledRule(rule) for rule in self.rules if rule.enabled]
        self._listeners = {
            kind: _Listeners([candidate for candidate in compiled if kind in candidate.rule.events])
            for kind in {kind for candidate in compiled for kind in candidate.rule.events}
        }

    def __bool__(self) -> bool:
        """Whether any rule is enabled; where none is, nothing needs to be asked."""
        return bool(self._listeners)

    def listens(self, kind: EventKind) -> bool:
        """Returns whether any enabled rule wants events of this kind."""
        return kind in self._listeners

    def matching(self, facts: Facts, now: float) -> list[Rule]:
        """Returns the rules that tell of an event, by their ids. Computes its lines only if one needs them.

        Takes time linear in the lines where rules look for words in them; else what a few lookups take.
        """
        listeners = self._listeners.get(facts.kind)
        if listeners is None:
            return []
        lines = _Once(facts.lines)
        return [
            listener.rule for listener in listeners.concerning(facts.site_id) if listener.matches(facts, now, lines)
        ]


class _Once:
    """Lines of a change, computed when they are first asked for."""

    __slots__ = ("_compute", "_found")

    def __init__(self, compute: Callable[[], LineChanges] | None) -> None:
        self._compute = compute
        self._found: LineChanges | None = None

    def get(self) -> LineChanges:
        if self._found is None:
            self._found = self._compute() if self._compute is not None else _NO_LINES
        return self._found


class _CompiledRule:
    """A rule whose lists are sets and whose patterns are compiled."""

    __slots__ = ("_added", "_hosts", "_ids", "_media", "_removed", "_selections", "_summary", "_tags", "_words", "rule")

    def __init__(self, rule: Rule) -> None:
        scope, words = rule.scope, rule.words
        self.rule = rule
        self._ids, self._tags, self._hosts = frozenset(scope.ids), frozenset(scope.tags), frozenset(scope.hosts)
        self._media, self._selections = frozenset(scope.media), frozenset(scope.selections)
        self._words = bool(words)
        self._summary = _compiled("words.summary", words.summary)
        self._added = _compiled("words.added", words.added)
        self._removed = _compiled("words.removed", words.removed)

    @property
    def only_ids(self) -> frozenset[int]:
        """The sites, if they are given by their ids alone; empty: they are not."""
        return frozenset() if self._tags or self._hosts else self._ids

    def matches(self, facts: Facts, now: float, lines: _Once) -> bool:
        """Returns whether the rule tells of it. Asks what is cheap first."""
        muted_until = self.rule.muted_until
        if muted_until is not None and now < muted_until:
            return False
        if facts.site_id is None:
            return True
        return self._concerns(facts) and (facts.kind is not EventKind.CHANGED or self._changed(facts, lines))

    def _concerns(self, facts: Facts) -> bool:
        if self._ids or self._tags or self._hosts:
            named = facts.site_id in self._ids or facts.host in self._hosts
            if not named and self._tags.isdisjoint(facts.tags):
                return False
        if self._media and facts.kind in _OF_MEDIA and facts.media not in self._media:
            return False
        return not self._selections or facts.kind not in _OF_SELECTION or facts.selection in self._selections

    def _changed(self, facts: Facts, lines: _Once) -> bool:
        if self.rule.matters and not facts.matters:
            return False
        return not self._words or self._has_words(facts, lines)

    def _has_words(self, facts: Facts, lines: _Once) -> bool:
        if any(pattern.search(facts.summary) for pattern in self._summary):
            return True
        if not self._added and not self._removed:
            return False
        cut = lines.get()
        return _found(self._added, cut.added) or _found(self._removed, cut.removed)


class _Listeners:
    """The rules that listen to one kind of event, those of single sites by site."""

    __slots__ = ("_by_site", "_general", "_of_any_site")

    def __init__(self, rules: Sequence[_CompiledRule]) -> None:
        self._general = [rule for rule in rules if not rule.only_ids]
        self._of_any_site = rules
        self._by_site: dict[int, list[_CompiledRule]] = {}
        for rule in rules:
            for site_id in rule.only_ids:
                self._by_site.setdefault(site_id, []).append(rule)

    def concerning(self, site_id: int | None) -> Sequence[_CompiledRule]:
        """Returns the rules that may concern a site, by id; None: an event of no site."""
        if site_id is None:
            return self._of_any_site
        own = self._by_site.get(site_id)
        return self._general if own is None else sorted([*self._general, *own], key=_by_id)


def _by_id(compiled_rule: _CompiledRule) -> int:
    return compiled_rule.rule.id


def _compiled(field: str, patterns: Sequence[PatternSettings]) -> tuple[Pattern, ...]:
    return tuple(compile_pattern(f"{field}[{place}]", pattern) for place, pattern in enumerate(patterns))


def _found(patterns: Sequence[Pattern], lines: Sequence[str]) -> bool:
    return any(pattern.search(line) for pattern in patterns for line in lines)


# Incidents: a failing site and its recovery are one event each.


class IncidentStep(StrEnum):
    """What a poll means for the incident of a rule and a site."""

    NOTHING = "nothing"
    OPEN = "open"
    """The site is told of as failing."""
    CLOSE = "close"
    """It is told that it answers again."""


class SiteHealth(Struct, frozen=True, gc=False):
    """How a site stands after a poll."""

    failures: int
    """Polls in a row that failed, this one included; 0: the site answered."""
    unseen_s: float
    """Seconds since it was last seen working, or was added."""
    outcome: OutcomeKind
    """Of this poll."""


def incident_step(rule: Rule, health: SiteHealth, is_open: bool, now: float) -> IncidentStep:
    """Returns what a poll does to the incident of a rule and a site.

    The answer follows from the arguments alone, so a restart neither repeats nor loses an event. A rule that is silent
    opens and closes nothing: after that, the first poll finds out how things stand, so that each failure that was told
    has its recovery, and none comes without one.
    """
    if rule.is_silent(now):
        return IncidentStep.NOTHING
    if is_open:
        return IncidentStep.CLOSE if health.failures == 0 else IncidentStep.NOTHING
    return IncidentStep.OPEN if _is_failing(rule.failing, health) else IncidentStep.NOTHING


def _is_failing(patience: Patience, health: SiteHealth) -> bool:
    if health.failures == 0 or health.outcome in patience.except_outcomes:
        return False
    by_polls = patience.after_polls is not None and health.failures >= patience.after_polls
    return by_polls or (patience.after is not None and health.unseen_s >= patience.after)
