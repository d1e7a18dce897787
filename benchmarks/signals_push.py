"""Changes found with pushed signals, through the allocator's contract: 1,000 Zipf pages (or others), ten sources.

Pages change Poisson, p_k = .9 / k per unit of time; the budget is a multiple of all changes. A source announces a
share of the changes (recall); false signals come at one rate for all pages, so that the precision holds; 0, 0: only
false ones. `now`: every page named four times a uniform cycle; `never`: none; `half`: half of the pages as `now`,
half as recall and precision say. `fails`: as recall and precision say up to the middle of the run, only false ones
from then on; `stops`: none from then on; `recovers`: only false ones up to then. Each mode adds ten sources, so with
two of them two sources speak for each page; `copy` repeats the signals of the first mode. With `--known` the
allocator is told the quality of the sources, and believes them. With `--even-precision` the same share of each page's
signals is false; with `--shuffled` each page has as many false ones as another would have then. With `--batches`
signals come together, so many uniform cycles apart. With `--late` they come so many uniform cycles late, each or with
`--uneven` as the mean of an exponential distribution. Changes found are given for each part of the run; freshness,
`delay` (mean of all changes, in uniform cycles), `in time` (share of all changes
found within the deadline, in uniform cycles) and `value` (mean of 2^(-delay / half-life) of all changes, 0 for those
never found) for its second half. Numbers after ± are standard errors over the seeds.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registered import OBJECTIVES
from pollerd.allocation.registry import create
from pollerd.allocation.signals.quality import MAX_LOG_ODDS
from pollerd.allocation.whittle.whittle import Whittle

PAGES, SOURCES, BATCH = 1000, 10, 2
_MANY = 1e12
MODES = ("iid", "now", "never", "half", "none", "fails", "stops", "recovers", "copy")
HALVES = {"fails": ("good", "false"), "stops": ("good", ""), "recovers": ("false", "good")}
"""Modes that change in the middle of the run."""
RATES = -np.log1p(-0.9 / np.arange(1, PAGES + 1))


@dataclass
class World:
    """Pages that change at rates float64[pages], 1/s, and the source int64[pages] that speaks for each.

    even_precision: whether the same share of each page's signals is false, and not at the same rate; shuffled: whether
    each page has as many false ones as another page would have then.
    """

    rates: NDArray[np.float64]
    sources: int
    even_precision: bool = False
    shuffled: bool = False

    def __post_init__(self) -> None:
        self.pages = len(self.rates)
        self.source = np.random.default_rng(0).integers(0, self.sources, self.pages)

    def false_rates(self, mean: float) -> NDArray[np.float64]:
        """Returns the false signals a unit of time of each page, float64[pages]."""
        if not self.even_precision and not self.shuffled:
            return np.full(self.pages, mean)
        rates = np.random.default_rng(3).permutation(self.rates) if self.shuffled else self.rates
        return np.asarray(mean * rates / rates.mean())


WORLD = World(RATES, SOURCES)
"""That of the run; `main` sets it."""


def log_normal(pages: int, spread: float) -> NDArray[np.float64]:
    """Returns rates of sum 1, float64[pages], in any order, of which the logarithms are spread like that."""
    normal = NormalDist(0.0, spread)
    rates = np.exp([normal.inv_cdf((page + 0.5) / pages) for page in range(pages)])
    return np.random.default_rng(7).permutation(rates / rates.sum())


@dataclass(frozen=True)
class Times:
    """Times float64[m], ascending, and the pages int64[m] of what happens then."""

    at: NDArray[np.float64]
    page: NDArray[np.int64]

    @classmethod
    def ordered(cls, at: NDArray[np.float64], page: NDArray[np.int64]) -> Times:
        order = np.argsort(at, kind="stable")
        return cls(at[order], page[order])


def poisson(rates: NDArray[np.float64], end: float, rng: np.random.Generator) -> Times:
    number = rng.poisson(rates * end)
    return Times.ordered(rng.random(number.sum()) * end, np.repeat(np.arange(len(rates)), number))


def false_rate_of(recall: float, precision: float) -> float:
    """Returns the false signals a unit of time and page."""
    total = float(WORLD.rates.sum()) / WORLD.pages
    return total if recall == 0 else recall * total * (1 - precision) / precision


def signals_of(changes: Times, mode: str, quality: tuple[float, float], end: float, cycle: float, seed: int) -> Times:
    """Returns the signals, for (recall, precision)."""
    rng, (recall, precision) = np.random.default_rng(seed), quality
    if mode in HALVES:
        before, after = (_half(changes, part, quality, end, cycle, seed) for part in HALVES[mode])
        keep, rest = before.at <= end / 2, after.at > end / 2
        page = np.r_[before.page[keep], after.page[rest]]
        return Times.ordered(np.r_[before.at[keep], after.at[rest]], page)
    if mode == "now":
        at = np.arange(0.25, end / cycle, 0.25) * cycle
        return Times.ordered(np.repeat(at, WORLD.pages), np.tile(np.arange(WORLD.pages), len(at)))
    if mode in ("never", "none"):
        return Times(np.zeros(0), np.zeros(0, np.int64))
    if mode == "half":
        now = signals_of(changes, "now", quality, end, cycle, seed)
        good = signals_of(changes, "iid", quality, end, cycle, seed)
        lying = now.page % 2 == 0
        honest = good.page % 2 == 1
        return Times.ordered(np.r_[now.at[lying], good.at[honest]], np.r_[now.page[lying], good.page[honest]])
    false_rate = false_rate_of(recall, precision)
    true = rng.random(len(changes.at)) < recall
    false = poisson(WORLD.false_rates(false_rate), end, rng)
    return Times.ordered(np.r_[changes.at[true], false.at], np.r_[changes.page[true], false.page])


def _half(changes: Times, part: str, quality: tuple[float, float], end: float, cycle: float, seed: int) -> Times:
    """Returns signals of one half of `HALVES`, for the whole run."""
    if not part:
        return Times(np.zeros(0), np.zeros(0, np.int64))
    return signals_of(changes, "iid", (0.0, 0.0) if part == "false" else quality, end, cycle, seed)


def give(policy: Allocator, pages: NDArray[np.int64], first: int, now: float) -> None:
    """Gives the signals for pages int64[m] of the sources that begin at number `first`."""
    for source in np.unique(WORLD.source[pages]).tolist():
        of = pages[WORLD.source[pages] == source]
        policy.signal(of, first + source, np.full(len(of), np.nan), now)


@dataclass(frozen=True)
class Polled:
    """Shares of changes found in each part of a run; of its second half freshness, and float64[m] delays of changes."""

    found: list[float]
    fresh: float
    delays: NDArray[np.float64]
    never: NDArray[np.bool_]

    def numbers(self, cycle: float, due: float, half_life: float) -> dict[str, float]:
        """Returns what is printed; due, half_life: s."""
        parts = {f"changes {i + 1}": share for i, share in enumerate(self.found)}
        value = float(np.where(self.never, 0.0, 0.5 ** (self.delays / half_life)).mean())
        delay, soon = float(self.delays.mean()) / cycle, float((self.delays <= due).mean())
        return {**parts, "freshness": self.fresh, "delay": delay, "in time": soon, "value": value}


def tell(policy: Whittle, recall: float, precision: float) -> None:
    """Gives the sources their true quality, as learned from very many polls."""
    recall, false = min(max(recall, 1e-9), 1 - 1e-9), max(false_rate_of(recall, precision), 1e-9)
    for of in policy.signals.sources.values():
        each = false / WORLD.rates.mean() if WORLD.even_precision else false * of.learned_cycle
        means = math.log(recall / (1 - recall)), math.log(each)
        odds = 9.0 if WORLD.even_precision else -9.0
        of.joint.restore([*2 * [_MANY, 0.0, _MANY, *(_MANY * mean for mean in means)], odds])
        of.log_odds = MAX_LOG_ODDS


def delays(changes: Times, polls: Times, begin: float, end: float) -> NDArray[np.float64]:
    """Returns how long all changes from begin to end waited for a poll; those never found, until the end."""
    return waits(changes, polls, begin, end)[0]


def waits(changes: Times, polls: Times, begin: float, end: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Returns `delays`, and which changes were never found."""
    order = np.lexsort((polls.at, polls.page))
    place = np.searchsorted(polls.page[order] * 2 * end + polls.at[order], changes.page * 2 * end + changes.at)
    nearest = np.minimum(place, len(order) - 1)
    found = (place < len(order)) & (polls.page[order][nearest] == changes.page)
    waited = np.where(found, polls.at[order][nearest], end) - changes.at
    inside = (changes.at > begin) & (changes.at <= end)
    return np.asarray(waited[inside]), ~found[inside]


