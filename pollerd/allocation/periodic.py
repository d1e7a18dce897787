"""Policies that give every site a period and poll the earliest deadline first ([A] 3.1.1)."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.learned_state import all_sound, pack, pack_rows, same_form, unpack, unpack_rows
from pollerd.allocation.slots import SAME_S, SlotTable, credit_after, finite
from pollerd.columns import lengthen

# The scheduler of [A] 3.1.1, which polls each site at an even pace and at its given frequency.
#
# Amounts x_i are frequencies: site i has the period 1 / x_i, and its next deadline is one period after its last
# deadline, not after its last poll. Its next poll is released at its last deadline; of the released polls the one with
# the earliest deadline is made, and an unreleased one only if there is no other. So every site is polled with its
# frequency at nearly even gaps, which random draws in proportion to the amounts would not give; and `d_i(x_i)` depends
# on the gaps.

LONGEST_PERIOD_S = 1e11
"""Replaces a period of inf: 3,000 years."""
_UNRELEASED_S = 1e12
"""Subtracted from the lateness of a site whose next poll is not released."""


class EarliestDeadlineFirst:
    """Deadlines by slot. Periods may change between polls: a deadline is the last one plus the current period.

    `credit` float64[capacity]: seconds by which each site's last poll came after its deadline (before it: < 0), within
    one period (`credit_after`). jumps: whether periods may jump; credit is then clipped to the current period, because
    an early poll under a long period would otherwise hold the site back for many of its new periods. A look at n slots
    costs O(n), recording k polls O(k).
    """

    def __init__(self, *, jumps: bool = False) -> None:
        self._jumps = jumps
        self.credit = np.zeros(0)

    def grow(self, capacity: int) -> None:
        """Grows to `capacity` slots."""
        if capacity > len(self.credit):
            lengthen(vars(self), "credit", capacity - len(self.credit), 0.0)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Resets slots int64[k]."""
        self.credit[slots] = 0.0

    def lateness(self, elapsed: NDArray[np.float64], period: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns seconds since the deadline of slots 0..n-1 (before it: < 0), float64[n]: the largest is next.

        10^12 less if the next poll is not released yet. elapsed float64[n] s since the last poll, inf if never polled,
        invalid gaps count as 0; period float64[n] s > 0.
        """
        period, credit = np.minimum(period, LONGEST_PERIOD_S), self.credit[: len(elapsed)]
        since_release = finite(elapsed) + (np.clip(credit, -period, period) if self._jumps else credit)
        late = since_release - period
        return np.where(since_release > SAME_S, late, late - _UNRELEASED_S)

    def polled(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], period: NDArray[np.float64]) -> None:
        """Records polls of distinct slots int64[k] after elapsed float64[k] s, under periods float64[k] s."""
        period = np.minimum(period, LONGEST_PERIOD_S)
        self.credit[slots] = credit_after(elapsed, self.credit[slots], period)


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


# DET-KS: the deterministic fractional knapsack, filled greedily in small steps ([B] 6.1.1, appendix A).
#
# `gains[i, j]` is the gain of step j of material i. Each material takes its steps in order. This follows [B]'s formula:
# the step with the largest gain comes next (the text beside it says the smallest).


def det_ks(gains: NDArray[np.float64], steps: int) -> NDArray[np.int64]:
    """Returns the number of steps of each material, int64[n], for `steps` in all; gains float64[n, m].

    As [B] writes it, with a heap: O(steps log n). Ties go to the lower row.
    """
    rows = gains.tolist()
    taken = [0] * len(rows)
    heads = [(-row[0], i) for i, row in enumerate(rows) if row]
    heapq.heapify(heads)
    for _ in range(min(steps, gains.size)):
        _, i = heads[0]
        taken[i] += 1
        if taken[i] < len(rows[i]):
            heapq.heapreplace(heads, (-rows[i][taken[i]], i))
        else:
            heapq.heappop(heads)
    return np.array(taken, np.int64)


def water_filling(gains: NDArray[np.float64], widths: NDArray[np.float64], capacity: float) -> NDArray[np.int64]:
    """Solves R knapsacks at once like `det_ks`: gains float64[R, n, m] -> int64[R, n]; step j fills widths float64[m].

    The gain of a step is replaced by the running minimum, because a step behind a small gain waits until that is the
    largest, and is then taken at once. So all steps are taken in the order of that minimum, stable in (material, step),
    until the next would not fit: the same choices as `det_ks`, including ties. Falling gains are their own running
    minimum, and the last level reached is the price of Lagrange's condition, [B] (2.1).
    """
    runs, n, m = gains.shape
    level = np.minimum.accumulate(gains, axis=2).reshape(runs, n * m)
    order = np.argsort(-level, axis=1, kind="stable")
    taken = np.cumsum(widths[order % m], axis=1) <= capacity
    owners = order // m + n * np.arange(runs)[:, None]
    return np.bincount(owners[taken], minlength=runs * n).reshape(runs, n)
