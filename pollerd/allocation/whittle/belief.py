"""Beliefs about the rates of all sites: posterior rows over rate and drift hazard, and shared priors.

A row stores the site's *likelihood*, its posterior divided by the prior. So a better prior affects all sites without
rewriting rows, a site without evidence is a row of ones, and stored rows do not become outdated.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.learned_state import all_sound, pack, same_form, unpack
from pollerd.allocation.signals.waiting import SignalEvidence
from pollerd.allocation.whittle import grid
from pollerd.allocation.whittle.clock import (
    FAST_HAZARD,
    N_HAZARDS,
    START_ODDS,
    ActivityClock,
    CommonRate,
    HazardMixture,
    SignalledPolls,
    predict,
)
from pollerd.allocation.whittle.grid import combined, score
from pollerd.allocation.whittle.priors import GroupPriors, LearningSettings, learn, next_update, start_prior, with_trace
from pollerd.allocation.whittle.refinement import FARTHEST, MAX_INFORMATION, RateRefinement, moved
from pollerd.columns import lengthen
from pollerd.errors import InvalidValueError

# Stored form of the belief about a site: a row of numbers, checked when restored.

VERSION = 11
ROW = np.dtype(
    [
        ("version", "u1"),
        ("start", "<f4"),
        ("step", "<f2"),
        ("wide", "<f2"),
        ("observed", "<f4"),
        ("likelihood", "<f2", (N_HAZARDS, grid.CELLS)),
        ("unused", "<u2", (grid.CELLS,)),
        ("position", "<f4"),
        ("information", "<f4"),
        ("offset", "<f2"),
    ]
)
"""A site's row as stored.

