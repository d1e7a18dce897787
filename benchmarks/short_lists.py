"""A short list under a budget that does not bind: polls a day, delays and missed changes on a real history.

The learned waits are the daemon's (`scheduling/min_yield.py`): each page is polled as soon as `whittle` estimates a
change probability of --min-yield, at least every --max-silence and no sooner than after 30 s. The allocator's budget is
5 polls a second, or less if the 30 s allow less.

They are compared with fixed timers, with a random phase for each page, and with intervals that follow the observed
rate: the time a page was watched, divided by one more than the changes seen, over 100 and over 10, from 30 s to a day.
Every policy sees the same pages from the same moment; the first half of the polls a day includes the initial learning.

Delay is from each change to the poll that finds it. Missed are changes that a poll finds together with a later one.

    python benchmarks/short_lists.py HISTORY.csv [--pages 50] [--start 0.3] [--days 60] [--seed 0]

HISTORY.csv: lines `page,time`, time in seconds, as for `pollerd simulate history`.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.whittle.whittle import Whittle
from pollerd.lab.environments.histories import read_history
from pollerd.scheduling.min_yield import Bounds, first_waits, waits

DAY = 86_400.0
SHORTEST, LONGEST = 30.0, DAY
BUDGET = 5.0
TIMERS = {"every 30 s": 30.0, "every 5 min": 300.0, "every 1 h": 3600.0, "every 3 h": 10_800.0}
EPOCH = 1.75e9
Wait = Callable[[int, float, bool], float]
"""Returns seconds until the next poll of a page, polled now (s after the start), by whether it had changed."""


@dataclass(frozen=True)
class Outcome:
    """Polls a day in each half, delays float64[changes found] s, and the number of missed changes."""

    polls: tuple[float, float]
    delays: NDArray[np.float64]
    missed: int

    def row(self, name: str) -> str:
        """Returns a line of the table."""
        mean, median = (f"{x:,.0f}" for x in (self.delays.mean(), np.median(self.delays)))
        share = self.missed / len(self.delays)
        first, second = (f"{x:,.0f}" for x in self.polls)
        return (
            f"| {name} | {first} | {second} | {mean} | {median} | {self.missed} of {len(self.delays)} ({share:.1%}) |"
        )


def play(pages: list[NDArray[np.float64]], span: float, wait: Wait) -> Outcome:
    """Polls pages with changes at sorted float64[...] s for `span` s by the waits of `wait`, after an initial round."""
    due = [(number / BUDGET, number) for number in range(len(pages))]
    seen, delays, missed, polls = np.zeros(len(pages), np.int64), [], 0, [0, 0]
    while due[0][0] <= span:
        now, page = heapq.heappop(due)
        found = int(np.searchsorted(pages[page], now, "right"))
        delays.append(now - pages[page][seen[page] : found])
        missed += max(found - int(seen[page]) - 1, 0)
        changed = found > seen[page]
        seen[page] = found
        polls[now > span / 2] += 1
        heapq.heappush(due, (now + wait(page, now, bool(changed)), page))
    first, second = (2 * number / span * DAY for number in polls)
    return Outcome((first, second), np.concatenate(delays), missed)


def tick(pages: list[NDArray[np.float64]], span: float, every: float, rng: np.random.Generator) -> Outcome:
    """Polls each page every `every` s."""
    delays, missed = [], 0
    for times in pages:
        phase = rng.uniform(0.0, every)
        poll = np.ceil((times - phase) / every) * every + phase
        delays.append((poll - times)[poll <= span])
        missed += len(poll) - len(np.unique(poll))
    a_day = len(pages) / every * DAY
    return Outcome((a_day, a_day), np.concatenate(delays), missed)


class Learned:
    """Waits by the beliefs of `whittle`, as in the daemon."""

    def __init__(self, pages: int, min_yield: float, max_silence: float) -> None:
        self._allocator = Whittle(min(BUDGET, pages / SHORTEST))
        self._allocator.add(np.arange(pages), np.ones(pages), np.ones(pages))
        self._bounds = Bounds(np.zeros(1), np.array([min_yield]), np.array([max_silence]))
        self._last, self._polls = np.full(pages, np.nan), np.zeros(pages, np.int32)

    def __call__(self, page: int, now: float, changed: bool) -> float:
        """Implements `Wait`."""
        slot = np.array([page])
        first = np.isnan(self._last[page])
        elapsed = np.inf if first else now - self._last[page]
        evidence = EvidenceBatch(np.array([changed and not first]))
        self._allocator.observe(slot, np.array([elapsed]), evidence, EPOCH + now)
        self._last[page], self._polls[page] = now, self._polls[page] + 1
        believed = min(waits(self._allocator, slot, self._bounds)[0][0], first_waits(self._polls[slot])[0])
        return float(max(believed, SHORTEST))


def follow(pages: int, part: float) -> Wait:
    """Returns intervals by the observed rate: a `part` of the mean time between changes seen."""
    seen = np.zeros(pages, np.int64)

    def wait(page: int, now: float, changed: bool) -> float:
        seen[page] += changed
        return float(np.clip(part * now / (seen[page] + 1), SHORTEST, LONGEST))

    return wait


def some_pages(path: Path, pages: int, start: float, days: float, seed: int) -> tuple[list[NDArray[np.float64]], float]:
    """Returns the changes after `start` of pages drawn by the seed from all that ever change, and the span in s."""
    history = read_history(path)
    chosen = np.random.default_rng(seed).permutation(len(history.names))[:pages]
    begin = start * history.span
    span = min(days * DAY, history.span - begin)
    ends = np.cumsum(history.counts)
    each = (history.times[ends[page] - history.counts[page] : ends[page]] - begin for page in np.sort(chosen))
    return [times[(times > 0) & (times <= span)] for times in each], span


def main() -> None:
    """Runs the benchmark and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("history", type=Path)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--start", type=float, default=0.3, help="share of the history that has gone by")
    parser.add_argument("--days", type=float, default=60.0, help="days at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--min-yield", type=float, default=0.01)
    parser.add_argument("--max-silence", type=float, default=DAY)
    given = parser.parse_args()
    pages, span = some_pages(given.history, given.pages, given.start, given.days, given.seed)
    policies: dict[str, Wait] = {"learned": Learned(len(pages), given.min_yield, given.max_silence)}
    policies |= {f"observed gap / {1 / part:.0f}": follow(len(pages), part) for part in (0.01, 0.1)}
    print(f"{len(pages)} pages, {span / DAY:.0f} days, {sum(map(len, pages)):,} changes")
    print("| | polls a day, first half | second half | mean delay, s | median | missed |\n|---|---|---|---|---|---|")
    for name, wait in policies.items():
        print(play(pages, span, wait).row(name), flush=True)
    for name, every in TIMERS.items():
        print(tick(pages, span, every, np.random.default_rng(given.seed)).row(name), flush=True)


if __name__ == "__main__":
    main()
