"""Base class of policies that give every site a period and poll the earliest deadline first ([A] 3.1.1)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator, EvidenceBatch
from pollerd.allocation.core.edf import LONGEST_PERIOD_S, EarliestDeadlineFirst
from pollerd.allocation.slots.slot_table import SlotTable
from pollerd.allocation.slots.state_bytes import all_sound, pack, pack_rows, same_form, unpack, unpack_rows


class Periodic(Allocator):
    """Allocator by periods. Subclasses compute the periods, learn from polls, and define the learned state.

    Of the evidence only `changed` is used, and first polls teach nothing. A choice is one pass over all sites.
    """

    NAME: ClassVar[str]
    VERSION: ClassVar[int] = 1
    _FIELDS: ClassVar[int]
    """Number of stored values per site."""
    _EQUAL_ONLY: ClassVar[bool] = True
    """Whether all sites must have the same weight and cost."""
    _PERIODS_JUMP: ClassVar[bool] = False
    """Whether one poll may change a site's period by a large factor."""
    _VARYING: ClassVar[tuple[str, ...]] = ()
    """Arrays of `_shared` whose size depends on settings: `_take_shared` checks it."""

    def __init__(self, budget: float) -> None:
        super().__init__(budget)
        self._slot_table, self._edf = SlotTable(), EarliestDeadlineFirst(jumps=self._PERIODS_JUMP)

    # --- to be implemented by subclasses -------------------------------------------------------------------------

    @abstractmethod
    def _periods(self) -> NDArray[np.float64]:
        """Returns the seconds > 0 between polls of slots 0..n-1, inf: never; arbitrary for empty slots."""

    @abstractmethod
    def _learn(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        """Learns from k polls in order: slots int64[k], may repeat, elapsed float64[k] s, changed bool[k]."""

    @abstractmethod
    def _grow(self, capacity: int) -> None:
        """Grows to `capacity` slots; new rows are 0."""

    @abstractmethod
    def _rows(self) -> NDArray[np.float64]:
        """Returns the learned state of each site, float64[capacity, _FIELDS], writable; all 0 without polls."""

    def _check(self, rows: NDArray[np.float64]) -> None:
        """Raises InvalidValueError for rows float64[k, _FIELDS] that cannot have been learned."""
        return

    def _resized(self) -> None:
        """Called after sites were added or removed, or the state was restored."""
        return

    def _shared(self) -> dict[str, NDArray[Any]]:
        """Returns the learned state that sites share, for storage."""
        return {}

    def _take_shared(self, kept: dict[str, NDArray[Any]]) -> None:
        """Restores the output of `_shared` (names and dtypes are checked); raises InvalidValueError for bad values."""
        return

    # --- sites ---------------------------------------------------------------------------------------------------

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        if self._EQUAL_ONLY:
            self._slot_table.admit_equal(slots, weight, cost, self.NAME)

    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None = None,
        deadline: NDArray[np.float64] | None = None,
    ) -> None:
        self.admit(slots, weight, cost)
        slots = self._slot_table.add(slots, weight, cost, half_life, deadline)
        self._edf.grow(self._slot_table.capacity)
        self._grow(self._slot_table.capacity)
        self._forget(slots)
        self._resized()

    def remove(self, slots: NDArray[np.int64]) -> None:
        self._forget(self._slot_table.remove(slots))
        self._resized()

    def _forget(self, slots: NDArray[np.int64]) -> None:
        self._edf.forget(slots)
        self._rows()[slots] = 0.0

    # --- choosing ------------------------------------------------------------------------------------------------

    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        elapsed = self._slot_table.check_elapsed(elapsed)
        n, out = self._slot_table.n, np.full(len(elapsed), -np.inf)
        late = self._edf.lateness(elapsed[:n], self._periods())
        out[:n] = np.where(self._slot_table.used[:n], late, -np.inf)
        return out

    def shares(self, slots: NDArray[np.int64]) -> NDArray[np.float64] | None:
        return np.asarray(1.0 / self._periods()[slots])

    # --- learning ------------------------------------------------------------------------------------------------

    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        slots, elapsed = self._slot_table.check_polls(slots, elapsed, evidence)
        informative = np.isfinite(elapsed)
        if not informative.all():
            slots, elapsed, evidence = (
                slots[informative],
                elapsed[informative],
                evidence.take(np.flatnonzero(informative)),
            )
        if len(slots):
            self._note_polled(slots, elapsed)
            self._learn(slots, elapsed, evidence.changed)

    def _note_polled(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> None:
        """Records the polls in the scheduler, under the periods that led to them."""
        period = self._periods()[slots]
        if len(slots) == 1 or len(np.unique(slots)) == len(slots):
            self._edf.polled(slots, elapsed, period)
            return
        for row in range(len(slots)):
            self._edf.polled(slots[[row]], elapsed[[row]], period[[row]])

    def rates(self) -> NDArray[np.float64]:
        return np.full(self._slot_table.n, np.nan)

    # --- storage -------------------------------------------------------------------------------------------------

    def site_state(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Returns the version, the scheduler's credit, then the learned state of the site: float64 each."""
        slots = self._slot_table.known(slots)
        return pack_rows(self._edf.credit[slots], self._rows()[slots], version=self.VERSION)

    def shared_state(self) -> bytes:
        return pack(self.NAME, self.VERSION, self._shared())

    def restore(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8], shared_state: bytes) -> None:
        slots = self._slot_table.known(slots)
        kept = unpack(self.NAME, self.VERSION, shared_state)
        rows = unpack_rows(self.NAME, site_state, len(slots), 1 + self._FIELDS, version=self.VERSION)
        credit = rows[:, 0]
        all_sound(self.NAME, f"a credit within {LONGEST_PERIOD_S:g} s", np.abs(credit) <= LONGEST_PERIOD_S, credit)
        self._check(rows[:, 1:])
        same_form(kept, self._shared(), self._VARYING)
        self._take_shared(kept)
        self._edf.credit[slots], self._rows()[slots] = rows[:, 0], rows[:, 1:]
        self._resized()
