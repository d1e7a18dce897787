"""Signals on recorded histories of real pages, through the allocator's contract: changes found, and quality learned.

The pages of a source of the histories (`histories.py` says what such a file holds) change as they did; ten pushed
sources, each of a tenth of the pages, announce a share of the changes (recall), dated, and give false signals at one
rate for all pages, so that the precision holds. With `--announced-by OTHER` the changes of the same pages in another
source of the file are the signals instead: those of the raw bytes of pages announce those of their visible text. The
first 30 % of a history are skipped; one poll a step, `--polls` a page at most. The second half counts: the share of
changes found (one that another followed before a poll is lost), the mean delay of all changes in uniform cycles, and
the recall and precision learned of the sources, beside the true ones over the whole run.

    python benchmarks/signals_histories.py --histories traces.npz [--sources NAME ...] [--budget 1] [--recall .9]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from histories import ChangeTimes, load
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create

GROUPS, START, SAME_S = 10, 0.3, 60.0
"""Sources, the part of a history that is skipped, and the s within which two records are of one change."""
NONE = np.zeros(0)


def pages_of(history: ChangeTimes) -> list[NDArray[np.float64]]:
    """Returns the change times of each page, epoch s."""
    return [history.times[a:b] for a, b in pairwise(history.first)]


def made_up(
    pages: list[NDArray[np.float64]], quality: tuple[float, float], begin: float, end: float, seed: int
) -> Iterator[NDArray[np.float64]]:
    """Yields the times of each page's signals, for (recall, precision)."""
    rng, (recall, precision) = np.random.default_rng(seed), quality
    total = sum(int(((page > begin) & (page <= end)).sum()) for page in pages)
    false = recall * total * (1.0 - precision) / precision / len(pages) if recall else total / len(pages)
    for page in pages:
        number = rng.poisson(false)
        yield np.sort(np.r_[page[rng.random(len(page)) < recall], rng.uniform(begin, end, number)])


def both(path: Path, source: str, other: str) -> tuple[ChangeTimes, list[NDArray[np.float64]]]:
    """Returns the history of the pages of `source` that have one in `other` as well, and their changes in that one."""
    stored = np.load(path)
    ids = [bytes(stored[f"{name}/ids"]).decode().split("\n") for name in (source, other)]
    places = {name: place for place, name in enumerate(ids[1])}
    first, times = stored[f"{other}/indptr"], stored[f"{other}/times"].astype(np.float64)
    history = load(path, source, START)
    pages = pages_of(history)
    of_id = {
        tuple(stored[f"{source}/times"][a:b][-3:].tolist()): name
        for name, (a, b) in zip(ids[0], pairwise(stored[f"{source}/indptr"].tolist()), strict=True)
    }
    named = [of_id.get(tuple(page[-3:].astype(np.int64).tolist())) for page in pages]
    kept = [i for i, name in enumerate(named) if name in places]
    edges = np.cumsum([0, *(len(pages[i]) for i in kept)])
    few = ChangeTimes(np.concatenate([pages[i] for i in kept]), edges, history.start, history.span)
    signals = [times[first[places[str(named[i])]] : first[places[str(named[i])] + 1]] for i in kept]
    return few, signals


def run(
    policy: Allocator,
    pages: list[NDArray[np.float64]],
    signals: list[NDArray[np.float64]],
    of_source: NDArray[np.int64],
    window: tuple[float, float, int],
) -> dict[str, float]:
    """Replays a window (begin, end, steps); returns the share found and the mean delay (s) of its second half."""
    begin, end, steps = window
    n, half, step = len(pages), (window[0] + window[1]) / 2, (end - begin) / steps
    last, found, happened, delay = np.full(n, begin), 0, 0, 0.0
    order = np.argsort(np.concatenate([NONE, *signals]), kind="stable")
    at = np.concatenate([NONE, *signals])[order]
    counts = np.array([len(one) for one in signals])
    page_of = np.repeat(np.arange(n), counts)[order]
    said = int(np.searchsorted(at, begin, side="right"))
    everyone = np.ones(n, bool)
    for place in range(1, steps + 1):
        now = begin + place * step
        until = int(np.searchsorted(at, now, side="right"))
        for i in range(said, until):
            said_of = page_of[i : i + 1]
            policy.signal(said_of, int(of_source[said_of[0]]), at[i : i + 1], now)
        said = until
        slot = int(policy.select(now - last, now, everyone, 1)[0])
        new = pages[slot][(pages[slot] > last[slot]) & (pages[slot] <= now)]
        policy.observe(np.array([slot]), np.array([now - last[slot]]), EvidenceBatch(np.array([len(new) > 0])), now)
        if now > half and len(new):
            found += 1
            delay += float((now - new[new > half]).sum())
        last[slot] = now
    for page, seen in zip(pages, last.tolist(), strict=True):
        happened += int(((page > half) & (page <= end)).sum())
        delay += float((end - page[(page > max(seen, half)) & (page <= end)]).sum())
    return {"found": found / max(happened, 1), "delay": delay / max(happened, 1)}


