"""Schemes by the names of [B]'s rows, and runs of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.bandits import Arms, GpUcb, Thompson, Ucb1
from pollerd.lab.environments.knapsack import Knapsack
from pollerd.lab.experiments.gpoks.play import POINTS, automata, gpoks, materials, splits
from pollerd.lab.experiments.gpoks.readings import (
    DEVIATIONS,
    DRAWN_HTRAA,
    DRAWN_LAKG,
    LAKG_EVEN,
    LAKG_OF_5_1,
    TIES_BY_CHANCE,
    ThompsonByDeviations,
    Ucb1ByChance,
    lakg_of_5_1,
)

VARIANT = {
    "GPOKS": "ots+mono",
    "GPOKS:TS": "ts",
    "GPOKS:OTS": "ots",
    "GPOKS:MONO": "mono",
    "GPOKS:GPR": "gpr",
    "GPOKS:UCB": "ucb",
    "GPOKS:IPS": "ips",
    "GPOKS:IPS-OTS": "ips-ots",
}
BY_REJECTION = ("GPOKS", "GPOKS:OTS", "GPOKS:MONO")
"""Rows whose functions must meet conditions and are drawn by rejection."""
SPLITS: dict[str, type[Arms]] = {
    "MAB:UCB-1": Ucb1,
    "MAB:TS": Thompson,
    "MAB:GP-UCB": GpUcb,
    TIES_BY_CHANCE: Ucb1ByChance,
    DEVIATIONS: ThompsonByDeviations,
}
MATERIALS = "MAB:UCB-1-RAW"
AUTOMATA = {"LA:LAKG": "lakg", "LA:H-TRAA": "htraa", DRAWN_LAKG: "lakg", DRAWN_HTRAA: "htraa"}
BY_CHANCE = (DRAWN_LAKG, DRAWN_HTRAA)
"""Automata whose materials are drawn by their amounts."""
FIXED = ("OPTIMAL", "UNIFORM")


def scores(  # noqa: PLR0913 (the options of an experiment)
    row: str,
    knapsack: Knapsack,
    steps: int,
    seeds: Sequence[np.random.SeedSequence],
    *,
    noise: float = 0.0,
    gain: str = "unit value",
    points: int = POINTS,
    even_start: bool = False,
) -> NDArray[np.float64]:
    """Returns scores float64[runs, steps] of a scheme, a run for each seed; gain to even_start as in play.py."""
    if row in FIXED:
        n = len(knapsack.p)
        reached = knapsack.optimum if row == "OPTIMAL" else float(knapsack.value(np.full(n, 1.0 / n)))
        return np.full((len(seeds), steps), reached)
    if row in VARIANT:
        words = np.concatenate([seed.generate_state(4) for seed in seeds])
        together = np.random.default_rng(np.random.SeedSequence(words.tolist()))
        return gpoks(
            *(knapsack, VARIANT[row], steps, len(seeds), together),
            noise=noise,
            gain=gain,
            points=points,
            even_start=even_start,
        )
    if row in (LAKG_OF_5_1, LAKG_EVEN):
        return lakg_of_5_1(knapsack, steps, seeds, noise=noise, even_start=row == LAKG_EVEN)
    return np.array([_one(row, knapsack, steps, np.random.default_rng(seed), noise) for seed in seeds])


def _one(row: str, knapsack: Knapsack, steps: int, rng: np.random.Generator, noise: float) -> NDArray[np.float64]:
    """Returns scores float64[steps] of one run of a competitor."""
    if row in AUTOMATA:
        return automata(knapsack, AUTOMATA[row], steps, rng, noise=noise, by_chance=row in BY_CHANCE)
    if row == MATERIALS:
        return materials(knapsack, steps, rng)
    return splits(knapsack, SPLITS[row], steps, rng)
