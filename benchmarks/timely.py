"""How soon changes are found under `delay` and `deadline`, through the contract: Zipf pages and recorded histories.

One poll a step. The budget is a multiple of all changes; a uniform cycle has as many steps as there are pages. `delay`
is the mean delay of all changes in uniform cycles, `deadline` the share of all changes that is found within the
deadline, in uniform cycles. Who knows the rates: `bound`, the best that a policy can do that sees no changes coming;
`optimal`, the allocator; `index`, the index policy of docs/objectives.md, written here anew. Of histories both know the
pages' mean rates, and there is no bound. The second half of a run counts; mean and standard error over the seeds.

    python benchmarks/timely.py --seeds 5
    python benchmarks/timely.py --histories traces.npz --seeds 3

A history file is as for `benchmarks/histories.py`; of each source at most 100 pages, drawn by the seed, and 2,000
polls; sources of raw bytes, which are mostly noise, are left out.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from histories import load
from numpy.typing import NDArray

from pollerd.allocation.baselines import Uniform
from pollerd.allocation.contract import Allocator
from pollerd.allocation.registry import create
from pollerd.lab.environments.changes import Changes
from pollerd.lab.environments.driving import STEP_S, drive
from pollerd.lab.environments.waiting import Waits, least_pending, most_in_time, waits

PAGES, POLLS_A_PAGE, MAX_STEPS = 200, 20, 2_000
MAX_PAGES = 100
BUDGETS = (0.5, 1.0, 2.0)
GOALS = (("delay", 0.25), ("deadline", 0.05), ("deadline", 0.25))
"""Objectives, and deadlines in uniform cycles; of histories the second one is left out."""
POLICIES = ("uniform", "optimal", "index", "whittle", "whittle for changes")


class GivenChanges(Changes):
    """Changes at given times float64[m] in steps, sorted within each page, of pages with `counts` int64[n] each."""

    def __init__(self, times: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
        super().__init__(len(counts))
        self._given = times, counts

    def block(self, begin: float) -> tuple[float, NDArray[np.float64], NDArray[np.int64]]:
        times, counts = self._given
        if begin > 0:
            return np.inf, np.empty(0), np.zeros(self.pages, np.int64)
        return float(times.max(initial=1.0)) + 1.0, times, counts


@dataclass(frozen=True)
class Pages:
    """Change times in steps, changes of each page, their rates per step, and the number of steps."""

    times: NDArray[np.float64]
    counts: NDArray[np.int64]
    rates: NDArray[np.float64]
    steps: int


def zipf_pages(budget: float, seed: int) -> Pages:
    """Poisson changes at rates in proportion to 1 / rank; `budget` polls a change."""
    rng, steps = np.random.default_rng(seed), POLLS_A_PAGE * PAGES
    rates = 1.0 / np.arange(1, PAGES + 1)
    rates = rng.permutation(rates / rates.sum() / budget)
    counts = rng.poisson(rates * steps)
    times = [np.sort(rng.uniform(0, steps, number)) for number in counts]
    return Pages(np.concatenate(times), counts, rates, steps)


def recorded_pages(path: Path, source: str, budget: float, seed: int) -> Pages:
    """The changes of some pages of a source; the first .15, .3 or .45 of its history is skipped, by the seed."""
    history = load(path, source, 0.15 * (1 + seed % 3))
    counts, rng = np.diff(history.first), np.random.default_rng(seed)
    chosen = np.zeros(len(counts), np.bool_)
    chosen[rng.permutation(len(counts))[:MAX_PAGES]] = True
    of_chosen = np.repeat(chosen, counts)
    number = int(of_chosen.sum())
    steps, step = min(int(number * budget), MAX_STEPS), history.span / (number * budget)
    times, owner = (history.times[of_chosen] - history.start) / step, np.repeat(np.arange(chosen.sum()), counts[chosen])
    kept = (times > 0) & (times <= steps)
    return Pages(
        times[kept], np.bincount(owner[kept], minlength=int(chosen.sum())), history.rates[chosen] * step, steps
    )


class KnownRates(Uniform):
    """The index policy of docs/objectives.md with known rates per s: `worth` τ² / 2, or the worth of sites in time."""

    def __init__(self, rates: NDArray[np.float64], deadline: float | None) -> None:
        super().__init__(1.0)
        self._rates, self._deadline = rates, deadline

    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        if self._deadline is None:
            return np.asarray(self._rates * elapsed**2 / 2)
        due = elapsed + 1e-6 >= self._deadline
        return np.where(due, self._rates, 1e-9 * self._rates * (elapsed / self._deadline) ** 2)


def policy_of(name: str, objective: str, deadline: float, rates: NDArray[np.float64]) -> Allocator:
    """rates: per s; deadline: s."""
    if name == "index":
        return KnownRates(rates, deadline if objective == "deadline" else None)
    kind, _, other = name.partition(" for ")
    rng, told = np.random.default_rng(0), {"rates": rates} if name == "optimal" else {}
    goal = other or objective
    return create(kind, budget=1.0 / STEP_S, objective=goal, rng=rng, deadline=deadline, **told)


def goals(path: Path | None) -> tuple[tuple[str, float], ...]:
    return GOALS if path is None else (GOALS[0], GOALS[2])


def lived(policy: Allocator, pages: Pages) -> Waits:
    record = drive(policy, GivenChanges(pages.times, pages.counts), pages.steps)
    return waits(record, GivenChanges(pages.times, pages.counts))


def scores(seed: int, budget: float, path: Path | None, source: str) -> dict[tuple[str, float, str], float]:
    """Returns the score of each policy for each goal, in one world."""
    pages = zipf_pages(budget, seed) if path is None else recorded_pages(path, source, budget, seed)
    n, out, half = len(pages.counts), {}, [pages.steps // 2, pages.steps]
    changes = max(float((pages.times > half[0]).sum()) / (half[1] - half[0]), 1e-12)
    runs: dict[str, Waits] = {}
    for objective, cycles in goals(path):
        deadline = cycles * n
        for name in POLICIES:
            alone = name == "uniform" or " for " in name
            run = runs.get(name) if alone else None
            if run is None:
                run = lived(policy_of(name, objective, deadline * STEP_S, pages.rates / STEP_S), pages)
                runs[name] = run
            found = run.pending(half)[1] / changes / n if objective == "delay" else run.in_time(half, deadline)[1]
            out[objective, cycles, name] = float(found)
        if path is None:
            least = least_pending(pages.rates) / float(pages.rates.sum()) / n
            out[objective, cycles, "bound"] = least if objective == "delay" else most_in_time(pages.rates, deadline)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    path = arguments.histories
    sources = (
        sorted({key.split("/")[0] for key in np.load(path).files if "/" in key and "_raw" not in key})
        if path
        else ["zipf"]
    )
    columns = (*([] if path else ["bound"]), *POLICIES)
    print(f"| pages | budget | objective | {' | '.join(columns)} |\n|{' --- |' * (3 + len(columns))}", flush=True)
    with ProcessPoolExecutor(arguments.processes) as pool:
        for source in sources:
            for budget in BUDGETS:
                work = partial(scores, budget=budget, path=path, source=source)
                found = list(pool.map(work, range(arguments.seeds)))
                for objective, cycles in goals(path):
                    label = objective if objective == "delay" else f"{objective} {cycles:g}"
                    cells = []
                    for name in columns:
                        values = [one[objective, cycles, name] for one in found]
                        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
                        cells.append(f"{np.nanmean(values):.3f} ± {error:.3f}")
                    print(f"| {source} | x{budget:g} | {label} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
