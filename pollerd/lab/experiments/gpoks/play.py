"""[B]'s schemes in the stochastic knapsack: the mix in each step, and its value.

The score of a step is the expectation `Σ x_i d_i(x_i)` at the mix; the feedback for learning is a draw.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.bandits import Arms, Ucb1
from pollerd.allocation.gpoks.regression import Kernel, believe, index_set, value_functions
from pollerd.allocation.periodic import water_filling
from pollerd.allocation.registry import create
from pollerd.lab.environments.driving import STEP_S
from pollerd.lab.environments.knapsack import Knapsack, drawn, drive_knapsack, noisy

POINTS = 101
"""Points of GPOKS's index set and of the bandits' amounts: steps of .01, which [B] uses for its bandits."""
AUTOMATA_STATES = 100


def unit_value(functions: NDArray[np.float64], amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the gain of each step from one amount to the next, float64[..., m - 1]: the unit value at its end.

    The value of an amount is the integral of its unit value, `f'_i = p_i` ([B] 2.3), so a step ε gains `ε p_i(x)`.
    """
    return functions[..., 1:]


def product(functions: NDArray[np.float64], amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the gain by the formula of DET-KS, `(M + ε) f(M + ε) - M f(M)` ([B] 6.1.1)."""
    return np.diff(amounts * functions, axis=-1)


GAINS: dict[str, Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]] = {
    "unit value": unit_value,
    "product": product,
}


def gpoks(  # noqa: PLR0913 (the options of an experiment)
    knapsack: Knapsack,
    variant: str,
    steps: int,
    runs: int,
    rng: np.random.Generator,
    *,
    noise: float = 0.0,
    gain: str = "unit value",
    points: int = POINTS,
    even_start: bool = False,
) -> NDArray[np.float64]:
    """Returns scores float64[runs, steps] of `runs` runs of GPOKS, simulated together ([B] 6.2).

    variant as in gpoks/sampling.py; noise: standard deviation of (2.3); gain: one of `GAINS`; points: of the index set;
    even_start: the first step uses the even split, and all materials give feedback. Else each step draws all functions
    again, solves, polls one material at random in proportion to its amount, and learns at the point of that amount.
    """
    n, index = len(knapsack.p), index_set(np.linspace(0.0, 1.0, points), Kernel())
    amounts = index.points[1:]
    counts, sums = np.zeros((2, runs * n, points))
    belief, scores, run = believe(index, counts, sums), np.empty((runs, steps)), np.arange(runs)
    for step in range(steps):
        functions = value_functions(belief, variant, rng)[:, 1:].reshape(runs, n, -1)
        taken = water_filling(GAINS[gain](functions, amounts), np.ones(points - 2), points - 1 - n)
        even = even_start and step == 0
        if even:
            taken[:] = (points - 1) // n - 1
        mix = amounts[taken]
        scores[:, step] = knapsack.value(mix)
        lines = np.tile(run, n) if even else run
        polled = np.repeat(np.arange(n), runs) if even else drawn(mix, rng)
        chance = noisy(knapsack.detection(mix)[lines, polled], noise, rng)
        row, point = lines * n + polled, taken[lines, polled] + 1
        counts[row, point] += 1
        sums[row, point] += rng.random(len(row)) < chance
        learned = believe(index, counts[row], sums[row])
        belief.mean[row], belief.root[row] = learned.mean, learned.root
    return scores


def mixes_of(materials: int, points: int) -> NDArray[np.float64]:
    """Returns all mixes of amounts > 0 in steps of 1 / (points - 1), float64[m, materials], in lexical order.

    m is `C(points - 2, materials - 1)`, [B] 5.3.1 with k = points: 99 for two materials and steps of .01.
    """
    cuts = np.array(list(combinations(range(1, points - 1), materials - 1)))
    ends = np.zeros((len(cuts), 1), np.int64)
    return np.asarray(np.diff(np.concatenate([ends, cuts, ends + points - 1], axis=1)) / (points - 1))


def splits(
    knapsack: Knapsack, player: type[Arms], steps: int, rng: np.random.Generator, points: int = POINTS
) -> NDArray[np.float64]:
    """Returns scores float64[steps] of a bandit whose arms are the splits between the materials ([B] 5.3.1)."""
    mixes = mixes_of(len(knapsack.p), points)
    detection, value = knapsack.detection(mixes), knapsack.value(mixes)
    arms, scores = player(len(mixes)), np.empty(steps)
    for step in range(steps):
        arm = arms.choose(rng)
        scores[step] = value[arm]
        polled = int(drawn(mixes[[arm]], rng)[0])
        arms.learn(arm, float(rng.random() < detection[arm, polled]))
    return scores


def materials(knapsack: Knapsack, steps: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Returns scores float64[steps] of UCB-1 on the materials themselves ([B] 7.2.2).

    It has no mix, so there is no `d_i(x_i)`: a poll finds a change with `1 - q^τ`, τ steps after the last.
    """
    arms: Arms = Ucb1(len(knapsack.p))
    last, scores = np.zeros(len(knapsack.p)), np.empty(steps)
    for step in range(steps):
        arm = arms.choose(rng)
        scores[step] = -np.expm1(-knapsack.rate[arm] * (step + 1 - last[arm]))
        last[arm] = step + 1
        arms.learn(arm, float(rng.random() < scores[step]))
    return scores


def automata(
    knapsack: Knapsack,
    allocator: str,
    steps: int,
    rng: np.random.Generator,
    *,
    noise: float = 0.0,
    by_chance: bool = False,
) -> NDArray[np.float64]:
    """Returns scores float64[steps] of `lakg` or `htraa` with 100 states, the latter as in [B] 5.2.

    That variant of H-TRAA learns from rewards alone, and does not update automata above the first whose draw fails.
    by_chance: the material to poll is drawn in proportion to its amount, else the allocator chooses it.
    """
    variant: dict[str, Any] = {"updating": "reward-inaction", "climb": "until-failure", "reorder": False}
    parameters = variant if allocator == "htraa" else {}
    made = create(allocator, budget=1.0 / STEP_S, rng=rng, resolution=AUTOMATA_STATES, **parameters)
    return drive_knapsack(made, knapsack, steps, rng, noise=noise, by_chance=by_chance)
