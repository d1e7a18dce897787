"""What must hold, whatever happened: checked against the pages' own log, the reader's, and the database."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fault_runs.pages import Hit, editions

WINDOWS = (0.5, 1.0, 5.0, 10.0, 60.0)
_EARLY = 0.02
"""Share of an interval by which two requests may seem closer than they were written: the way to the server varies."""


@dataclass
class Report:
    """Lines to print, and what was violated."""

    lines: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        """Adds a line."""
        self.lines.append(line)

    def must(self, holds: bool, line: str) -> None:
        """Adds a line, and whether what it says is as it must be."""
        self.lines.append(("ok     " if holds else "WRONG  ") + line)
        if not holds:
            self.violations.append(line)


def check_hosts(
    report: Report,
    log: Sequence[Hit],
    interval: float,
    stopped: Iterable[tuple[str, float, float]],
) -> None:
    """No host is asked sooner than its interval, by whichever node.

    stopped: (node's address, from, to) in which its process stood still; what it had written or was about to write when
    it was stopped is counted apart.
    """
    spans = list(stopped)
    of_host: defaultdict[int, list[Hit]] = defaultdict(list)
    for hit in log:
        of_host[hit.host].append(hit)
    gaps, early, excused, across = 0, [], 0, 0
    for hits in of_host.values():
        for before, after in itertools.pairwise(hits):
            gaps += 1
            across += before.node != after.node
            if after.at - before.at < interval * (1 - _EARLY):
                near = any(
                    one in (before.node, after.node) and start - 1.0 <= hit.at <= end + 1.0
                    for one, start, end in spans
                    for hit in (before, after)
                )
                excused += near
                if not near:
                    early.append((before, after))
    report.must(
        not early,
        f"hosts: {gaps} gaps, {across} of them between two nodes; {len(early)} shorter than {interval:g} s"
        + (f" (the shortest {min(b.at - a.at for a, b in early):.3f} s)" if early else "")
        + f"; {excused} beside a stopped process",
    )
    for before, after in early[:10]:
        report.say(f"         host {before.host}: {before} then {after}")


def check_windows(
    report: Report,
    log: Sequence[Hit],
    budgets: Sequence[tuple[float, float]],
    nodes: int,
    stopped: Iterable[tuple[str, float, float]],
) -> None:
    """In any window of T seconds at most budget·T + nodes polls start.

    log: in the order in which requests came. budgets: (since when, budget), in order; one that was lowered counts for
    `LOWERED_SECONDS` more. stopped: as in `check_hosts`; it excuses nothing, but is shown beside a window with too
    many.
    """
    spans = list(stopped)
    polls = [hit for hit in log if hit.poll]
    times = [hit.at for hit in polls]
    for window in WINDOWS:
        worst, most, bound, first = -1e9, 0, 0.0, 0
        for n, at in enumerate(times):
            count = bisect.bisect_left(times, at + window) - n
            allowed = _spendable(budgets, at, at + window) + nodes
            if count - allowed > worst:
                worst, most, bound, first = count - allowed, count, allowed, n
        report.must(most <= bound, f"budget: at most {most} polls in {window:g} s; the bound is {bound:g}")
        if most > bound:
            begin = times[first]
            by_node = dict(Counter(hit.node for hit in polls[first : first + most]))
            beside = [span for span in spans if span[1] - 1.0 <= begin + window and begin <= span[2] + 1.0]
            report.say(f"         from {begin:.3f} on, by node {by_node}; stopped {beside}")


LOWERED_SECONDS = 25.0
"""A node that is cut off or stands still acknowledges a lower budget late: until then it has what it was given."""


def _spendable(budgets: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """Returns the integral of the budget in force over a time."""
    cuts = sorted(
        {begin, end, *(at + late for at, _ in budgets for late in (0.0, LOWERED_SECONDS) if begin < at + late < end)}
    )
    total = 0.0
    for since, until in itertools.pairwise(cuts):
        ends = [at for at, _ in budgets[1:]] + [float("inf")]
        force = [value for (at, value), over in zip(budgets, ends, strict=True) if at <= since < over + LOWERED_SECONDS]
        total += max(force) * (until - since)
    return total


def check_pauses(report: Report, log: Sequence[Hit], beside: Sequence[tuple[float, float]]) -> None:
    """A host that answered 429 is left alone for as long as it asked, by all nodes.

    beside: (begin, time) of all that befell nodes and database. What a node was told right before it died nobody knows.
    """
    of_host: defaultdict[int, list[Hit]] = defaultdict(list)
    for hit in log:
        of_host[hit.host].append(hit)
    refused, early, excused = 0, [], 0
    for hits in of_host.values():
        for before, after in itertools.pairwise(hits):
            if not before.refused:
                continue
            refused += 1
            if after.at - before.at < before.refused * (1 - _EARLY):
                near = any(begin - 2.0 <= after.at and before.at <= end + 2.0 for begin, end in beside)
                excused += near
                if not near:
                    early.append((before, after))
    report.must(
        not early, f"429: {refused} answers; {len(early)} hosts asked again too soon, {excused} beside something else"
    )
    for before, after in early[:5]:
        report.say(f"         host {before.host}: {before} then {after}")


def check_deliveries(report: Report, received: Sequence[tuple[str, int]], changes: Iterable[int]) -> None:
    """Each change is delivered, if need be more than once. received: (message's id, change's id)."""
    wanted = set(changes)
    there = {change for _, change in received}
    missing = wanted - there
    again = len(received) - len(set(received))
    report.must(
        not missing,
        f"channel: {len(wanted)} changes, {len(received)} deliveries, {again} of them again; {len(missing)} missing",
    )
    if missing:
        report.say(f"         {sorted(missing)[:10]}")
    of_messages: defaultdict[int, set[str]] = defaultdict(set)
    for message, change in received:
        of_messages[change].add(message)
    twice = [change for change, messages in of_messages.items() if len(messages) > 1]
    report.must(not twice, f"channel: {len(twice)} changes told in two messages")


def check_polls(report: Report, log: Sequence[Hit], rows: Sequence[tuple[int, str, float]]) -> None:
    """No poll is counted twice. rows: (host, path, at) of each stored poll."""
    asked = Counter((hit.host, hit.path) for hit in log)
    stored = Counter((host, path) for host, path, _ in rows)
    more = {page: stored[page] - asked[page] for page in stored if stored[page] > asked[page]}
    twice = len(rows) - len(set(rows))
    polls = sum(1 for hit in log if hit.poll)
    report.must(
        not more and not twice,
        f"polls: {len(rows)} stored of {polls} requests; {twice} twice, {len(more)} pages with too many",
    )


def check_redirects(
    report: Report, log: Sequence[Hit], put_off: int, partition: Callable[[int], int], least: int
) -> None:
    """Redirects between partitions are followed. put_off: stored polls whose redirect waits; least: that must be."""
    hops = sum(hit.poll and hit.edition < 0 and not hit.refused for hit in log)
    followed = [hit for hit in log if hit.edition >= 0 and not hit.poll]
    across = sum(partition(hit.host) != partition(hit.page[0]) for hit in followed)
    counts = f"{hops} answered, {len(followed)} followed, {across} of them to another partition; {put_off} put off"
    report.must(across >= least, f"redirects: {counts}")


def check_changes(
    report: Report, log: Sequence[Hit], stored: Sequence[tuple[int, int, str, str]], seen: Sequence[dict[str, object]]
) -> None:
    """Changes rise by page, show what was served, and none that a reader saw is gone or came twice.

    stored: (id, host, path, summary), by id.
    """
    served: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
    for hit in log:
        served[hit.page].add(hit.edition)
    last: dict[tuple[int, str], int] = {}
    invented, repeated = 0, 0
    for _, host, path, summary in stored:
        found = editions(summary)
        if not found:
            continue
        edition = max(found)
        invented += edition not in served[host, path]
        repeated += edition <= last.get((host, path), -1)
        last[host, path] = edition
    report.must(not invented, f"changes: {len(stored)} stored; {invented} that no page ever showed")
    report.must(not repeated, f"changes: {repeated} found again although they were found before")
    ids, there = [int(str(one["id"])) for one in seen], {one[0] for one in stored}
    report.must(all(a < b for a, b in itertools.pairwise(ids)), f"events: {len(ids)} read, each once and in order")
    first = min(ids, default=0)
    missing = [one for one in there if one > first and one not in set(ids)]
    report.must(not missing, f"events: {len(missing)} changes that the reader did not get")
    if missing:
        report.say(f"         {sorted(missing)[:10]} of {max(there)}; it got last {ids[-1]}")
    gone = set(ids) - there
    report.must(not gone, f"events: {len(gone)} that the reader got and the database does not have")


def check_last(
    report: Report,
    expected: dict[tuple[int, str], int],
    stored: Sequence[tuple[int, int, str, str]],
    log: Sequence[Hit],
    rows: Sequence[tuple[int, str, float]],
) -> list[tuple[int, str]]:
    """In the end the newest edition of each page is known.

    expected: page -> its last edition; rows: (host, path, at) of each stored poll with an answer, on the log's clock.
    An edition that only polls saw that were never stored, because their node died, is no change. Returns the pages that
    are not.
    """
    first: dict[tuple[int, str], float] = {}
    for host, path, at in rows:
        first[host, path] = min(at, first.get((host, path), at))
    seen: dict[tuple[int, str], Hit] = {}
    for hit in log:
        page = hit.page
        if page in first and hit.edition >= 0:
            seen[page] = min(seen.get(page, hit), hit, key=lambda one, at=first[page]: abs(one.at - at))  # type: ignore[misc]
    known = {page: hit.edition for page, hit in seen.items()}
    for _, host, path, summary in stored:
        found = editions(summary)
        if found:
            known[host, path] = max(found)
    late = [page for page, edition in expected.items() if known.get(page) != edition]
    report.must(not late, f"in the end {len(late)} of {len(expected)} pages are not known in their last edition")
    for page in late[:5]:
        report.say(f"         {page}: known {known.get(page)}, is {expected[page]}")
    return late


def check_deaths(
    report: Report,
    log: Sequence[Hit],
    deaths: Sequence[tuple[str, float]],
    beside: Sequence[tuple[float, float]],
    partition: Callable[[int], int],
    *,
    bound: float,
    what: str = "a death",
) -> None:
    """Each partition of a dead node, or of one that stands still, is polled again by another within `bound` seconds.

    deaths: (its address, when); beside: (begin, time) of all that befell nodes and database; partition: of a host.
    Where something else began before a partition was polled again, its holder may have been what it befell: `bound`
    counts from its time then, which is its end, or when the server notices. Which pages of a partition are polled is
    the allocator's choice.
    """
    worst: list[float] = []
    disturbed = 0
    for node, at in deaths:
        last: dict[int, str] = {}
        first: dict[int, float] = {}
        for hit in log:
            if not hit.poll:  # a redirect leads every node to hosts of others
                continue
            its = partition(hit.host)
            if at - 20.0 <= hit.at <= at:
                last[its] = hit.node
            elif hit.at > at + 0.5:
                first.setdefault(its, hit.at - at)
        times = {its: first.get(its, float("inf")) for its, holder in last.items() if holder == node}
        since = {}
        for its, seconds in times.items():
            others = [end for begin, end in beside if at < begin < at + seconds]
            disturbed += bool(others)
            since[its] = at + seconds - max([at, *others])
        if times:
            worst.append(max(since.values()))
            ordered = sorted(times.values())
            report.say(
                f"       after {what} {len(times)} partitions polled again: half within"
                f" {ordered[len(times) // 2]:.1f} s, all within {ordered[-1]:.1f} s,"
                f" {worst[-1]:.1f} s after what befell others meanwhile"
            )
            for its in sorted(times, key=lambda its: -since[its])[:3]:
                report.say(f"         partition {its}: {times[its]:.1f} s, {since[its]:.1f} s")
    report.must(
        (longest := max(worst, default=0.0)) <= bound,
        f"after {what}, {len(deaths)} times: all partitions polled again within {longest:.1f} s, {disturbed} of them"
        f" counted from something else; bound {bound:g} s",
    )
