"""Common interface of the simulated environments: run a policy, return its score per interval of polls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.budget_split import value
from pollerd.allocation.index import amplitude_and_rate, solve_price
from pollerd.allocation.registered import DEFAULT_DEADLINE_S, OBJECTIVES, TIMELY, Objective
from pollerd.allocation.slots import one_of
from pollerd.errors import InvalidValueError
from pollerd.lab.environments.changes import RatePhase, ZipfChanges
from pollerd.lab.environments.driving import STEP_S, Record, detections, drive, freshness, interest
from pollerd.lab.environments.histories import History, HistoryChanges
from pollerd.lab.environments.knapsack import Knapsack, check_noise, drive_knapsack
from pollerd.lab.environments.waiting import expected_pending, least_pending, most_in_time, waits
from pollerd.lab.environments.web import Policy, run_web, streams
from pollerd.lab.environments.zipf import Zipf

SHORTEST_DEADLINE_S = 1e-3
HALF_LIVES_S = (1e-3, 1e11)
"""Range of half-lives of news: a millisecond to 3,000 years."""
SHORTEST_STEP_S = 1e-3
"""Smallest step of a history: dates in doubles resolve a quarter of a microsecond."""


class World(Protocol):
    """An environment in which policies are scored, by an objective that is independent of the policy's own.

    `changes`: the share of polls that find a change; `freshness`: of page-time that copies are current; `interest`: the
    value of new items when found; `delay`: that of all changes, as the best one divided by it; `deadline`: the share of
    all changes that are found in time.
    """

    def shares(self, policy: Policy, edges: Sequence[int], seed: np.random.SeedSequence) -> NDArray[np.float64]:
        """Returns the policy's score per interval of polls that ends at `edges`, relative to the optimum, float64."""
        ...


@dataclass(frozen=True)
class Web:
    """The web of a Zipf ranking, true changes and real gaps, one poll a step, equal weights and costs.

    The optimum is that for known rates, in closed form; with rank switches, under `interest`, that of each phase for
    its duration. half_lives: s, the shortest and the longest of the pages' news, for `interest`: drawn log-uniformly,
    independent of the page's rank. deadline: s, for `deadline`. Raises InvalidValueError for half-lives that are not
    shortest <= longest within `HALF_LIVES_S`, for deadlines below `SHORTEST_DEADLINE_S`, and for `interest` with noise.
    """

    zipf: Zipf
    objective: Objective = "changes"
    noise: float = 0.0
    half_lives: tuple[float, float] = (60.0, 3 * 86_400.0)
    deadline: float = DEFAULT_DEADLINE_S

    def __post_init__(self) -> None:
        one_of("objective", self.objective, OBJECTIVES)
        _check_deadline(self.deadline)
        (least, most), (shortest, longest) = HALF_LIVES_S, self.half_lives
        if not least <= shortest <= longest <= most:
            raise InvalidValueError("half_lives", f"{least:g} <= shortest <= longest <= {most:g} s", self.half_lives)
        if self.objective == "interest" and self.noise:
            raise InvalidValueError("noise", "0 with interest", self.noise)

    def shares(self, policy: Policy, edges: Sequence[int], seed: np.random.SeedSequence) -> NDArray[np.float64]:
        """Returns the shares; an interval may exceed 1, because it includes changes left over from the one before."""
        if self.objective == "interest":
            return self._interest(policy, edges, seed)
        record = run_web(self.zipf, policy, edges[-1], seed, noise=self.noise)
        if self.objective in TIMELY:
            return self._timely(record, edges, seed)
        best = self.zipf.optimum
        if self.objective == "freshness":
            best = best_freshness(-np.log1p(-self.zipf.by_rank) / STEP_S, STEP_S)
        return _scored(record, self.objective, edges) / best

    def _timely(self, record: Record, edges: Sequence[int], seed: np.random.SeedSequence) -> NDArray[np.float64]:
        web = ZipfChanges(self.zipf, streams(seed)[0])
        rates, deadline = -np.log1p(-self.zipf.by_rank), self.deadline / STEP_S
        if self.objective == "deadline":
            return np.asarray(waits(record, web).in_time(edges, deadline) / most_in_time(rates, deadline))
        if not self.zipf.switch_every:
            return np.asarray(least_pending(rates) / expected_pending(record, web.rates(), edges))
        pending = waits(record, web).pending(edges)
        return np.asarray(np.divide(least_pending(rates), pending, out=np.full(len(edges), np.nan), where=pending > 0))

    def _interest(self, policy: Policy, edges: Sequence[int], seed: np.random.SeedSequence) -> NDArray[np.float64]:
        web, _, lives = streams(seed)
        shortest, longest = np.log(self.half_lives)
        half_life = np.exp(lives.uniform(shortest, longest, self.zipf.pages))
        record = run_web(self.zipf, policy, edges[-1], seed, half_life=half_life)
        phases = list(ZipfChanges(self.zipf, web).phases(edges[-1]))
        decay = math.log(2) / half_life * STEP_S
        return interest(record, edges, phases, decay) / _best_interest(phases, edges, half_life)


