"""The scheduler of [A] 3.1.1 beside the one of `htraa`: what polls at fixed amounts find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.periodic import EarliestDeadlineFirst
from pollerd.allocation.slots import credit_after
from pollerd.lab.environments.knapsack import Knapsack
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.htraa.schemes import PAPER
from pollerd.lab.experiments.results import Results

SKIPPED = 4
"""Part of the polls that is left out at the start, in which most pages are polled for the first time."""
EDF, LARGEST, DRAWN = "earliest deadline first", "largest amount times time", "drawn by the amounts"
PLAIN = "largest amount times time, nothing carried over"
AS_GOOD = 0.005
_POLLS: Mapping[Size, int] = {"quick": 20_000, "full": 100_000}
_WEBS = {
    "0.3/1.5, 512 pages": Zipf(512, 0.3, 1.5),
    "0.3/1.0, 512 pages": Zipf(512, 0.3, 1.0),
    "0.9/1.5, 512 pages": Zipf(512, 0.9, 1.5),
    "0.6/1.0, 8 pages": Zipf(8, 0.6, 1.0),
    "0.9/1.5, 2 pages": Zipf(2, 0.9, 1.5),
}
Chooser = Callable[[NDArray[np.float64]], int]
"""Takes the steps since each page's last poll, float64[n]; returns the page to poll, and records the poll."""


def earliest_deadline_first(amounts: NDArray[np.float64], rng: np.random.Generator) -> Chooser:
    """Returns [A]'s rule at amounts float64[n]."""
    scheduler, period = EarliestDeadlineFirst(), 1.0 / amounts
    scheduler.grow(len(amounts))

    def choose(elapsed: NDArray[np.float64]) -> int:
        page = int(scheduler.lateness(elapsed, period).argmax())
        scheduler.polled(np.array([page]), elapsed[[page]], period[[page]])
        return page

    return choose


def largest(amounts: NDArray[np.float64], rng: np.random.Generator) -> Chooser:
    """Returns the rule of `htraa`: the largest x τ, where τ counts what the last polls came late."""
    credit, period = np.zeros(len(amounts)), 1.0 / amounts

    def choose(elapsed: NDArray[np.float64]) -> int:
        page = int((amounts * (elapsed + credit)).argmax())
        credit[[page]] = credit_after(elapsed[[page]], credit[[page]], period[[page]])
        return page

    return choose


def plain(amounts: NDArray[np.float64], rng: np.random.Generator) -> Chooser:
    """Returns the rule of the largest x τ, where τ is the time since the last poll alone."""
    return lambda elapsed: int((amounts * elapsed).argmax())


def by_chance(amounts: NDArray[np.float64], rng: np.random.Generator) -> Chooser:
    """Returns the rule of [B]'s GPOKS: a page is drawn with the chance that its amount says."""
    ladder = np.cumsum(amounts)
    return lambda elapsed: int(np.searchsorted(ladder, rng.random() * ladder[-1], "right"))


RULES: Mapping[str, Callable[[NDArray[np.float64], np.random.Generator], Chooser]] = {
    EDF: earliest_deadline_first,
    LARGEST: largest,
    PLAIN: plain,
    DRAWN: by_chance,
}


def share_found(knapsack: Knapsack, choose: Chooser, polls: int) -> float:
    """Returns the share of the optimum that the polls after the first `SKIPPED`th part find, as expected by gaps."""
    last, probability = np.zeros(len(knapsack.p)), np.empty(polls)
    for poll in range(polls):
        elapsed = poll + 1.0 - last
        page = choose(elapsed)
        probability[poll] = -np.expm1(-knapsack.rate[page] * elapsed[page])
        last[page] = poll + 1.0
    return float(probability[polls // SKIPPED :].mean()) / knapsack.optimum


class Schedulers(Experiment):
    """Rows are rules of choice at the best amounts, columns webs; share of the optimum."""

    name = "htraa-schedulers"
    title = "the choice of the next page at the best amounts"
    source = f"{PAPER}, section 3.1.1"
    runs: Mapping[Size, int] = {"quick": 4, "full": 10}
    remarks = (
        "One poll a step. The amounts are the best ones, and stay. A poll counts the chance that the page has changed "
        "in its gap; the first quarter of the polls is left out. Only one of the rules draws: the others' runs are "
        "alike."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell(rule, web) for rule in RULES for web in _WEBS]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        knapsack = Knapsack(_WEBS[cell.column].by_rank)
        choose = RULES[cell.row](knapsack.best_mix, np.random.default_rng(seed))
        return RunOutcome({"": share_found(knapsack, choose, _POLLS[size])})

    def claims(self, results: Results) -> Sequence[Claim]:
        pairs = [(results.value(EDF, web), results.value(LARGEST, web)) for web in results.columns]
        shown = "; ".join(f"{edf:.4f} and {ours:.4f}" for edf, ours in pairs)
        alike = all(abs(edf - ours) < AS_GOOD for edf, ours in pairs)
        return (Claim("our rule finds what earliest deadline first finds (our own target)", alike, shown),)


SCHEDULERS = Schedulers()
