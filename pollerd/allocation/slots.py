"""Slots of an allocator: the sites with weight, cost and half-life as columns, poll counts, and choices among them.

Struct of arrays, one row per slot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.columns import Columns, lengthen
from pollerd.errors import InvalidValueError

# Input checks of the allocators' public methods.


def _number(value: object) -> float:
    """Returns the value as a float; nan if it is not a number, or overflows."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def positive(field: str, value: float) -> float:
    """Returns the value as a float, finite and > 0."""
    number = _number(value)
    if not (math.isfinite(number) and number > 0):
        raise InvalidValueError(field, "finite and > 0", value)
    return number


def positive_or_0(field: str, value: float) -> float:
    """Returns the value as a float, finite and >= 0."""
    number = _number(value)
    if not (math.isfinite(number) and number >= 0):
        raise InvalidValueError(field, "finite and > 0, or 0 for the default", value)
    return number


def between(field: str, value: float, low: float, high: float) -> float:
    """Returns the value as a float, low <= value <= high."""
    number = _number(value)
    if not low <= number <= high:
        raise InvalidValueError(field, f"from {low:g} to {high:g}", value)
    return number


def whole(field: str, value: float, low: int, high: int) -> int:
    """Returns the value as an int, low <= value <= high; accepts integral floats."""
    number = _number(value)
    if not low <= number <= high or number != int(number):
        raise InvalidValueError(field, f"a whole number from {low} to {high}", value)
    return int(number)


def one_of(field: str, value: object, allowed: Iterable[str]) -> str:
    """Returns the value, which must be one of the allowed words."""
    words = tuple(allowed)
    if not (isinstance(value, str) and value in words):
        raise InvalidValueError(field, f"one of {', '.join(words)}", value)
    return value


def put(settings: object, **values: Any) -> None:
    """Sets checked values on frozen settings, for their `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(settings, name, value)


def floats(field: str, values: Any) -> NDArray[np.float64]:
    """Returns values as float64 of their own shape; refuses anything but numbers."""
    try:
        return np.asarray(values, np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidValueError(field, "numbers", values) from error


def row_numbers(field: str, values: Any) -> NDArray[np.int64]:
    """Returns values as int64 of their own shape; accepts integral floats."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        return values
    numbers = floats(field, values)
    kind = np.asarray(values).dtype.kind
    if kind == "b" or not (np.abs(numbers) < 2.0**63).all() or (numbers != np.floor(numbers)).any():
        raise InvalidValueError(field, "whole numbers", values)
    return np.asarray(values).astype(np.int64)


