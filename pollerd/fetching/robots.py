"""Results of robots.txt requests (RFC 9309, section 2.3.1). Other packages parse the rules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pollerd.model import OutcomeKind

MAX_ROBOTS_REDIRECTS = 5


class RobotsKind(StrEnum):
    """Meaning of the response: its rules apply, everything is allowed, or nothing is for now."""

    FOUND = "found"
    ABSENT = "absent"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class RobotsResponse:
    """The result of a robots.txt request."""

    kind: RobotsKind
    duration: float
    """Seconds."""
    body: bytes | None = None
    """At most `robots_max_bytes`; present exactly when `kind` is FOUND."""
    status: int | None = None
    """Of the last response; None if there was none."""
    retry_after: float | None = None
    """Seconds the server asked us to wait, as sent, unclamped."""
    detail: str = ""
    """Why it was not found, one line for the user."""
    failure: OutcomeKind | None = None
    """Outcome kind of a poll with the same failure; present exactly when `kind` is UNREACHABLE."""


def robots_kind(status: int) -> RobotsKind:
    """Returns the meaning of a final status: 4xx except 429 means no rules; others except 2xx mean unreachable."""
    if 200 <= status < 300:
        return RobotsKind.FOUND
    if 400 <= status < 500 and status != 429:
        return RobotsKind.ABSENT
    return RobotsKind.UNREACHABLE
