"""Changes found and their delay with sitemaps that cost a poll, through the allocator's contract: 1,000 Zipf pages.

Pages change Poisson, p_k = .9 / k per unit of time; the budget, in which polls of sitemaps count, is a multiple of all
changes. `honest`: a sitemap dates each change at once; `lazy`: 60 of 100 changes; `lying`: all pages now, whenever it
is read; `late`: each change, `--late` uniform cycles after it; `none`: no sitemap. What was learned of them is all that
the allocator knows. Printed are the shares of changes found in each part of the run; of its second half freshness and
the mean delay of all changes, in uniform cycles; the share of polls spent on sitemaps; what was learned of the first.
With `--choices` also what a choice looks at and its CPU time, the mean of the second half.

    python benchmarks/signals_pull.py --mode honest --budget 1 --sources 1
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from signals_push import PAGES, RATES, Times, delays, poisson

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registered import OBJECTIVES
from pollerd.allocation.registry import create
from pollerd.allocation.whittle.whittle import Whittle

MODES = ("none", "honest", "lazy", "lying", "late")
LAZY_SHARE = 0.6
_BATCH = 2


class Sitemaps:
    """What sitemaps date of each page, and what they said when they were read last."""

    def __init__(self, mode: str, number: int, dated: Times, late: float, rng: np.random.Generator) -> None:
        """dated: the changes that are dated. `late`: how long after."""
        self.lies, self.number, self._late = mode == "lying", number, late
        self.of_page = rng.integers(0, max(number, 1), PAGES)
        self._dated, self._place = dated, 0
        self._newest = np.full(PAGES, np.nan)
        self._said = np.full(PAGES, np.nan)

    def read(self, source: int, now: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the pages whose dates moved since the last reading, and their dates."""
        until = int(np.searchsorted(self._dated.at, now - self._late, side="right"))
        self._newest[self._dated.page[self._place : until]] = self._dated.at[self._place : until]
        self._place = until
        if self.lies:
            self._newest[:] = now
        here = self.of_page == source
        news = np.flatnonzero(here & ~np.isnan(self._newest) & (self._newest != self._said))
        self._said[news] = self._newest[news]
        return news, self._newest[news]


class Choices:
    """Counts what choices look at, and their CPU time."""

    def __init__(self, policy: Whittle) -> None:
        self._policy = policy
        self.looked_at: list[int] = []
        self.seconds: list[float] = []

    def select(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.int64]:
        """Chooses the next polls."""
        begun = time.process_time()
        chosen = self._policy.select(elapsed, now, np.ones(len(elapsed), bool), _BATCH)
        self.seconds.append(time.process_time() - begun)
        self.looked_at.append(self._policy.looked_at)
        return chosen

    def __str__(self) -> str:
        half = len(self.seconds) // 2
        return f"looked at {np.mean(self.looked_at[half:]):.0f}, CPU {1e3 * np.mean(self.seconds[half:]):.2f} ms"


def run(
    policy: Allocator, choices: Choices, changes: Times, sitemaps: Sitemaps, end: float, parts: int
) -> tuple[list[float], NDArray[np.float64], list[float]]:
    """Returns the shares of changes found in each part, the delays, and freshness and the share spent on sitemaps."""
    last, first, half, step = np.zeros(PAGES + sitemaps.number), np.full(PAGES, np.inf), end / 2, _BATCH / policy.budget
    found, happened, spent, seen, stale = np.zeros(parts), np.zeros(parts), 0, 0, 0.0
    at: list[float] = []
    pages: list[int] = []
    for now in (np.arange(1, int(end / step)) * step).tolist():
        until, part = int(np.searchsorted(changes.at, now, side="right")), int(parts * now / end)
        np.minimum.at(first, changes.page[seen:until], changes.at[seen:until])
        happened[part] += until - seen
        seen = until
        polled = choices.select(now - last, now)
        said = [(int(slot) - PAGES, *sitemaps.read(int(slot) - PAGES, now)) for slot in polled if slot >= PAGES]
        moved = {source: bool(len(news)) for source, news, _ in said}
        changed = np.array([moved[slot - PAGES] if slot >= PAGES else first[slot] < np.inf for slot in polled.tolist()])
        policy.observe(polled, now - last[polled], EvidenceBatch(changed), now)
        for source, news, dates in said:
            policy.signal(news, source, dates, now)
            policy.fetched(source, now)
        spent += len(said)
        of_pages = polled < PAGES
        mine, those = polled[of_pages], changed[of_pages]
        found[part] += int(those.sum())
        if now > half:
            stale += float((now - np.maximum(first[mine][those], half)).sum())
        at += [now] * len(mine)
        pages += mine.tolist()
        first[mine], last[polled] = np.inf, now
    stale += float((end - np.maximum(first[first < np.inf], half)).sum())
    waited = delays(changes, Times.ordered(np.array(at), np.array(pages, np.int64)), half, end)
    shares = (found / np.maximum(happened, 1)).tolist()
    return shares, waited, [1 - stale / (PAGES * half), spent / (spent + len(at))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", default="honest", choices=MODES)
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--sources", type=int, default=1)
    parser.add_argument("--late", type=float, default=1.0, help="uniform cycles")
    parser.add_argument("--objective", default="changes", choices=OBJECTIVES)
    parser.add_argument("--deadline", type=float, default=0.25, help="uniform cycles")
    parser.add_argument("--half-life", type=float, default=0.25, help="uniform cycles")
    parser.add_argument("--polls", type=int, default=6000)
    parser.add_argument("--parts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--choices", action="store_true")
    args = parser.parse_args()
    budget = args.budget * float(RATES.sum())
    end, cycle = args.polls / budget, PAGES / budget
    changes, rng = poisson(RATES, end, np.random.default_rng(args.seed)), np.random.default_rng(args.seed + 1000)
    kept = rng.random(len(changes.at)) < (LAZY_SHARE if args.mode == "lazy" else 1.0)
    dated = Times(changes.at[kept], changes.page[kept])
    late = args.late * cycle if args.mode == "late" else 0.0
    sitemaps = Sitemaps(args.mode, 0 if args.mode == "none" else args.sources, dated, late, rng)
    due, half_life = args.deadline * cycle, args.half_life * cycle
    policy = create("whittle", budget=budget, objective=args.objective, rng=np.random.default_rng(0), deadline=due)
    every = PAGES + sitemaps.number
    weight = np.r_[np.ones(PAGES), np.zeros(sitemaps.number)]
    policy.add(np.arange(every), weight, np.ones(every), half_life=np.full(every, half_life))
    for source in range(sitemaps.number):
        policy.add_source(source, np.flatnonzero(sitemaps.of_page == source), polled_as=PAGES + source)
    assert isinstance(policy, Whittle)
    choices = Choices(policy)
    shares, waited, (fresh, spent) = run(policy, choices, changes, sitemaps, end, args.parts)
    print(f"changes {' '.join(f'{share:.3f}' for share in shares)}  freshness {fresh:.3f}", end="  ")
    print(f"delay {waited.mean() / cycle:.4f}  in time {(waited <= due).mean():.3f}", end="  ")
    value = np.mean(0.5 ** (waited / half_life))
    print(f"value {value:.3f}  sitemaps {spent:.3f}  {policy.source_quality(0)}", flush=True)
    if args.choices:
        print(choices)


if __name__ == "__main__":
    main()
