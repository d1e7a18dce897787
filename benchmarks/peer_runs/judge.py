"""Compares reports with the server's truth.

A report stands for the poll that found it: the last request for the page before it, or the one that is nearest to the
time that the program names. It is about the versions that came between what was served at the page's previous report
(at first, at its first request) and what that poll was served. If a reader sees one of these changes, it is true, and
all of them that a reader sees count as found by it; otherwise it is false: only bytes differ, or not even the contents.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from peer_runs.reports import PageChange, Report, Request, Window


@dataclass
class Score:
    """What a run came to.

    requests: in the window. changes: that should be found. found: of these. delays: seconds from change to report, by
    change, infinite where none came. true, of_bytes, of_nothing: reports of what a reader sees, of other bytes only,
    of the same contents. unplaced: reports without a request. unseen: changes after which the page was not asked for.
    missed: the changes that are not found. known: by page, the version of its last report, or of its first request.
    """

    requests: int = 0
    changes: int = 0
    delays: list[float] = field(default_factory=list)
    true: int = 0
    of_bytes: int = 0
    of_nothing: int = 0
    unplaced: int = 0
    unseen: int = 0
    false_pages: Counter[str] = field(default_factory=Counter)
    changes_by_page: Counter[str] = field(default_factory=Counter)
    found_by_page: Counter[str] = field(default_factory=Counter)
    missed: list[PageChange] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)

    @property
    def found(self) -> int:
        """Number of changes that a report came of."""
        return sum(map(math.isfinite, self.delays))

    @property
    def false(self) -> int:
        """Number of reports of what no reader sees."""
        return self.of_bytes + self.of_nothing

    def delay(self, share: float) -> float:
        """Returns the seconds within which this share of all changes was reported; infinite if it never was."""
        return quantile(self.delays, share)


def quantile(values: Sequence[float], share: float) -> float:
    """Returns the smallest value that at least this share of the values does not exceed; NaN without values."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def judged(
    requests: Iterable[Request], changes: Iterable[PageChange], reports: Iterable[Report], window: Window
) -> Score:
    """Returns the score of a run. Requests after the window, and what they found, are left out."""
    score = Score()
    polls, happened, said = defaultdict(list), defaultdict(list), defaultdict(list)
    for request in sorted(requests, key=lambda each: each.at):
        polls[request.page].append(request)
        score.requests += request.at <= window.ended
    for change in changes:
        happened[change.page].append(change)
    for report in reports:
        said[report.page].append(report)
    for page in polls.keys() | happened.keys() | said.keys():
        _judge_page(score, page, polls[page], happened[page], said[page], window)
    return score


def _judge_page(
    score: Score,
    page: str,
    polls: Sequence[Request],
    changes: Sequence[PageChange],
    reports: Sequence[Report],
    window: Window,
) -> None:
    found: dict[int, float] = {}
    before = polls[0].version if polls else 0
    for report in sorted(reports, key=lambda each: each.at):
        poll = _poll_of(report, polls)
        if poll is None:
            score.unplaced += 1
            continue
        if poll.at > window.ended:
            break
        between = [change for change in changes if before < change.version <= poll.version]
        before = max(before, poll.version)
        _count(score, page, between)
        for change in between:
            found.setdefault(change.version, report.at)
    score.known[page] = before
    newest = max((poll.version for poll in polls if poll.at <= window.ended), default=0)
    for change in changes:
        if change.visible and window.counts(change):
            at = found.get(change.version, math.inf)
            if not math.isfinite(at):
                score.missed.append(change)
            score.unseen += change.version > newest
            score.changes += 1
            score.changes_by_page[page] += 1
            score.found_by_page[page] += math.isfinite(at)
            score.delays.append(at - change.at)


def _count(score: Score, page: str, between: Sequence[PageChange]) -> None:
    if any(change.visible for change in between):
        score.true += 1
        return
    score.false_pages[page] += 1
    if between:
        score.of_bytes += 1
    else:
        score.of_nothing += 1


def _poll_of(report: Report, polls: Sequence[Request]) -> Request | None:
    """Returns the request that found it, if there is one."""
    if not polls:
        return None
    if report.polled is not None:
        polled = report.polled
        return min(polls, key=lambda each: abs(each.at - polled))
    index = bisect_right(polls, report.at, key=lambda each: each.at)
    return polls[index - 1] if index else None
