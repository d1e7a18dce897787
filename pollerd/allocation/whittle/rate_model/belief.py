"""What is believed of every site: posterior rows over its rate and how fast that drifts, priors in common.

A row keeps the site's *likelihood*, its posterior divided by the prior. A better prior therefore reaches all sites
without rewriting a row, a site without evidence is a row of ones, and stored rows do not age.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.slots.state_bytes import pack, same_form, unpack
from pollerd.allocation.whittle.rate_model import grid
from pollerd.allocation.whittle.rate_model.belief_rows import (
    ROW,
    VERSION,
    WHOLE,
    moved_likelihood,
    moved_occupancy,
    sound_rows,
)
from pollerd.allocation.whittle.rate_model.common_clock import ActivityClock
from pollerd.allocation.whittle.rate_model.common_rate import CommonRate
from pollerd.allocation.whittle.rate_model.drift import FAST_HAZARD, N_HAZARDS, START_ODDS, HazardMixture, predict
from pollerd.allocation.whittle.rate_model.group_priors import GroupPriors
from pollerd.allocation.whittle.rate_model.likelihood import changes_of, score
from pollerd.allocation.whittle.rate_model.likelihood import likelihood as likelihood_of
from pollerd.allocation.whittle.rate_model.prior import learn, next_update, start_prior, with_trace
from pollerd.allocation.whittle.rate_model.refinement import RateRefinement, moved
from pollerd.allocation.whittle.settings import LearningSettings
from pollerd.columns import lengthen

_ROWS_AT_A_TIME = 16_384
_FOREVER_S = 1e12
"""Gaps count as at most this."""
MOST_TRAINING_SITES = 65_536
"""At most so many sites teach the prior: more would tell it no better, and hold up the loop."""
_LONG_CYCLE_S = 3600.0
"""In the time of cycles no shorter than this pages do drift: hazards per cycle were measured there."""
_QUIET, _STILL_QUIET = 256.0, 128.0
"""Sites are quiet where half of them change in more uniform cycles than this once, and remain so down to the second."""
DRIFTS_PER_CHANGE = 16.0
"""So many times the unit of drift goes into the time in which a page changes, where sites are quiet."""
_LEAST = 2.0**-24
"""The least likelihood that float16 holds: nothing is ever ruled out."""


@dataclass(frozen=True, slots=True)
class _Prediction:
    """What is believed of k polled slots before what their polls found: H hazards, K rates.

    slots int64[k] · gap float64[k], s of common time, 0 for first polls · cycles float64[k], gaps as drift counts them
    ·
    evidence, its ages in common time · like float64[k, K], of the evidence at each rate · seen float64[k, 1], polls
    before these · own float64[k, K], the long-run distribution of each page · joint and believed float64[k, H, K],
    under the prior of all and under those of groups.
    """

    slots: NDArray[np.int64]
    gap: NDArray[np.float64]
    cycles: NDArray[np.float64]
    evidence: EvidenceBatch
    like: NDArray[np.float64]
    seen: NDArray[np.float64]
    own: NDArray[np.float64]
    joint: NDArray[np.float64]
    believed: NDArray[np.float64]


class Belief:
    """Posterior rows over all slots; H hazards, K rates.

    `lattice` is the window, `rates` float64[K] its rates, `prior` float64[K] over them, `odds` float64[H] over the
    hazards, `likelihood` float16[capacity, H, K], largest 1 in each row, `observed` float32[capacity] how many polls
    taught each site, `occupancy` uint16[capacity, K] the page's own long-run distribution of rates, in parts of 65,535:
    148 bytes a site, beside what `refinement` and `group_priors` keep.
    """

    def __init__(self, cycle: float, settings: LearningSettings) -> None:
        self._settings = settings
        self.version = 0
        """Grows whenever the beliefs of all sites change at once."""
        self.cycle = cycle
        self._lay(grid.lattice_for(cycle, 0))
        self._put_prior(self._start_prior())
        self.odds = START_ODDS.copy()
        self.likelihood = np.ones((0, N_HAZARDS, grid.CELLS), np.float16)
        self.occupancy = np.zeros((0, grid.CELLS), np.uint16)
        self.observed = np.zeros(0, np.float32)
        self.hazard_mixture = HazardMixture(settings.memory_polls)
        self.clock = ActivityClock(settings.memory_polls)
        self.common_rate = CommonRate(self.lattice, cycle)
        self.group_priors = GroupPriors()
        self.refinement = RateRefinement()
        self.quiet = False
        """Whether cycles are short and most sites change in very many of them once."""
        self.now = 0.0
        self.polls = 0
        self._update_at = next_update(0, 1)

    @property
    def learned(self) -> bool:
        """Whether polls have told anything of sites in general."""
        return not np.array_equal(self.prior, self._start_prior())

    @property
    def hazards(self) -> NDArray[np.float64]:
        """float64[H], chances per uniform cycle that a rate is drawn anew: slow, fast."""
        return np.array([self.hazard_mixture.hazard, FAST_HAZARD])

    # -- sites come, go, and change the length of a cycle

    def grow(self, capacity: int) -> None:
        """Room for slots below `capacity`."""
        extra = capacity - len(self.observed)
        if extra > 0:
            for name, value in (("likelihood", 1), ("occupancy", 0), ("observed", 0)):
                lengthen(vars(self), name, extra, value)
            self.refinement.grow(extra)
        self.group_priors.grow(capacity)

    def place(self, slots: NDArray[np.int64], host: NDArray[np.int64]) -> None:
        """The slots int64[k] are on the hosts int64[k], -1: none."""
        self.group_priors.place(slots, host, len(self.observed))

    def forget(self, slots: NDArray[np.int64]) -> None:
        """The slots int64[k] start afresh from the prior, on no host."""
        self.group_priors.forget(slots)
        observed = slots[self.observed[slots] > 0]
        self.likelihood[observed] = 1.0
        self.occupancy[observed] = 0
        self.observed[observed] = 0.0
        self.refinement.forget(observed)
        self.hazard_mixture.forget(observed)

    def set_cycle(self, cycle: float, sites: int) -> None:
        """The uniform cycle (s) of so many sites.

        The window is laid anew when it no longer fits, and as long as no poll has taught anything.
        """
        self.cycle = cycle
        wanted = grid.lattice_for(cycle, sites)
        if not self.polls:
            self._lay(wanted)
            self.common_rate.start(wanted, cycle)
            self._put_prior(self._start_prior())
            self.version += 1
            return
        if not self.lattice.fits(wanted):
            self._move(wanted)
        self._put_prior(self.prior)

    def _lay(self, lattice: grid.Lattice) -> None:
        self.lattice, self.rates = lattice, lattice.rates

    def _move(self, new: grid.Lattice) -> None:
        """Lays the window anew: all that is believed is put in its rates."""
        old, prior = self.lattice, self.prior
        observed = np.flatnonzero(self.observed > 0)  # the rows of the others are all ones, and stay so
        for at in range(0, len(observed), _ROWS_AT_A_TIME):
            slots = observed[at : at + _ROWS_AT_A_TIME]
            self.likelihood[slots] = moved_likelihood(self.likelihood[slots], prior, old, new)
            self.occupancy[slots] = moved_occupancy(self.occupancy[slots], old, new)
        self.refinement.move(observed, old, new)
        self.hazard_mixture.move(prior, old, new)
        self.common_rate.move(old, new)
        self._lay(new)
        # cells that enter must not start at 0: no evidence could ever raise them
        self._put_prior(with_trace(grid.move_mass(prior[None], old, new)[0], self._start_prior()))
        self.group_priors.move(old, new, self._start_prior())
        self._refine(observed)
        self.version += 1

    def _refine(self, slots: NDArray[np.int64]) -> None:
        for at in range(0, len(slots), _ROWS_AT_A_TIME):
            some = slots[at : at + _ROWS_AT_A_TIME]
            self.refinement.update(some, self.posterior(some), self.lattice)

    def _put_prior(self, prior: NDArray[np.float64]) -> None:
        """Sets the prior, and `population` float64[K]: what a rate is drawn from anew where not from the page's own.

        The start has its share in it: a page may become what none has been.
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
    ) -> None:
        """Learns from k polls of distinct slots at now (UTC epoch s); `sites` sets how often priors are updated."""
        self.now = now
        done = 0
        while done < len(slots):
            # a batch is cut where an update is due, so that single polls and batches teach the same
            part = slice(done, done + min(self._update_at - self.polls, self.clock.until_update(sites)))
            self._update(slots[part], elapsed[part], evidence.take(part), sites)
            self.polls += len(slots[part])
            done += len(slots[part])
            if self.polls >= self._update_at:
                self._update_at = next_update(self.polls, sites)
                self.update_priors()

    def _update(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, sites: int
    ) -> None:
        """One step of the Bayesian filter for polls of distinct slots int64[k]: predict, score, correct, remember."""
        informative = np.flatnonzero(np.isfinite(elapsed) | ~np.isnan(evidence.age))
        if not informative.size:
            return
        if informative.size < len(slots):
            slots, elapsed, evidence = slots[informative], elapsed[informative], evidence.take(informative)
        prediction = self._predict(slots, elapsed, evidence)
        self._score(prediction, elapsed, sites)
        joint = self._correct(prediction)
        self._remember(prediction, joint)

    def _predict(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch) -> _Prediction:
        """Beliefs of the slots at the time of their polls, before what these found (theory.md 2b.2)."""
        common, evidence = self._in_common_time(elapsed, evidence)
        gap = np.where(np.isfinite(common), common, 0.0)
        like = likelihood_of(self.rates, common, evidence)
        seen = self.observed[slots, None].astype(np.float64)
        prior = self.group_priors.rows(slots, self.prior)
        own = np.where(seen > 0, self.occupancy[slots] / WHOLE, prior)
        target = self._settings.own_share * own + (1.0 - self._settings.own_share) * self.population
        target /= target.sum(1, keepdims=True)
        cycles = self.drift_time(slots, gap)
        self.hazard_mixture.observe(slots, cycles, like, target, self.prior)
        # what a group's prior says is not evidence: rows hold what polls and drift do under the prior of all
        joint = believed = predict(self.joint(slots, self.prior[None]), target, self.hazards, cycles)
        if self.group_priors.active:
            believed = predict(self.joint(slots, prior), target, self.hazards, cycles)
        return _Prediction(slots, gap, cycles, evidence, like, seen, own, joint, believed)

    def _score(self, of: _Prediction, elapsed: NDArray[np.float64], sites: int) -> None:
        """Lets what all sites have in common compare what was predicted with what was found."""
        quiet = np.exp(-self.rates * (of.gap * self.factor(of.slots))[:, None])
        changed = changes_of(of.evidence)
        unchanged = (of.believed.sum(1) * quiet).sum(1)
        first = np.flatnonzero(of.seen[:, 0] == 0)
        self.group_priors.observe(of.slots[first], quiet[first], changed[first], self.prior)
        self.clock.observe(elapsed, self.now, unchanged, changed, sites, self.cycle)
        known = of.seen[:, 0] > 0
        self.version += self.common_rate.observe(self.lattice, of.gap, changed, unchanged, known, sites)

    def _correct(self, of: _Prediction) -> NDArray[np.float64]:
        """The beliefs float64[k, H, K] after what the polls found (Bayes' rule); refines estimates between cells."""
        keep = (of.joint.sum(2) * np.exp(-self.hazards * of.cycles[:, None])).sum(1)
        joint = of.joint * of.like[:, None]
        joint /= joint.sum((1, 2), keepdims=True)
        changed = changes_of(of.evidence)
        self.refinement.observe(
            of.slots,
            keep,
            joint.sum(1),
            self.lattice,
            lambda position: score(self.lattice.at(position), of.gap, changed, of.evidence),
        )
        return joint

    def _remember(self, of: _Prediction, joint: NDArray[np.float64]) -> None:
        """Stores the beliefs float64[k, H, K]: as likelihoods, and in the pages' own long-run distributions."""
        posterior = joint.sum(1)
        speed = np.maximum(-np.expm1(-of.cycles[:, None] / self._settings.occupancy_cycles), 1.0 / (of.seen + 2.0))
        self.occupancy[of.slots] = np.rint(WHOLE * np.clip(of.own + speed * (posterior - of.own), 0.0, 1.0))
        self.observed[of.slots] += 1
        rows = joint / (self.odds[:, None] * self.prior)
        self.likelihood[of.slots] = np.maximum(rows / rows.max((1, 2), keepdims=True), _LEAST)

    def _in_common_time(
        self, elapsed: NDArray[np.float64], evidence: EvidenceBatch
    ) -> tuple[NDArray[np.float64], EvidenceBatch]:
        """Gaps, inf for first polls, and ages in common time."""
        self.clock.extend(self.now, self.cycle)
        gap = self.clock.gap(np.minimum(elapsed, _FOREVER_S), self.now)
        dated = ~np.isnan(evidence.age)
        if dated.any():
            age = evidence.age.copy()
            age[dated] = self.clock.gap(np.minimum(age[dated], _FOREVER_S), self.now)
            evidence = EvidenceBatch(evidence.changed, age, evidence.count)
        return np.where(np.isinf(elapsed), np.inf, gap), evidence

    def predicted_rows(self, part: slice | NDArray[np.int64], gap: NDArray[np.float64]) -> NDArray[np.float32]:
        """Probabilities float32[k, K] of the rates of the k slots in `part`, gap float64[k] s after their last polls.

        Between polls the belief drifts, too: a page seen quiet long ago is less surely quiet now. Summed row by row: a
        row gives the same bits in any company.
        """
        rows = np.empty((len(gap), grid.CELLS), np.float32)
        rows[:] = self.group_priors.rows(part, self.prior.astype(np.float32))
        observed = np.flatnonzero(self.observed[part] > 0)
        if observed.size:
            slots = observed + part.start if isinstance(part, slice) else part[observed]
            rows[observed] = self._observed_rows(slots, gap[observed], rows[observed])
        return rows

    def _observed_rows(
        self, slots: NDArray[np.int64], gap: NDArray[np.float64], prior: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """`predicted_rows` of slots int64[k] that polls have taught something, with their priors [k, K]."""
        own = np.float32(self._settings.own_share)
        keep = np.exp(-self.hazards * self.drift_time(slots, gap)[:, None]).astype(np.float32)
        mass = self._mass(slots, prior)
        each: NDArray[np.float32] = np.einsum("khj->kh", mass)
        drawn = np.einsum("kh,kh->k", each, 1 - keep)
        rows: NDArray[np.float32] = np.einsum("khj,kh->kj", mass, keep)
        rows += ((1 - own) * drawn)[:, None] * self.population.astype(np.float32)
        rows += self.occupancy[slots] * (drawn * (own / np.float32(WHOLE)))[:, None]
        rows /= each.sum(1, keepdims=True)
        return rows

    def _mass(self, slots: NDArray[np.int64], prior: NDArray[np.float32]) -> NDArray[np.float32]:
        """Hazards and rates of slots int64[k] with their priors [k, K], float32[k, H, K], up to a factor each."""
        mass = self.likelihood.take(slots, 0).astype(np.float32)
        mass *= self.odds.astype(np.float32)[:, None] * prior[:, None]
        return mass

    def predicted_sums(
        self, slots: NDArray[np.int64], gap: NDArray[np.float64], values: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Expectations float64[k, m] of values float32[k, m, K] of the rates of slots int64[k].

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
        """`predicted_sums` of slots int64[k] that polls have taught something, with their priors [k, K]."""
        own, gaps = self._settings.own_share, gap.shape[1]
        mass = self._mass(slots, prior)
        each = mass.sum(2)
        cycles = self.drift_time(np.repeat(slots, gaps), gap.ravel()).reshape(-1, gaps)
        keep = np.exp((cycles[:, :, None] * -self.hazards).astype(np.float32))
        drawn = (1.0 - own) * (values @ self.population.astype(np.float32))
        drawn += own / WHOLE * np.einsum("kmj,kj->km", values, self.occupancy[slots].astype(np.float32))
        kept = np.einsum("kmj,khj->kmh", values, mass)
        informative = keep * kept + (1.0 - keep) * (each[:, None] * drawn[:, :, None])
        return np.asarray(informative.sum(2) / each.sum(1)[:, None])

    def posterior(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probabilities float64[k, K] of the rates of slots int64[k], as they were last polled."""
        return np.asarray(self.joint(slots).sum(1))

    def factor(self, part: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """What the window's rates are to be multiplied by for the k slots in `part`, float64[k]."""
        return self.refinement.factor(part, self.lattice)

    def drift_time(self, slots: NDArray[np.int64], gap: NDArray[np.float64]) -> NDArray[np.float64]:
        """Gaps float64[k] s of slots int64[k] in the unit of their drift, float64[k].

        A uniform cycle. Where cycles are short and most sites change in very many of them once it is a part of the time
        in which the page changes, if that is longer: of what happens once a month nothing is forgotten in minutes, for
        the sake of a few sites that are polled as often, or a budget that would allow it.
        """
        if not self.quiet:
            return gap / self.cycle
        rate = self.lattice.at(self.refinement.position[slots].astype(np.float64))
        rate[self.observed[slots] == 0] = np.inf
        return gap * np.minimum(DRIFTS_PER_CHANGE * rate, 1.0 / self.cycle)

    def fast_share(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probability float64[k] that the rates of slots int64[k] drift fast."""
        return np.asarray(self.joint(slots)[:, -1].sum(1))

    def joint(self, slots: NDArray[np.int64], prior: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Probabilities float64[k, H, K] of hazards and rates, under priors [k, K] or [1, K]; None: the slots' own."""
        prior = self.group_priors.rows(slots, self.prior) if prior is None else prior
        mass = self.likelihood[slots] * (self.odds[:, None] * prior[:, None])
        return np.asarray(mass / mass.sum((1, 2), keepdims=True))

    # -- what is learned in common

    def update_priors(self) -> None:
        """Learns from every site that polls have taught what all have in common; `observe` does so when it is due."""
        observed = np.flatnonzero(self.observed > 0)
        training_slots = observed[:: -(-len(observed) // MOST_TRAINING_SITES) or 1]
        rows = self.likelihood[training_slots].astype(np.float32)
        prior, self.odds = learn(rows, self.prior, self.odds, self._start_prior(), self._settings)
        self._put_prior(prior)
        self.group_priors.learn(training_slots, rows, self.odds, self.prior)
        self.hazard_mixture.learn()
        self.common_rate.refresh()
        self.quiet = self._is_quiet(training_slots)
        self.version += 1

    def _is_quiet(self, slots: NDArray[np.int64]) -> bool:
        """What `quiet` should be by the slots int64[k]."""
        if not slots.size or self.cycle >= _LONG_CYCLE_S:
            return False
        middle = self.lattice.at(np.median(self.refinement.position[slots], keepdims=True))
        return bool(middle[0] * self.cycle * (_STILL_QUIET if self.quiet else _QUIET) < 1.0)

    # -- storage

    def rows(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """uint8[k, ROW.itemsize] to be kept."""
        out = np.zeros(len(slots), ROW)
        out["version"] = VERSION
        out["start"], out["step"], out["wide"] = astuple(self.lattice)
        out["observed"] = self.observed[slots]
        out["likelihood"] = self.likelihood[slots]
        out["occupancy"] = self.occupancy[slots]
        out["position"], out["information"], out["offset"] = self.refinement.of(slots)
        return out.view(np.uint8).reshape(len(slots), ROW.itemsize)

    def put_rows(self, slots: NDArray[np.int64], stored: NDArray[np.uint8]) -> None:
        """Puts back rows, also those kept when the window stood elsewhere."""
        rows = sound_rows(stored, len(slots))
        windows, which = np.unique(rows[["start", "step", "wide"]], return_inverse=True)
        for number, window in enumerate(windows.tolist()):
            of = np.flatnonzero(which == number)
            self._put_rows(slots[of], rows[of], grid.Lattice(*window))

    def _put_rows(self, slots: NDArray[np.int64], rows: NDArray[np.void], window: grid.Lattice) -> None:
        """Puts back sound rows that were kept over one window."""
        here = self.lattice
        self.likelihood[slots] = moved_likelihood(rows["likelihood"], self.prior, window, here)
        self.occupancy[slots] = moved_occupancy(rows["occupancy"], window, here)
        self.observed[slots] = rows["observed"]
        self.refinement.put(slots, *moved(rows["position"], rows["information"], rows["offset"], window, here))
        if window != here:
            self._refine(slots[rows["observed"] > 0])

    def shared(self, allocator: str, more: dict[str, NDArray[Any]]) -> bytes:
        """Priors, odds of the hazards, clock, counters, and what else the allocator has."""
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

    def put_shared(self, allocator: str, data: bytes, more: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Puts back what `shared` gave and returns all of it; the window stands where it stood.

        more: what else the allocator has, as it is now. Raises InvalidValueError for others' bytes and damaged ones.
        """
        arrays = unpack(allocator, VERSION, data)
        same_form(arrays, {**self._arrays(), **more}, (*self.clock.VARYING, *self.group_priors.varying))
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
