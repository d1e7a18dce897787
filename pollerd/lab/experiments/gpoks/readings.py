"""Other readings of [B]'s contenders, each a row of its own below the row that it reads otherwise.

[B] does not say how LAKG and H-TRAA choose the material to poll. Our allocators poll by a deterministic rule (earliest
deadline first, largest amount times gap); [B]'s GPOKS draws a material with the chance that its amount says (6.2 step
4), and rows "drawn" let the automata do so, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.bandits import Thompson, Ucb1, ucb1_bounds
from pollerd.lab.environments.knapsack import Knapsack, drawn, noisy
from pollerd.lab.experiments.experiment import PublishedValue
from pollerd.lab.experiments.gpoks.play import AUTOMATA_STATES

TIES_BY_CHANCE, DEVIATIONS = "MAB:UCB-1, ties by chance", "MAB:TS, deviations"
DRAWN_LAKG, DRAWN_HTRAA, LAKG_OF_5_1 = "LA:LAKG, drawn", "LA:H-TRAA, drawn", "LA:LAKG, by 5.1"
LAKG_EVEN = "LA:LAKG, by 5.1 from N/n"
READS: Mapping[str, str] = {
    TIES_BY_CHANCE: "MAB:UCB-1",
    DEVIATIONS: "MAB:TS",
    DRAWN_LAKG: "LA:LAKG",
    LAKG_OF_5_1: "LA:LAKG",
    DRAWN_HTRAA: "LA:H-TRAA",
}
"""Another reading -> the row of [B] that it reads."""
READS_OF_MANY: Mapping[str, str] = {**READS, LAKG_EVEN: "LA:LAKG"}
"""The same on more than two materials; on two, N/n is [B]'s own start."""


class Ucb1ByChance(Ucb1):
    """UCB-1 that pulls one of the arms with the highest bound at random, not the first: O(m) a choice."""

    def choose(self, rng: np.random.Generator) -> int:
        bounds = ucb1_bounds(self.counts, self.sums)
        return int(rng.choice(np.flatnonzero(bounds == bounds.max())))


class ThompsonByDeviations(Thompson):
    """Thompson sampling where [B]'s N(.7, .2) and .05 are standard deviations, as its example 3.2 reads them."""

    prior_variance = 0.2**2
    reward_variance = 0.05**2


def with_readings(numbers: Iterable[PublishedValue], readings: Mapping[str, str] = READS) -> list[PublishedValue]:
    """Returns the numbers, each row followed by its other `readings`, which have the same printed numbers."""
    rows: dict[str, list[PublishedValue]] = {}
    for number in numbers:
        rows.setdefault(number.row, []).append(number)
    return [
        replace(number, row=row)
        for printed, of_row in rows.items()
        for row in (printed, *(other for other, read in readings.items() if read == printed))
        for number in of_row
    ]


def lakg_of_5_1(
    knapsack: Knapsack,
    steps: int,
    seeds: Sequence[np.random.SeedSequence],
    *,
    noise: float = 0.0,
    even_start: bool = False,
) -> NDArray[np.float64]:
    """Returns scores float64[runs, steps] of LAKG as [B] 5.1 prints it, materials drawn by their amounts.

    Amounts are s / N, put in proportion to the capacity; all states start at N // 2, or at N // n, the even split of a
    full knapsack, if `even_start`. A state rises after a change if the amounts add up to less than 1, and falls after
    none whenever they add up to more than 0, which is always: a state of at least 1 remains. (`lakg` starts near 1 / n,
    and falls only while the knapsack is full.)
    """
    runs, n = len(seeds), len(knapsack.p)
    state = np.full((runs, n), AUTOMATA_STATES // (n if even_start else 2))
    scores, run = np.empty((runs, steps)), np.arange(runs)
    rng = np.random.default_rng(np.random.SeedSequence(np.concatenate([s.generate_state(4) for s in seeds]).tolist()))
    for step in range(steps):
        total = state.sum(1)
        mix = state / total[:, None]
        scores[:, step] = knapsack.value(mix)
        polled = drawn(mix, rng)
        detected = rng.random(runs) < noisy(knapsack.detection(mix)[run, polled], noise, rng)
        rises = detected & (total < AUTOMATA_STATES)
        state[run, polled] = np.maximum(state[run, polled] + rises - ~detected, 1)
    return scores