def run(policy: Allocator, changes: Times, signals: list[Times], end: float, parts: int, batch: int = BATCH) -> Polled:
    """batch: polls a choice."""
    last, first, everyone = np.zeros(WORLD.pages), np.full(WORLD.pages, np.inf), np.ones(WORLD.pages, bool)
    at, pages = [], []
    half, step, stale, seen, said = end / 2, batch / policy.budget, 0.0, 0, [0] * len(signals)
    found, happened = np.zeros(parts), np.zeros(parts)
    for now in np.arange(1, int(end / step)) * step:
        until, part = int(np.searchsorted(changes.at, now, side="right")), int(parts * now / end)
        np.minimum.at(first, changes.page[seen:until], changes.at[seen:until])
        happened[part] += until - seen
        seen = until
        for i, one in enumerate(signals):
            until = int(np.searchsorted(one.at, now, side="right"))
            give(policy, one.page[said[i] : until], WORLD.sources * i, float(now))
            said[i] = until
        polled = policy.select(now - last, float(now), everyone, batch)
        at.append(np.full(len(polled), now))
        pages.append(polled)
        changed = first[polled] < np.inf
        policy.observe(polled, now - last[polled], EvidenceBatch(changed), float(now))
        found[part] += int(changed.sum())
        if now > half:
            stale += float((now - np.maximum(first[polled][changed], half)).sum())
        first[polled], last[polled] = np.inf, now
    stale += float((end - np.maximum(first[first < np.inf], half)).sum())
    polls = Times.ordered(np.concatenate(at), np.concatenate(pages))
    return Polled(
        (found / np.maximum(happened, 1)).tolist(), 1 - stale / (WORLD.pages * half), *waits(changes, polls, half, end)
    )


