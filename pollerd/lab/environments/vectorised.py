"""Schemes of [A], vectorised over runs: choices and updates of the allocators, one pass over all runs per poll.

An allocator's poll costs about the same for 2 pages as for 1,000, because calls dominate. Thirty runs at once cost
little more than one. Code shared with the allocators is reused (deadlines, poll counts, the layout of the tree); the
rest is compared with the allocators poll by poll (`tests/lab`). Arrays have runs first, pages last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.automata.hierarchy import UPDATING, Hierarchy, TraaSettings, shares
from pollerd.allocation.automata.lakg import LakgSettings
from pollerd.allocation.baselines import in_proportion
from pollerd.allocation.periodic import LONGEST_PERIOD_S, EarliestDeadlineFirst
from pollerd.allocation.slots import SAME_S, PollCounts, credit_after, rate_without_polls

_DRAWS_AHEAD = 512
"""Polls for which the random numbers of a run are drawn at once."""
_PUT_BACK_AT_MOST = 16
"""Number of unreleased pages of a run that are put back one by one before all are compared."""


class BatchedPolicy(ABC):
    """R runs of one scheme over n pages of equal weight and cost, one poll per step of `step` s in each."""

    def __init__(self, runs: int, pages: int, step: float) -> None:
        self.runs, self.pages, self.step = runs, pages, step
        self._begin = np.arange(runs) * pages

    def flat(self, page: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the flat index of page int64[R] of each run in an array [R, n]."""
        return self._begin + page

    @abstractmethod
    def choose(self, elapsed: NDArray[np.float64]) -> NDArray[np.int64]:
        """Returns the page that each run polls next, int64[R]; elapsed float64[R, n] s since the last polls."""

    @abstractmethod
    def learn(self, page: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        """Learns from each run's poll: page int64[R], elapsed float64[R] s, changed bool[R]."""

    @abstractmethod
    def mix(self) -> NDArray[np.float64]:
        """Returns the poll frequencies, float64[R, n]; each run's sum to 1."""


class BatchedUniform(BatchedPolicy):
    """`uniform`: the page polled longest ago; the lower page on ties."""

    def choose(self, elapsed: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.asarray(elapsed.argmax(1))

    def learn(self, page: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        return

    def mix(self) -> NDArray[np.float64]:
        return np.full((self.runs, self.pages), 1.0 / self.pages)


class BatchedPeriodic(BatchedPolicy):
    """Schemes with periods, earliest deadline first; here with fixed periods, float64[R, n] s."""

    def __init__(self, period: NDArray[np.float64], step: float) -> None:
        runs, pages = period.shape
        super().__init__(runs, pages, step)
        self.period = period
        self._edf = EarliestDeadlineFirst()
        self._edf.grow(period.size)
        self._since_release, self._late = np.empty(period.shape), np.empty(period.shape)

    def choose(self, elapsed: NDArray[np.float64]) -> NDArray[np.int64]:
        """Chooses by `lateness`, but only looks at the latest pages; elapsed must be finite and >= 0.

        Usually few unreleased pages precede the first released one. They are put back one by one.
        """
        since_release, late = self._since_release, self._late
        np.add(elapsed, self._edf.credit.reshape(elapsed.shape), out=since_release)
        np.minimum(self.period, LONGEST_PERIOD_S, out=late)
        np.subtract(since_release, late, out=late)
        for _ in range(_PUT_BACK_AT_MOST):
            page = np.asarray(late.argmax(1))
            at = self.flat(page)
            waits = since_release.ravel()[at] <= SAME_S
            if not waits.any():
                return page
            late.ravel()[at[waits]] = -np.inf
        late = self._edf.lateness(elapsed.ravel(), self.period.ravel()).reshape(elapsed.shape)
        return np.asarray(late.argmax(1))

    def learn(self, page: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        at = self.flat(page)
        self._edf.polled(at, elapsed, self.period.ravel()[at])
        self._teach(at, elapsed, changed)

    def _teach(self, at: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        """Learns from the polls of places int64[R], before the next choice."""
        return

    def mix(self) -> NDArray[np.float64]:
        amounts = 1.0 / self.period
        return np.asarray(amounts / amounts.sum(1, keepdims=True))


class BatchedEstimator(BatchedPeriodic):
    """`estimator`: even periods for `phase` polls, then by `1 - e^(-λ step)` for the λ estimated from them."""

    def __init__(self, runs: int, pages: int, step: float, phase: int) -> None:
        super().__init__(np.full((runs, pages), pages * step), step)
        self._poll_counts, self._phase, self._polls = PollCounts(np.inf), phase, 0
        self._poll_counts.grow(runs * pages)
        self._since = np.zeros(runs, np.int64)

    def _teach(self, at: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        before = self._polls < self._phase
        learning = before | (self._poll_counts.rows[at, 0] < self._phase / self.pages)
        self._poll_counts.note(at[learning], elapsed[learning], changed[learning])
        self._polls, self._since = self._polls + 1, self._since + learning
        due = (self._since >= self.pages) | (before and self._polls == self._phase)
        self._since[due] = 0
        if self._polls >= self._phase and due.any():
            self._note_polled(np.flatnonzero(due))

    def _note_polled(self, runs: NDArray[np.int64]) -> None:
        """Updates the periods of these runs from the current rate estimates."""
        cycle = self.pages * self.step
        rates = self._poll_counts.rates(self.runs * self.pages, cycle)
        rates = np.where(self._poll_counts.rows[:, 0] > 0, rates, rate_without_polls(cycle)).reshape(self.period.shape)
        for run in runs.tolist():
            self.period[run] = in_proportion(-np.expm1(-rates[run] * self.step), 1.0 / self.step)


class BatchedLakg(BatchedPeriodic):
    """`lakg`: one state per page, up after a change unless the knapsack is full, down after none if it is full."""

    def __init__(self, runs: int, pages: int, step: float, settings: LakgSettings) -> None:
        super().__init__(np.full((runs, pages), pages * step), step)
        start, self._amount_of = settings.start_for(pages), settings.amounts(pages)
        self._state = np.full(runs * pages, start)
        self._how_many = np.zeros((runs, settings.resolution + 1))
        self._how_many[:, start] = pages
        self._need = np.full((runs, pages), 1.0 / self._amount_of[start])
        self._filled = self._sums()
        """Σ amounts of each run, float64[R]: the capacity is 1."""

    def _sums(self) -> NDArray[np.float64]:
        # A row at a time: a product of matrix and vector rounds otherwise than `Lakg`'s, and one rounding can decide
        # whether the knapsack is full or which of two pages is the later.
        return np.asarray((self._how_many[:, None, :] @ self._amount_of[:, None])[:, 0, 0])

    def _teach(self, at: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        full = self._filled >= 1.0
        before = self._state[at]
        after = np.clip(before + changed.astype(np.int64) - full, 1, len(self._amount_of) - 1)
        self._state[at] = after
        self._need.reshape(-1)[at] = 1.0 / self._amount_of[after]
        run = np.arange(self.runs)
        self._how_many[run, before] -= 1
        self._how_many[run, after] += 1
        self._filled = self._sums()
        np.multiply(self._need, self._filled[:, None] / (1.0 / self.step), out=self.period)


class BatchedHtraa(BatchedPolicy):
    """`htraa` as in [A]: leaves in the order of the pages, a power of two, all automata above a leaf are updated.

    rngs: the random generator of each run's automata.
    """

    def __init__(self, pages: int, step: float, settings: TraaSettings, rngs: Sequence[np.random.Generator]) -> None:
        super().__init__(len(rngs), pages, step)
        tree = Hierarchy(settings)
        tree.add(pages, None)
        self._settings, self._resolution, self._rngs = settings, tree.resolution, rngs
        self._states, self._part = np.tile(tree.states, (self.runs, 1)), np.tile(tree.part, (self.runs, 1))
        self._credit = np.zeros(self.runs * pages)
        self._heights = np.arange(tree.depth)
        self._draws, self._drawn = np.empty((self.runs, 0, tree.depth)), 0
        self._amounts = self._multiplied()

    @property
    def states(self) -> NDArray[np.int64]:
        """States of each run's automata, int64[R, capacity], laid out as `Hierarchy.states`."""
        return self._states

    def _multiplied(self) -> NDArray[np.float64]:
        """Returns the products of the shares on the paths to the leaves, float64[R, n]."""
        amounts: NDArray[np.float64] = np.ones((self.runs, 1))
        for height in self._heights.tolist():
            below = self._part[:, 2 << height : 4 << height].reshape(self.runs, -1, 2)
            amounts = (amounts[:, :, None] * below).reshape(self.runs, -1)
        return amounts

    def choose(self, elapsed: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.asarray((self._amounts * (elapsed + self._credit.reshape(elapsed.shape))).argmax(1))

    def learn(self, page: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        at = self.flat(page)
        self._credit[at] = credit_after(elapsed, self._credit[at], self.step / self._amounts.ravel()[at])
        draws = self._next_draws()
        on_reward, on_penalty = UPDATING[self._settings.updating]
        run = np.arange(self.runs)[:, None]
        node = (page[:, None] + self.pages) >> self._heights
        above, first = node >> 1, (node & 1) == 0
        states, share = self._states[run, above], self._part[run, above << 1]
        moved = states + np.where(first == changed[:, None], 1, -1)
        moves = np.where(changed, on_reward, on_penalty)[:, None] & (draws <= np.where(first, 1.0 - share, share))
        moves &= (moved >= 1) & (moved <= self._resolution[above])
        states = np.where(moves, moved, states)
        share = np.where(moves, shares(states, self._resolution[above], self._settings.exponent), share)
        self._states[run, above] = states
        self._part[run, above << 1], self._part[run, (above << 1) + 1] = share, 1.0 - share
        self._amounts = self._multiplied()

    def _next_draws(self) -> NDArray[np.float64]:
        if self._drawn == self._draws.shape[1]:
            size = (_DRAWS_AHEAD, len(self._heights))
            self._draws, self._drawn = np.array([rng.random(size) for rng in self._rngs]), 0
        self._drawn += 1
        return np.asarray(self._draws[:, self._drawn - 1])

    def mix(self) -> NDArray[np.float64]:
        return self._amounts
