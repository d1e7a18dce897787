"""Base class of policies whose periods follow from rates, either given true rates or estimates from the polls."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.periodic import Periodic
from pollerd.allocation.slots.poll_counts import FIELDS, MEMORY_POLLS, SOUND, PollCounts, rate_without_polls
from pollerd.allocation.slots.state_bytes import all_sound, not_negative_count
from pollerd.allocation.slots.validation import column, floats, positive_or_0
from pollerd.errors import InvalidValueError

_SLOWEST, _FASTEST = 1e-100, 1e100
"""Bounds of the estimates, 1/s."""


class Rated(Periodic):
    """Periods from rates.

    true_rates: changes per second by slot, float64[>= slots], >= 0; then polls teach nothing, and slots beyond them are
    refused. None: rates are estimated from the last 64 to 128 polls of each site (`PollCounts`). Periods are updated
    from the estimates after as many polls as there are sites. step: s between two polls, 0: 1 / budget.
    """

    _FIELDS = len(FIELDS) + 1

    def __init__(
        self, budget: float, true_rates: NDArray[np.float64] | None, step: float, memory: float = MEMORY_POLLS
    ) -> None:
        super().__init__(budget)
        self._true_rates = (
            None if true_rates is None else column("rates", true_rates, floats("rates", true_rates).size, zero=True)
        )
        self._step_s = positive_or_0("step", step)
        self._poll_counts = PollCounts(memory)
        self._learned = np.zeros((0, self._FIELDS))
        """The fields of `PollCounts`, and the rate behind the site's period; 0: the initial rate."""
        self._polls_since = 0
        self._every: NDArray[np.float64] | None = None
        """Periods of slots 0..n-1, for the budget `_every_for`; None: to be computed."""
        self._every_for = 0.0

    @abstractmethod
    def _split(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the seconds between polls of slots 0..n-1 for rates float64[n], which are 0 for empty slots."""

    def _step(self) -> float:
        """Returns the seconds between two polls."""
        return self._step_s or 1.0 / self.budget

    def _cycle(self) -> float:
        """Returns the seconds in which every site is polled once."""
        return self._step() * max(self._slot_table.size, 1)

    # --- rates ---------------------------------------------------------------------------------------------------

    def rates(self) -> NDArray[np.float64]:
        n = self._slot_table.n
        rates = self._estimates() if self._true_rates is None else self._true_rates[:n]
        return np.where(self._slot_table.used[:n], rates, np.nan)

    def _estimates(self) -> NDArray[np.float64]:
        return self._poll_counts.rates(self._slot_table.n, self._cycle())

    def _periods(self) -> NDArray[np.float64]:
        if self._every is None or self._every_for != self.budget:
            n = self._slot_table.n
            rates = self._adopted_rates(n) if self._true_rates is None else self._true_rates[:n]
            self._every = self._split(np.where(self._slot_table.used[:n], rates, 0.0))
            self._every_for = self.budget
        return self._every

    def _adopted_rates(self, n: int) -> NDArray[np.float64]:
        adopted = self._learned[:n, -1]
        return np.where(adopted > 0, adopted, rate_without_polls(self._cycle()))

    def _learn(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        if self._true_rates is not None:
            return
        self._poll_counts.note(slots, elapsed, changed)
        self._polls_since += len(slots)
        if self._polls_since >= self._slot_table.size:
            self._adopt_rates()

    def _adopt_rates(self) -> None:
        """Bases the periods on the current rate estimates from now on."""
        n = self._slot_table.n
        polled = self._learned[:n, 0] > 0
        self._learned[:n, -1] = np.where(polled, self._estimates(), 0.0)
        self._polls_since, self._every = 0, None

    # --- rows ----------------------------------------------------------------------------------------------------

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        super().admit(slots, weight, cost)
        if self._true_rates is not None and np.max(slots, initial=-1) >= len(self._true_rates):
            raise InvalidValueError(
                "rates", f"one for each slot, up to {int(np.max(slots))}", f"{len(self._true_rates)} rates"
            )

    def _grow(self, capacity: int) -> None:
        self._learned = np.concatenate([self._learned, np.zeros((capacity - len(self._learned), self._FIELDS))])
        self._poll_counts.rows = self._learned[:, :-1]

    def _rows(self) -> NDArray[np.float64]:
        return self._learned

    def _check(self, rows: NDArray[np.float64]) -> None:
        all_sound(self.NAME, SOUND, self._poll_counts.sound(rows[:, :-1]), rows)
        adopted = rows[:, -1]
        sound = (adopted == 0) | ((adopted >= _SLOWEST) & (adopted <= _FASTEST))
        all_sound(self.NAME, f"a rate of 0 or from {_SLOWEST:g} to {_FASTEST:g} per s", sound, adopted)

    def _resized(self) -> None:
        self._every = None

    def _shared(self) -> dict[str, NDArray[Any]]:
        return {"polls_since": np.array([self._polls_since])}

    def _take_shared(self, kept: dict[str, NDArray[Any]]) -> None:
        self._polls_since = not_negative_count("polls_since", kept)


def in_proportion(amounts: NDArray[np.float64], budget: float) -> NDArray[np.float64]:
    """Returns periods in s for frequencies in proportion to amounts float64[n] >= 0; inf where the amount is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scaled = budget * amounts
        # beyond 1e308 the quotients are taken one after the other; below, the rounding stays as it always was
        every = np.where(np.isfinite(scaled), amounts.sum() / scaled, amounts.sum() / amounts / budget)
        return np.where(amounts > 0, every, np.inf)