@dataclass(frozen=True)
class KnapsackWorld:
    """The knapsack of a Zipf ranking: feedback from `d_i(x_i)` at the mix, expected value, best mix.

    Raises InvalidValueError for a ranking that switches, because the knapsack is static, and for invalid noise
    (`check_noise`).
    """

    zipf: Zipf
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_noise(self.noise)
        if self.zipf.switch_every:
            raise InvalidValueError("switch_every", "0 in the knapsack", self.zipf.switch_every)

    def shares(self, policy: Policy, edges: Sequence[int], seed: np.random.SeedSequence) -> NDArray[np.float64]:
        values = np.concatenate([[0.0], np.cumsum(self.values(policy, edges[-1], seed))])
        ends = np.concatenate([[0], np.asarray(edges)])
        return np.asarray(np.diff(values[ends]) / np.diff(ends) / self.zipf.optimum)

    def values(self, policy: Policy, polls: int, seed: np.random.SeedSequence) -> NDArray[np.float64]:
        """Returns the expected value of the mix in each step, float64[polls]; that of `uniform` is the even one."""
        if policy.objective != "changes":
            raise InvalidValueError("objective", "changes in the knapsack", policy.objective)
        world, own, draws = streams(seed)
        p = np.empty(self.zipf.pages)
        p[self.zipf.page_of_rank(world)] = self.zipf.by_rank
        knapsack = Knapsack(p)
        if policy.allocator == "uniform":
            return np.full(polls, knapsack.value(np.full(len(p), 1.0 / len(p))))
        allocator = policy.made(STEP_S, own, knapsack.rate / STEP_S)
        return drive_knapsack(allocator, knapsack, polls, draws, self.noise)


@dataclass(frozen=True)
class HistoryWorld:
    """Recorded changes, replayed once by `polls` polls at even steps, all pages known at its begin.

    The reference is the score of `optimal` with every page's mean rate: policies that follow drifting rates can exceed
    it; if it finds nothing in an interval, the share is nan. polls: number of steps in the history's span. deadline: s,
    for `deadline`. Raises InvalidValueError for `interest`, and for steps below `SHORTEST_STEP_S`.
    """

    history: History
    polls: int
    objective: Objective = "changes"
    noise: float = 0.0
    deadline: float = DEFAULT_DEADLINE_S

    def __post_init__(self) -> None:
        one_of(
            "objective of a history", self.objective, [objective for objective in OBJECTIVES if objective != "interest"]
        )
        _check_deadline(self.deadline)
        if not (self.polls >= 1 and self.history.span / self.polls >= SHORTEST_STEP_S):
            allowed = f"at least 1, each of {SHORTEST_STEP_S} s or more of the history's {self.history.span:g} s"
            raise InvalidValueError("steps", allowed, self.polls)

    def shares(self, policy: Policy, edges: Sequence[int], seed: np.random.SeedSequence) -> NDArray[np.float64]:
        clairvoyant = Policy("optimal", self.objective, told_rates=True, deadline=self.deadline)
        ours, best = (self._score(self._lived(each, edges[-1], seed), edges) for each in (policy, clairvoyant))
        return np.asarray(np.divide(ours, best, out=np.full(len(edges), np.nan), where=best > 0))

    def _score(self, record: Record, edges: Sequence[int]) -> NDArray[np.float64]:
        if self.objective not in TIMELY:
            return _scored(record, self.objective, edges)
        step = self.history.span / self.polls
        every = waits(record, HistoryChanges(self.history, step))
        if self.objective == "deadline":
            return every.in_time(edges, self.deadline / step)
        pending = every.pending(edges)
        return np.asarray(np.divide(1.0, pending, out=np.full(len(edges), np.nan), where=pending > 0))

    def _lived(self, policy: Policy, polls: int, seed: np.random.SeedSequence) -> Record:
        step = self.history.span / self.polls
        _, own, noisy = streams(seed)
        allocator = policy.made(step, own, self.history.rates)
        return drive(allocator, HistoryChanges(self.history, step), polls, step=step, noise=self.noise, rng=noisy)


def _check_deadline(deadline: float) -> None:
    if not (SHORTEST_DEADLINE_S <= deadline < math.inf):
        raise InvalidValueError("deadline", f"at least {SHORTEST_DEADLINE_S:g} s", deadline)


def best_freshness(rates: NDArray[np.float64], step: float) -> float:
    """Returns the share of page-time that copies are current at the optimal split of one poll a step; rates in 1/s."""
    unit = np.ones(len(rates))
    amplitude, rate = amplitude_and_rate("freshness", rates, unit, np.full(len(rates), np.nan))
    _, periods = solve_price(1.0 / step, amplitude, rate, unit)
    still = float((rates <= 0).sum())
    return (value(periods, amplitude, rate) + still) / len(rates)


def _best_interest(
    phases: Sequence[RatePhase], edges: Sequence[int], half_life: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the value per step at the optimal split of one poll a step for the current rates, by interval, float64.

    half_life float64[n] s. Gaps cut short by a rank switch are ignored: the split changes at once.
    """
    ends = np.concatenate([[0.0], np.asarray(edges, np.float64)])
    unit, total = np.ones(len(half_life)), np.zeros(len(edges))
    for phase in phases:
        amplitude, decay = amplitude_and_rate("interest", phase.rate / STEP_S, unit, half_life)
        best = value(solve_price(1.0 / STEP_S, amplitude, decay, unit)[1], amplitude, decay) * STEP_S
        total += best * np.maximum(np.minimum(ends[1:], phase.end) - np.maximum(ends[:-1], phase.begin), 0.0)
    return np.asarray(total / np.diff(ends))


def _scored(record: Record, objective: Objective, edges: Sequence[int]) -> NDArray[np.float64]:
    return detections(record, edges) if objective == "changes" else freshness(record, edges)
