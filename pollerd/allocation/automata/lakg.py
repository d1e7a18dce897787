"""Learning Automata Knapsack Game, LAKG ([A] 2.3 and its reference 8; [B] 5.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.learned_state import all_sound
from pollerd.allocation.periodic import Periodic
from pollerd.allocation.slots import between, put, whole
from pollerd.errors import InvalidValueError


@dataclass(frozen=True)
class LakgSettings:
    """resolution: states N of each automaton, 2 to 100,000. exponent: λ of the amounts `(s / N)^λ`, at most 10.

    exponent 0 is the smallest λ >= 1 for which the lowest amounts of all n sites together fill at most a tenth of the
    knapsack, `n / N^λ <= .1`: if they filled all of it, it would always be full and no site could gain. Neither paper
    prints its λ; λ = 1 and N = 500 would not work for [A]'s 512 pages.
    """

    resolution: int = 500
    exponent: float = 0.0

    def __post_init__(self) -> None:
        resolution = whole("resolution", self.resolution, 2, 100_000)
        put(self, resolution=resolution, exponent=between("exponent", self.exponent, 0, 10))

    def exponent_for(self, sites: int) -> float:
        """Returns λ for this number of sites."""
        return self.exponent or max(1.0, math.log(10 * max(sites, 1)) / math.log(self.resolution))

    def amounts(self, sites: int) -> NDArray[np.float64]:
        """Returns the amount of each state for this number of sites, float64[N + 1]; state 0 is unused."""
        return np.asarray((np.arange(self.resolution + 1) / self.resolution) ** self.exponent_for(sites))

    def start_for(self, sites: int) -> int:
        """Returns the state whose amount is nearest to the uniform amount of this number of sites."""
        state = self.resolution * max(sites, 1) ** (-1.0 / self.exponent_for(sites))
        return int(min(max(round(state), 1), self.resolution))


class Lakg(Periodic):
    """One automaton per site, whose state s in 1..N represents the amount `(s / N)^λ`; the game is a full knapsack.

    After a poll that found a change (v = 1) the site's state rises by one unless the knapsack is full, that is
    `Σ amounts >= 1`; after one that found none (v = 0) it falls by one if it is full; else it stays. If the drift of
    every state is zero, all `d_i / (1 - d_i)` are equal, which is the optimum of [A] 4.2. Sites are polled in
    proportion to their amounts, earliest deadline first. A site starts at the state nearest to the uniform amount
    `1 / n`, which follows n until the first poll.

    Only for the objective `changes` and sites of equal weight and cost: others raise InvalidValueError. It does not
    estimate rates. Polls that another allocator made count like its own. A poll costs O(N) for the sum over the states
    and a pass over the n periods.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("lakg", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([nan, nan])
    """

    NAME = "lakg"
    _FIELDS = 1

    def __init__(self, budget: float, settings: LakgSettings) -> None:
        super().__init__(budget)
        self._settings, self._resolution = settings, settings.resolution
        self._amount_of = np.ones(settings.resolution + 1)
        """Amount of each state; state 0 is unused."""
        self._state = np.zeros((0, 1))
        """States, float64[capacity, 1]; 0: not polled yet."""
        self._need = np.zeros(0)
        """1 / amount of slots 0..n-1."""
        self._how_many = np.zeros(settings.resolution + 1)
        """Number of sites in each state."""
        self._states_counted = True

    def _grow(self, capacity: int) -> None:
        self._state = np.concatenate([self._state, np.zeros((capacity - len(self._state), 1))])

    def _rows(self) -> NDArray[np.float64]:
        return self._state

    def _check(self, rows: NDArray[np.float64]) -> None:
        state = rows[:, 0]
        sound = (state >= 0) & (state <= self._resolution) & (state == np.floor(state))
        all_sound(self.NAME, f"a whole state from 1 to {self._resolution}, or 0 for none", sound, state)

    def _resized(self) -> None:
        self._states_counted = False

    def _start(self) -> int:
        return self._settings.start_for(self._slot_table.size)

    def _count_states(self) -> None:
        """Recounts the states after sites were added or removed; sites not polled yet get the initial state."""
        self._amount_of = self._settings.amounts(self._slot_table.size)
        used, states = (
            self._slot_table.used[: self._slot_table.n],
            self._state[: self._slot_table.n, 0].astype(np.int64),
        )
        states[states == 0] = self._start()
        self._how_many = np.bincount(states[used], minlength=self._resolution + 1).astype(np.float64)
        self._need = 1.0 / self._amount_of[states]
        self._states_counted = True

    def _filled(self) -> float:
        """Returns Σ amounts; the capacity is 1."""
        if not self._states_counted:
            self._count_states()
        return float(self._how_many @ self._amount_of)

    def _periods(self) -> NDArray[np.float64]:
        filled = self._filled()
        return np.asarray(self._need * (filled / self.budget))

    def _learn(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        for slot, has_changed in zip(slots.tolist(), changed.tolist(), strict=True):
            full = self._filled() >= 1.0
            before = int(self._state[slot, 0]) or self._start()
            after = before + (0 if has_changed == full else 1 if has_changed else -1)
            after = min(max(after, 1), self._resolution)
            self._state[slot, 0], self._need[slot] = after, 1.0 / self._amount_of[after]
            self._how_many[before] -= 1
            self._how_many[after] += 1

    def _shared(self) -> dict[str, NDArray[Any]]:
        return {"form": np.array([self._resolution, self._settings.exponent])}

    def _take_shared(self, kept: dict[str, NDArray[Any]]) -> None:
        form = self._shared()["form"]
        if not np.array_equal(kept["form"], form):
            raise InvalidValueError("resolution and exponent of the state", f"{form}", kept["form"])
