"""The learned Whittle index, which polls the sites whose next poll has the highest expected value ([E] theorem 1).

The belief about a site is a posterior over a grid of rates, refined between them, drifted over the gap since its last
poll, and mixed with the common rate of all pages as far as individual beliefs have not yet predicted better
(docs/model.md). The index is its expectation: with a plugged-in mean, under `freshness`, a page with an overestimated
rate would never be polled again and never corrected. Under `changes` the rate λ is in g only, and the number of changes
since the last poll is replaced by its certainty equivalent (`grid.log_utility`), between the expectation and the mean.
For `interest` the rate is in the amplitude only, so the expectation is that of the mean; pages that may turn out better
get a bonus (`index.Exploration`). Under `delay` and `deadline` the index is linear in the rate (`index.TimelyIndex`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import ELSEWHERE, EvidenceBatch, SourceQuality
from pollerd.allocation.index import decay_rates, g
from pollerd.allocation.registered import DEFAULT_DEADLINE_S, OBJECTIVES, TIMELY
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.signals.waiting import SignalEvidence
from pollerd.allocation.slots import Since, SlotTable, host_numbers, positive, tie_breaks, top
from pollerd.allocation.whittle import grid
from pollerd.allocation.whittle.belief import Belief
from pollerd.allocation.whittle.index import (
    BelievedFeeds,
    Exploration,
    FeedIndex,
    TimelyIndex,
    ahead,
    change_probabilities,
    change_probability,
    fine_posterior,
    mean_rates,
    rate_interval,
)
from pollerd.allocation.whittle.lazy_top_k import LazyTopK, Part, split_by_age
from pollerd.allocation.whittle.priors import ORDINARY_CLOCK, LearningSettings
from pollerd.allocation.whittle.signal_bounds import IndexBounds
from pollerd.allocation.whittle.signal_index import SIGNAL_ARRAYS, SignalIndex
from pollerd.errors import InvalidValueError
from pollerd.texts import _, n_

# The belief about a site in words.

_RECENT_CYCLES = 0.125
"""Period over which the current speed of all sites is measured, in uniform cycles."""
_USUAL = 1.1


def words(belief: Belief, slot: int) -> dict[str, str]:
    """Returns what `Allocator.notes` returns, for a slot in use."""
    out = {"prior_source": _prior_source(belief, slot), "profile": _profile(belief)}
    if belief.observed[slot] > 0:
        out["drift"] = _drift(belief, slot)
    return out


def _prior_source(belief: Belief, slot: int) -> str:
    if not belief.learned:
        return _("at the start: about one change between two checks")
    match belief.group_priors.shares_in(slot):
        case (True, True):
            return n_(
                "learned from {count} poll of all sites, and from its host's and its neighbours' in the list",
                "learned from {count} polls of all sites, and from its host's and its neighbours' in the list",
                belief.polls,
            )
        case (True, False):
            return n_(
                "learned from {count} poll of all sites, and from its host's",
                "learned from {count} polls of all sites, and from its host's",
                belief.polls,
            )
        case (False, True):
            return n_(
                "learned from {count} poll of all sites, and from its neighbours' in the list",
                "learned from {count} polls of all sites, and from its neighbours' in the list",
                belief.polls,
            )
    return n_("learned from {count} poll of all sites", "learned from {count} polls of all sites", belief.polls)


def _profile(belief: Belief) -> str:
    span = _RECENT_CYCLES * belief.cycle
    speed = float(belief.clock.gap(np.array([span]), belief.now)[0]) / span
    if 1.0 / _USUAL < speed < _USUAL:
        return _("all sites change at their usual pace now")
    return _("all sites change at {speed} times their usual pace now", speed=f"{speed:.2g}")


def _drift(belief: Belief, slot: int) -> str:
    fast = belief.fast_share(np.array([slot]))[0]
    return _("its rate drifts fast with probability {chance}", chance=f"{fast:.2f}")


NEVER_POLLED = 1e15
"""Urgency of a site never polled: above all others, finite."""
OVERDUE = 1e12
"""Added to the urgency of a site past the starvation bound: above all indices, below sites never polled."""
LONGEST_GAP_S = 1e12
"""Upper bound of gaps: no index changes beyond it."""
_TIE_SLOPE = 1e-6
"""Relative increase of an index under `interest` per uniform cycle: breaks ties by waiting time where g is 1."""
_SHORTEST_LOOK = 0.01
"""Gaps below this share of a uniform cycle are as good as none for the next look at a feed."""
_ROWS_AT_A_TIME = 16_384
_SAME_CYCLE = 0.002
"""Changes of the cycle up to this keep every index within the margin of `LazyTopK`: 50 cycles times .06 times this."""


@dataclass(frozen=True)
class WhittleSettings(LearningSettings):
    """Learning, and the bound that limits the duration of any misjudgement."""

    starvation_cycles: float = 50.0
    """Uniform cycles after which a site is polled whatever its index."""


class Whittle(Allocator):
    """Index policy on learned rates; all objectives, weights, costs and kinds of evidence.

    A change of `budget` takes effect at once. The prior is updated by counts of observations, so runs are reproducible;
    no randomness is used. A batch and its polls one by one give the same result, up to rounding.

    For n sites, K = 24 rates and H = 2 hazards a choice of k costs O(n) in plain comparisons, and O(H K) for each site
    looked at: all, if no more than 256 are eligible, else some √(n k) that may have become urgent enough. A poll costs
    O(H K) for its row, plus its part of the shared parameters: the clock, after every n / 64 polls, from the last 4,096
    of them at most; the prior, each time that polls are a quarter more, later after every n of them, em_steps passes
    over the rows of at most 65,536 sites.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("whittle", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([1.063, 0.914])
    """

    def __init__(
        self,
        budget: float,
        objective: str = "changes",
        settings: WhittleSettings | None = None,
        deadline: float = DEFAULT_DEADLINE_S,
    ) -> None:
        super().__init__(budget)
        if objective not in OBJECTIVES:
            raise InvalidValueError("objective", f"one of {', '.join(OBJECTIVES)}", objective)
        self._objective = objective
        self.counts_items = objective == "interest"
        self._settings = settings or WhittleSettings()
        self._slot_table = SlotTable()
        self._belief = Belief(self._cycle(), self._settings)
        self._lazy_top_k = LazyTopK()
        self._exploration = Exploration()
        self._timely = TimelyIndex(self._slot_table, deadline if objective == "deadline" else None)
        self._feeds = FeedIndex(self._slot_table, self._belief)
        self._signal_index = SignalIndex(
            self._belief, self._slot_table, objective, self._timely, self._index, self._progress
        )
        self._belief.since_last_polls = self._signal_index
        self._looked_at = 0
        self._version = 0
        self._inputs_seen = self._index_inputs()

    @property
    def budget(self) -> float:
        """Cost per second to spend."""
        return self._budget

    @budget.setter
    def budget(self, value: float) -> None:
        self._budget = positive("budget", value)
        self._belief.set_cycle(self._cycle(), self._slot_table.size)

    @property
    def starvation_gap(self) -> float:
        return self._settings.starvation_cycles * self._belief.cycle

    @property
    def urgency_jumps(self) -> NDArray[np.float64]:
        return self._timely.jumps()

    @property
    def belief(self) -> Belief:
        """Beliefs about the sites, on which the indices are based."""
        return self._belief

    @property
    def signals(self) -> Signals:
        """Sources of signals, and what was learned of them."""
        return self._signal_index.signals

    @property
    def looked_at(self) -> int:
        """Number of indices that the last choice computed; a slot that was looked at twice counts twice."""
        return self._looked_at

    def _cycle(self) -> float:
        """Returns the seconds in which the budget polls every site once."""
        cycle = (self._slot_table.total_cost or 1.0) / self._budget
        return min(max(cycle, grid.SHORTEST_CYCLE_S), grid.LONGEST_CYCLE_S)

    def expect(self, sites: int) -> None:
        self._slot_table.grow(sites)

    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None = None,
        deadline: NDArray[np.float64] | None = None,
    ) -> None:
        slots = self._slot_table.add(slots, weight, cost, half_life, deadline)
        self._belief.grow(self._slot_table.capacity)
        self._lazy_top_k.grow(self._slot_table.capacity)
        self._lazy_top_k.set_costly(slots, False)
        self._lazy_top_k.invalidate(slots)
        self._belief.forget(slots)
        self._belief.set_cycle(self._cycle(), self._slot_table.size)

    def place(self, slots: NDArray[np.int64], host: NDArray[np.int64]) -> None:
        slots = self._slot_table.known(slots)
        self._belief.place(slots, host_numbers(host, len(slots)))
        self._lazy_top_k.invalidate(slots)

    def set_items_shown(self, slots: NDArray[np.int64], items: NDArray[np.float64]) -> None:
        slots = self._slot_table.set_items_shown(slots, items)
        if self.counts_items:
            self._lazy_top_k.set_costly(slots, ~np.isnan(self._slot_table.items_shown[slots]))
        self._lazy_top_k.invalidate(slots)

    def remove(self, slots: NDArray[np.int64]) -> None:
        slots = self._slot_table.remove(slots)
        if self._signal_index.signals.active:
            self._signal_index.signals.forget(slots, self._slot_table.capacity)
        self._belief.forget(slots)
        self._belief.set_cycle(self._cycle(), self._slot_table.size)

    def add_source(self, source: int, slots: NDArray[np.int64], *, polled_as: int | None = None) -> None:
        slots = self._slot_table.known(slots)
        here = polled_as is not None and polled_as != ELSEWHERE
        if here:
            self._slot_table.known(np.array([polled_as], np.int64))
        signals = self._signal_index.signals
        host = self._belief.host_of(np.array([polled_as]) if here else slots)
        signals.add(source, slots, polled_as, self._belief.cycle, self._slot_table.capacity, host)
        self._signal_index.note_source(source)
        self._lazy_top_k.clear()

    def remove_source(self, source: int) -> None:
        self._signal_index.signals.remove(source, self._slot_table.capacity)
        self._signal_index.note_source(source)
        self._lazy_top_k.clear()

    def signal(self, slots: NDArray[np.int64], source: int, at: NDArray[np.float64], now: float) -> None:
        slots, at = self._slot_table.known(slots), np.asarray(at, np.float64)
        if at.shape != slots.shape:
            raise InvalidValueError("at", f"float64 of shape {slots.shape}", at.shape)
        if self._signal_index.signals.active:
            self._lazy_top_k.invalidate(self._signal_index.receive(slots, source, at, now))

    def fetched(self, source: int, now: float) -> None:
        of = self._signal_index.signals.sources.get(source)
        if of is not None:
            self._lazy_top_k.postpone(*self._signal_index.bounds.postponed(source, now))
            of.alive(now)
            self._signal_index.note_source(source)

    def readings_due(self) -> NDArray[np.int64]:
        return self._signal_index.sources.readings_due() if self._signal_index.signals.active else np.empty(0, np.int64)

    def source_quality(self, source: int) -> SourceQuality | None:
        return self._signal_index.signals.quality(source)

    def signals_waiting(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._signal_index.signals.waiting(self._slot_table.known(slots))

    def announced(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._signal_index.signals.announced(self._slot_table.known(slots))

    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        slot_table = self._slot_table
        elapsed = slot_table.check_elapsed(elapsed)
        out = np.full(len(elapsed), -np.inf)
        n = slot_table.n
        if n:
            out[:n] = np.where(slot_table.used[:n], self._urgency(slice(0, n), elapsed[:n], now), -np.inf)
        return out

    def select(
        self, elapsed: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        """Returns the top k of `urgency`; of many slots, looks only at those that may have become urgent enough.

        Above 65,536 slots the first look, an update of the prior or a change of the cycle reaches all of them over
        several choices, one for each 32,768 of them.
        """
        return self._select(self._slot_table.check_elapsed(elapsed)[: self._slot_table.n], now, eligible, k)

    def select_seen(
        self, last_seen: NDArray[np.float64], now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        """Makes the same choice; elapsed times are computed block by block, as needed."""
        return self._select(Since(self._slot_table.check_elapsed(last_seen), now), now, eligible, k)

    def _select(
        self, elapsed: NDArray[np.float64] | Since, now: float, eligible: NDArray[np.bool_], k: int
    ) -> NDArray[np.int64]:
        self._looked_at = 0
        n = self._slot_table.n
        free = eligible[:n] & self._slot_table.used[:n]
        number = int(np.count_nonzero(free))
        if k <= 0 or not number:
            return np.empty(0, np.int64)
        latest = self.starvation_gap
        top_k = self._lazy_top_k if self._lazy_top_k.pays(number, k) else None
        progress = self._progress(now)
        pinned = self._source_slots(elapsed, now)
        never, late, mask = split_by_age(free, elapsed, latest, k, top_k, progress)
        if len(never) == k:  # equal, above all others: no need to look at a million of them
            return never
        if len(never) + len(late) >= k:
            return np.concatenate([never, late[top(_clipped(elapsed[late]), k - len(never))]])
        self._sweep_if_all_changed()
        if top_k is None:
            slots = np.flatnonzero(free)
            return _first(slots, self._look_at(slots, elapsed, now)[0], k)
        mask = self._lazy_top_k.with_sweep(mask, free, k)
        mask[pinned] = free[pinned]
        slots = np.flatnonzero(mask)
        value, bounds = self._look_at(slots, elapsed, now)
        if len(slots) < number and not self._lazy_top_k.enough(value, k):
            more = self._lazy_top_k.more(mask, free, k)
            if more is not mask:
                more[pinned] = free[pinned]
                slots = np.flatnonzero(more)
                value, bounds = self._look_at(slots, elapsed, now)
        gap = self._gap(elapsed[slots], now)
        self._lazy_top_k.note(slots, elapsed[slots], gap, value, progress, k, number)
        if bounds is not None:
            self._limit(slots, elapsed[slots], gap, bounds, progress)
        if self.counts_items and self._feeds.any_limited:
            self._limit_feeds(slots, elapsed[slots], value, progress)
        if self._objective == "deadline":
            wait = np.minimum(self._timely.until_due(slots, gap), self._signal_index.until_due(slots, now))
            self._lazy_top_k.limit_wait(slots, wait, progress)
        return _first(slots, value, k)

    def _source_slots(self, elapsed: NDArray[np.float64] | Since, now: float) -> NDArray[np.int64]:
        """Returns the slots to be looked at because their polls read a source, int64[m]; updates its index."""
        if not self._signal_index.signals.active:
            return np.empty(0, np.int64)
        self._signal_index.signals.know_last_polls(elapsed, now)
        self._lazy_top_k.invalidate(self._signal_index.bounds.moved(now))
        self._signal_index.sources.refresh(elapsed, now)
        return self._signal_index.sources.slots_from(self._lazy_top_k.level)

    def _limit(
        self,
        slots: NDArray[np.int64],
        elapsed: NDArray[np.float64],
        gap: NDArray[np.float64],
        bounds: IndexBounds,
        progress: float,
    ) -> None:
        """Looks at pages with sources as early as they may be urgent whatever these say, or later by a tight bound."""
        told = bounds.places
        some = slots[told]
        value = self._slot_table.weight_per_cost[some]
        self._lazy_top_k.limit(some, elapsed[told], gap[told], bounds.loose * value, progress)
        later = np.flatnonzero(bounds.ahead > 0.0)
        self._lazy_top_k.wait_below(some[later], (bounds.tight * value)[later], bounds.ahead[later], progress)

    def _limit_feeds(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], value: NDArray[np.float64], progress: float
    ) -> None:
        """Looks at sites of few items as early as theirs may be displaced: then an index grows without bound."""
        here = self._feeds.limited(slots)
        limited, gap = slots[here], _clipped(elapsed[here])

        def most(places: NDArray[np.int64], later: NDArray[np.float64]) -> NDArray[np.float64]:
            """Returns a bound float64[j] of the urgency up to gaps float64[j] s, under the beliefs from now to then."""
            some = limited[places]
            rows = np.maximum(*(self._belief.predicted_rows(some, each) for each in (gap[places], later)))
            return np.asarray(self._interest_of(some, later, rows) * self._slot_table.weight_per_cost[some])

        shortest = _SHORTEST_LOOK * self._belief.cycle
        self._lazy_top_k.limit_growth(limited, gap, value[here], most, shortest, progress)

    def _look_at(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64] | Since, now: float
    ) -> tuple[NDArray[np.float64], IndexBounds | None]:
        """Returns the urgency of slots int64[m] for a choice, float64[m], and bounds where sources speak for them."""
        self._looked_at += len(slots)
        since = elapsed[slots]
        gap = self._gap(since, now)
        value, bounds = self._index(slots, gap), None
        if self._signal_index.signals.active:
            with np.errstate(divide="ignore", invalid="ignore"):
                level = self._lazy_top_k.level / self._slot_table.weight_per_cost[slots]
            value, bounds = self._signal_index.apply_bounded(slots, gap, now, value, level)
        return self._urgency_by_index(slots, since, value), bounds

    def _sweep_if_all_changed(self) -> None:
        version, cycle = inputs = self._index_inputs()
        if version != self._inputs_seen[0] or abs(cycle / self._inputs_seen[1] - 1.0) > _SAME_CYCLE:
            self._lazy_top_k.sweep()
            self._inputs_seen = inputs

    def _index_inputs(self) -> tuple[int, float]:
        """Returns the inputs that affect the indices of all sites."""
        return self._version + self._belief.version + self._belief.clock.version, self._belief.cycle

    def _gap(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """Returns the gap used by the index, float64[k] s. News fades, and deadlines pass, by the ordinary clock."""
        gap = _clipped(elapsed)
        return gap if self._objective in ORDINARY_CLOCK else self._belief.clock.gap(gap, now)

    def _progress(self, now: float) -> float:
        """Returns a reading (s) whose advance bounds the growth of `_gap` of any slot."""
        return now if self._objective in ORDINARY_CLOCK else self._belief.clock.progress(now)

    def _urgency(self, part: Part, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """Returns the urgency of the slots in `part`, all in use, at elapsed float64[k] s, float64[k]."""
        gap = self._gap(elapsed, now)
        value = self._index(part, gap)
        if self._signal_index.signals.active:
            slots = np.arange(part.start, part.stop) if isinstance(part, slice) else part
            value = self._signal_index.apply(slots, gap, now, value)
        return self._urgency_by_index(part, elapsed, value)

    def _urgency_by_index(
        self, part: Part, elapsed: NDArray[np.float64], index: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Returns the urgency of the slots in `part` by their indices for weight and cost 1, float64[k]."""
        value = index * self._slot_table.weight_per_cost[part]
        if self._signal_index.signals.active:
            slots = np.arange(part.start, part.stop) if isinstance(part, slice) else part
            value = self._signal_index.sources.raise_sources(slots, value)
        gap, never = _clipped(elapsed), np.isposinf(elapsed)
        late = gap > self.starvation_gap
        if late.any():
            value[late] = np.minimum(OVERDUE + gap[late] / self._belief.cycle, NEVER_POLLED / 2)
        if never.any():
            value[never] = NEVER_POLLED
        return value

    def _index(self, part: Part, gap: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the index of the slots in `part` for weight and cost 1, float64[k]."""
        if self._objective in TIMELY:
            return self._timely_index(part, gap)
        if self._objective != "interest":
            return self._integrated(part, gap)
        return self._interest_of(part, gap, self._belief.predicted_rows(part, gap))

    def _interest_of(self, part: Part, gap: NDArray[np.float64], rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Returns the index under `interest` with bonuses, float64[k], of beliefs float32[k, K]."""
        decay = self._decay(part)
        feeds = self._feeds.believed(part, rows, decay) if self._feeds.any_limited else None
        index = self._interest_index(part, gap, rows, decay, feeds)
        tie_breaker = 1.0 + _TIE_SLOPE * gap / self._belief.cycle
        return tie_breaker * self._with_claims(part, gap, rows, index, decay, feeds)

    def _timely_index(self, part: Part, gap: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the index under `delay` or `deadline`, float64[k]. Sites that are due may have claims, too."""
        rows = self._belief.predicted_rows(part, gap)
        index = self._timely.index(part, gap, self._mean(part, rows, lambda rates: rates))
        if self._objective == "delay":
            return index
        due = np.isinf(self._timely.until_due(part, gap))
        claimed = self._with_claims(part, gap, rows, index, 1.0 / self._timely.deadlines(part))
        return np.where(due, claimed, index)

    def _with_claims(
        self,
        part: Part,
        gap: NDArray[np.float64],
        rows: NDArray[np.float32],
        index: NDArray[np.float64],
        often: NDArray[np.float64],
        feeds: BelievedFeeds | None = None,
    ) -> NDArray[np.float64]:
        """Returns the index float64[k] with bonuses: a poll gains λ / often, at most `often` float64[k] times a s."""
        if not self._exploration.price:
            return index
        value_per_cost = self._slot_table.weight_per_cost[part]
        with np.errstate(divide="ignore"):
            price = (self._exploration.price / value_per_cost)[:, None]
        better = self._mean(part, rows, lambda rates: np.maximum(rates / often[:, None] - price, 0.0))
        if feeds is not None:
            better, often = feeds.gain(price, better, often)
        most = np.minimum(self._budget / self._slot_table.cost[part], often)
        polls = most * ahead(self._belief.observed[part]) * gap
        return self._exploration.with_claims(index, better, polls, value_per_cost)

    def _decay(self, part: Part) -> NDArray[np.float64]:
        """Returns the decay rate of news of the slots in `part`, per second, float64[k]."""
        return decay_rates(self._slot_table.half_life[part])

    def _interest_index(
        self,
        part: Part,
        gap: NDArray[np.float64],
        rows: NDArray[np.float32],
        decay: NDArray[np.float64],
        feeds: BelievedFeeds | None,
    ) -> NDArray[np.float64]:
        """Returns the index under `interest` without bonuses, float64[k], of beliefs float32[k, K]; feeds: of these."""
        index = np.asarray(self._mean(part, rows, lambda rates: rates) / decay * g(decay * gap))
        return index if feeds is None else feeds.index(gap, index)

    def _mean(
        self, part: Part, rows: NDArray[np.float32], value: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Returns the expectation float64[k] of a function of the rate, by beliefs float32[k, K] and the common rate.

        value: of rates in 1/s, float64[k, K] or [1, K].
        """
        belief, common_rate = self._belief, self._belief.common_rate
        own = np.einsum("ij,ij->i", rows, value(belief.rates * belief.factor(part)[:, None]))
        if common_rate.weight == 1.0:
            return np.asarray(own)
        return np.asarray(
            common_rate.weight * own + (1.0 - common_rate.weight) * (value(belief.rates[None]) @ common_rate.cells)
        )

    def _integrated(self, part: Part, gap: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the expectation of `A(λ) g(λτ)` over refined beliefs of the slots in `part`, float64[k], by table.

        For `changes` g of the certainty equivalent of λτ.
        """
        belief, table = self._belief, self._table()
        out = np.empty(len(gap))
        for at in range(0, len(gap), _ROWS_AT_A_TIME):
            some = slice(at, min(at + _ROWS_AT_A_TIME, len(gap)))
            slots = some if isinstance(part, slice) else part[some]
            row, beyond = grid.locate(belief.lattice, len(table), gap[some], belief.refinement.offset[slots])
            rows = belief.predicted_rows(slots, gap[some])
            low = np.einsum("ij,ij->i", rows, table.take(row, 0))
            high = np.einsum("ij,ij->i", rows, table.take(row + 1, 0))
            own = low + beyond * (high - low)
            if self._objective == "freshness":
                own = own / belief.factor(slots)
            out[some] = own if belief.common_rate.weight == 1.0 else self._mixed_with_common_rate(own, gap[some])
        return out / belief.rates[0] if self._objective == "freshness" else grid.index_of_certainty_equivalent(out)

    def _table(self) -> NDArray[np.float32]:
        lattice = self._belief.lattice
        return grid.index_table(lattice.step, lattice.wide, self._objective)

    def _mixed_with_common_rate(self, own: NDArray[np.floating], gap: NDArray[np.float64]) -> NDArray[np.floating]:
        """Mixes the expectations `own` float[k] with that under the common rate, at gap float64[k] s."""
        common_rate, table = self._belief.common_rate, self._table()
        row, beyond = grid.locate(self._belief.lattice, len(table), gap, 0.0)
        common = table @ common_rate.cells.astype(np.float32)
        low, high = common.take(row), common.take(row + 1)
        weight = np.float32(common_rate.weight)
        return np.asarray(weight * own + (1 - weight) * (low + beyond * (high - low)))

    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        slots, elapsed = self._slot_table.check_polls(slots, elapsed, evidence)
        if not self.counts_items:
            evidence = evidence.without_items(np.ones(len(slots), np.bool_))
        else:  # where the number that a site shows is known, each item is evidence
            evidence = evidence.without_items(np.isnan(self._slot_table.items_shown[slots]))
        for rows in _rounds(slots):
            signals = None
            if self._signal_index.signals.active:
                signals = self._learn_signals(slots[rows], elapsed[rows], evidence.take(rows), now)
            self._learn(slots[rows], elapsed[rows], evidence.take(rows), now, signals)
        self._lazy_top_k.invalidate(slots)

    def _learn_signals(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> SignalEvidence | None:
        """Learns the quality of sources from polls of distinct slots; returns what their signals say besides."""
        pages = ~np.isin(slots, self._signal_index.sources.polled_slots())
        self._signal_index.sources.note_price(self._urgency(slots[pages], elapsed[pages], now))
        return self._signal_index.learn(slots, elapsed, evidence.found, now)

    def _learn(
        self,
        slots: NDArray[np.int64],
        elapsed: NDArray[np.float64],
        evidence: EvidenceBatch,
        now: float,
        signals: SignalEvidence | None,
    ) -> None:
        """Learns from polls of distinct slots, and the signals before them."""
        if self._objective in ORDINARY_CLOCK:
            again = np.isfinite(elapsed)
            polled = slots[again]
            gap = _clipped(elapsed[again])
            rows = self._belief.predicted_rows(polled, gap)
            if self._objective == "interest":
                decay = self._decay(polled)
                feeds = self._feeds.believed(polled, rows, decay) if self._feeds.any_limited else None
                index = self._interest_index(polled, gap, rows, decay, feeds)
            else:
                index = self._timely.index(polled, gap, self._mean(polled, rows, lambda rates: rates))
            index *= self._slot_table.weight_per_cost[polled]
            self._version += self._exploration.observe(index)
        self._belief.observe(slots, elapsed, evidence, now, self._slot_table.size, signals)

    def urgency_of(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        return self._urgency(self._slot_table.known(slots), np.asarray(elapsed, np.float64), now)

    def rates(self) -> NDArray[np.float64]:
        n = self._slot_table.n
        return np.where(self._slot_table.used[:n], mean_rates(self._belief, np.arange(n)), np.nan)

    def rates_of(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        return mean_rates(self._belief, self._slot_table.known(slots))

    def rate_interval(
        self, slots: NDArray[np.int64], level: float = 0.9
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if not 0 < level < 1:
            raise InvalidValueError("level", "between 0 and 1", level)
        return rate_interval(self._belief, self._slot_table.known(slots), level)

    def belief_of(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return fine_posterior(self._belief, self._slot_table.known(slots))

    def notes(self, slot: int) -> dict[str, str]:
        return words(self._belief, slot) | (self._signal_index.words(slot) if self._signal_index.signals.active else {})

    def change_probability(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.present_chance(slots, elapsed, self._belief.now)

    def present_chance(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        gap, slots = _clipped(np.asarray(elapsed, np.float64)), self._slot_table.known(slots)
        without = change_probability(self._belief, slots, gap)
        if not self._signal_index.signals.active:
            return without
        return self._signal_index.change_probability(slots, self._belief.clock.gap(gap, now), now, without)

    def change_probabilities(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        gap = _clipped(np.asarray(elapsed, np.float64))
        return change_probabilities(self._belief, self._slot_table.known(slots), gap)

    def site_state(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        return self._belief.rows(self._slot_table.known(slots))

    def shared_state(self) -> bytes:
        return self._belief.shared("whittle", {**self._exploration.state(), **self._signal_index.state()})

    def restore(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8], shared_state: bytes) -> None:
        slots = self._slot_table.known(slots)
        arrays = self._belief.put_shared("whittle", shared_state, self._exploration.state(), (SIGNAL_ARRAYS,))
        self._exploration.restore(arrays)
        self._signal_index.restore(arrays)
        self._belief.put_rows(slots, site_state)
        self._lazy_top_k.clear()


def _first(slots: NDArray[np.int64], urgency: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Returns the slots with the k largest urgencies, with ties in low-discrepancy order."""
    return slots[top(np.where(urgency < OVERDUE, urgency * tie_breaks(slots), urgency), k)]


def _clipped(elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return np.fmax(np.fmin(elapsed, LONGEST_GAP_S), 0.0)


def _rounds(slots: NDArray[np.int64]) -> list[NDArray[np.int64] | slice]:
    """Returns sets of rows in which no slot appears twice, earlier appearances first."""
    if len(slots) < 2 or np.unique(slots).size == len(slots):
        return [slice(0, len(slots))]
    order = np.argsort(slots, kind="stable")
    fresh = np.r_[True, slots[order][1:] != slots[order][:-1]]
    starts = np.flatnonzero(fresh)
    nth = np.empty(len(slots), np.int64)
    nth[order] = np.arange(len(slots)) - np.repeat(starts, np.diff(np.r_[starts, len(slots)]))
    return [np.flatnonzero(nth == i) for i in range(int(nth.max()) + 1)]