`unused` held the page's own long-run rates. With zeros in it a node of the version before reads the row, and draws new
rates from those of all pages, as this version does."""
_MAX_OBSERVED = 2.0**24
"""Float32 counts no further."""
_FARTHEST_CELLS = 1e3
"""Windows are never this many cells apart."""
_ROUNDING = 1e-5
"""Relative precision of information in float32."""


def sound_rows(stored: NDArray[np.uint8], number: int) -> NDArray[np.void]:
    """Returns the stored bytes uint8[k, ROW.itemsize] of `number` sites as rows of `ROW`, [k].

    Raises InvalidValueError if they are foreign or damaged.
    """
    if stored.dtype != np.uint8 or stored.shape != (number, ROW.itemsize):
        raise InvalidValueError("site_state", f"uint8 of shape ({number}, {ROW.itemsize})", stored.shape)
    rows: NDArray[np.void] = np.ascontiguousarray(stored).view(ROW).reshape(number)
    _check(rows)
    return rows


def moved_likelihood(
    rows: NDArray[np.float16], prior: NDArray[np.float64], old: grid.Lattice, new: grid.Lattice
) -> NDArray[np.float16]:
    """Converts rows float16[k, H, K] from one window to another."""
    if old == new:
        return rows
    each = grid.move_likelihood(rows.reshape(-1, grid.CELLS).astype(np.float32), prior, old, new)
    return each.reshape(rows.shape).astype(np.float16)


def _check(rows: NDArray[np.void]) -> None:
    """Raises InvalidValueError for stored rows of `ROW`, [k], that `Belief.rows` cannot have returned."""
    likelihood = rows["likelihood"]
    with np.errstate(invalid="ignore"):
        probable = np.asarray(((likelihood >= 0) & (likelihood <= 1)).all((1, 2)) & (likelihood > 0).any((1, 2)))
        near, seen = np.abs(rows["start"]) <= grid.FARTHEST_START, _from_0_to(_MAX_OBSERVED, rows["observed"])
        step = (rows["step"] > 0) & (rows["step"] <= grid.LONGEST_STEP)
        wide = (rows["wide"] >= 1) & (rows["wide"] <= grid.WIDEST)
        most = MAX_INFORMATION * rows["step"].astype(np.float64) ** 2 * (1 + _ROUNDING)
        known = (rows["information"] >= 0) & (rows["information"] <= most)
        within, beside = np.abs(rows["position"]) <= _FARTHEST_CELLS, np.abs(rows["offset"]) <= FARTHEST
    for field, what, good in (
        ("version", f"version {VERSION}", rows["version"] == VERSION),
        ("start", f"a window's start within {grid.FARTHEST_START:g}", near),
        ("step", f"a window's step above 0 and within {grid.LONGEST_STEP:g}", step),
        ("wide", f"a window that is wide by 1 to {grid.WIDEST:g}", wide),
        ("observed", f"from 0 to {_MAX_OBSERVED:g} polls", seen),
        ("likelihood", "likelihoods from 0 to 1, one above 0", probable),
        ("position", f"a position within {_FARTHEST_CELLS:.0f} places", within),
        ("information", f"information from 0 to {MAX_INFORMATION:g} per e-fold²", known),
        ("offset", f"an offset within {FARTHEST:g} places", beside),
    ):
        all_sound("the belief", what, good, rows[field])


def _from_0_to(most: float, values: NDArray[np.floating]) -> NDArray[np.bool_]:
    return np.asarray((values >= 0) & (values <= most))


_ROWS_AT_A_TIME = 16_384
_FOREVER_S = 1e12
"""Upper bound of gaps."""
_SHORTEST_SPAN_S = 1e-3
MAX_TRAINING_SITES = 65_536
"""Largest number of sites from which the prior is learned: more add no precision, and block the loop."""
_LONG_CYCLE_S = 3600.0
"""With cycles of at least this length drift is measured in cycles: hazards per cycle were measured there."""
_QUIET, _STILL_QUIET = 256.0, 128.0
"""Sites become quiet if the median site changes once in more uniform cycles than the first; the second ends it."""
DRIFTS_PER_CHANGE = 16.0
"""Units of drift per mean time between changes of a page, for quiet sites."""
_LEAST = 2.0**-24
"""Smallest likelihood that float16 holds: nothing is ever ruled out."""


@dataclass(frozen=True, slots=True)
class _Prediction:
    """Belief about k polled slots before the results of their polls: H hazards, K rates.

    slots int64[k] · gap float64[k], s on the activity clock, 0 for first polls · cycles float64[k], gaps in units of
    drift · evidence, its ages on the activity clock · signals before the polls, None: no page has sources · like
    float64[k, K], likelihood of all that at each rate · seen float64[k], number of earlier polls · joint and believed
    float64[k, H, K], under the prior of all and under group priors.
    """

    slots: NDArray[np.int64]
    gap: NDArray[np.float64]
    cycles: NDArray[np.float64]
    evidence: EvidenceBatch
    signals: SignalEvidence | None
    like: NDArray[np.float64]
    seen: NDArray[np.float64]
    joint: NDArray[np.float64]
    believed: NDArray[np.float64]


class SinceLastPolls(Protocol):
    """What sources of signals say of sites since their last polls."""

    def known_slots(self) -> NDArray[np.int64]:
        """Returns the slots that have sources that are believed, and a known last poll, int64[n]."""

    def since_polls(self, slots: NDArray[np.int64], now: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns places int64[m] in slots int64[k], and the log-likelihoods of what was said there, float64[m, K]."""


