"""Value found under `interest` on feeds that show only their newest M items, with and without knowing M and counts.

Feeds have rates, half-lives and numbers of items drawn at random; items come one by one or in bursts. One poll a step;
a poll collects of the items that came since the last one those that are still shown, each worth e^(-μ age). The budget
is a multiple of the polls that would find every feed with half of its items new. Who knows the rates: `best`, the value
of the best periods by the formulas of `allocation.finite_feeds`; `index`, the index with M; `index without M`, the
index of `allocation.index`. Who learns them: `whittle`, told of items and M, of counts alone (as before), of changes
alone. The second half of a run counts, as a share of `best`, in bursts of `index`; mean and standard error over seeds.

    python benchmarks/finite_feeds.py --seeds 6
    python benchmarks/finite_feeds.py --histories traces.npz --seeds 3
    python benchmarks/finite_feeds.py --allocator lspe --feeds 30 --seeds 3

Another allocator takes the place of `whittle`; `optimal` knows the rates, so that its columns differ by M alone.

A history file is as for `benchmarks/histories.py`. Its times are those of a feed's versions, taken as times of single
items; M is drawn, and there is no `best`: shares are of the index with the mean rates and M.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from histories import load
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.finite_feeds import finite_index, finite_value
from pollerd.allocation.registry import create

Array = NDArray[np.float64]
FEEDS, POLLS_A_FEED = 60, 30
BUDGETS = (0.5, 1.0, 2.0)
ITEMS = (5, 10, 20, 50)
STEP_S, FEWEST = 60.0, 4
LEARNERS = ("dated items and M", "items and M", "counts and M", "counts", "changes")
POLICIES = ("index", "index without M", *LEARNERS, "round robin")
EPOCH_S = 1.7e9


@dataclass(frozen=True)
class Feeds:
    """Times of items in steps, by feed, ascending; rates per step; decay per step; items shown; number of steps."""

    times: list[Array]
    rates: Array
    decay: Array
    items: Array
    steps: int


def drawn_feeds(budget: float, burst: float, seed: int, number: int = FEEDS) -> Feeds:
    """Items at log-normal rates; `burst` items at a time in the mean (geometric), of one moment each."""
    rng, steps = np.random.default_rng(seed), number * POLLS_A_FEED
    items = rng.choice(ITEMS, number).astype(np.float64)
    relative = np.exp(rng.normal(0.0, 1.5, number))
    rates = relative / (2.0 * (relative / items).sum()) / budget
    decay = np.log(2) / (number * np.exp(rng.uniform(np.log(0.3), np.log(30.0), number)))
    times = []
    for rate in rates:
        moments = np.sort(rng.uniform(0, steps, rng.poisson(rate * steps / burst)))
        times.append(np.repeat(moments, rng.geometric(1.0 / burst, len(moments))))
    return Feeds(times, rates, decay, items, steps)


def recorded_feeds(path: Path, source: str, budget: float, seed: int, number: int = FEEDS) -> Feeds:
    """The feeds of a source with at least 20 items; the first .15, .3 or .45 of its history is skipped, by the seed."""
    history = load(path, source, 0.15 * (1 + seed % 3))
    rng, counts = np.random.default_rng(seed), np.diff(history.first)
    chosen = np.flatnonzero(counts >= 20)[:number]
    items = rng.choice(ITEMS, len(chosen)).astype(np.float64)
    times = [history.times[history.first[i] : history.first[i + 1]] - history.start for i in chosen]
    steps = len(chosen) * POLLS_A_FEED
    mean = history.rates[chosen]
    step = min(0.5 * float(items.mean()) / float(mean.sum()) / budget, history.span / steps)
    steps = min(steps, int(history.span / step))
    decay = np.log(2) / (len(chosen) * np.exp(rng.uniform(np.log(0.3), np.log(30.0), len(chosen))))
    return Feeds([of[of > 0] / step for of in times], mean * step, decay, items, steps)


def best_value(feeds: Feeds) -> float:
    """Returns the value per step of the best periods with one poll a step, by bisection of the price."""
    n = len(feeds.rates)

    def periods(price: float) -> Array:
        low, high = np.full(n, 1e-3), np.full(n, 1e9)
        for _ in range(80):
            middle = np.sqrt(low * high)
            below = finite_index(middle, feeds.rates, feeds.decay, feeds.items) < price
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high

    low, high = 1e-9, float(feeds.items.max())
    for _ in range(80):
        price = np.sqrt(low * high)
        low, high = (price, high) if (1.0 / periods(price)).sum() > 1.0 else (low, price)
    every = periods(high)
    return float((finite_value(every, feeds.rates, feeds.decay, feeds.items) / every).sum())


class Shown:
    """What the feeds show at a poll."""

    def __init__(self, feeds: Feeds) -> None:
        self._feeds = feeds
        self._upto = np.zeros(len(feeds.rates), np.int64)

    def poll(self, feed: int, now: float) -> tuple[Array, int]:
        """Returns the times of the new items still shown, newest last, and how many came in all."""
        times, before = self._feeds.times[feed], int(self._upto[feed])
        after = int(np.searchsorted(times, now, side="right"))
        self._upto[feed] = after
        return times[max(before, after - int(self._feeds.items[feed])) : after], after - before


def evidence(name: str, new: Array, came: int, shown: int, now: float, *, first: bool) -> EvidenceBatch:
    """Returns what a feed told by `name` has to say; times in steps, all of it known at `now`."""
    changed = np.array([came > 0 and not first])
    if name == "changes":
        return EvidenceBatch(changed)
    full = came >= shown or first
    count = np.array([-1 if full or not came else came])
    if name.startswith("counts"):
        return EvidenceBatch(changed, count=count)
    half = new[-((len(new) + 1) // 2) :] if first else new
    dated = name.startswith("dated") and full and len(new) >= FEWEST and len(np.unique(half)) == len(half)
    span = np.array([(now - half[0]) * STEP_S if dated else np.nan])
    return EvidenceBatch(changed, count=count, at_least=np.array([len(half) if full else max(came, 0)]), span=span)


def value(name: str, feeds: Feeds, allocator: str = "whittle") -> float:
    """Returns the value collected per step in the second half."""
    n, total = len(feeds.rates), 0.0
    shown, last = Shown(feeds), np.full(n, -np.inf)
    policy = None
    if name in LEARNERS:
        known: dict[str, Any] = {"rates": feeds.rates / STEP_S} if allocator == "optimal" else {}
        policy = create(allocator, budget=1.0 / STEP_S, objective="interest", rng=np.random.default_rng(0), **known)
        policy.add(np.arange(n), np.ones(n), np.ones(n), np.log(2) / feeds.decay * STEP_S)
        if "M" in name:
            policy.set_items_shown(np.arange(n), feeds.items)
    every = np.ones(n, np.bool_)
    for now in range(1, feeds.steps + 1):
        gap = now - last
        if policy is not None:
            feed = int(policy.select(gap * STEP_S, EPOCH_S + now * STEP_S, every, 1)[0])
        elif name == "round robin":
            feed = int(gap.argmax())
        else:
            here = np.minimum(gap, 1e9)
            items = feeds.items if name == "index" else np.inf
            feed = int(finite_index(here, feeds.rates, feeds.decay, items).argmax())
        first = not np.isfinite(gap[feed])
        new, came = shown.poll(feed, now)
        if now > feeds.steps // 2:
            total += float(np.exp(-feeds.decay[feed] * (now - new)).sum())
        if policy is not None:
            told = evidence(name, new, came, int(feeds.items[feed]), now, first=first)
            if not first or not np.isnan(told.span).all():
                policy.observe(np.array([feed]), gap[[feed]] * STEP_S, told, EPOCH_S + now * STEP_S)
        last[feed] = now
    return total / (feeds.steps - feeds.steps // 2)


def shares(
    seed: int, budget: float, burst: float, path: Path | None, source: str, number: int, allocator: str
) -> dict[str, float]:
    """Returns the value of each policy as a share of the best, or of the index where that is unknown."""
    if path is None:
        feeds = drawn_feeds(budget, burst, seed, number)
    else:
        feeds = recorded_feeds(path, source, budget, seed, number)
    found = {name: value(name, feeds, allocator) for name in POLICIES}
    unit = best_value(feeds) if path is None and burst == 1.0 else found["index"]
    return {name: each / unit for name, each in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=Path)
    parser.add_argument("--sources", nargs="+", default=["rss_bbc_items", "rss_xiaomi_items"])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--allocator", default="whittle")
    parser.add_argument("--feeds", type=int, default=FEEDS)
    given = parser.parse_args()
    worlds = (
        [(1.0, None, "one by one"), (4.0, None, "bursts of 4")]
        if given.histories is None
        else [(1.0, given.histories, source) for source in given.sources]
    )
    print("| feeds | budget |", " | ".join(POLICIES), "|")
    print("| --- | --- |", " --- |" * len(POLICIES))
    with ProcessPoolExecutor(given.processes) as pool:
        for burst, path, source in worlds:
            for budget in BUDGETS:
                run = partial(
                    shares,
                    budget=budget,
                    burst=burst,
                    path=path,
                    source=source,
                    number=given.feeds,
                    allocator=given.allocator,
                )
                rows = list(pool.map(run, range(given.seeds)))
                cells = []
                for name in POLICIES:
                    some = np.array([row[name] for row in rows])
                    error = some.std(ddof=1) / np.sqrt(len(some)) if len(some) > 1 else np.nan
                    cells.append(f"{some.mean():.3f} ± {error:.3f}")
                print(f"| {source} | x{budget:g} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