def true_quality(
    pages: list[NDArray[np.float64]], signals: list[NDArray[np.float64]], begin: float, end: float
) -> tuple[float, float]:
    """Returns the share of changes with a signal within `SAME_S`, and of signals with a change."""
    inside = [[one[(one > begin) & (one <= end)] for one in part] for part in (pages, signals)]
    pairs = [_near(changes, said) for changes, said in zip(*inside, strict=True)]
    back = [_near(said, changes) for changes, said in zip(*inside, strict=True)]
    return tuple(float(np.concatenate(part).mean()) for part in (pairs, back))  # type: ignore[return-value]


def _near(of: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    if not len(others):
        return np.zeros(len(of), bool)
    place = np.clip(np.searchsorted(others, of), 1, max(len(others) - 1, 1))
    return np.minimum(abs(of - others[place - 1]), abs(of - others[np.minimum(place, len(others) - 1)])) <= SAME_S


def row(args: argparse.Namespace, source: str) -> str:
    """Returns a line of the table."""
    history = load(args.histories, source, START)
    given: list[NDArray[np.float64]] = []
    if args.announced_by:
        history, given = both(args.histories, source, args.announced_by)
    pages = pages_of(history)
    n, budget = len(pages), args.budget * len(history.times) / history.span
    steps = min(int(history.span * budget), args.polls * n)
    begin, end = history.start, history.start + steps / budget
    cells = []
    for quality in (None, (args.recall, args.precision)):
        numbers = []
        for seed in range(args.seed, args.seed + args.seeds):
            of_source = np.random.default_rng(seed).integers(0, GROUPS, n)
            policy = create("whittle", budget=budget, objective=args.objective, rng=np.random.default_rng(0))
            policy.add(np.arange(n), np.ones(n), np.ones(n))
            signals = given if given else list(made_up(pages, quality or (0.9, 0.9), begin, end, seed))
            for group in range(GROUPS if quality else 0):
                policy.add_source(group, np.flatnonzero(of_source == group))
            one = run(policy, pages, signals if quality else [NONE] * n, of_source, (begin, end, steps))
            learned = [policy.source_quality(group) for group in range(GROUPS if quality else 0)]
            told = [(of.recall, of.precision, of.say) for of in learned if of is not None and of.polls > 0]
            true = true_quality(pages, signals, begin, end)
            numbers.append([one["found"], one["delay"] * budget / n, *np.mean(told or [(0, 0, 0)], 0), *true])
        cells.append(np.mean(numbers, 0))
    (without, with_signals) = cells
    return (
        f"| {source} | {n} | {steps / n:.0f} | {without[0]:.3f} | {with_signals[0]:.3f} | {without[1]:.3f} "
        f"| {with_signals[1]:.3f} | {with_signals[2]:.2f} ({with_signals[5]:.2f}) "
        f"| {with_signals[3]:.2f} ({with_signals[6]:.2f}) | {with_signals[4]:.2f} |"
    )


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=Path, required=True)
    parser.add_argument("--sources", nargs="+", help="of the histories; all by default")
    parser.add_argument("--announced-by", help="another source of the file")
    parser.add_argument("--budget", type=float, default=1.0, help="as a multiple of all changes")
    parser.add_argument("--objective", default="changes", choices=("changes", "freshness", "delay"))
    parser.add_argument("--recall", type=float, default=0.9)
    parser.add_argument("--precision", type=float, default=0.9)
    parser.add_argument("--polls", type=int, default=20, help="a page, at most")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    names = args.sources or sorted({name.split("/")[0] for name in np.load(args.histories).files if "/" in name})
    print("| pages | number | polls a page | found: none | found | delay: none | delay | recall | precision | say |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for source in names:
        print(row(args, source), flush=True)


if __name__ == "__main__":
    main()