class Belief:
    """Posterior rows over all slots; H hazards, K rates.

    `lattice` is the window, `rates` float64[K] its rates, `prior` float64[K] over them, `odds` float64[H] over the
    hazards, `likelihood` float16[capacity, H, K], maximum 1 in each row, `observed` float32[capacity] the number of
    informative polls of each site: 100 bytes a site, besides those of `refinement` and `group_priors`.
    """

    def __init__(self, cycle: float, settings: LearningSettings) -> None:
        self._settings = settings
        self.version = 0
        """Increases whenever the beliefs about all sites change at once."""
        self.cycle = cycle
        self._lay(grid.lattice_for(cycle, 0))
        self._put_prior(self._start_prior())
        self.odds = START_ODDS.copy()
        self.likelihood = np.ones((0, N_HAZARDS, grid.CELLS), np.float16)
        self.observed = np.zeros(0, np.float32)
        self.hazard_mixture = HazardMixture(settings.memory_polls)
        self.clock = ActivityClock(settings.memory_polls)
        self.common_rate = CommonRate(self.lattice, cycle)
        self.group_priors = GroupPriors()
        self.refinement = RateRefinement()
        self.quiet = False
        """Whether cycles are short and most sites change once in very many of them."""
        self.now = 0.0
        self.polls = 0
        self.since_last_polls: SinceLastPolls | None = None
        """What sources of signals say; None: nothing is known of any."""
        self._update_at = next_update(0, 1)

    @property
    def learned(self) -> bool:
        """Whether the prior has been learned from polls."""
        return not np.array_equal(self.prior, self._start_prior())

    @property
    def hazards(self) -> NDArray[np.float64]:
        """float64[H], probabilities per uniform cycle that a rate is redrawn: slow, fast."""
        return np.array([self.hazard_mixture.hazard, FAST_HAZARD])

    # -- sites and the length of the cycle

    def grow(self, capacity: int) -> None:
        """Grows to slots below `capacity`."""
        extra = capacity - len(self.observed)
        if extra > 0:
            for name, value in (("likelihood", 1), ("observed", 0)):
                lengthen(vars(self), name, extra, value)
            self.refinement.grow(extra)
        self.group_priors.grow(capacity)

    def place(self, slots: NDArray[np.int64], host: NDArray[np.int64]) -> None:
        """Sets the hosts int64[k] of slots int64[k], -1: none."""
        self.group_priors.place(slots, host, len(self.observed))

    def host_of(self, slots: NDArray[np.int64]) -> int:
        """Returns the host that most of the slots int64[k] are on, -1: none."""
        return self.group_priors.host_of(slots)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Resets slots int64[k] to the prior, on no host."""
        self.group_priors.forget(slots)
        observed = slots[self.observed[slots] > 0]
        if not observed.size:
            return
        self.likelihood[observed] = 1.0
        self.observed[observed] = 0.0
        self.refinement.forget(observed)
        self.hazard_mixture.forget(observed)

    def set_cycle(self, cycle: float, sites: int) -> None:
        """Sets the uniform cycle (s) and the number of sites.

        The window is replaced if it no longer fits, and always before the first informative poll.
        """
        self.cycle = cycle
        lattice = grid.lattice_for(cycle, sites)
        if not self.polls:
            self._lay(lattice)
            self.common_rate.start(lattice, cycle)
            self._put_prior(self._start_prior())
            self.version += 1
            return
        if not self.lattice.fits(lattice):
            self._move(lattice)
        self._put_prior(self.prior)

    def _lay(self, lattice: grid.Lattice) -> None:
        self.lattice, self.rates = lattice, lattice.rates

    def _move(self, new: grid.Lattice) -> None:
        """Replaces the window and converts all beliefs to its rates."""
        old, prior = self.lattice, self.prior
        observed = np.flatnonzero(self.observed > 0)  # the rows of the others are all ones, and stay so
        for at in range(0, len(observed), _ROWS_AT_A_TIME):
            slots = observed[at : at + _ROWS_AT_A_TIME]
            self.likelihood[slots] = moved_likelihood(self.likelihood[slots], prior, old, new)
        self.refinement.move(observed, old, new)
        self.hazard_mixture.move(prior, old, new)
        self.common_rate.move(old, new)
        self._lay(new)
        # new cells must not start at 0: no evidence could ever raise them
        self._put_prior(with_trace(grid.move_mass(prior[None], old, new)[0], self._start_prior()))
        self.group_priors.move(old, new, self._start_prior())
        self._refine(observed)
        self.version += 1

    def _refine(self, slots: NDArray[np.int64]) -> None:
        for at in range(0, len(slots), _ROWS_AT_A_TIME):
            some = slots[at : at + _ROWS_AT_A_TIME]
            self.refinement.update(some, self.posterior(some), self.lattice)

    def _put_prior(self, prior: NDArray[np.float64]) -> None:
        """Sets the prior, and `population` float64[K]: the distribution of redrawn rates.

        It includes a share of the initial prior: a page may change to a rate that no page has had.
        """
        self.prior = prior
        share = self._settings.start_share
        self.population = (1.0 - share) * prior + share * self._start_prior()

    def _start_prior(self) -> NDArray[np.float64]:
        return start_prior(self.lattice, self.cycle, self._settings.start_width_efolds)

    # -- evidence

    def observe(
        self,
        slots: NDArray[np.int64],
        elapsed: NDArray[np.float64],
        evidence: EvidenceBatch,
        now: float,
        sites: int,
        signals: SignalEvidence | None = None,
    ) -> None:
        """Learns from k polls of distinct slots at now (UTC epoch s); `sites` sets how often priors are updated.

        signals: what sources said before these polls, if anything.
        """
        self.now = now
        done = 0
        while done < len(slots):
            # batches are split at updates, so that single polls and batches give the same result
            part = slice(done, done + min(self._update_at - self.polls, self.clock.until_update(sites)))
            some = None if signals is None else signals.take(part)
            self._update(slots[part], elapsed[part], evidence.take(part), sites, some)
            self.polls += len(slots[part])
            done += len(slots[part])
            if self.polls >= self._update_at:
                self._update_at = next_update(self.polls, sites)
                self.update_priors()

    def _update(
        self,
        slots: NDArray[np.int64],
        elapsed: NDArray[np.float64],
        evidence: EvidenceBatch,
        sites: int,
        signals: SignalEvidence | None,
    ) -> None:
        """Runs one step of the filter for polls of distinct slots int64[k]: predict, score, correct, remember."""
        informative = np.flatnonzero(np.isfinite(elapsed) | ~np.isnan(evidence.age) | ~np.isnan(evidence.span))
        if not informative.size:
            return
        if informative.size < len(slots):
            slots, elapsed, evidence = slots[informative], elapsed[informative], evidence.take(informative)
            signals = None if signals is None else signals.take(informative)
        if signals is not None and not signals.rows.size:
            signals = None
        prediction = self._predict(slots, elapsed, evidence, signals)
        self._score(prediction, elapsed, sites)
        joint = self._correct(prediction)
        self._remember(prediction, joint)

    def _predict(
        self,
        slots: NDArray[np.int64],
        elapsed: NDArray[np.float64],
        evidence: EvidenceBatch,
        signals: SignalEvidence | None,
    ) -> _Prediction:
        """Returns the beliefs at the time of the polls, before their results."""
        common, evidence = self._in_common_time(elapsed, evidence)
        gap = np.where(np.isfinite(common), common, 0.0)
        like = grid.likelihood(self.rates, common, evidence)
        if signals is not None:
            like[signals.rows] = combined(like[signals.rows], signals.log_likelihood(self.rates[None], evidence))
        seen = self.observed[slots].astype(np.float64)
        prior = self.group_priors.rows(slots, self.prior)
        cycles = self.drift_time(slots, gap)
        self.hazard_mixture.observe(slots, cycles, like, self.population, self.prior)
        # a group prior is not evidence: rows store polls and drift under the prior of all
        joint = believed = predict(self.joint(slots, self.prior[None]), self.population, self.hazards, cycles)
        if self.group_priors.active:
            believed = predict(self.joint(slots, prior), self.population, self.hazards, cycles)
        return _Prediction(slots, gap, cycles, evidence, signals, like, seen, joint, believed)

    def _score(self, of: _Prediction, elapsed: NDArray[np.float64], sites: int) -> None:
        """Scores the predictions for group priors, activity clock and common rate."""
        factor, rows = self.factor(of.slots), of.believed.sum(1)
        quiet = np.exp(-self.rates * (of.gap * factor)[:, None])
        changed = of.evidence.found
        unchanged = (rows * quiet).sum(1)
        new = np.flatnonzero(of.seen == 0)
        predicted, weights, signals = unchanged, None, None
        if of.signals is not None:
            here, rates = of.signals.rows, self.rates * factor[of.signals.rows, None]
            weights, predicted = np.ones_like(quiet), unchanged.copy()
            weights[here], quiet[here] = of.signals.expectation(rates)
            weighted = rows[here] * weights[here]
            predicted[here] = (weighted * quiet[here]).sum(1) / np.maximum(weighted.sum(1), 1e-300)
            weights = weights[new]
            gain = of.signals.gain(rows[here], rates, of.evidence)
            signals = SignalledPolls(of.signals, of.evidence, gain)
        self.group_priors.observe(of.slots[new], quiet[new], changed[new], self.prior, weights)
        self.clock.observe(elapsed, self.now, predicted, changed, sites, self.cycle)
        known = of.seen > 0
        moved = self.common_rate.observe(self.lattice, of.gap, changed, unchanged, known, sites, signals)
        self.version += moved

    def _correct(self, of: _Prediction) -> NDArray[np.float64]:
        """Returns the beliefs float64[k, H, K] after the polls' results (Bayes' rule); updates the refinement."""
        keep = (of.joint.sum(2) * np.exp(-self.hazards * of.cycles[:, None])).sum(1)
        joint = of.joint * of.like[:, None]
        joint /= joint.sum((1, 2), keepdims=True)
        changed = of.evidence.found
        self.refinement.observe(
            of.slots,
            keep,
            joint.sum(1),
            self.lattice,
            partial(self._slope, of=of, changed=changed),
        )
        return joint

    def _slope(
        self, position: NDArray[np.float64], of: _Prediction, changed: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns what `score` returns at places float64[k] of the window, with the signals before the polls."""
        rates = self.lattice.at(position)
        slope, information = score(rates, of.gap, changed, of.evidence)
        if of.signals is not None:
            here = of.signals.rows
            more = of.signals.score(rates[here], of.evidence)
            slope[here] += more[0]
            information[here] += more[1]
        return slope, information

    def _remember(self, of: _Prediction, joint: NDArray[np.float64]) -> None:
        """Stores the beliefs float64[k, H, K] as likelihoods."""
        self.observed[of.slots] += 1
        rows = joint / (self.odds[:, None] * self.prior)
        self.likelihood[of.slots] = np.maximum(rows / rows.max((1, 2), keepdims=True), _LEAST)

    def _in_common_time(
        self, elapsed: NDArray[np.float64], evidence: EvidenceBatch
    ) -> tuple[NDArray[np.float64], EvidenceBatch]:
        """Returns gaps, inf for first polls, and evidence with ages, on the activity clock."""
        self.clock.extend(self.now, self.cycle)
        gap = self.clock.gap(np.minimum(elapsed, _FOREVER_S), self.now)
        age, span = self._on_clock(evidence.age), self._on_clock(evidence.span)
        if age is not evidence.age or span is not evidence.span:
            span = np.maximum(span, _SHORTEST_SPAN_S)
            evidence = EvidenceBatch(evidence.changed, age, evidence.count, evidence.at_least, span)
        return np.where(np.isinf(elapsed), np.inf, gap), evidence

    def _on_clock(self, ages: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns ages float64[k] s, nan where unknown, on the activity clock; the same array if all are unknown."""
        dated = ~np.isnan(ages)
        if not dated.any():
            return ages
        ages = ages.copy()
        ages[dated] = self.clock.gap(np.minimum(ages[dated], _FOREVER_S), self.now)
        return ages

    def predicted_rows(self, part: slice | NDArray[np.int64], gap: NDArray[np.float64]) -> NDArray[np.float32]:
        """Returns rate probabilities float32[k, K] of the slots in `part`, gap float64[k] s after their last polls.

        The belief drifts between polls, too: long after a quiet poll, a page is less certain to be quiet. Summed row by
        row: results are bit-identical whatever other rows are included.
        """
        prior = self.group_priors.rows(part, self.prior.astype(np.float32))
        seen = self.observed[part] > 0
        if len(gap) and seen.all():  # the usual case: no copies
            return self._observed_rows(
                np.arange(part.start, part.stop) if isinstance(part, slice) else part, gap, prior
            )
        rows = np.empty((len(gap), grid.CELLS), np.float32)
        rows[:] = prior
        observed = np.flatnonzero(seen)
        if observed.size:
            slots = observed + part.start if isinstance(part, slice) else part[observed]
            rows[observed] = self._observed_rows(slots, gap[observed], prior if len(prior) == 1 else prior[observed])
        return rows

    def _observed_rows(
        self, slots: NDArray[np.int64], gap: NDArray[np.float64], prior: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Returns `predicted_rows` of slots int64[k] with informative polls, with their priors [k, K] or [1, K]."""
        keep = np.exp(-self.hazards * self.drift_time(slots, gap)[:, None]).astype(np.float32)
        mass = self._mass(slots, prior)
        each: NDArray[np.float32] = np.einsum("khj->kh", mass)
        drawn = np.einsum("kh,kh->k", each, 1 - keep)
        rows: NDArray[np.float32] = np.einsum("khj,kh->kj", mass, keep)
        rows += drawn[:, None] * self.population.astype(np.float32)
        rows /= each.sum(1, keepdims=True)
        return rows

    def _mass(self, slots: NDArray[np.int64], prior: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns unnormalised mass over hazards and rates of slots int64[k]: float32[k, H, K]; priors [k or 1, K]."""
        mass = self.likelihood.take(slots, 0).astype(np.float32)
        mass *= self.odds.astype(np.float32)[:, None] * prior[:, None]
        return mass

    def predicted_sums(
        self, slots: NDArray[np.int64], gap: NDArray[np.float64], values: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Returns expectations float64[k, m] of values float32[k, m, K] over the rates of slots int64[k].

        Under `predicted_rows` after m gaps each, float64[k, m] s.
        """
        prior = np.broadcast_to(self.group_priors.rows(slots, self.prior.astype(np.float32)), (len(slots), grid.CELLS))
        out = np.asarray(np.einsum("kmj,kj->km", values, prior), np.float64)
        observed = np.flatnonzero(self.observed[slots] > 0)
        if observed.size:
            out[observed] = self._observed_sums(slots[observed], gap[observed], values[observed], prior[observed])
        return out

    def _observed_sums(
        self,
        slots: NDArray[np.int64],
        gap: NDArray[np.float64],
        values: NDArray[np.float32],
        prior: NDArray[np.float32],
    ) -> NDArray[np.float64]:
        """Returns `predicted_sums` of slots int64[k] with informative polls, with their priors [k, K]."""
        mass = self._mass(slots, prior)
        each = mass.sum(2)
        cycles = self.drift_time(np.repeat(slots, gap.shape[1]), gap.ravel()).reshape(gap.shape)
        keep = np.exp((cycles[:, :, None] * -self.hazards).astype(np.float32))
        drawn = values @ self.population.astype(np.float32)
        kept = np.einsum("kmj,khj->kmh", values, mass)
        informative = keep * kept + (1.0 - keep) * (each[:, None] * drawn[:, :, None])
        return np.asarray(informative.sum(2) / each.sum(1)[:, None])

    def posterior(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns probabilities float64[k, K] of the rates of slots int64[k], as of their last polls."""
        return np.asarray(self.joint(slots).sum(1))

    def factor(self, part: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the factor on the window's rates for the k slots in `part`, float64[k]."""
        return self.refinement.factor(part, self.lattice)

    def drift_time(self, slots: NDArray[np.int64], gap: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns gaps float64[k] s of slots int64[k] in the unit of their drift, float64[k].

        The unit is a uniform cycle. If cycles are short and most sites change once in very many of them it is a
        fraction of the page's mean time between changes, if that is longer: monthly changes are not forgotten in
        minutes because a few sites are polled that often, or the budget would allow it.
        """
        if not self.quiet:
            return gap / self.cycle
        rate = self.lattice.at(self.refinement.position[slots].astype(np.float64))
        rate[self.observed[slots] == 0] = np.inf
        return gap * np.minimum(DRIFTS_PER_CHANGE * rate, 1.0 / self.cycle)

    def fast_share(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the probability float64[k] that the rates of slots int64[k] drift fast."""
        return np.asarray(self.joint(slots)[:, -1].sum(1))

    def joint(self, slots: NDArray[np.int64], prior: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Returns probabilities float64[k, H, K] of hazards and rates, under priors [k, K], [1, K] or own (None)."""
        prior = self.group_priors.rows(slots, self.prior) if prior is None else prior
        mass = self.likelihood[slots] * (self.odds[:, None] * prior[:, None])
        return np.asarray(mass / mass.sum((1, 2), keepdims=True))

    # -- shared parameters

    def update_priors(self) -> None:
        """Learns the shared parameters from all sites with informative polls; `observe` calls it when due."""
        known, signals = self.observed > 0, self.since_last_polls
        if signals is not None:
            known[signals.known_slots()] = True
        observed = np.flatnonzero(known)
        training_slots = observed[:: -(-len(observed) // MAX_TRAINING_SITES) or 1]
        rows = self.likelihood[training_slots].astype(np.float32)
        if signals is not None:
            # A page that is seldom polled because its sources are silent is known to be slow.
            which, more = signals.since_polls(training_slots, self.now)
            both = rows[which] * np.exp(more - more.max(1, keepdims=True))[:, None]
            rows[which] = np.maximum(both / both.max((1, 2), keepdims=True), _LEAST)
        prior, self.odds = learn(rows, self.prior, self.odds, self._start_prior(), self._settings)
        self._put_prior(prior)
        self.group_priors.learn(training_slots, rows, self.odds, self.prior)
        self.hazard_mixture.learn()
        self.common_rate.refresh()
        self.quiet = self._is_quiet(training_slots)
        self.version += 1

    def _is_quiet(self, slots: NDArray[np.int64]) -> bool:
        """Returns the new value of `quiet`, from slots int64[k]."""
        if not slots.size or self.cycle >= _LONG_CYCLE_S:
            return False
        middle = self.lattice.at(np.median(self.refinement.position[slots], keepdims=True))
        return bool(middle[0] * self.cycle * (_STILL_QUIET if self.quiet else _QUIET) < 1.0)

    # -- storage

    def rows(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Returns rows for storage, uint8[k, ROW.itemsize]."""
        out = np.zeros(len(slots), ROW)
        out["version"] = VERSION
        out["start"], out["step"], out["wide"] = astuple(self.lattice)
        out["observed"] = self.observed[slots]
        out["likelihood"] = self.likelihood[slots]
        out["position"], out["information"], out["offset"] = self.refinement.of(slots)
        return out.view(np.uint8).reshape(len(slots), ROW.itemsize)

    def put_rows(self, slots: NDArray[np.int64], stored: NDArray[np.uint8]) -> None:
        """Restores rows, including those stored with another window."""
        rows = sound_rows(stored, len(slots))
        windows, which = np.unique(rows[["start", "step", "wide"]], return_inverse=True)
        for number, window in enumerate(windows.tolist()):
            of = np.flatnonzero(which == number)
            self._put_rows(slots[of], rows[of], grid.Lattice(*window))

    def _put_rows(self, slots: NDArray[np.int64], rows: NDArray[np.void], window: grid.Lattice) -> None:
        """Restores checked rows that were stored with one window."""
        here = self.lattice
        self.likelihood[slots] = moved_likelihood(rows["likelihood"], self.prior, window, here)
        self.observed[slots] = rows["observed"]
        self.refinement.put(slots, *moved(rows["position"], rows["information"], rows["offset"], window, here))
        if window != here:
            self._refine(slots[rows["observed"] > 0])

    def shared(self, allocator: str, more: dict[str, NDArray[Any]]) -> bytes:
        """Packs priors, odds of the hazards, clock, counters, and the allocator's other arrays."""
        return pack(allocator, VERSION, {**self._arrays(), **more})

    def _arrays(self) -> dict[str, NDArray[Any]]:
        counters = np.array([self.polls, self._update_at], np.int64)
        parts = {
            **self.hazard_mixture.state(),
            **self.clock.state(),
            **self.common_rate.state(),
            **self.group_priors.state(),
        }
        window = np.array(astuple(self.lattice))
        learned = {"counters": counters, "window": window, "prior": self.prior}
        learned["quiet"] = np.array([self.quiet])
        return {**learned, "odds": self.odds, **parts}

    def put_shared(
        self, allocator: str, data: bytes, more: dict[str, NDArray[Any]], optional: tuple[str, ...] = ()
    ) -> dict[str, NDArray[Any]]:
        """Restores the output of `shared`, including the window, and returns all arrays.

        more: the allocator's other arrays, with current values; optional: beginnings of the names of arrays that may
        be missing, which the caller checks. Raises InvalidValueError for foreign or damaged bytes.
        """
        arrays = unpack(allocator, VERSION, data)
        needed = {name: array for name, array in arrays.items() if not name.startswith(optional)}
        same_form(needed, {**self._arrays(), **more}, (*self.clock.VARYING, *self.group_priors.varying))
        self.clock.check(arrays)
        self.group_priors.check(arrays)
        window = grid.window_of(arrays["window"])
        if window != self.lattice:
            self._move(window)
        self.polls, self._update_at = (int(x) for x in arrays["counters"])
        self._put_prior(arrays["prior"])
        self.odds = arrays["odds"]
        self.hazard_mixture.restore(arrays)
        self.clock.restore(arrays)
        self.common_rate.restore(arrays)
        self.quiet = bool(arrays["quiet"][0])
        self.group_priors.restore(arrays)
        self.now = float(self.clock.edges[-1]) if len(self.clock.edges) else 0.0
        self.version += 1
        return arrays
