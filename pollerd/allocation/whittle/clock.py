"""Parts of the belief that all sites share: an activity clock, a common rate, and drift hazards.

The activity clock is operational time: a gap that contains a burst of changes counts as longer. Sites of one system
change in batches, by day and not by night, on workdays and not at weekends. Rates are therefore relative to a common
clock, whose speed is learned from the polls. Over an interval of h seconds it advances by M, a priori a Gamma process,
`M ~ Gamma(shape h / J, scale J)` of mean h, where J (s) is the jump size; J -> 0 is the ordinary clock. A poll over the
gap I of a site of rate λ finds a change with probability `1 - exp(-λ M(I))`. M is estimated by expectation maximisation
for interval-censored counts (Turnbull 1976): each poll exposes the intervals of its gap to λ, and a changed one adds
`λ M / (1 - exp(-λ M(I)))` expected changes to an interval. Several J and the ordinary clock are weighted by their
predictive likelihood, with prior odds for the ordinary one: if sites change independently, nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.signals.waiting import SignalEvidence
from pollerd.allocation.whittle.grid import CELLS, Lattice, log_likelihood, move_likelihood
from pollerd.errors import InvalidValueError

INTERVALS_PER_CYCLE = 64
"""Resolution of the clock."""
JUMPS_CYCLES = np.array([0.03, 0.3])
"""Jump sizes J, in uniform cycles."""
LOG_PRIOR_ODDS = 10.0
"""Log prior odds against each J."""
FEW_SITES, SPARING_POLLS = 1024, 512
"""With more sites than the first the clock is updated after that many polls at the earliest.