def one_run(args: argparse.Namespace, seed: int) -> tuple[dict[str, float], str]:
    """Returns the numbers of one seed, and what was learned of the first source of each mode."""
    budget = args.budget * float(WORLD.rates.sum())
    end, cycle = args.polls / budget, WORLD.pages / budget
    changes, quality = poisson(WORLD.rates, end, np.random.default_rng(seed)), (args.recall, args.precision)
    signals: list[Times] = []
    for i, mode in enumerate(args.mode):
        if mode == "copy":
            signals.append(signals[0])
        elif mode != "none":
            signals.append(signals_of(changes, mode, quality, end, cycle, seed + 1000 * (i + 1)))
    if args.late:
        mean = args.late * cycle
        delay = np.random.default_rng(seed + 5).exponential(mean, max(len(times.at) for times in signals))
        late = delay if args.uneven else np.full(len(delay), mean)
        signals = [Times.ordered(times.at + late[: len(times.at)], times.page) for times in signals]
    if args.batches:
        step = args.batches * cycle
        signals = [Times(np.ceil(times.at / step) * step, times.page) for times in signals]
    due, half_life = args.deadline * cycle, args.half_life * cycle
    policy = create("whittle", budget=budget, objective=args.objective, rng=np.random.default_rng(0), deadline=due)
    policy.add(
        np.arange(WORLD.pages), np.ones(WORLD.pages), np.ones(WORLD.pages), half_life=np.full(WORLD.pages, half_life)
    )
    for source in range(WORLD.sources * len(signals)):
        policy.add_source(source, np.flatnonzero(source % WORLD.sources == WORLD.source))
    if args.known:
        assert isinstance(policy, Whittle)
        tell(policy, *quality)
    found = run(policy, changes, signals, end, args.parts, args.at_once)
    learned = "; ".join(str(policy.source_quality(WORLD.sources * i)) for i in range(len(signals)))
    return found.numbers(cycle, due, half_life), learned


def main() -> None:
    """Prints the means over the seeds, and what was learned with the first one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--objective", default="changes", choices=OBJECTIVES)
    parser.add_argument("--deadline", type=float, default=0.25, help="uniform cycles")
    parser.add_argument("--half-life", type=float, default=0.25, help="uniform cycles")
    parser.add_argument("--mode", nargs="+", default=["iid"], choices=MODES)
    parser.add_argument("--recall", type=float, default=0.9)
    parser.add_argument("--precision", type=float, default=0.9)
    parser.add_argument("--polls", type=int, default=6000)
    parser.add_argument("--parts", type=int, default=5)
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="number of them")
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--sources", type=int, default=SOURCES)
    parser.add_argument("--spread", type=float, default=0.0, help="of log-normal rates; 0: Zipf")
    parser.add_argument("--even-precision", action="store_true")
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--batches", type=float, default=0.0, help="uniform cycles between deliveries; 0: each at once")
    parser.add_argument("--late", type=float, default=0.0, help="uniform cycles from a change to its signal")
    parser.add_argument("--uneven", action="store_true", help="delays are exponential")
    parser.add_argument("--at-once", type=int, default=BATCH, help="polls a choice")
    args = parser.parse_args()
    zipf = -np.log1p(-0.9 / np.arange(1, args.pages + 1))
    rates = log_normal(args.pages, args.spread) if args.spread else zipf
    vars(WORLD).update(vars(World(rates, args.sources, args.even_precision, args.shuffled)))
    rows, learned = zip(*(one_run(args, args.seed + i) for i in range(args.seeds)), strict=True)
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        error = f" ± {values.std(ddof=1) / len(values) ** 0.5:.4f}" if len(values) > 1 else ""
        print(f"{name} {values.mean():.4f}{error}", end="  ")
    print(learned[0], flush=True)


if __name__ == "__main__":
    main()
