"""What a request for robots.txt came to (RFC 9309, section 2.3.1). Reading its rules is another room's work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pollerd.model import OutcomeKind

MAX_ROBOTS_REDIRECTS = 5


class RobotsKind(StrEnum):
    """What follows from the response: its rules hold, everything is allowed, or nothing is for now."""

    FOUND = "found"
    ABSENT = "absent"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class RobotsResponse:
    """What a request for robots.txt came back with."""

    kind: RobotsKind
    duration: float
    """Seconds."""
    body: bytes | None = None
    """At most `robots_max_bytes`; present exactly when `kind` is FOUND."""
    status: int | None = None
    """Of the last response; None where there was none."""
    retry_after: float | None = None
    """Seconds the server asked us to wait, as sent, unclamped."""
    detail: str = ""
    """One line for a person: why it was not found."""
    failure: OutcomeKind | None = None
    """What a poll that met the same would be called; present exactly when `kind` is UNREACHABLE."""


def robots_kind(status: int) -> RobotsKind:
    """What a final status means: 4xx but 429 says there are no rules; all else that is not 2xx says nothing."""
    if 200 <= status < 300:
        return RobotsKind.FOUND
    if 400 <= status < 500 and status != 429:
        return RobotsKind.ABSENT
    return RobotsKind.UNREACHABLE
