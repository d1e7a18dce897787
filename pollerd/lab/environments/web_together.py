"""Many runs of one of [A]'s schemes at once, in the web or in the knapsack, equal to `run_web` and `KnapsackWorld`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.automata.htraa import HtraaSettings
from pollerd.allocation.automata.lakg import LakgSettings
from pollerd.allocation.baselines import in_proportion
from pollerd.lab.environments.changes import Webs, ZipfChanges
from pollerd.lab.environments.driving import STEP_S
from pollerd.lab.environments.knapsack import Knapsack
from pollerd.lab.environments.vectorised import (
    BatchedEstimator,
    BatchedHtraa,
    BatchedLakg,
    BatchedPeriodic,
    BatchedPolicy,
    BatchedUniform,
)
from pollerd.lab.environments.web import Policy, streams
from pollerd.lab.environments.zipf import Zipf

MAX_LEAVES = 4096
"""With more pages H-TRAA is faster one run at a time: its allocator looks at O(log n) of them."""


def can_go_together(policy: Policy, pages: int) -> bool:
    """Returns whether the policy has a vectorised version that supports this number of pages."""
    parameters = dict(policy.parameters)
    if policy.objective != "changes":
        return False
    if policy.allocator == "htraa":
        known = (
            not parameters.get("reorder", True) and parameters.get("climb", "all") == "all" and "step" not in parameters
        )
        return known and pages <= MAX_LEAVES and pages & (pages - 1) == 0
    if policy.allocator == "estimator":
        return set(parameters) == {"phase"}
    if policy.allocator in ("optimal", "proportional"):
        return policy.told_rates and not parameters
    return policy.allocator == "lakg" or (policy.allocator == "uniform" and not parameters)


def found_together(
    zipf: Zipf, policy: Policy, polls: int, seeds: Sequence[np.random.SeedSequence]
) -> NDArray[np.bool_]:
    """Returns whether each poll found a change, bool[R, polls], in one web per seed; the same webs as `run_web`."""
    drawn = [streams(seed)[:2] for seed in seeds]
    webs = [ZipfChanges(zipf, web) for web, _ in drawn]
    rates = np.array([web.rates() for web in webs]) / STEP_S
    truth, players = Webs(webs), _players(policy, rates, [own for _, own in drawn])
    last, elapsed = np.zeros(rates.shape), np.empty(rates.shape)
    detected, run = np.empty((len(seeds), polls), np.bool_), np.arange(len(seeds))
    for j in range(polls):
        now = (j + 1) * STEP_S
        page = players.choose(np.subtract(now, last, out=elapsed))
        detected[:, j] = truth.poll(page, j + 1.0)
        players.learn(page, elapsed[run, page], detected[:, j])
        last[run, page] = now
    return detected


def values_together(
    zipf: Zipf, policy: Policy, steps: int, seeds: Sequence[np.random.SeedSequence]
) -> NDArray[np.float64]:
    """Returns `Σ x_i d_i(x_i)` of the mix in each step, float64[R, steps]: `drive_knapsack` for each seed."""
    drawn = [streams(seed) for seed in seeds]
    p = np.empty((len(seeds), zipf.pages))
    for row, (world, _, _) in zip(p, drawn, strict=True):
        row[zipf.page_of_rank(world)] = zipf.by_rank
    knapsack = Knapsack(p.ravel())
    rate = knapsack.rate.reshape(p.shape)
    players = _players(policy, rate / STEP_S, [own for _, own, _ in drawn])
    coins = np.array([draws.random(steps) for _, _, draws in drawn])
    last, values, run = np.zeros(p.shape), np.empty((len(seeds), steps)), np.arange(len(seeds))
    for j in range(steps):
        now = (j + 1) * STEP_S
        page = players.choose(now - last)
        mix = players.mix()
        detection = -np.expm1(-rate / mix)
        values[:, j] = (mix * detection).sum(1)
        players.learn(page, now - last[run, page], coins[:, j] < detection[run, page])
        last[run, page] = now
    return values


def _players(policy: Policy, rates: NDArray[np.float64], rngs: Sequence[np.random.Generator]) -> BatchedPolicy:
    """Creates the scheme for one poll per `STEP_S`; rates float64[R, n]: true changes per second.

    ValueError for a policy without a vectorised version (`can_go_together`).
    """
    (runs, pages), parameters = rates.shape, dict(policy.parameters)
    if not can_go_together(policy, pages):
        raise ValueError(f"not written for many runs at once with {pages} pages: {policy}")
    if policy.allocator == "uniform":
        return BatchedUniform(runs, pages, STEP_S)
    if policy.allocator == "estimator":
        return BatchedEstimator(runs, pages, STEP_S, parameters["phase"])
    if policy.allocator == "lakg":
        return BatchedLakg(runs, pages, STEP_S, LakgSettings(**parameters))
    if policy.allocator == "htraa":
        return BatchedHtraa(pages, STEP_S, HtraaSettings(**parameters), rngs)
    return BatchedPeriodic(np.array([_periods(policy.allocator, each) for each in rates]), STEP_S)


def _periods(allocator: str, rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the periods in s of `proportional` or `optimal` for true rates float64[n] per s."""
    return in_proportion(rates if allocator == "optimal" else -np.expm1(-rates * STEP_S), 1.0 / STEP_S)
