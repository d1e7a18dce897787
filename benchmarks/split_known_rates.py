"""What a divided budget costs where all rates are known, so that nothing but the division differs.

    python benchmarks/split_known_rates.py --pages 1280 --polls 6000 --seeds 1

Zipf pages (α 0.3, β 1), four a host, a hash of the host decides on one of 8 nodes, each with an `optimal` of its own. A
poll counts by the probability that it finds a change, 1 - e^(-rate · gap), so that luck plays no part. Printed are, for
each seed and each half of the polls, the sums as shares of what one `optimal` over all pages has.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.registry import create
from pollerd.lab.environments.changes import ZipfChanges
from pollerd.lab.environments.driving import STEP_S
from pollerd.lab.environments.nodes import Sharing, drive_nodes, nodes_of
from pollerd.lab.environments.zipf import Zipf

WAYS: tuple[Sharing, ...] = ("price", "sites", "even")


class ExpectedFinds(ZipfChanges):
    """Sums up the probability of each poll to find a change, by halves of the polls."""

    def __init__(self, zipf: Zipf, rng: np.random.Generator, polls: int) -> None:
        super().__init__(zipf, rng)
        self._half = polls // 2
        self.rate = self.rates()
        self._last = np.zeros(len(self.rate))
        self.halves = np.zeros(2)

    def poll(self, page: int, now: float) -> float:
        """Counts the poll, and polls."""
        gap, self._last[page] = now - self._last[page], now
        self.halves[int(now > self._half)] -= np.expm1(-self.rate[page] * gap)
        return super().poll(page, now)


def found(node: NDArray[np.int64], sharing: Sharing, polls: int, seed: int) -> NDArray[np.float64]:
    """Returns the expected number of polls that find a change, float64[2]: in each half."""
    changes = ExpectedFinds(Zipf(len(node), 0.3, 1.0, "shuffled"), np.random.default_rng(seed), polls)
    rates, numbers = changes.rate / STEP_S, itertools.count()

    def make(budget: float) -> Allocator:
        mine = rates[node == next(numbers)]  # nodes are made in order
        return create("optimal", budget=budget, rng=np.random.default_rng(2), rates=mine)

    drive_nodes(make, changes, node, polls, sharing=sharing, divide_every=60)
    return changes.halves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=160)
    parser.add_argument("--polls", type=int, default=3000)
    parser.add_argument("--seeds", default="1,2")
    options = parser.parse_args()
    print("| seed | one price: 1st half, 2nd half | by pages | even |\n| --- | --- | --- | --- |")
    for seed in map(int, options.seeds.split(",")):
        hosts = np.random.default_rng(seed + 9).integers(0, options.pages // 4, options.pages)
        node = nodes_of([f"host {host}" for host in hosts], 8)
        one = found(np.zeros_like(node), "even", options.polls, seed)
        shares = [found(node, way, options.polls, seed) / one for way in WAYS]
        print(f"| {seed} | {' | '.join(f'{first:.3f}, {second:.3f}' for first, second in shares)} |", flush=True)


if __name__ == "__main__":
    main()
