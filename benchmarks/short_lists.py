"""Short lists under a budget that does not bind, by `--min-saving`, against timers at equal polls.

The learned waits are the daemon's (`scheduling/min_yield.py`): each page is polled as soon as that is worth it by the
beliefs of `whittle`, at least every day (or ten of the timer's periods) and no sooner than after 30 s. The allocator's
budget is 5 polls a second, or less if the 30 s allow less. All lists begin with nothing learned.

For each timer a min_saving is taken with which 1/sqrt(rate) periods of the true rates make as many polls. What is made
with it is compared with the timer that makes *as many polls as were made*: at a random phase its mean delay is half its
period, whatever changes. *told* are periods proportional to 1/sqrt(rate) by the true rates, or by those of the whole
record, at the number of polls of the second half.

    python benchmarks/short_lists.py [HISTORY.csv ...] [--spread 1.5] [--pages 20] [--timers 10m 1h 4h] [--days 20]

HISTORY.csv: lines `page,time`, time in seconds, as for `pollerd simulate history`. Prints a line for each list and
timer: ratios of mean delays, and the geometric mean of the lists, with two standard errors, for each timer.
"""

from __future__ import annotations

import argparse
import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.whittle.whittle import Whittle
from pollerd.lab.environments.histories import read_history
from pollerd.quantities import duration, seconds
from pollerd.scheduling.min_yield import Bounds, first_waits, waits

DAY = 86_400.0
SHORTEST, BUDGET, EPOCH = 30.0, 5.0, 1.75e9
_TOGETHER = 0.02
"""Share of the timer's period within which polls are learned together, as the daemon commits them."""
_MEDIAN_PER_DAY = 1.0


@dataclass(frozen=True)
class List:
    """Pages of a list: their changes at sorted float64[...] s, and their rates, float64[n] 1/s; from its begin on."""

    name: str
    pages: list[NDArray[np.float64]]
    rates: NDArray[np.float64]
    span: float


@dataclass(frozen=True)
class Outcome:
    """Polls and delays, float64[changes] s, by half of the span."""

    polls: tuple[int, int]
    delays: tuple[NDArray[np.float64], NDArray[np.float64]]


class Learned:
    """A list as the daemon polls it, on its own."""

    def __init__(self, pages: int, min_saving: float, min_yield: float, max_silence: float) -> None:
        self._allocator = Whittle(min(BUDGET, pages / SHORTEST))
        self._allocator.add(np.arange(pages), np.ones(pages), np.ones(pages))
        self._bounds = Bounds(np.array([min_saving]), np.array([min_yield]), np.array([max_silence]))
        self._last, self._polls = np.full(pages, np.inf), np.zeros(pages, np.int32)

    def learn(self, pages: NDArray[np.int64], at: NDArray[np.float64], changed: NDArray[np.bool_]) -> Iterator[float]:
        """Learns from polls of distinct pages int64[k] at float64[k] s; returns how long each waits then."""
        first = np.isinf(self._last[pages])
        elapsed = np.where(first, np.inf, at - self._last[pages])
        self._allocator.observe(pages, elapsed, EvidenceBatch(changed & ~first), EPOCH + float(at.max()))
        self._last[pages] = at
        self._polls[pages] += 1
        bounds = self._bounds.of(np.zeros(len(pages), np.int64))
        wait = np.minimum(waits(self._allocator, pages, bounds)[0], first_waits(self._polls[pages], bounds.saving))
        yield from np.maximum(wait, SHORTEST).tolist()


def play(of: List, learned: Learned, together: float) -> Outcome:
    """Polls the pages of the list by what is learned, from its begin on until the last change is found."""
    due = [(number / BUDGET, number) for number in range(len(of.pages))]
    seen = np.zeros(len(of.pages), np.int64)
    polls = [0, 0]
    delays: tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]] = ([], [])
    while due and (seen < [*map(len, of.pages)]).any() | (due[0][0] <= of.span):
        batch = [heapq.heappop(due)]
        while due and due[0][0] <= batch[0][0] + together:
            batch.append(heapq.heappop(due))
        found = [int(np.searchsorted(of.pages[page], at, "right")) for at, page in batch]
        at, pages = (np.array(column) for column in zip(*batch, strict=True))
        changed = np.array(found) > seen[pages]
        for (moment, page), number in zip(batch, found, strict=True):
            new = of.pages[page][seen[page] : number]
            delays[0].append(moment - new[new <= of.span / 2])
            delays[1].append(moment - new[new > of.span / 2])
            seen[page] = number
            if moment <= of.span:
                polls[moment > of.span / 2] += 1
        for (moment, page), wait in zip(batch, learned.learn(pages, at, changed), strict=True):
            heapq.heappush(due, (moment + wait, page))
    return Outcome((polls[0], polls[1]), (np.concatenate(delays[0]), np.concatenate(delays[1])))


