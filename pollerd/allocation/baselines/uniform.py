"""Round robin: the site that was polled longest ago comes first ([A] 4.3.1, Uniform)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator, EvidenceBatch
from pollerd.allocation.slots.elapsed import finite
from pollerd.allocation.slots.slot_table import SlotTable
from pollerd.allocation.slots.state_bytes import pack, same_form, unpack
from pollerd.errors import InvalidValueError


class Uniform(Allocator):
    """Polls all sites equally often. Weights, costs and evidence are ignored; rates are nan.

    The objective is ignored too: equal shares do not depend on it. Every site has the period n / budget, for n sites of
    cost 1. A choice is one pass over all sites, O(n); a poll teaches nothing.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("uniform", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([nan, nan])
    """

    def __init__(self, budget: float) -> None:
        super().__init__(budget)
        self._slot_table = SlotTable()

    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None = None,
        deadline: NDArray[np.float64] | None = None,
    ) -> None:
        self._slot_table.add(slots, weight, cost, half_life, deadline)

    def remove(self, slots: NDArray[np.int64]) -> None:
        self._slot_table.remove(slots)

    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        elapsed = self._slot_table.check_elapsed(elapsed)
        out = np.full(len(elapsed), -np.inf)
        n = self._slot_table.n
        out[:n] = np.where(self._slot_table.used[:n], finite(elapsed[:n]), -np.inf)
        return out

    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        self._slot_table.check_polls(slots, elapsed, evidence)

    def rates(self) -> NDArray[np.float64]:
        return np.full(self._slot_table.n, np.nan)

    def site_state(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.empty((len(self._slot_table.known(slots)), 0), np.uint8)

    def shared_state(self) -> bytes:
        return pack("uniform", 1, {})

    def restore(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8], shared_state: bytes) -> None:
        slots = self._slot_table.known(slots)
        if site_state.shape != (len(slots), 0):
            raise InvalidValueError("site_state", f"uint8[{len(slots)}, 0]", site_state.shape)
        same_form(unpack("uniform", 1, shared_state), {})