def distinct_slots(slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns slots as int64[k]: >= 0, one-dimensional, distinct."""
    numbers = row_numbers("slots", slots)
    if numbers.ndim != 1 or (numbers.size and (numbers.min() < 0 or _any_twice(numbers))):
        raise InvalidValueError("slots", "distinct row numbers >= 0", slots)
    return numbers


def _any_twice(numbers: NDArray[np.int64]) -> bool:
    if (numbers[1:] > numbers[:-1]).all():  # ascending, as from a list: this check takes a hundredth of the time
        return False
    return bool(np.unique(numbers).size != numbers.size)


def column(
    field: str, values: NDArray[np.float64], k: int, *, zero: bool = False, missing: bool = False
) -> NDArray[np.float64]:
    """Returns values as float64[k]: finite and > 0 (>= 0 with `zero`); nan is allowed with `missing`."""
    numbers = floats(field, values)
    with np.errstate(invalid="ignore"):
        good = np.isfinite(numbers) & (numbers >= 0 if zero else numbers > 0)
    if missing:
        good |= np.isnan(numbers)
    if numbers.shape != (k,) or not good.all():
        allowed = f"{k} finite values {'>= 0' if zero else '> 0'}{' or nan' if missing else ''}"
        raise InvalidValueError(field, allowed, values)
    return numbers


def host_numbers(host: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Returns host numbers as int64[k], -1 for none."""
    numbers = row_numbers("host", host)
    if numbers.shape != (k,) or (k and not -1 <= numbers.min() <= numbers.max() < 2**31):
        raise InvalidValueError("host", f"{k} whole numbers from -1 to 2147483647", host)
    return numbers


ROWS_AT_A_TIME = 65_536
"""Number of rows per step in the search for the end of the table."""


class SlotTable(Columns):
    """Rows of the sites.

    `used` bool[capacity], `weight`, `cost` float64[capacity], `half_life`, `deadline` float64[capacity] in s (nan:
    default), `weight_per_cost` = weight / cost, `items_shown` float64[capacity] >= 1, how many of its newest items a
    site shows (nan: no limit is known).
    `n` is the highest slot in use + 1, `size` the number of sites, `total_cost` the sum of their costs.
    """

    _DEFAULTS = {  # noqa: RUF012
        "used": (np.bool_, False),
        "weight": (np.float64, 1.0),
        "cost": (np.float64, 1.0),
        "half_life": (np.float64, np.nan),
        "deadline": (np.float64, np.nan),
        "weight_per_cost": (np.float64, 1.0),
        "items_shown": (np.float64, np.nan),
    }
    _SPARSE = frozenset({"weight", "cost", "half_life", "deadline", "weight_per_cost", "items_shown"})

    used: NDArray[np.bool_]
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    half_life: NDArray[np.float64]
    deadline: NDArray[np.float64]
    weight_per_cost: NDArray[np.float64]
    items_shown: NDArray[np.float64]

    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.size = 0
        self.total_cost = 0.0

    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None,
        deadline: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int64]:
        """Adds the slots and returns them as int64[k]; raises InvalidValueError, then changes nothing."""
        slots = distinct_slots(slots)
        k = len(slots)
        weight = column("weight", weight, k, zero=True)
        cost = column("cost", cost, k)
        life = np.full(k, np.nan) if half_life is None else column("half_life", half_life, k, missing=True)
        due = np.full(k, np.nan) if deadline is None else column("deadline", deadline, k, missing=True)
        if (slots < self.capacity).any() and self.used[slots[slots < self.capacity]].any():
            raise InvalidValueError("slots", "unused rows", slots[slots < self.capacity])
        if k:
            self.grow(int(slots.max()) + 1)
        self.used[slots] = True
        columns = {"weight": weight, "cost": cost, "half_life": life, "deadline": due}
        columns |= {"weight_per_cost": weight / cost, "items_shown": np.full(k, np.nan)}
        for name, values in columns.items():
            self.put(name, slots, values)
        self.n = max(self.n, int(slots.max(initial=-1)) + 1)
        self.size += k
        self._sum_costs()
        return slots

    def set_items_shown(self, slots: NDArray[np.int64], items: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sets `items_shown` of slots int64[k] in use, float64[k] >= 1, inf: no limit is known. Returns them."""
        slots = self.known(slots)
        shown = floats("items", items)
        if shown.shape != slots.shape or (shown < 1).any():
            raise InvalidValueError("items", f"{len(slots)} values >= 1 or nan", items)
        self.put("items_shown", slots, np.where(np.isfinite(shown), shown, np.nan))
        return slots

    def remove(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Frees the slots and returns them as int64[k]."""
        slots = self.known(distinct_slots(slots))
        self.used[slots] = False
        self.size -= len(slots)
        self._find_end()
        self._sum_costs()
        return slots

    def known(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the slots as int64[k], all in use; raises InvalidValueError else."""
        slots = row_numbers("slots", slots)
        if slots.ndim != 1 or (slots.size and (slots.min() < 0 or slots.max() >= self.n)):
            raise InvalidValueError("slots", f"row numbers below {self.n}", slots)
        if not self.used[slots].all():
            raise InvalidValueError("slots", "rows in use", slots[~self.used[slots]])
        return slots

    def admit_equal(
        self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64], allocator: str
    ) -> None:
        """Implements `Allocator.admit` for allocators of equal sites: refuses any other weight or cost."""
        slots, others = row_numbers("slots", slots), self.used.copy()
        others[slots[slots < len(others)]] = False
        for field, values, known in (("weight", weight, self.weight), ("cost", cost, self.cost)):
            admitted = np.atleast_1d(floats(field, values))
            values = np.unique(np.concatenate([known[others], admitted]))
            if len(values) > 1:
                usual = float(known[others][0]) if others.any() else float(admitted[0])
                odd = values[values != usual]
                raise InvalidValueError(
                    field, f"{usual:g} as for every site while {allocator} allocates", float(odd[0])
                )

    def admit_at_most(self, most: int, slots: NDArray[np.int64], sites: int, allocator: str) -> None:
        """Implements `Allocator.admit` for allocators of few sites: raises if `sites` more would exceed `most`."""
        slots = row_numbers("slots", slots)
        inside = slots[(slots >= 0) & (slots < self.capacity)]
        number = self.size + sites - int(self.used[inside].sum())
        if number > most:
            raise InvalidValueError("number of sites", f"at most {most} while {allocator} allocates", number)

    def check_polls(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Checks `observe` input: slots in use int64[k], elapsed float64[k] >= 0 s; raises InvalidValueError."""
        slots = self.known(slots)
        elapsed = floats("elapsed", elapsed)
        if elapsed.shape != slots.shape or not (elapsed >= 0).all():
            raise InvalidValueError("elapsed", f"{len(slots)} values >= 0 s", elapsed)
        if len(evidence) != len(slots):
            raise InvalidValueError("evidence", f"{len(slots)} rows", len(evidence))
        return slots, elapsed

    def check_elapsed(self, elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns elapsed as float64[m >= n]; nan is left to `max`-like clipping by the caller's formula."""
        elapsed = floats("elapsed", elapsed)
        if elapsed.ndim != 1 or len(elapsed) < self.n:
            raise InvalidValueError("elapsed", f"at least {self.n} rows", elapsed.shape)
        return elapsed

    def _find_end(self) -> None:
        """Recomputes `n` after slots were removed."""
        while self.n and not self.used[self.n - 1]:
            low = max(self.n - ROWS_AT_A_TIME, 0)
            rows = np.flatnonzero(self.used[low : self.n])
            self.n = low + (int(rows[-1]) + 1 if rows.size else 0)

    def _sum_costs(self) -> None:
        """Sums the costs from scratch, so that the total does not depend on the order of additions and removals."""
        if self.is_default("cost"):  # all are 1: avoids a pass over a growing list of millions with every block
            self.total_cost = float(self.size)
        else:
            self.total_cost = float(self.cost[self.used].sum())


# Finite elapsed times, and the credit with which schedulers meet given frequencies.

NEVER_POLLED_S = 1e18
"""Replaces `elapsed = inf`: longer than any real gap, and finite."""
SAME_S = 1e-5
"""Times that differ by less count as equal: epoch seconds in doubles resolve a quarter of a microsecond."""


def finite(elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns elapsed s of any shape as finite numbers >= 0: inf is `NEVER_POLLED_S`, nan and negative values are 0."""
    return np.asarray(np.fmax(np.fmin(elapsed, NEVER_POLLED_S), 0.0))


def credit_after(
    elapsed: NDArray[np.float64], credit: NDArray[np.float64], period: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the total seconds by which polls came late (early: < 0), within one period; all float64[k].

    A poll costs its site one period: a longer or shorter wait counts for its next poll. Within one period, so that a
    site that could not be polled for long does not catch up all at once.
    """
    return np.asarray(np.maximum(np.minimum(elapsed + credit - period, period), -period))


# Counts of polls and changes of each site, and the estimated rate.

FIELDS = ("polls", "changes", "quiet", "busy")
MEMORY_POLLS = 128
MAX_POLLS = 2.0**53
"""Above this, adding one makes no difference in a double."""
_SHORTEST_CYCLE_S = 1e-90
"""Shorter cycles count as this, so that rates are finite."""
_ROUNDING = 1.0 + 1e-9
_PRIOR = 0.5
"""A site starts as if half a poll after one cycle had found a change, and half a poll had not."""


def rate_without_polls(cycle: float) -> float:
    """Returns the rate that `PollCounts.rates` gives a site without polls: `ln 2 / cycle`, 1/s."""
    return math.log(2) / max(cycle, _SHORTEST_CYCLE_S)


SOUND = "no more changes than polls, and at most 10^18 s for each"
"""Condition that `PollCounts.sound` checks, for error messages."""


class PollCounts:
    """Counts of polls and changes, and the seconds between polls without (`quiet`) and with (`busy`) a change.

    At `memory` polls a site's row is halved, so that the last `memory` / 2 to `memory` polls count: rates drift. inf:
    all polls count.
    """

    def __init__(self, memory: float = MEMORY_POLLS) -> None:
        self._memory = memory
        self.rows = np.zeros((0, len(FIELDS)))

    def grow(self, capacity: int) -> None:
        """Grows to `capacity` sites."""
        if capacity > len(self.rows):
            lengthen(vars(self), "rows", capacity - len(self.rows), 0.0)

    def note(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        """Adds polls of slots int64[k], may repeat, elapsed float64[k] s finite, changed bool[k].

        Gaps count as 10^18 s at most.
        """
        elapsed = np.minimum(elapsed, NEVER_POLLED_S)
        counts = np.empty((len(slots), len(FIELDS)))
        counts[:, 0], counts[:, 1] = 1.0, changed
        counts[:, 3] = changed * elapsed
        counts[:, 2] = elapsed - counts[:, 3]
        np.add.at(self.rows, slots, counts)
        while (full := self.rows[slots, 0] >= self._memory).any():
            self.rows[np.unique(slots[full])] /= 2

    def sound(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Returns which rows float64[k, fields] are possible poll counts, bool[k]; `SOUND` states the condition."""
        polls, changes, quiet, busy = rows.T
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(
                (polls <= min(self._memory, MAX_POLLS))
                & ((changes >= 0) & (changes <= polls))
                & ((quiet >= 0) & (quiet <= (polls - changes) * (NEVER_POLLED_S * _ROUNDING)))
                & ((busy >= 0) & (busy <= changes * (NEVER_POLLED_S * _ROUNDING)))
            )

    def rates(self, n: int, cycle: float) -> NDArray[np.float64]:
        """Returns estimated changes per second of slots 0..n-1, float64[n]; cycle s: the gap of a poll in the prior.

        Maximum likelihood of `Π e^{-λτ}` over quiet gaps and `Π (1 - e^{-λτ})` over busy ones ([A] 2.2's d_i), with
        rate λ and gap τ, each busy gap replaced by their mean `b = B / m`: then `e^{λb} - 1 = B / Q`, so
        `λ = ln(1 + B / Q) m / B`.
        """
        cycle = max(cycle, _SHORTEST_CYCLE_S)
        changes, quiet, busy = self.rows[:n, 1] + _PRIOR, self.rows[:n, 2], self.rows[:n, 3]
        quiet, busy = quiet + _PRIOR * cycle, busy + _PRIOR * cycle
        return np.asarray(np.log1p(busy / quiet) * changes / busy)


# Selection of the k most urgent of n slots.


def top(urgency: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Returns the slots of the k largest values above -inf, largest first, the lower slot first on ties; int64[<= k].

    O(n + k log k): at 10^6 sites a full sort would cost more than the choice itself.
    """
    if k <= 0 or urgency.size == 0:
        return np.empty(0, np.int64)
    if k == 1:
        best = int(urgency.argmax())
        return np.array([best] if urgency[best] > -np.inf else [], np.int64)
    first = np.flatnonzero(urgency == urgency.max())
    if first.size >= k and urgency[first[0]] > -np.inf:
        return first[:k].astype(np.int64, copy=False)  # partitioning equal values, as after an import, is slow
    candidates = np.flatnonzero(urgency > -np.inf)
    if candidates.size < urgency.size // 2:
        return candidates[_top_of(urgency[candidates], k)].astype(np.int64, copy=False)
    return _top_of(urgency, k)


def _top_of(urgency: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    if k >= urgency.size:
        chosen = np.flatnonzero(urgency > -np.inf)
    else:
        bar = np.partition(urgency, urgency.size - k)[urgency.size - k]
        above = np.flatnonzero(urgency > bar)
        level = np.flatnonzero(urgency == bar)[: k - above.size] if bar > -np.inf else above[:0]
        chosen = np.union1d(above, level)
    return chosen[np.argsort(-urgency[chosen], kind="stable")].astype(np.int64, copy=False)


# Seconds since the last polls of millions of slots, computed on access.


class Since:
    """Behaves like the array of elapsed times, float64[n] s, inf for slots never polled."""

    def __init__(self, last_seen: NDArray[np.float64], now: float) -> None:
        """last_seen float64[n], epoch s, -inf: never; `now` epoch s. The array must not change meanwhile."""
        self._last_seen, self._now = last_seen, now

    def __getitem__(self, part: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        since = self._now - self._last_seen[part]
        return np.maximum(since, 0.0, out=since)


# Ties are broken by a low-discrepancy order, so that equal sites are spread over the list.
#
# Lists are often sorted, the pages that change most first. In slot order, the first polls would sample only those: on
# 512 sorted pages `whittle` took a quarter for fast drifters, though none drifts. Steps of the golden section of the
# list put neighbours far apart.

GOLDEN_SECTION = (math.sqrt(5.0) - 1.0) / 2.0
_DIFFERENCE = 2.0**-32
"""Largest relative difference added to equal indices: more than rounding, less than any real difference."""


def tie_breaks(slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns factors for the indices of slots int64[k], from 1 to 1 + 2^-32, float64[k]."""
    steps = slots * GOLDEN_SECTION
    return np.asarray(1.0 + _DIFFERENCE * (steps - np.floor(steps)))
