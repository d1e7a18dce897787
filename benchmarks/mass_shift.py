"""Changes found and mean delay after the rates of many pages rise or fall 50-fold at once, next to simple timers.

    python benchmarks/mass_shift.py [--share .5] [--runs 16] [--policies halving "whittle, delay"]

200 pages with log-normal rates (spread 1.5 e-folds), as many polls as changes before the shift, ten uniform cycles of
polls before it and ten after it. After ten cycles the rates of `share` of the pages are multiplied by 50, or divided.
Timers: *uniform* polls the page that waited longest; *halving* halves a page's interval at a change, doubles it at
none, and scales all intervals so that they take the budget. *Rates known* are the index policies of `changes` and
`delay` with the true rates, from the shift on with the new ones: bounds of what learning can reach.

Found: share of the polls after the shift that found a change of that time. Left over: share of them that found only
changes from before the shift, which the policy had not found until then; before: share of the polls before the shift
that found a change. Delay: from a change after the shift to the poll that finds it, in uniform cycles, with changes
that were not found counted up to the end. One poll a step.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create

PAGES = 200
CYCLES = 10
FACTOR = 50.0
SPREAD_EFOLDS = 1.5
EPOCH_S = 1.75e9
LONGEST_CYCLES = 50.0
NEVER = 1e9
"""Steps since the last poll of a page never polled, for the policies that know the rates."""

Array = NDArray[np.float64]
Choose = Callable[[Array, float], int]
"""Chooses a page by the steps since the last poll of each, inf before the first, at a step."""
Learn = Callable[[int, float, bool, float], None]
"""Learns from a poll: page, steps since its last poll, whether a change was found, step."""


def uniform() -> tuple[Choose, Learn]:
    """Returns one timer for all pages."""
    return lambda elapsed, now: int(np.argmax(elapsed)), lambda page, gap, changed, now: None


def halving() -> tuple[Choose, Learn]:
    """Returns a timer for each page that adapts to its last poll."""
    interval, last = np.full(PAGES, float(PAGES)), np.zeros(PAGES)

    def learn(page: int, gap: float, changed: bool, now: float) -> None:
        interval[page] = interval[page] / 2 if changed else min(2 * interval[page], LONGEST_CYCLES * PAGES)
        interval[:] = np.minimum(interval * (1 / interval).sum(), LONGEST_CYCLES * PAGES)
        last[page] = now

    return lambda elapsed, now: int(np.argmin(last + interval)), learn


def learned(objective: str) -> tuple[Choose, Learn]:
    """Returns `whittle`."""
    allocator = create("whittle", budget=1.0, objective=objective, rng=np.random.default_rng(1))
    allocator.add(np.arange(PAGES), np.ones(PAGES), np.ones(PAGES))
    everyone = np.ones(PAGES, np.bool_)

    def choose(elapsed: Array, now: float) -> int:
        return int(allocator.select(elapsed, EPOCH_S + now, everyone, 1)[0])

    def learn(page: int, gap: float, changed: bool, now: float) -> None:
        evidence = EvidenceBatch(np.array([changed and math.isfinite(gap)]))
        allocator.observe(np.array([page]), np.array([gap]), evidence, EPOCH_S + now)

    return choose, learn


def rates_known(objective: str, now: Array, later: Array) -> tuple[Choose, Learn]:
    """Returns the index policy with rates `now` before the shift and `later` from then on, float64[PAGES]."""
    power = {"changes": 1, "delay": 2}[
        objective
    ]  # any function of λτ orders pages alike; the index of delay is λτ² / 2

    def choose(elapsed: Array, step: float) -> int:
        rates = now if step <= CYCLES * PAGES else later
        return int(np.argmax(rates * np.minimum(elapsed, NEVER) ** power))

    return choose, lambda page, gap, changed, step: None


POLICIES: dict[str, Callable[[Array, Array], tuple[Choose, Learn]]] = {
    "uniform": lambda now, later: uniform(),
    "halving": lambda now, later: halving(),
    "changes, rates known": partial(rates_known, "changes"),
    "delay, rates known": partial(rates_known, "delay"),
    "whittle, changes": lambda now, later: learned("changes"),
    "whittle, delay": lambda now, later: learned("delay"),
}
"""By the rates before and after the shift, which only some are given."""


def run(name: str, factor: float, share: float, seed: int) -> tuple[float, ...]:
    """Returns (found, left over, before, delay) of one run."""
    rng = np.random.default_rng(seed)
    rates = np.exp(rng.normal(0.0, SPREAD_EFOLDS, PAGES))
    rates /= rates.sum()
    shifted = np.where(rng.random(PAGES) < share, factor * rates, rates)
    shift, end = CYCLES * PAGES, 2 * CYCLES * PAGES
    changes = [
        np.concatenate([start + span * np.sort(rng.random(rng.poisson(rate * span))) for start, span, rate in parts])
        for parts in zip(
            ((0, shift, rate) for rate in rates), ((shift, end - shift, rate) for rate in shifted), strict=True
        )
    ]
    choose, learn = POLICIES[name](rates, shifted)
    last, seen, found, left_over, before = np.full(PAGES, -math.inf), np.zeros(PAGES, np.int64), 0, 0, 0
    delays: list[Array] = []
    for step in range(1, end + 1):
        page = choose(step - last, float(step))
        news = changes[page][seen[page] : changes[page].searchsorted(step, "right")]
        seen[page] += len(news)
        if step <= shift:
            before += len(news) > 0
        elif len(news):
            found += news[-1] > shift
            left_over += news[-1] <= shift
            delays.append(step - news[news > shift])
        learn(page, step - last[page], len(news) > 0, float(step))
        last[page] = step
    for page, times in enumerate(changes):
        rest = times[seen[page] :]
        delays.append(end - rest[rest > shift])
    return found / shift, left_over / shift, before / shift, float(np.concatenate(delays).mean()) / PAGES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, nargs="+", default=[0.5, 1.0], help="of the pages whose rates shift")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=POLICIES)
    parser.add_argument("--runs", type=int, default=16)
    arguments = parser.parse_args()
    print("| shift | policy | found | left over | before | delay, cycles |\n|---|---|---|---|---|---|")
    for factor, word in ((FACTOR, f"× {FACTOR:g}"), (1 / FACTOR, f"÷ {FACTOR:g}")):
        for share in arguments.share:
            for name in arguments.policies:
                rows = np.array([run(name, factor, share, seed) for seed in range(arguments.runs)])
                mean, error = rows.mean(0), rows.std(0, ddof=1) / math.sqrt(len(rows))
                figures = " | ".join(f"{m:.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True))
                print(f"| {word} at {share:.0%} of pages | {name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
