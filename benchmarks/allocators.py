"""Steps per second of every allocator, by number of sites: one step is a choice and learning from its poll.

All sites are added and polled once; then steps are timed, one poll each, in CPU time of the allocator alone, without
the simulated web. A step of [A]'s H-TRAA costs O(log n), and is measured up to 2^20 sites.

    python benchmarks/allocators.py [--allocators htraa,lakg] [--sites 512,32768,1048576] [--seconds 2]
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create, names
from pollerd.errors import InvalidValueError

SITES = (2, 30, 512, 4096, 32_768, 1_048_576)
STEP_S = 0.1
EPOCH_S = 1.75e9
WARM_UP_STEPS = 50
MIN_STEPS = 20
MAX_SITES = {"gpoks": 32_768}
"""Limits where a figure would take hours, or memory: gpoks takes 10 KB per poll that it learns from at once."""


class Web:
    """Sites that change at lognormal rates, polled one at a time."""

    def __init__(self, n: int) -> None:
        self._rng = np.random.default_rng(1)
        self._rate = self._rng.lognormal(-4 - np.log(n), 2, n)
        self._last, self._now = np.full(n, EPOCH_S), EPOCH_S
        self._eligible = np.ones(n, np.bool_)

    def _changed(self, slots: NDArray[np.int64], gap: NDArray[np.float64]) -> EvidenceBatch:
        return EvidenceBatch(self._rng.random(len(slots)) < -np.expm1(-self._rate[slots] * gap))

    def poll_all(self, allocator: Allocator) -> None:
        """Polls every site once, a cycle after the start."""
        n = len(self._rate)
        self._now += n * STEP_S
        gap = self._rng.uniform(0.5, 1.0, n) * n * STEP_S
        allocator.observe(np.arange(n), gap, self._changed(np.arange(n), gap), self._now)
        self._last = self._now - self._rng.uniform(0, 1, n) * n * STEP_S

    def step(self, allocator: Allocator) -> float:
        """Runs one step; returns the CPU seconds of the allocator."""
        self._now += STEP_S
        elapsed = self._now - self._last
        begin = time.thread_time()
        slots = allocator.select(elapsed, self._now, self._eligible, 1)
        chosen = time.thread_time()
        evidence = self._changed(slots, elapsed[slots])
        again = time.thread_time()
        allocator.observe(slots, elapsed[slots], evidence, self._now)
        end = time.thread_time()
        self._last[slots] = self._now
        return chosen - begin + end - again


def seconds_a_step(name: str, n: int, seconds: float) -> float | None:
    """Returns the mean CPU seconds of a step; None if the allocator does not support this number of sites."""
    if n > MAX_SITES.get(name, n):
        return None
    allocator = create(name, budget=1 / STEP_S, rng=np.random.default_rng(2))
    try:
        allocator.add(np.arange(n), np.ones(n), np.ones(n))
    except InvalidValueError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return None
    web = Web(n)
    web.poll_all(allocator)
    for _ in range(WARM_UP_STEPS):
        web.step(allocator)
    spent, steps, ends = 0.0, 0, time.monotonic() + seconds
    while steps < MIN_STEPS or time.monotonic() < ends:
        spent += web.step(allocator)
        steps += 1
    return spent / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allocators", default=",".join(names()))
    parser.add_argument("--sites", default=",".join(map(str, SITES)))
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure, at least")
    given = parser.parse_args()
    sites = [int(n) for n in given.sites.split(",")]
    print("| steps per second | " + " | ".join(f"{n:,} sites" for n in sites) + " |")
    print("| --- |" + " ---: |" * len(sites))
    for name in given.allocators.split(","):
        found = (seconds_a_step(name, n, given.seconds) for n in sites)
        cells = ("" if each is None else f"{1 / each:,.0f}" for each in found)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
