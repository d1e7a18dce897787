"""One failing and one recovered event for each incident, whatever happens in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pollerd.model import OutcomeKind
from pollerd.notifications.matching import IncidentStep, SiteHealth, incident_step
from pollerd.notifications.rules import Rule, parse_rule

ANSWERED = SiteHealth(0, 0.0, OutcomeKind.UNCHANGED)


def rule_of(**failing: Any) -> Rule:
    events = ["site.failing", "site.recovered"]
    return parse_rule({"name": "down", "channels": ["mail"], "events": events, "failing": failing})


def failed(number: int, unseen_s: float = 0.0, outcome: OutcomeKind = OutcomeKind.SERVER_ERROR) -> SiteHealth:
    return SiteHealth(number, unseen_s, outcome)


@pytest.mark.parametrize(
    ("failing", "health", "opens"),
    [
        ({"after_polls": 3}, failed(2), False),
        ({"after_polls": 3}, failed(3), True),
        ({"after_polls": 3}, failed(7), True),
        ({"after_polls": 3}, failed(2, 1e9), False),
        ({"after": "1h"}, failed(1, 3599), False),
        ({"after": "1h"}, failed(1, 3600), True),
        ({"after": "1h"}, failed(100), False),
        ({"after_polls": 3, "after": "1h"}, failed(1, 3600), True),
        ({"after_polls": 3, "after": "1h"}, failed(3), True),
        ({"after_polls": 1, "except": ["timeout"]}, failed(9, outcome=OutcomeKind.TIMEOUT), False),
        ({"after_polls": 1, "except": ["timeout"]}, failed(1), True),
        ({"after_polls": 1}, ANSWERED, False),
        ({"after": 1}, SiteHealth(0, 1e9, OutcomeKind.PROVING), False),
    ],
)
def test_when_an_incident_opens(failing: dict[str, Any], health: SiteHealth, opens: bool) -> None:
    expected = IncidentStep.OPEN if opens else IncidentStep.NOTHING
    assert incident_step(rule_of(**failing), health, False, 0.0) is expected


def test_when_it_closes() -> None:
    rule = rule_of(after_polls=1, **{"except": ["timeout"]})
    assert incident_step(rule, failed(5), True, 0.0) is IncidentStep.NOTHING
    assert incident_step(rule, failed(5, outcome=OutcomeKind.TIMEOUT), True, 0.0) is IncidentStep.NOTHING
    assert incident_step(rule, ANSWERED, True, 0.0) is IncidentStep.CLOSE
    assert incident_step(rule, ANSWERED, False, 0.0) is IncidentStep.NOTHING


outcomes = st.sampled_from([OutcomeKind.TIMEOUT, OutcomeKind.SERVER_ERROR, OutcomeKind.UNCHANGED, OutcomeKind.CHANGED])
histories = st.lists(st.tuples(outcomes, st.floats(1, 5_000), st.booleans(), st.booleans()), max_size=80)


@settings(deadline=None, max_examples=300)
@given(
    histories,
    st.integers(1, 5),
    st.one_of(st.none(), st.integers(1, 20_000)),
    st.booleans(),
)
def test_each_incident_has_one_failing_and_one_recovered_event(
    history: list[tuple[OutcomeKind, float, bool, bool]], polls: int, after: int | None, excepting: bool
) -> None:
    """The only state is what storage keeps: whether an incident is open. A kill before the commit undoes a poll."""
    settings_of_rule: dict[str, Any] = {"after_polls": polls, "after": after}
    if excepting:
        settings_of_rule["except"] = ["timeout"]
    rule = rule_of(**settings_of_rule)
    now = seen = 0.0
    failures, is_open, told = 0, False, list[IncidentStep]()
    for outcome, wait, killed, muted in history:
        now += wait
        after_poll = 0 if outcome.informative else failures + 1
        seen_then = now if outcome.informative else seen
        health = SiteHealth(after_poll, now - seen_then, outcome)
        asked = replace(rule, muted_until=now + 1) if muted else rule
        step = incident_step(asked, health, is_open, now)
        assert step is incident_step(asked, health, is_open, now), "the same answer again"
        if killed:
            continue  # nothing was committed: neither the poll nor the event
        failures, seen = after_poll, seen_then
        if step is IncidentStep.NOTHING:
            continue
        assert not muted
        is_open = step is IncidentStep.OPEN
        assert (after_poll > 0) == is_open
        told.append(step)
    expected = [IncidentStep.OPEN, IncidentStep.CLOSE] * len(told)
    assert told == expected[: len(told)], "they take turns, beginning with a failure"


def test_a_rule_that_was_muted_tells_afterwards_what_is_still_so() -> None:
    rule = replace(rule_of(after_polls=1), muted_until=100.0)
    assert incident_step(rule, failed(1), False, 99.0) is IncidentStep.NOTHING
    assert incident_step(rule, failed(2), False, 100.0) is IncidentStep.OPEN
    assert incident_step(rule, ANSWERED, True, 99.0) is IncidentStep.NOTHING
    assert incident_step(rule, ANSWERED, True, 100.0) is IncidentStep.CLOSE
    assert incident_step(replace(rule, enabled=False), ANSWERED, True, 200.0) is IncidentStep.NOTHING
