"""What a run of a program leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Page(NamedTuple):
    """A page of the replay server. id: as in its log. url: what the programs are given. media: without parameters."""

    id: str
    url: str
    media: str


class Report(NamedTuple):
    """A program says that a page changed.

    at: when, seconds since 1970. polled: when the poll that found it was made, None if the program does not say.
    """

    page: str
    at: float
    polled: float | None = None


class Request(NamedTuple):
    """A request for a page that the server answered. at: seconds since 1970. version: the number of what was served."""

    page: str
    at: float
    version: int


class PageChange(NamedTuple):
    """A change of a page. at: seconds since 1970. visible: a reader sees it (text of HTML, entries of feeds)."""

    page: str
    at: float
    version: int
    visible: bool


@dataclass(frozen=True)
class Window:
    """When a run is looked at: from its first request, for the seconds that all programs get.

    settle: seconds at both ends whose changes are not counted, because no program can be expected to have seen the
    page before or after them: one round.
    """

    began: float
    seconds: float
    settle: float

    @property
    def ended(self) -> float:
        """Requests and what they found after this are left out."""
        return self.began + self.seconds

    def counts(self, change: PageChange) -> bool:
        """Whether a change is one that should be found."""
        return self.began + self.settle < change.at <= self.ended - self.settle


@dataclass
class Run:
    """One program's run. cpu_seconds: of its processes, from the moment it is given the pages to the window's end."""

    program: str
    version: str
    reports: Sequence[Report]
    began: float
    cpu_seconds: float
    notes: dict[str, Any] = field(default_factory=dict)
