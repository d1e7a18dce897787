"""Time and memory of `whittle` among very many sites, some of which sources speak for: the allocator alone, no daemon.

All sites were polled before at random times, and their beliefs learned from one poll each. A tick is a choice of `--k`
sites from all, their polls and, where a source was read or pushes, its signals. Choices that look at a piece of all
sites, as after each step of the belief in common, are given apart. A page that a source tells of changes
as often as the others. Pages that are told of are spread over the whole list. Printed are the CPU times of choices, and
of the rest of the ticks, in ms (median, 99 %, longest, after `--warm-up` ticks), what was looked at in a choice, and
the memory that sources added, by tracemalloc, in bytes for each page told of, without the lists of slots that the
caller holds; and how long it took to add them and to choose once, while that was traced.

    python benchmarks/signals_scale.py --sites 1000000 --pages 100000 --sources 100 [--pushed] [--objective delay]
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registered import OBJECTIVES
from pollerd.allocation.registry import create
from pollerd.allocation.whittle.lazy_top_k import PIECE
from pollerd.allocation.whittle.whittle import Whittle

START = 1.75e9
_PIECE = 100_000


def learned(args: argparse.Namespace, rates: NDArray[np.float64]) -> tuple[Whittle, NDArray[np.float64]]:
    """Returns an allocator that has seen a poll of each site, and when these were, epoch s."""
    rng, n = np.random.default_rng(1), args.sites
    policy = create("whittle", budget=args.budget, objective=args.objective, rng=np.random.default_rng(0))
    assert isinstance(policy, Whittle)
    policy.expect(n)
    policy.add(np.arange(n), np.ones(n), np.ones(n))
    cycle = n / args.budget
    last = START - cycle * rng.permutation(n) / n
    order = np.argsort(last)
    for at in range(0, n, _PIECE):
        some = order[at : at + _PIECE]
        gap = np.full(len(some), cycle)
        changed = rng.random(len(some)) < -np.expm1(-rates[some] * gap)
        policy.observe(some, gap, EvidenceBatch(changed), float(last[some[-1]]))
    return policy, last


def run(args: argparse.Namespace) -> dict[str, object]:
    """Returns the figures of one run."""
    rng, n, cycle = np.random.default_rng(2), args.sites, args.sites / args.budget
    rates = rng.lognormal(0.0, 1.5, n) / cycle / 3.0
    policy, last = learned(args, rates)
    told = np.sort(rng.choice(n, args.pages, replace=False))
    of_source = np.array_split(told, args.sources) if args.pages else []
    sitemaps = rng.choice(n, len(of_source), replace=False)
    tracemalloc.start()
    begin = time.thread_time()
    for source, slots in enumerate(of_source):
        policy.add_source(source, slots, polled_as=None if args.pushed else int(sitemaps[source]))
    policy.select_seen(last, START, np.ones(n, bool), args.k)  # knows the last polls from now on
    adding = time.thread_time() - begin
    added = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    choices, rest, looked_at = np.zeros((3, args.ticks))
    step, everyone, fetched = args.k / args.budget, np.ones(n, bool), np.full(len(of_source), START)
    read_as = {int(slot): source for source, slot in enumerate(sitemaps)} if not args.pushed else {}
    for tick in range(args.ticks):
        now = START + (tick + 1) * step
        begin = time.thread_time()
        chosen = policy.select_seen(last, now, everyone, args.k)
        choices[tick], looked_at[tick] = time.thread_time() - begin, policy.looked_at
        changed = rng.random(len(chosen)) < -np.expm1(-rates[chosen] * (now - last[chosen]))
        sources = [read_as[slot] for slot in chosen.tolist() if slot in read_as]
        if args.pushed and of_source:
            sources = [int(rng.integers(len(of_source)))]
        news = [(source, _named(of_source[source], rates, now - fetched[source], rng)) for source in sources]
        begin = time.thread_time()
        policy.observe(chosen, now - last[chosen], EvidenceBatch(changed), now)
        for source, slots in news:
            policy.signal(slots, source, np.full(len(slots), now), now)
            policy.fetched(source, now)
            fetched[source] = now
        rest[tick] = time.thread_time() - begin
        last[chosen] = now
    choices, rest, looked_at = (one[args.warm_up :] for one in (choices, rest, looked_at))
    swept = looked_at >= PIECE
    return {
        "choice": _three(choices[~swept]),
        "choice with a piece of a sweep": _three(choices[swept]),
        "sweeps": round(float(swept.mean()), 2),
        "rest": _three(rest),
        "s to add sources": round(adding, 1),
        "looked at": int(np.median(looked_at[~swept])) if not swept.all() else None,
        "bytes a page": round(added / args.pages, 1) if args.pages else 0.0,
        "MB": round(added / 2**20, 2),
    }


def _named(
    slots: NDArray[np.int64], rates: NDArray[np.float64], since: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Returns the pages that a source names, which changed in `since` s."""
    return slots[rng.random(len(slots)) < -np.expm1(-rates[slots] * since)]


def _three(seconds: NDArray[np.float64]) -> str:
    if not len(seconds):
        return "-"
    return " / ".join(f"{1e3 * value:.1f}" for value in (*np.quantile(seconds, [0.5, 0.99]), seconds.max()))


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=1_000_000)
    parser.add_argument("--pages", type=int, default=100_000, help="that sources tell of; 0: no sources")
    parser.add_argument("--sources", type=int, default=100)
    parser.add_argument("--pushed", action="store_true", help="one source pushes at each tick; else they are polled")
    parser.add_argument("--budget", type=float, default=200.0)
    parser.add_argument("--k", type=int, default=20, help="sites a choice")
    parser.add_argument("--objective", default="changes", choices=OBJECTIVES)
    parser.add_argument("--ticks", type=int, default=600)
    parser.add_argument("--warm-up", type=int, default=100)
    print(run(parser.parse_args()), flush=True)


if __name__ == "__main__":
    main()
