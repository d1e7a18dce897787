"""CPU time of a choice by `whittle` under `interest` among feeds that show only their newest M items.

n feeds with rates, half-lives, weights and numbers of items of their own (*mixed*), or of one kind (*alike*), and other
sites whose number of items is not known. All were polled twice; then ten are chosen and polled, time and again, one
poll a second. Reports the CPU time (`time.process_time`) of `select`, and how many indices it computed for a choice.
Every run is a process of its own. With `--against DIR`, the root of another version of pollerd, runs of the two take
turns, and the last column has the ratio of medians, other : this.

    python benchmarks/feed_choices.py
    python benchmarks/feed_choices.py --against DIR --turns 3
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation import Allocator, EvidenceBatch, create

Array = NDArray[np.float64]
EPOCH_S = 1.7e9
PLACES = 10
CASES = (("mixed", 5_000, 0), ("alike", 5_000, 0), ("mixed", 20_000, 0), ("alike", 20_000, 0), ("mixed", 20_000, 10**6))
"""Kind and number of feeds, number of other sites."""


class World:
    """Feeds, and other sites after them, whose items come one by one."""

    def __init__(self, kind: str, feeds: int, others: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n = feeds + others
        self.rng, self.now, self.feeds = rng, EPOCH_S, feeds
        mixed = np.ones(n, np.bool_)
        mixed[:feeds] = kind == "mixed"
        self.items = np.where(mixed[:feeds], rng.choice([5.0, 10.0, 20.0, 50.0], feeds), 20.0)
        self.rates = np.where(mixed, np.exp(rng.normal(0.0, 1.5, n)), 1.0)
        self.rates[:feeds] *= self.items / (2.0 * n)
        self.rates[feeds:] /= n
        half_life = n * np.where(mixed, np.exp(rng.uniform(np.log(0.3), np.log(30.0), n)), 3.0)
        weight = np.where(mixed, rng.uniform(0.5, 2.0, n), 1.0)
        self.policy: Allocator = create("whittle", budget=1.0, objective="interest", rng=np.random.default_rng(0))
        self.policy.expect(n)
        self.policy.add(np.arange(n), weight, np.ones(n), half_life)
        self.policy.set_items_shown(np.arange(feeds), self.items)
        self.last = np.full(n, -np.inf)
        for age in (rng.uniform(0.0, 2.0, n), rng.uniform(0.0, 1.0, n)):
            at = self.now - n * age
            self.poll(np.arange(n), np.where(np.isinf(self.last), np.inf, np.maximum(at - self.last, 1.0)))
            self.last = at
        self.eligible = np.ones(n, np.bool_)

    def poll(self, slots: NDArray[np.int64], gap: Array) -> None:
        """Tells the policy what polls of slots int64[k] after gap float64[k] s found."""
        came = self.rng.poisson(self.rates[slots] * np.where(np.isinf(gap), 0.0, gap))
        shown = np.full(len(slots), np.inf)
        feed = slots < self.feeds
        shown[feed] = self.items[slots[feed]]
        full = feed & (came >= shown)
        least = np.where(feed, np.minimum(came, shown), -1).astype(np.int64)
        evidence = EvidenceBatch(came > 0, count=np.where(full | (came == 0), -1, came), at_least=least)
        self.policy.observe(slots, gap, evidence, self.now)

    def turn(self) -> tuple[float, int]:
        """Chooses and polls; returns the CPU time of the choice in s, and the number of indices computed."""
        self.now += PLACES
        before = time.process_time()
        chosen = self.policy.select_seen(self.last, self.now, self.eligible, PLACES)
        spent = time.process_time() - before
        self.poll(chosen, self.now - self.last[chosen])
        self.last[chosen] = self.now
        return spent, int(getattr(self.policy, "looked_at", 0))


def measured(kind: str, feeds: int, others: int, seed: int, turns: int) -> dict[str, float]:
    """Returns median, 99 % and maximum of the CPU time in ms, and the mean number of indices computed."""
    world = World(kind, feeds, others, seed)
    spent, looked = (np.array(each) for each in zip(*(world.turn() for _ in range(turns)), strict=True))
    spent, looked = 1e3 * spent[turns // 5 :], looked[turns // 5 :]
    return {
        "median": float(np.median(spent)),
        "p99": float(np.quantile(spent, 0.99)),
        "most": float(spent.max()),
        "looked": float(looked.mean()),
    }


def child(root: Path, case: tuple[str, int, int], seed: int, choices: int) -> dict[str, float]:
    """Returns `measured` of the version of pollerd at `root`, by a process of its own."""
    command = [sys.executable, __file__, "--case", *map(str, (*case, seed, choices))]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def row(case: tuple[str, int, int], found: list[dict[str, float]], version: str, ratio: str) -> str:
    """Returns a line of the table."""
    mean = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
    times = " | ".join(f"{mean[name]:.1f} ms" for name in ("median", "p99", "most"))
    return f"| {case[1]:,} {case[0]} | {case[2]:,} | {version} | {times} | {mean['looked']:,.0f} | {ratio} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--choices", type=int, default=1_000)
    parser.add_argument("--only", type=int, nargs="+", default=list(range(len(CASES))))
    parser.add_argument("--case", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        kind, *numbers = given.case
        feeds, others, seed, choices = map(int, numbers)
        print(json.dumps(measured(kind, feeds, others, seed, choices)))
        return
    here = Path(__file__).resolve().parent.parent
    print("| feeds | other sites | version | median | 99 % | most | indices a choice | ratio of medians |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for number in given.only:
        case = CASES[number]
        this, other = [], []
        for seed in range(given.turns):
            this.append(child(here, case, seed, given.choices))
            if given.against:
                other.append(child(given.against, case, seed, given.choices))
        if other:
            print(row(case, other, "other", ""))
        ratios = [b["median"] / a["median"] for a, b in zip(this, other, strict=False)]
        print(row(case, this, "this", f"{np.mean(ratios):.1f}" if ratios else ""), flush=True)


if __name__ == "__main__":
    main()
