"""Compares what pollerd recorded of each poll with what the poll was served.

A poll *meets* a change if what it was served is not in the state of the page's last record: its first contents, or
those of the last poll that recorded a change or none. The change is then found (by this poll, or by the proof that it
asks for), or missed, if a poll says that nothing changed, or gone, if the proof was served the old state again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from peer_runs.contents import States
from peer_runs.reports import Request

KNOWING = ("first", "changed", "unchanged", "not_modified")
"""Outcomes after which the page counts as seen."""
_STARTED_BEFORE_S = 0.05


class Poll(NamedTuple):
    """A poll as recorded. at: when it began, seconds since 1970."""

    page: str
    at: float
    outcome: str


@dataclass
class Verdicts:
    """What the polls of some pages came to.

    polls: all; proving: those that asked for a proof. met: changes that polls were served. found, missed, gone: of
    these. false: changes recorded though the state was that of the last record. delays: seconds from the poll that met
    a change to the one that recorded it, of changes that were proven. outcomes: of the polls.
    """

    polls: int = 0
    proving: int = 0
    found: int = 0
    missed: int = 0
    gone: int = 0
    false: int = 0
    waiting: int = 0
    delays: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    false_pages: Counter[str] = field(default_factory=Counter)
    missed_pages: Counter[str] = field(default_factory=Counter)

    @property
    def met(self) -> int:
        """Changes that a poll was served and that were decided."""
        return self.found + self.missed

    @property
    def precision(self) -> float:
        """Share of true ones among the recorded changes; 1 without any."""
        return self.found / (self.found + self.false) if self.found + self.false else 1.0

    @property
    def recall(self) -> float:
        """Share of found ones among the changes met; 1 without any."""
        return self.found / self.met if self.met else 1.0

    def add_page(self, polls: Sequence[Poll], requests: Sequence[Request], states: States) -> None:
        """Adds the polls of one page, in their order; requests: the server's, in their order."""
        known: int | None = None
        met_at: float | None = None
        for poll in polls:
            self.polls += 1
            self.outcomes[poll.outcome] += 1
            served = _served(poll, requests)
            if served is None:
                continue
            state = states.of(served.page, served.version)
            if poll.outcome == "proving":
                self.proving += 1
                if state != known and met_at is None:
                    met_at = poll.at
                continue
            if poll.outcome not in KNOWING:
                continue
            if known is not None:
                self._judge(poll, known != state, met_at)
            known, met_at = state, None
        self.waiting += met_at is not None

    def _judge(self, poll: Poll, differs: bool, met_at: float | None) -> None:
        if poll.outcome == "changed":
            if not differs:
                self.false += 1
                self.false_pages[poll.page] += 1
                return
            self.found += 1
            if met_at is not None:
                self.delays.append(poll.at - met_at)
        elif differs:
            self.missed += 1
            self.missed_pages[poll.page] += 1
        elif met_at is not None:
            self.gone += 1


def _served(poll: Poll, requests: Sequence[Request]) -> Request | None:
    """Returns the first request after the poll began."""
    index = bisect_right(requests, poll.at - _STARTED_BEFORE_S, key=lambda each: each.at)
    return requests[index] if index < len(requests) else None