An update takes about a millisecond, too much for few polls."""
WINDOW_POLLS = 1024
"""Number of polls kept of the last cycle, from which the clock is learned; of more, every second, third … is kept."""
EM_STEPS = 3
"""EM steps at each update."""
MAX_INTERVALS = 2048
"""Largest number of intervals kept: 24 cycles or more. Before them the clock is the ordinary one."""
_MAX_POLLS = 4 * WINDOW_POLLS
_TICKS = 4.0
"""Minimum length of intervals, in units of the resolution of doubles at that time."""
_MIN_SPEED = 1e-9
_TINY = 1e-12


class ActivityClock:
    """Learns the speed of the activity clock, and reads it.

    `edges` float64[B + 1] (UTC epoch s) bound the intervals; `activity` float64[len(JUMPS_CYCLES), B] (s) is the
    clock's advance in them for each J, `mixed` float64[B] for their mixture; B = 0 before the first poll. Old
    predictions are discounted over `memory_polls`.
    """

    def __init__(self, memory_polls: float) -> None:
        self._keep = 1.0 - 1.0 / memory_polls
        self.version = 0
        """Increases whenever readings of the distant past change."""
        self.edges = np.zeros(0)
        self.activity = np.zeros((len(JUMPS_CYCLES), 0))
        self.mixed = np.zeros(0)
        self.score = np.zeros(len(JUMPS_CYCLES))
        self.polls = 0
        self._progress_margin = 0.0
        self._window = np.zeros((4, 0))
        self._pending: list[NDArray[np.float64]] = []
        self._total = np.zeros(0)

    # -- reading

    def reading(self, at: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Returns the activity clock (s) at UTC epoch s; only differences are meaningful."""
        return _reading(self.edges, self._total, at)

    def gap(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """Returns the activity clock's advance (s) over the last elapsed float64[k] s, finite, before now."""
        if not len(self.edges):
            return elapsed
        return np.asarray(np.maximum(self.reading(now) - self.reading(now - elapsed), 0.0))

    def progress(self, now: float) -> float:
        """Returns a reading (s) that advances at least as far as any gap grows, even if past readings are revised."""
        return float(self.reading(now)) + self._progress_margin

    # -- learning

    def until_update(self, sites: int) -> int:
        """Returns the number of polls until the next update."""
        every = max(8, sites // INTERVALS_PER_CYCLE, min((sites - FEW_SITES) // 4, SPARING_POLLS))
        return every - self.polls % every

    def extend(self, now: float, cycle: float) -> None:
        """Adds intervals up to now; a single one after more than a cycle (s) without a poll."""
        if not len(self.edges):
            self.edges = self._total = np.array([now])
        width = max(cycle / INTERVALS_PER_CYCLE, _TICKS * float(np.spacing(abs(now))))
        since_edge = now - self.edges[-1]
        if since_edge < 0:
            return
        steps = np.array([since_edge + width]) if since_edge > cycle else np.full(int(since_edge / width) + 1, width)
        ends = steps.cumsum()
        self.edges = np.concatenate([self.edges, self.edges[-1] + ends])
        self._total = np.concatenate([self._total, self._total[-1] + ends])
        self.mixed = np.concatenate([self.mixed, steps])
        self.activity = np.concatenate([self.activity, [steps] * len(self.activity)], axis=1)
        if len(self.mixed) > MAX_INTERVALS:
            self._drop(MAX_INTERVALS // 4)

    def _drop(self, intervals: int) -> None:
        self.edges, self._total = self.edges[intervals:], self._total[intervals:]
        self.mixed, self.activity = self.mixed[intervals:], self.activity[:, intervals:]
        self.version += 1

    def observe(
        self,
        elapsed: NDArray[np.float64],
        now: float,
        unchanged: NDArray[np.float64],
        changed: NDArray[np.bool_],
        sites: int,
        cycle: float,
    ) -> None:
        """Adds k polls, at most `until_update`, after `extend`.

        elapsed float64[k] s; unchanged float64[k] the predicted probability of no change; changed bool[k]; `sites` and
        `cycle` (s) set the frequency of updates.
        """
        every = -(-sites // WINDOW_POLLS)
        some = np.arange(-self.polls % every, len(elapsed), every)
        some = some[np.isfinite(elapsed[some]) & (elapsed[some] > 0)]
        if some.size:
            common = np.maximum(self.gap(elapsed[some], now), _TINY)
            rate = -np.log(np.minimum(np.maximum(unchanged[some], _TINY), 1.0 - _TINY)) / common
            self._pending.append(np.array([now - elapsed[some], np.full(len(some), now), rate, changed[some]]))
        due = len(elapsed) >= self.until_update(sites)
        self.polls += len(elapsed)
        if due and self._pending:
            self._update(now, cycle)

    def _update(self, now: float, cycle: float) -> None:
        """Learns from the pending polls."""
        pending = np.concatenate(self._pending, axis=1)
        self._pending.clear()
        self._score(pending)
        first = min(max(int(self.edges.searchsorted(now - cycle, "right")) - 1, 0), len(self.edges) - 2)
        length = self.edges[first + 1 :] - self.edges[first:-1]
        window = np.concatenate([self._window, pending], axis=1)[:, -_MAX_POLLS:]
        self._window = window[:, window[1] >= self.edges[first]]
        if self._window.size:
            self._infer(JUMPS_CYCLES * cycle, first, length)
        self._mix(now, first, length)

    def _score(self, pending: NDArray[np.float64]) -> None:
        """Adds the log-likelihood gain of each J over the ordinary clock for polls float64[4, k]."""
        bounds, (start, end, rate, changed) = pending[:2], pending
        age = self._keep ** np.arange(len(start) - 1, -1, -1)
        ordinary = _log_likelihood(rate * (end - start), changed)
        for j, row in enumerate(self.activity):
            expected = rate * _between(self.edges, _running(self.edges, row), bounds)
            gain = (_log_likelihood(expected, changed) - ordinary) @ age
            self.score[j] = self.score[j] * self._keep ** len(start) + gain

    def _infer(self, jumps: NDArray[np.float64], first: int, length: NDArray[np.float64]) -> None:
        """Runs EM steps for each J on the intervals from `first` on, of these lengths in s, in place."""
        bounds, (_, _, rate, changed) = self._window[:2], self._window
        covered = _Covered(self.edges[first:], *bounds)
        exposure = covered.spread(rate)
        hits = np.flatnonzero(changed > 0)
        if not hits.size:  # a second step gives the same result
            for activity, jump in zip(self.activity, jumps, strict=True):
                activity[first:] = np.maximum(length / (1.0 + jump * exposure), _MIN_SPEED * length)
            return
        bounds, rate, covered = bounds[:, hits], rate[hits], covered.of(hits)
        for activity, jump in zip(self.activity, jumps, strict=True):
            for _ in range(EM_STEPS):
                expected = rate * _between(self.edges, _running(self.edges, activity), bounds)
                hit_rate = covered.spread(rate / -np.expm1(-np.maximum(expected, _TINY)))
                new = (length + jump * activity[first:] * hit_rate) / (1.0 + jump * exposure)
                activity[first:] = np.maximum(new, _MIN_SPEED * length)

    def _mix(self, now: float, first: int, length: NDArray[np.float64]) -> None:
        """Mixes the intervals from `first` on, and keeps the progress ahead of every gap that grows by it."""
        odds = np.append(self.score - LOG_PRIOR_ODDS, 0.0)
        weight = np.exp(odds - odds.max())
        weight /= weight.sum()
        before = self._total
        reading = self.progress(now)
        self.mixed[first:] = weight[-1] * length + weight[:-1] @ self.activity[:, first:]
        self._total = _running(self.edges, self.mixed) - self.edges[0] + before[0]
        moved = self._total - before
        here = float(np.interp(now, self.edges, moved))
        self._progress_margin += reading + max(here - float(moved.min()), 0.0) - self.progress(now)

    # -- storage

    VARYING = tuple(f"clock_{name}" for name in ("edges", "activity", "mixed", "total", "window", "pending"))
    """Arrays of `state` whose sizes vary."""

    def check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Raises InvalidValueError if sizes and edges are inconsistent."""
        edges, intervals = arrays["clock_edges"], arrays["clock_mixed"].size
        points = intervals + 1 if intervals else 0
        fits = edges.size == points == arrays["clock_total"].size
        fits &= arrays["clock_activity"].size == len(JUMPS_CYCLES) * intervals
        fits &= arrays["clock_window"].size % 4 == arrays["clock_pending"].size % 4 == 0
        if not fits or (np.diff(edges) < 0).any():
            raise InvalidValueError("shared_state", "a clock of chunks in order", f"{intervals} chunks")

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage."""
        pending = [np.zeros((4, 0)), *self._pending]
        return {
            "clock_edges": self.edges,
            "clock_activity": self.activity,
            "clock_mixed": self.mixed,
            "clock_total": self._total,
            "clock_score": self.score,
            "clock_window": self._window,
            "clock_pending": np.concatenate(pending, axis=1),
            "clock_polls": np.array([self.polls], np.int64),
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores the output of `state`, flat."""
        self.edges, self.mixed, self._total = (arrays[f"clock_{name}"] for name in ("edges", "mixed", "total"))
        self.activity = arrays["clock_activity"].reshape(len(JUMPS_CYCLES), -1)
        self.score, self.polls = arrays["clock_score"], int(arrays["clock_polls"][0])
        self._window, pending = (arrays[f"clock_{name}"].reshape(4, -1) for name in ("window", "pending"))
        self._pending = [pending] if pending.size else []
        self.version += 1


def _running(edges: NDArray[np.float64], activity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns readings float64[B + 1] at the edges, starting from the ordinary time at the first."""
    return np.concatenate([edges[:1], edges[0] + activity.cumsum()])


def _reading(
    edges: NDArray[np.float64], total: NDArray[np.float64], at: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Returns the reading at UTC epoch s; the ordinary clock before the first edge and after the last."""
    if not len(edges):
        return np.asarray(at, np.float64)
    outside = np.minimum(at - edges[0], 0.0) + np.maximum(at - edges[-1], 0.0)
    return np.asarray(np.interp(at, edges, total) + outside)


def _between(
    edges: NDArray[np.float64], total: NDArray[np.float64], bounds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the advance float64[k] (s) between the bounds float64[2, k], start and end, of k gaps."""
    start, end = _reading(edges, total, bounds)
    return np.asarray(end - start)


def _log_likelihood(expected: NDArray[np.float64], changed: NDArray[np.float64]) -> NDArray[np.float64]:
    expected = np.maximum(expected, _TINY)
    hits = changed > 0
    return np.where(hits, np.log(-np.expm1(-expected)), -expected) if hits.any() else -expected


class _Covered:
    """Intervals between edges float64[B + 1] that the gaps of k polls cover, with the shares of the first and last.

    Computed once for all sums over them.
    """

    def __init__(self, edges: NDArray[np.float64], start: NDArray[np.float64], end: NDArray[np.float64]) -> None:
        self._intervals = len(edges) - 1
        self._first, self._into_first = _locate(edges, start)
        self._last, self._into_last = _locate(edges, end)

    def of(self, polls: NDArray[np.int64]) -> _Covered:
        """Selects polls."""
        some = object.__new__(_Covered)
        some._intervals = self._intervals
        some._first, some._into_first = self._first[polls], self._into_first[polls]
        some._last, some._into_last = self._last[polls], self._into_last[polls]
        return some

    def spread(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the sum over polls of value times the covered share of each interval, float64[B]."""
        first, last = self._first, self._last
        where = np.concatenate([first, first + 1, last, last + 1])
        steps = np.concatenate(
            [
                value * (1.0 - self._into_first),
                value * self._into_first,
                -value * (1.0 - self._into_last),
                -value * self._into_last,
            ]
        )
        return np.asarray(np.maximum(np.bincount(where, steps, self._intervals + 2).cumsum()[: self._intervals], 0.0))


def _locate(edges: NDArray[np.float64], at: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns the interval of each time and the elapsed share of it, clipped to the first edge and the last."""
    at = np.minimum(np.maximum(at, edges[0]), edges[-1])
    interval = np.minimum(np.maximum(edges.searchsorted(at, "right") - 1, 0), len(edges) - 2)
    return interval, (at - edges[interval]) / (edges[interval + 1] - edges[interval])


# Common rate: the hypothesis that all pages change at one rate (complete pooling), compared with individual beliefs.
#
# If pages differ little, or it is not known yet how, round robin is best, and preferring the pages whose first poll
# found a change is worse. So both hypotheses predict every poll of a page that was polled before, and the index is
# mixed by their predictive likelihoods: individual beliefs count as far as they have predicted better. A hypothesis
# never falls far behind, so that differences that arise later are detected.

COMMON_RATE_LOG_PRIOR_ODDS = 3.0
"""Initial log odds against individual beliefs, with `MANY_SITES` or more."""
MANY_SITES = 100
"""With fewer sites the log odds are reduced in proportion: overcoming them takes as many polls, thus more per page."""
MAX_BEHIND, MAX_AHEAD = 6.0, 30.0
"""Bounds of the log Bayes factor relative to the log odds, behind and ahead."""
_TELLING_SITES = 1024
"""With more sites only this many polls per cycle are used."""
_PER_CELL = 4
"""Rates considered per rate of the window: a single common rate would often be far from the window's rates."""
_RATES = _PER_CELL * (CELLS - 1) + 1
_CELLS = np.arange(_RATES) / _PER_CELL
_START_WIDTH_EFOLDS = 1.5
_SAME_WEIGHT = 0.05
_CERTAIN = 0.999
_FLOOR = -600.0


@dataclass(frozen=True, slots=True)
class SignalledPolls:
    """Polls before which sources may have spoken.

    believed float64[m]: logarithm of the factor by which signals raise the individual beliefs' probability of what
    they found.
    """

    evidence: SignalEvidence
    polls: EvidenceBatch
    believed: NDArray[np.float64]

    def take(self, rows: NDArray[np.int64]) -> SignalledPolls:
        """Selects polls of the batch, in ascending order."""
        of = np.isin(self.evidence.rows, rows)
        return SignalledPolls(self.evidence.take(rows), self.polls.take(rows), self.believed[of])

    def log_likelihood(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns what signals add at rates [1, J], float64[m, J]."""
        return self.evidence.log_likelihood(rates, self.polls)


class CommonRate:
    """One common rate, and the weight of individual beliefs.

    `log_posterior` float64[_RATES] over finer rates of the window; `log_bayes_factor` of individual beliefs over the
    common rate. The index uses two values that move in steps: `weight` (0 to 1) of individual beliefs, and `cells`
    float64[CELLS], the posterior over the window's rates.
    """

    def __init__(self, lattice: Lattice, cycle: float) -> None:
        self.start(lattice, cycle)
        self.log_bayes_factor = 0.0
        self.weight = _weight(-COMMON_RATE_LOG_PRIOR_ODDS)
        self.polls = 0

    def start(self, lattice: Lattice, cycle: float) -> None:
        """Resets the posterior to around one change per uniform cycle (s)."""
        x = np.log(_rates(lattice) * cycle)
        self.log_posterior = -0.5 * (x / _START_WIDTH_EFOLDS) ** 2
        self.refresh()

    def observe(
        self,
        lattice: Lattice,
        gap: NDArray[np.float64],
        changed: NDArray[np.bool_],
        unchanged: NDArray[np.float64],
        known: NDArray[np.bool_],
        sites: int,
        signals: SignalledPolls | None = None,
    ) -> bool:
        """Learns from k polls in order; returns whether `weight` moved.

        lattice: the window's rates; gap float64[k] s; changed bool[k]; unchanged float64[k], the individual beliefs'
        probability of no change; known bool[k]: polled before. Only those are compared: the belief about other pages is
        the shared prior. `sites`: number of sites. signals: what sources said before some of the polls.
        """
        before = self.weight
        log_odds = COMMON_RATE_LOG_PRIOR_ODDS * min(1.0, sites / MANY_SITES)
        self._weigh(self.log_bayes_factor - log_odds)
        every = -(-sites // _TELLING_SITES)
        some = np.arange(-self.polls % every, len(gap), every)
        self.polls += len(gap)
        if not some.size:
            return self.weight != before
        gap, changed, unchanged, known = gap[some], changed[some], unchanged[some], known[some]
        mean = gap[:, None] * _rates(lattice)
        like = log_likelihood(mean, changed)
        if signals is not None:
            signals = signals.take(some)
            like[signals.evidence.rows] += signals.log_likelihood(_rates(lattice)[None])
        like[gap <= 0] = 0.0
        after = self.log_posterior + np.cumsum(np.maximum(like, _FLOOR), axis=0)
        total = np.logaddexp.reduce(np.concatenate([self.log_posterior[None], after]), axis=1)
        self.log_posterior = after[-1] - total[-1]
        believed = np.log(np.maximum(np.where(changed, 1.0 - unchanged, unchanged), 1e-9))
        if signals is not None:
            believed[signals.evidence.rows] += signals.believed
        gains = (believed - np.diff(total))[known & (gap > 0)]
        for gain in gains.tolist():  # poll by poll, so that batches and single polls give the same result
            self.log_bayes_factor = min(max(self.log_bayes_factor + gain, log_odds - MAX_BEHIND), log_odds + MAX_AHEAD)
            self._weigh(self.log_bayes_factor - log_odds)
        return self.weight != before

    def _weigh(self, odds: float) -> None:
        """Sets `weight` from these log odds, if the change is large enough."""
        weight = _weight(odds)
        if abs(weight - self.weight) > _SAME_WEIGHT or weight == 1.0:
            self.weight = weight

    def refresh(self) -> None:
        """Updates `cells`: each finer rate's share goes to its two neighbours in the window."""
        fine = np.exp(self.log_posterior - np.logaddexp.reduce(self.log_posterior))
        near = 1.0 - np.abs(_CELLS[:, None] - np.arange(CELLS))
        self.cells = fine @ np.maximum(near, 0.0)

    def move(self, old: Lattice, new: Lattice) -> None:
        """Converts to another window; new rates get the value at the edge."""
        self.log_posterior = np.interp(old.cell(old.place(new, new.between(_CELLS))), _CELLS, self.log_posterior)
        self.refresh()

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage."""
        numbers = np.array([self.log_bayes_factor, self.weight])
        counter = np.array([self.polls], np.int64)
        cells = {"common_rate_posterior": self.log_posterior, "common_rate_cells": self.cells}
        return {**cells, "common_rate": numbers, "common_rate_polls": counter}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores the output of `state`."""
        self.log_posterior, self.cells = arrays["common_rate_posterior"], arrays["common_rate_cells"]
        self.log_bayes_factor, self.weight = (float(x) for x in arrays["common_rate"])
        self.polls = int(arrays["common_rate_polls"][0])


@lru_cache(maxsize=16)
def _rates(lattice: Lattice) -> NDArray[np.float64]:
    """Returns the finer rates of the window (1/s), float64[_RATES], read only."""
    rates = lattice.at(lattice.between(_CELLS))
    rates.flags.writeable = False
    return rates


def _weight(odds: float) -> float:
    """Returns the weight of individual beliefs at these log odds; nearly 1 becomes 1."""
    weight = 1.0 / (1.0 + math.exp(-odds))
    return weight if weight < _CERTAIN else 1.0


# Drift of rates: the belief about a site fades, as fast as its own polls indicate (docs/model.md, "Learning", 4).
#
# A site's rate is redrawn with a hazard that is either slow or fast. Which one is inferred for each site; the size of
# the slow one is learned from all sites: in a static world it is nearly 0.

FAST_HAZARD = 0.3
"""Fast hazard, probability per uniform cycle."""
START_ODDS = np.array([0.95, 0.05])
"""Prior probabilities of the slow and the fast hazard."""
SLOW_HAZARDS = np.array([0.0005, 0.005, 0.02, 0.06])
"""Candidate slow hazards, probability per uniform cycle."""
DRIFT_LOG_PRIOR_ODDS = np.array([0.0, 0.0, 3.0, 5.0])
"""Log prior odds against each.

A static world loses more by too high a hazard than a drifting one by too low a hazard, and evidence of drift
accumulates quickly."""
SAMPLE_SLOTS = 256
"""Slow hazards are compared on the sites of the first slots: sufficient, at bounded cost."""
N_HAZARDS = len(START_ODDS)


def predict(
    mass: NDArray[np.float64],
    population: NDArray[np.float64],
    hazards: NDArray[np.float64],
    cycles: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Returns the belief [k, H, K] over hazards [H] and rates after cycles [k]: kept, or drawn from population [K]."""
    keep = np.exp(-hazards * cycles[:, None])[:, :, None]
    return np.asarray(keep * mass + (1.0 - keep) * mass.sum(2, keepdims=True) * population)


class HazardMixture:
    """Filters with different slow hazards on a sample of sites, weighted by their predictive likelihood.

    `hazard` per uniform cycle is their mean. `memory` is the number of polls over which old predictions are discounted.
    """

    def __init__(self, memory: float) -> None:
        self._keep = 1.0 - 1.0 / memory
        self.likelihood = np.ones((SAMPLE_SLOTS, len(SLOW_HAZARDS), CELLS), np.float32)
        self.score = np.zeros(len(SLOW_HAZARDS))
        self.learn()

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Resets slots int64[k]."""
        self.likelihood[slots[slots < SAMPLE_SLOTS]] = 1.0

    def observe(
        self,
        slots: NDArray[np.int64],
        cycles: NDArray[np.float64],
        likelihood: NDArray[np.float64],
        population: NDArray[np.float64],
        prior: NDArray[np.float64],
    ) -> None:
        """Scores and updates every filter: slots int64[k] distinct, cycles [k], likelihood [k, K], population [K]."""
        rows = np.flatnonzero(slots < SAMPLE_SLOTS)
        if not rows.size:
            return
        at = slots[rows]
        belief = self.likelihood[at] * prior
        belief /= belief.sum(2, keepdims=True)
        belief = predict(belief, population, SLOW_HAZARDS, cycles[rows]) * likelihood[rows, None]
        predicted = belief.sum(2)
        age = self._keep ** np.arange(rows.size - 1, -1, -1)
        self.score = self.score * self._keep**rows.size + age @ np.log(predicted)
        self.score -= self.score.max()
        rescaled = belief / prior
        self.likelihood[at] = rescaled / rescaled.max(2, keepdims=True)

    def learn(self) -> None:
        """Sets `hazard` to the mean under the current weights."""
        odds = self.score - DRIFT_LOG_PRIOR_ODDS
        weights = np.exp(odds - odds.max())
        self.hazard = float(weights @ SLOW_HAZARDS / weights.sum())

    def move(self, prior: NDArray[np.float64], old: Lattice, new: Lattice) -> None:
        """Converts to another window."""
        flat = self.likelihood.reshape(-1, CELLS)
        self.likelihood = move_likelihood(flat, prior, old, new).reshape(self.likelihood.shape)

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage."""
        return {"hazard_likelihood": self.likelihood, "hazard_score": self.score, "hazard": np.array([self.hazard])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores the output of `state`, flat."""
        self.likelihood = arrays["hazard_likelihood"].reshape(self.likelihood.shape)
        self.score, self.hazard = arrays["hazard_score"], float(arrays["hazard"][0])
