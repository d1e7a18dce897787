"""When a failing site is told of, and when that it answers again: one event each for an incident."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from pollerd.model import OutcomeKind
from pollerd.notifications.rules.rule import Patience, Rule


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