def saving_for(of: List, timer: float) -> float:
    """Returns the min_saving with which 1/sqrt(rate) periods make as many polls as the timer, s."""
    return float((timer * np.sqrt(of.rates / 2.0).mean()) ** 2)


def told(of: List, polls: int) -> float:
    """Returns the mean delay, s, of periods ∝ 1/sqrt(rate) that make so many polls in the second half of the list."""
    changes = np.array([(times > of.span / 2).sum() for times in of.pages])
    speed = np.sqrt(of.rates)
    periods = of.span / 2 * speed.sum() / polls / speed
    return float((changes * periods).sum() / changes.sum() / 2.0)


def recorded(path: Path, pages: int, start: float, days: float, seed: int) -> List:
    """Returns pages of a history, drawn by the seed from all that ever change, from a share `start` of it on."""
    history = read_history(path)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(history.names))[:pages])
    begin = start * history.span
    span = min(days * DAY, history.span - begin)
    ends = np.cumsum(history.counts)
    each = [history.times[ends[page] - history.counts[page] : ends[page]] - begin for page in chosen]
    some = [times[(times > 0) & (times <= span)] for times in each]
    return List(f"{path.stem}, {len(chosen)}", some, history.counts[chosen] / history.span, span)


def drawn(spread: float, pages: int, days: float, seed: int) -> List:
    """Returns Poisson pages whose log rates are normal, with one change a day at the median."""
    rng = np.random.default_rng([seed, pages, round(100 * spread)])
    rates = _MEDIAN_PER_DAY / DAY * np.exp(spread * rng.standard_normal(pages))
    numbers = rng.poisson(rates * days * DAY)
    times = [np.sort(rng.uniform(0.0, days * DAY, number)) for number in numbers]
    return List(f"spread {spread:g}, {pages}", times, rates, days * DAY)


def compare(of: List, timer: float, min_saving: float | None, min_yield: float) -> tuple[str, list[float]]:
    """Returns the row of a list and timer, and its ratios of delays: both halves to a timer, the second, and to told.

    min_saving: None: the one for the timer.
    """
    saving = saving_for(of, timer) if min_saving is None else min_saving
    learned = Learned(len(of.pages), saving, min_yield, max(DAY, 10.0 * timer))
    found = play(of, learned, _TOGETHER * timer)
    every = np.concatenate(found.delays)
    per_poll = len(of.pages) * of.span / 2.0
    ratio = float(every.mean()) / (per_poll / sum(found.polls))
    later = float(found.delays[1].mean())
    second, beside_told = later / (per_poll / 2.0 / found.polls[1]), later / told(of, found.polls[1])
    a_day = sum(found.polls) / of.span * DAY
    error = float(every.std() / np.sqrt(len(every)) / every.mean())
    row = (
        f"| {of.name} | {duration(timer)} | {duration(saving)} | {a_day:,.0f} | {duration(float(every.mean()))} | "
        f"{ratio:.2f} ± {ratio * error:.2f} | {second:.2f} | {beside_told:.2f} |"
    )
    return row, [ratio, second, beside_told]


def main() -> None:
    """Runs the benchmark and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("history", type=Path, nargs="*")
    parser.add_argument("--spread", type=float, nargs="*", default=[], help="of log-normal lists")
    parser.add_argument("--pages", type=int, nargs="+", default=[20])
    parser.add_argument("--timers", type=seconds, nargs="+", default=[600.0, 3_600.0, 14_400.0])
    parser.add_argument("--start", type=float, default=0.3, help="share of each history that has gone by")
    parser.add_argument("--days", type=float, default=20.0, help="days at most")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--min-saving", type=seconds, help="instead of the one for each timer")
    parser.add_argument("--min-yield", type=float, default=0.0)
    given = parser.parse_args()
    lists = [
        *(
            recorded(path, n, given.start, given.days, s)
            for path in given.history
            for n in given.pages
            for s in given.seeds
        ),
        *(drawn(spread, n, given.days, s) for spread in given.spread for n in given.pages for s in given.seeds),
    ]
    print("| list, pages | timer | min_saving | polls a day | mean delay | of the timer's | second half | of told |")
    print("|---|---|---|---|---|---|---|---|")
    ratios = defaultdict[float, list[list[float]]](list)
    for of in lists:
        if not sum((times > of.span / 2).sum() for times in of.pages):
            continue  # no change whose delay could be compared
        for timer in given.timers:
            row, found = compare(of, timer, given.min_saving, given.min_yield)
            ratios[timer].append(found)
            print(row, flush=True)
    for timer, rows in ratios.items():
        logs = np.log(np.array(rows))
        mean, error = np.exp(logs.mean(0)), logs.std(0) / np.sqrt(len(rows))
        said = " | ".join(f"{x:.2f} ± {2 * x * e:.2f}" for x, e in zip(mean, error, strict=True))
        print(f"| {len(rows)} lists | {duration(timer)} | | | | {said} |")


if __name__ == "__main__":
    main()
