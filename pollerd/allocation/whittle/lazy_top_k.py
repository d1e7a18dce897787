"""Which slots may have become urgent enough since they were last looked at: crossing times, kept lazily.

Every index here is `A g(r τ)`, mixed over beliefs and faded towards another such mixture, or g of a certainty
equivalent of such a mixture. `g(z) / z²` falls; the certainty equivalent grows at most linearly with the gap, and once
more with the weight of what the belief fades to, which grows at most linearly. So for c >= 1

    index(c τ) <= c⁴ index(τ)

and an index of v at gap τ cannot reach a level θ before the gap τ (θ / v)^(1/4). Until then nobody needs to look. Gaps
are measured on whatever clock the index goes by; its progress since the last look tells how far any gap has grown.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.ties import GOLDEN_SECTION
from pollerd.columns import lengthen, rows_of

_CAREFUL = 0.97
"""Gaps are kept for a level this much lower: for rounding, and for a cycle that changes by next to nothing."""
_ROUNDED_UP = 1.0 + 2.0**-22
_FEWEST = 64
_MOST = 4
"""The level rises when this many times the wanted number of slots have gathered at it, ..."""
_LEAST = 0.5
"""... and falls, by `_LOWER`, when this share of it is left."""
_LOWER = 0.8
PIECE, _LOOKS_A_PLACE = 32_768, 4
"""Slots gone through in one choice of a sweep, and at least so many for each place."""
_SKIPPED_PER_LOOK = 8
"""So many slots that are not free count as one that is looked at: of 10^7 sites they are most."""
_LEAST_LEVEL = float(np.finfo(np.float64).tiny)
"""Below any index but that of what is worth nothing."""
AT_ONCE = 65_536
"""Where more slots than this, and more than can be expected, are due at once they are gone through in a sweep."""


class LazyTopK:
    """Until when each slot need not be looked at, for `level`: `due` float32[capacity], the clock's progress (s), if it
    was not polled meanwhile: its gap is no less than `seen` float32[capacity] s.

    A sweep goes through all slots piece by piece, over as many choices, so that no choice among very many has to look
    at all of them: for a level a little lower, or, where nothing is known of the present one, for that which the first
    piece suggests. Pieces follow a walk by steps of the golden section, so that one stands for all, whatever rhythm the
    list has. Until the sweep is over the choice is one among the pieces gone through and whoever is known to stand
    high.
    """

    def __init__(self) -> None:
        self._least_gap = np.zeros(0, np.float32)
        self._due = np.zeros(0, np.float32)
        self._origin: float | None = None
        self._level = -np.inf
        self._target_level = -np.inf
        """What the slots are put off for; nan: the first piece of a sweep shall tell."""
        self._piece: int | None = None
        """The next piece of the sweep under way."""
        self._pieces = 0
        """How many the sweep has; 0: not yet known."""
        self._swept = 0
        """Slots below this are gone through; those that come meanwhile are due by themselves."""
        self._part = np.zeros(0, np.int64)
        """Slots of the piece gone through last."""
        self._sweep_again = False
        """Whether all has changed since the sweep began."""

    def grow(self, capacity: int) -> None:
        """Room for slots below `capacity`."""
        extra = capacity - len(self._due)
        if extra > 0:
            lengthen(vars(self), "_least_gap", extra, 0.0)
            lengthen(vars(self), "_due", extra, -np.inf)

    def invalidate(self, slots: NDArray[np.int64]) -> None:
        """What is believed of the slots int64[k] has changed."""
        self._due[slots] = -np.inf

    def clear(self) -> None:
        """Nothing is known any more."""
        self._due[:] = -np.inf
        self._level = self._target_level = -np.inf
        self._piece, self._sweep_again = None, False

    def sweep(self) -> None:
        """What is believed of all has changed: go through all again, once the sweep under way is over."""
        if self._piece is not None:
            self._sweep_again |= self._piece > 0
        elif self._level > -np.inf:  # else all are due as it is
            self._begin(max(self._level * _LOWER, _LEAST_LEVEL))

    def _begin(self, goal: float) -> None:
        self._target_level, self._piece, self._pieces, self._sweep_again = goal, 0, 0, False

    def _restart(self) -> None:
        """Nothing is known of the present level: nobody is due until the sweep comes by."""
        self._due[:] = np.inf
        self._level = -np.inf
        self._begin(np.nan)

    def pays(self, eligible: int, k: int) -> bool:
        """Whether `eligible` slots are so many more than the k wanted that most are not worth a look."""
        return eligible > _MOST * _places(eligible, k)

    def candidates(
        self, free: NDArray[np.bool_], elapsed: NDArray[np.float64], progress: float, latest: float, k: int
    ) -> NDArray[np.bool_]:
        """Which of the free slots, bool[n], may stand at the level or above at elapsed float64[n] s, bool[n].

        `progress` (s): the clock's. `latest` (s): a gap beyond which every slot must be looked at. k: how many are
        wanted.
        """
        mask, reached = np.zeros(len(free), np.bool_), self.reached(progress)
        for part in rows_of(free):
            mask[part] = free[part] & self.may_reach_level(part, elapsed[part], reached, latest)
        return self.with_sweep(mask, free, k)

    def reached(self, progress: float) -> np.float32:
        """The clock's `progress` (s), as `may_reach_level` compares it."""
        return np.float32(progress - (self._origin or 0.0))

    def may_reach_level(
        self, part: slice | NDArray[np.int64], gap: NDArray[np.float64], reached: np.float32, latest: float
    ) -> NDArray[np.bool_]:
        """Which of the slots in `part` may stand at the level or above at gap float64[m] s, bool[m]."""
        rest = gap >= self._least_gap[part]
        rest &= gap <= latest
        rest &= self._due[part] > reached
        return np.logical_not(rest, out=rest)

    def with_sweep(self, mask: NDArray[np.bool_], free: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
        """Which of the free slots to look at, given those that may stand high, bool[n]: with the next piece of a sweep,
        and where they are too many that piece alone."""
        if self._piece is None and self._too_many(int(np.count_nonzero(mask)), free, k):
            self._restart()
            mask[:] = False
        return self._with_next_piece(mask, free, k)

    def enough(self, value: NDArray[np.float64], k: int) -> bool:
        """Whether the k largest of all are among those looked at, with indices float64[m]."""
        return int(np.count_nonzero(value >= self._level)) >= k

    def more(self, mask: NDArray[np.bool_], free: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
        """Which of the free slots to look at, bool[n], where those in `mask` were not enough: all, or a piece of them.

        In a sweep that finds the level of very many those looked at have to do.
        """
        if not self._too_many(int(np.count_nonzero(free)), free, k):
            return free
        if self._piece is None or self._level > -np.inf:
            self._restart()
            return self._with_next_piece(mask.copy(), free, k)
        return mask if int(np.count_nonzero(mask)) >= k else free

    def _too_many(self, number: int, free: NDArray[np.bool_], k: int) -> bool:
        """Whether so many slots are not looked at at once."""
        return number > AT_ONCE and number > 2 * _MOST * _places(int(np.count_nonzero(free)), k)

    def _with_next_piece(self, mask: NDArray[np.bool_], free: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
        if self._piece is None:
            return mask
        if not self._pieces:
            self._swept = len(free)
            looked_at = max(int(np.count_nonzero(free)), self._swept // _SKIPPED_PER_LOOK)
            self._pieces = max(looked_at // max(PIECE, _LOOKS_A_PLACE * k), 1)
        part = _piece_of(self._swept, self._piece, self._pieces)
        self._part = part[part < len(free)]
        mask[self._part] = free[self._part]
        self._due[self._part] = -np.inf  # those that are not free now are looked at once they are
        return mask

    def note(
        self,
        slots: NDArray[np.int64],
        elapsed: NDArray[np.float64],
        gap: NDArray[np.float64],
        value: NDArray[np.float64],
        progress: float,
        k: int,
        eligible: int,
    ) -> None:
        """Keeps until when the slots int64[m] looked at, with indices `value` float64[m], need no further look.

        elapsed float64[m] s; gap float64[m] s on the clock, and the clock's `progress` (s). `eligible`: how many there
        were to choose k from.
        """
        if self._origin is None:
            self._origin = progress
        places = _places(eligible, k)
        self._advance_sweep(slots, value, places / eligible)
        self._set_level(value, places, everyone=len(slots) == eligible)
        with np.errstate(divide="ignore", invalid="ignore"):
            grows = np.fmax(gap * (np.sqrt(np.sqrt(_CAREFUL * self._target_level / value)) - 1.0), 0.0)
        # Rounded down to float32: never due later than worked out, and seen at the gap itself.
        self._least_gap[slots] = elapsed / _ROUNDED_UP
        due = np.where(value < self._target_level, progress - self._origin + grows, -np.inf).astype(np.float32)
        self._due[slots] = np.nextafter(due, np.float32(-np.inf))

    def _advance_sweep(self, slots: NDArray[np.int64], value: NDArray[np.float64], share: float) -> None:
        """A piece was looked at; share: of the slots that shall gather at the level."""
        if self._piece is None:
            return
        if np.isnan(self._target_level):
            swept = np.zeros(max(int(slots.max(initial=0)) + 1, self._swept), np.bool_)
            swept[self._part] = True
            known = swept[slots]
            if known.any():
                self._target_level = max(float(np.quantile(value[known], 1.0 - share)), _LEAST_LEVEL)
        self._piece += 1
        if self._piece == self._pieces:
            self._level, self._piece = self._target_level if self._target_level > 0 else -np.inf, None
            if self._sweep_again:
                self.sweep()

    def _set_level(self, value: NDArray[np.float64], places: int, *, everyone: bool) -> None:
        if everyone:
            self._due[:] = -np.inf  # who is not among them was put off for a level that may now fall
        elif self._piece is not None and self._level == -np.inf:
            return  # the sweep will tell
        gathered = int(np.count_nonzero(value >= self._level))
        if everyone or gathered > _MOST * places:
            if self._piece is not None and not everyone:  # those not gone through were put off by other indices
                self.clear()
                return
            found = float(np.partition(value, len(value) - places)[len(value) - places])
            self._level = self._target_level = max(found, _LEAST_LEVEL)
            self._piece = None
        elif gathered < _LEAST * places and self._piece is None and self._level > _LEAST_LEVEL:
            self.sweep()


def _piece_of(n: int, piece: int, pieces: int) -> NDArray[np.int64]:
    """The slots of a piece, int64[about n / pieces]: all pieces together hold each of the n once."""
    step = max(int(n * GOLDEN_SECTION), 1)
    while math.gcd(step, n) > 1:
        step += 1
    return np.arange(n * piece // pieces, n * (piece + 1) // pieces) * step % n


def _places(eligible: int, k: int) -> int:
    """How many slots to gather: as many as make looking at these each time, and at all when they run out, cheapest."""
    return max(int((eligible * k) ** 0.5), _FEWEST)
