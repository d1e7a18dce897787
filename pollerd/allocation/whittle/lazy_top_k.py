"""Lazy top-k: crossing times, before which a slot cannot have become urgent enough to be looked at again.

Every index here is `A g(r τ)`, mixed over beliefs that drift towards another such mixture, or g of a certainty
equivalent of such a mixture. `g(z) / z²` falls; the certainty equivalent grows at most linearly with the gap, and so
does the weight of the distribution that the belief drifts towards. So for c >= 1

    index(c τ) <= c⁴ index(τ)

and an index of v at gap τ cannot reach a level θ before the gap τ (θ / v)^(1/4). Until then the slot need not be looked
at. Gaps are measured on the clock of the index; its progress since the last look bounds the growth of any gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots import GOLDEN_SECTION, Since
from pollerd.columns import lengthen, rows_of

_CAREFUL = 0.97
"""Crossing times are kept for a level lower by this factor, for rounding and for tiny changes of the cycle."""
_ROUNDED_UP = 1.0 + 2.0**-22
_FEWEST = 64
_MOST = 4
"""The level rises when this many times the wanted number of slots have reached it."""
_LEAST = 0.5
"""The level falls, by `_LOWER`, when only this share of the wanted number is left."""
_KEPT = 2
"""This many times the wanted number reach the level of a sweep that was raised, because too many reached it."""
_LOWER = 0.8
PIECE, _LOOKS_A_PLACE = 32_768, 4
"""Slots per choice in a sweep, and the least number of them per place."""
_SKIPPED_PER_LOOK = 8
"""This many slots that are not free cost as much as one that is looked at: with 10^7 sites they are most."""
_LATER = np.array([1.01, 1.03, 1.08, 1.2, 1.5, 2.5, 6.0])
"""Factors of a gap at which a slot whose growth is not bounded may be looked at next."""
_MIN_LEVEL = float(np.finfo(np.float64).tiny)
"""Below any positive index."""
AT_ONCE = 65_536
"""If more slots than this, and more than expected, are due at once, they are looked at in a sweep."""
_COSTLY = 12
"""A look at a costly slot counts as this many looks."""
_SMALLER = 0.7
"""Size of a piece if some slots are costly: those at the level, which each choice looks at besides, often are."""


class LazyTopK:
    """Lazy top-k: until when each slot need not be looked at again, for `level`.

    `due` float32[capacity]: the clock's progress (s), valid if the slot was not polled meanwhile, that is if its gap is
    at least `_least_gap` float32[capacity] s.

    A sweep goes through all slots piece by piece, over several choices, so that no choice among very many looks at all
    of them: for a slightly lower level, or, if nothing is known for the present one, for a level estimated from the
    first piece. Pieces follow steps of the golden section, so that each is a representative sample, whatever
    periodicity the list has. Until the sweep ends, the choice is among the pieces done and slots known to have a high
    index.
    """

    def __init__(self) -> None:
        self._least_gap = np.zeros(0, np.float32)
        self._due = np.zeros(0, np.float32)
        self._costly = np.zeros(0, np.bool_)
        """Slots at which a look takes longer than at others."""
        self._any_costly = False
        self._origin: float | None = None
        self._level = -np.inf
        self._target_level = -np.inf
        """Level of the crossing times; nan: to be estimated from the first piece of a sweep."""
        self._piece: int | None = None
        """Next piece of the current sweep; None: no sweep."""
        self._pieces = 0
        """Number of pieces in the sweep; 0: not known yet."""
        self._swept = 0
        """The sweep covers slots below this; slots added meanwhile are due by themselves."""
        self._part = np.zeros(0, np.int64)
        """Slots of the last piece."""
        self._sweep_again = False
        """Whether all indices have changed since the sweep began."""
        self._raised = False
        """Whether the level of the sweep was raised since it began."""

    def grow(self, capacity: int) -> None:
        """Grows to slots below `capacity`."""
        extra = capacity - len(self._due)
        if extra > 0:
            lengthen(vars(self), "_least_gap", extra, 0.0)
            lengthen(vars(self), "_due", extra, -np.inf)
            lengthen(vars(self), "_costly", extra, False)

    def invalidate(self, slots: NDArray[np.int64]) -> None:
        """Marks slots int64[k] whose beliefs have changed."""
        self._due[slots] = -np.inf

    def set_costly(self, slots: NDArray[np.int64], costly: NDArray[np.bool_] | bool) -> None:
        """Sets whether a look at slots int64[k] takes longer than at others, bool[k] or one for all."""
        self._costly[slots] = costly
        self._any_costly = self._any_costly or bool(np.any(costly))

    def clear(self) -> None:
        """Resets everything."""
        self._due[:] = -np.inf
        self._level = self._target_level = -np.inf
        self._piece, self._sweep_again = None, False

    def sweep(self) -> None:
        """Starts a sweep after all beliefs have changed, once the current sweep has ended."""
        if self._piece is not None:
            self._sweep_again |= self._piece > 0
        elif self._level > -np.inf:  # else all are due anyway
            self._begin(max(self._level * _LOWER, _MIN_LEVEL))

    def _begin(self, goal: float) -> None:
        self._target_level, self._piece, self._pieces = goal, 0, 0
        self._sweep_again = self._raised = False

    def _restart(self) -> None:
        """Starts a sweep without a known level: no slot is due until the sweep reaches it."""
        self._due[:] = np.inf
        self._level = -np.inf
        self._begin(np.nan)

    def pays(self, eligible: int, k: int) -> bool:
        """Returns whether `eligible` slots are so many more than k that most need not be looked at."""
        return eligible > _MOST * _places(eligible, k)

    def candidates(
        self, free: NDArray[np.bool_], elapsed: NDArray[np.float64], progress: float, latest: float, k: int
    ) -> NDArray[np.bool_]:
        """Returns which of the free slots, bool[n], may have reached the level at elapsed float64[n] s, bool[n].

        `progress` (s): the clock's. `latest` (s): a gap beyond which every slot must be looked at. k: number wanted.
        """
        mask, reached = np.zeros(len(free), np.bool_), self.reached(progress)
        for part in rows_of(free):
            mask[part] = free[part] & self.may_reach_level(part, elapsed[part], reached, latest)
        return self.with_sweep(mask, free, k)

    def reached(self, progress: float) -> np.float32:
        """Returns the clock's `progress` (s) as `may_reach_level` compares it."""
        return np.float32(progress - (self._origin or 0.0))

    def may_reach_level(
        self, part: slice | NDArray[np.int64], gap: NDArray[np.float64], reached: np.float32, latest: float
    ) -> NDArray[np.bool_]:
        """Returns which of the slots in `part` may have reached the level at gap float64[m] s, bool[m]."""
        rest = gap >= self._least_gap[part]
        rest &= gap <= latest
        rest &= self._due[part] > reached
        return np.logical_not(rest, out=rest)

    def with_sweep(self, mask: NDArray[np.bool_], free: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
        """Returns which of the free slots to look at, given those that may be high, bool[n].

        Adds the next piece of a sweep; if there are too many, returns that piece alone.
        """
        if self._piece is None and self._too_many(mask, free, k):
            self._restart()
            mask[:] = False
        return self._with_next_piece(mask, free, k)

    def enough(self, value: NDArray[np.float64], k: int) -> bool:
        """Returns whether the slots looked at, with indices float64[m], include the k largest of all."""
        return int(np.count_nonzero(value >= self._level)) >= k

    def more(self, mask: NDArray[np.bool_], free: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
        """Returns which of the free slots to look at, bool[n], if those in `mask` were too few: all, or a piece.

        A sweep that estimates the level of very many slots makes do with those already looked at.
        """
        if not self._too_many(free, free, k):
            return free
        if self._piece is None or self._level > -np.inf:
            self._restart()
            return self._with_next_piece(mask.copy(), free, k)
        return mask if int(np.count_nonzero(mask)) >= k else free

    def _too_many(self, mask: NDArray[np.bool_], free: NDArray[np.bool_], k: int) -> bool:
        """Returns whether there are too many slots in `mask`, bool[n], to look at in one choice."""
        if self._looks(mask) <= AT_ONCE:
            return False
        return int(np.count_nonzero(mask)) > 2 * _MOST * _places(int(np.count_nonzero(free)), k)

    def _looks(self, mask: NDArray[np.bool_]) -> int:
        """Returns how many ordinary looks a look at the slots in `mask`, bool[n], counts as."""
        number = int(np.count_nonzero(mask))
        if self._any_costly:
            number += (_COSTLY - 1) * int(np.count_nonzero(mask & self._costly[: len(mask)]))
        return number

    def _with_next_piece(self, mask: NDArray[np.bool_], free: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
        if self._piece is None:
            return mask
        if not self._pieces:
            self._swept = len(free)
            looked_at = max(self._looks(free), self._swept // _SKIPPED_PER_LOOK)
            piece = int(_SMALLER * PIECE) if self._any_costly else PIECE
            self._pieces = max(looked_at // max(piece, _LOOKS_A_PLACE * k), 1)
        part = _piece_of(self._swept, self._piece, self._pieces)
        self._part = part[part < len(free)]
        mask[self._part] = free[self._part]
        self._due[self._part] = -np.inf  # slots that are not free now are looked at as soon as they are
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
        """Stores until when slots int64[m], with indices `value` float64[m], need not be looked at again.

        elapsed float64[m] s; gap float64[m] s on the clock, and the clock's `progress` (s). `eligible`: number of slots
        to choose k from.
        """
        if self._origin is None:
            self._origin = progress
        places = self._places_at_level(slots, value, k, eligible)
        self._raise_target(value, places)
        raised, swept = self._raised, self._piece
        self._advance_sweep(slots, value, places / eligible)
        ended = swept is not None and self._piece in (None, 0)
        self._set_level(value, places, everyone=len(slots) == eligible, too_many=raised and ended)
        self.limit(slots, elapsed, gap, value, progress)

    def _places_at_level(self, slots: NDArray[np.int64], value: NDArray[np.float64], k: int, eligible: int) -> int:
        """Returns `_places`; fewer if looks at the slots that reach the level cost more than those at others do."""
        places = _places(eligible, k)
        if not self._any_costly or np.isnan(self._target_level):
            return places
        reached = slots[value >= self._target_level]
        costly = int(np.count_nonzero(self._costly[reached]))
        each = 1.0 + (_COSTLY - 1) * costly / max(len(reached), 1)
        usual = 1.0 + (_COSTLY - 1) * min(int(np.count_nonzero(self._costly)) / eligible, 1.0)
        return max(int(places * min(usual / each, 1.0) ** 0.5), min(places, _FEWEST))

    def limit(
        self,
        slots: NDArray[np.int64],
        elapsed: NDArray[np.float64],
        gap: NDArray[np.float64],
        value: NDArray[np.float64],
        progress: float,
    ) -> None:
        """Stores until when slots int64[m] cannot reach the level, from bounds `value` float64[m] of their indices.

        elapsed float64[m] s; gap float64[m] s on the clock, and the clock's `progress` (s).
        """
        origin = self._origin or 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            grows = np.fmax(gap * (np.sqrt(np.sqrt(self.level / value)) - 1.0), 0.0)
        # Rounded down to float32: never due later than computed, and due at the gap itself.
        self._least_gap[slots] = elapsed / _ROUNDED_UP
        due = np.where(value < self._target_level, progress - origin + grows, -np.inf).astype(np.float32)
        self._due[slots] = np.nextafter(due, np.float32(-np.inf))

    @property
    def level(self) -> float:
        """The level below which indices have to stay for a slot not to be looked at; nan or -inf: not known yet."""
        return _CAREFUL * self._target_level

    def wait_below(
        self, slots: NDArray[np.int64], most: NDArray[np.float64], ahead: NDArray[np.float64], progress: float
    ) -> None:
        """Has those of slots int64[m], noted before, wait at least `ahead` float64[m] s of the clock whose indices stay
        below the level until then, by their bounds `most` float64[m].
        """
        waits = most < self.level
        due = (progress - (self._origin or 0.0) + ahead[waits]).astype(np.float32)
        self._due[slots[waits]] = np.maximum(self._due[slots[waits]], np.nextafter(due, np.float32(-np.inf)))

    def limit_growth(
        self,
        slots: NDArray[np.int64],
        gap: NDArray[np.float64],
        value: NDArray[np.float64],
        most: Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.float64]],
        shortest: float,
        progress: float,
    ) -> None:
        """Stores until when slots int64[m] of any growth, with indices `value` float64[m] at gap float64[m] s, wait.

        most: of places int64[j] and later gaps float64[j] s, the largest index up to then, float64[j]. The gaps tried
        are multiples of the present one, or of `shortest` (s), so that a slot is looked at a few times between polls;
        the longest that is below the level is found by bisection, after a try of the longest of all, which most pass.
        """
        level = self.level
        with np.errstate(divide="ignore", invalid="ignore"):
            # An index mostly grows faster than its gap: no factor beyond that is worth the search, nor one beyond that
            # at which `limit` has the slot looked at anyway.
            fewer = np.minimum(
                np.searchsorted(_LATER, level / value), 1 + np.searchsorted(_LATER, np.sqrt(np.sqrt(level / value)))
            )
        passed = np.zeros(len(slots), np.int64)
        start, longest = np.maximum(gap, shortest), True
        while (some := np.flatnonzero(passed < fewer)).size:
            middle = fewer[some] if longest else (passed[some] + fewer[some] + 1) // 2
            longest = False
            below = most(some, start[some] * _LATER[middle - 1]) < level
            passed[some[below]] = middle[below]
            fewer[some[~below]] = middle[~below] - 1
        wait = np.where(passed > 0, start * _LATER[passed - 1] - gap, 0.0)
        self.limit_wait(slots, wait, progress)

    def limit_wait(self, slots: NDArray[np.int64], wait: NDArray[np.float64], progress: float) -> None:
        """Has slots int64[m] looked at after `wait` float64[m] s of the clock, when their indices jump, or before."""
        due = (progress - (self._origin or 0.0) + wait).astype(np.float32)
        self._due[slots] = np.minimum(self._due[slots], np.nextafter(due, np.float32(-np.inf)))

    def postpone(self, slots: NDArray[np.int64], seconds: float) -> None:
        """Has slots int64[m] looked at later by so many s of the clock."""
        self._due[slots] = np.nextafter(self._due[slots] + np.float32(seconds), np.float32(-np.inf))

    def _advance_sweep(self, slots: NDArray[np.int64], value: NDArray[np.float64], share: float) -> None:
        """Finishes a piece; share: of the slots that are to reach the level."""
        if self._piece is None:
            return
        if np.isnan(self._target_level):
            swept = np.zeros(max(int(slots.max(initial=0)) + 1, self._swept), np.bool_)
            swept[self._part] = True
            known = swept[slots]
            if known.any():
                self._target_level = max(float(np.quantile(value[known], 1.0 - share)), _MIN_LEVEL)
        self._piece += 1
        if self._piece == self._pieces:
            self._level, self._piece = self._target_level if self._target_level > 0 else -np.inf, None
            if self._sweep_again:
                self.sweep()

    def _raise_target(self, value: NDArray[np.float64], places: int) -> None:
        """Raises the level of a sweep if too many slots reach it: its choices would look at all of them."""
        if self._piece is None or np.isnan(self._target_level):
            return
        unknown = self._level == -np.inf
        if unknown and not self._any_costly:
            return
        if int(np.count_nonzero(value >= self._target_level)) > _MOST * places:
            kept = float(np.partition(value, len(value) - _KEPT * places)[len(value) - _KEPT * places])
            raised = max(kept, self._target_level)
            self._target_level, self._raised = raised if unknown else min(raised, self._level), True

    def _set_level(self, value: NDArray[np.float64], places: int, *, everyone: bool, too_many: bool) -> None:
        if everyone:
            self._due[:] = -np.inf  # crossing times of slots not looked at were for a level that may now fall
        elif self._piece is not None and self._level == -np.inf:
            return  # the sweep will set it
        gathered = int(np.count_nonzero(value >= self._level))
        if everyone or too_many or gathered > _MOST * places:
            if self._piece is not None and not everyone:  # other crossing times are outdated
                self.clear()
                return
            level = float(np.partition(value, len(value) - places)[len(value) - places])
            self._level = self._target_level = max(level, _MIN_LEVEL)
            self._piece = None
        elif gathered < _LEAST * places and self._piece is None and self._level > _MIN_LEVEL:
            self.sweep()


def _piece_of(n: int, piece: int, pieces: int) -> NDArray[np.int64]:
    """Returns the slots of a piece, int64[about n / pieces]: the pieces partition the n slots."""
    step = max(int(n * GOLDEN_SECTION), 1)
    while math.gcd(step, n) > 1:
        step += 1
    return np.arange(n * piece // pieces, n * (piece + 1) // pieces) * step % n


def _places(eligible: int, k: int) -> int:
    """Returns the number of slots to keep at the level: balances looking at them each time and at all at times."""
    return max(int((eligible * k) ** 0.5), _FEWEST)


# Parts of millions of slots, split by how long ago they were polled.

Part = slice | NDArray[np.int64]
"""Slots 0..n-1, or the given ones."""


def split_by_age(
    free: NDArray[np.bool_],
    elapsed: NDArray[np.float64] | Since,
    latest: float,
    k: int,
    lazy_top_k: LazyTopK | None,
    progress: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Splits the free slots by age, in one pass, because reading millions of times from memory dominates the cost.

    Returns the first free slots never polled, int64[<= k]; if fewer than k, also all that were polled longer ago than
    `latest` s, int64[m]; and which slots may have a high index by `lazy_top_k`, if given, bool[n].
    """
    never: list[NDArray[np.int64]] = []
    late: list[NDArray[np.int64]] = []
    mask = np.zeros(len(free), np.bool_)
    reached = np.float32(0.0) if lazy_top_k is None else lazy_top_k.reached(progress)
    for part in rows_of(free):
        gap, free_here = elapsed[part], free[part]
        if lazy_top_k is not None:
            mask[part] = free_here & lazy_top_k.may_reach_level(part, gap, reached, latest)
        chosen = free_here & (gap > latest)
        if not chosen.any():
            continue
        never.append(_slots_at(part, chosen & (gap == np.inf)))
        late.append(_slots_at(part, chosen & (gap < np.inf)))
        k -= len(never[-1])
        if k <= 0:
            never[-1] = never[-1][: len(never[-1]) + k]
            break
    none = np.empty(0, np.int64)
    return np.concatenate([none, *never]), np.concatenate([none, *late]), mask


def _slots_at(part: Part, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the chosen ones, bool[m], of the m slots in `part`."""
    rows = np.flatnonzero(chosen)
    return part.start + rows if isinstance(part, slice) else part[rows]
