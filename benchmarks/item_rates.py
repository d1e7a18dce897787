"""How well rates of feeds are learned from their polls: by changes alone, by counts, and by items, censored and dated.

Feeds show their newest 20 items, which come at log-normal rates, one by one or in bursts. All are polled at the same
gaps, in which the middle one gets `mean` items. After a first poll and 12 more: the error of the believed mean rate, as
the root of the mean square of its logarithm, and its bias, the mean of the logarithm; over 400 feeds, with standard
error over the seeds. What `whittle` is told: changes; counts, as other objectives have them (without a number if all
items are new); items, as under `interest`: the number shown as new, a lower bound if all are; dated, the same with the
time in which the items came, at first polls and if all are new.

    python benchmarks/item_rates.py --seeds 5
    python benchmarks/item_rates.py --histories traces.npz

A history file is as for `benchmarks/histories.py`: its times are taken as times of single items, of the feeds with at
least 40 of them, and the rate to be learned is the mean over the polls.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from histories import load
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create

Array = NDArray[np.float64]
FEEDS, POLLS, SHOWN, FEWEST = 400, 12, 20, 4
BEFORE = 40
"""Gaps before the first poll whose items may still be shown."""
MEANS = (0.5, 2.0, 10.0, 40.0)
TOLD = ("changes", "counts", "items", "dated")
EPOCH_S, GAP_S = 1.7e9, 3_600.0
WIDTH = 1.0
"""Standard deviation of the logarithm of the rates."""


def drawn(mean: float, burst: float, rng: np.random.Generator) -> list[Array]:
    """Returns times in gaps of the items of each feed, from -BEFORE on; `burst` items at a moment in the mean."""
    times = []
    for rate in mean * np.exp(rng.normal(0.0, WIDTH, FEEDS)):
        length = BEFORE + POLLS + 1
        moments = np.sort(rng.uniform(-BEFORE, POLLS + 1, rng.poisson(rate * length / burst)))
        times.append(np.repeat(moments, rng.geometric(1.0 / burst, len(moments))))
    return times


def recorded(path: Path, source: str, mean: float, start: float) -> list[Array]:
    """Returns the times of the feeds of a source, in gaps in which their middle one gets `mean` items."""
    history = load(path, source, start)
    each = [history.times[a:b] - history.start for a, b in zip(history.first[:-1], history.first[1:], strict=True)]
    each = [times for times in each if (times > 0).sum() >= 2 * SHOWN]
    gap = mean * history.span / float(np.median([(times > 0).sum() for times in each]))
    return [times[times < (POLLS + 1) * gap] / gap for times in each]


def learned(times: list[Array], told: str) -> Array:
    """Returns the logarithm of the believed rate over the true one, float64[k], of feeds with an item."""
    n = len(times)
    policy = create("whittle", budget=n / GAP_S, objective="interest", rng=np.random.default_rng(0))
    slots = np.arange(n)
    policy.add(slots, np.ones(n), np.ones(n))
    if told in ("items", "dated"):
        policy.set_items_shown(slots, np.full(n, float(SHOWN)))
    for poll in range(1, POLLS + 2):
        first = poll == 1
        new = [one[(one > poll - 1) & (one <= poll)] for one in times]
        came = np.array([len(one) for one in new])
        full = (came >= SHOWN) | first
        count = np.where(full | (came == 0), -1, came) if told != "changes" else np.full(n, -1)
        shown = [one[one <= poll][-SHOWN:] if first else items[-SHOWN:] for one, items in zip(times, new, strict=True)]
        span, at_least = np.full(n, np.nan), np.minimum(came, SHOWN)
        for feed in np.flatnonzero(full) if told == "dated" else ():
            half = shown[feed][-((len(shown[feed]) + 1) // 2) :] if first else shown[feed]
            if len(shown[feed]) >= FEWEST and len(np.unique(half)) == len(half):
                span[feed], at_least[feed] = (poll - half[0]) * GAP_S, len(half)
        gap = np.full(n, np.inf if first else GAP_S)
        evidence = EvidenceBatch((came > 0) & (not first), count=count, at_least=at_least, span=span)
        policy.observe(slots, gap, evidence, EPOCH_S + poll * GAP_S)
    true = np.array([(one > 1).sum() for one in times]) / POLLS / GAP_S
    some = true > 0
    return np.asarray(np.log(policy.rates()[some] / true[some]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=Path)
    parser.add_argument("--sources", nargs="+", default=["rss_xiaomi_items"])
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    worlds = ["one by one", "bursts of 4"] if given.histories is None else given.sources
    print("| feeds | items a gap |", " | ".join(f"{told}: error | bias" for told in TOLD), "|")
    print("| --- | --- |", " --- |" * 2 * len(TOLD))
    for world in worlds:
        for mean in MEANS:
            cells = []
            for told in TOLD:
                errors = []
                for seed in range(given.seeds):
                    if given.histories is None:
                        times = drawn(mean, 1.0 if world == worlds[0] else 4.0, np.random.default_rng(seed))
                    else:
                        times = recorded(given.histories, world, mean, 0.2 + 0.1 * seed)
                    off = learned(times, told)
                    errors.append((np.sqrt((off**2).mean()), off.mean()))
                each = np.array(errors)
                spread = each.std(0, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.full(2, np.nan)
                cells += [f"{m:.2f} ± {s:.2f}" for m, s in zip(each.mean(0), spread, strict=True)]
            print(f"| {world} | {mean:g} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
