"""Priors over rates, learned from all sites (empirical Bayes): of all pages, of groups, of hosts and neighbours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots import positive, put, whole
from pollerd.allocation.whittle.clock import MAX_AHEAD, MAX_BEHIND, START_ODDS
from pollerd.allocation.whittle.grid import CELLS, SLOWEST_PER_CYCLE, Lattice, move_mass
from pollerd.columns import lengthen
from pollerd.errors import InvalidValueError

MAX_EM_STEPS = 1000
"""More steps change nothing."""

ORDINARY_CLOCK = ("interest", "deadline")
"""Objectives whose gaps are not measured on the activity clock."""


@dataclass(frozen=True)
class LearningSettings:
    """All values > 0, `start_share` at most 1, `em_steps` a whole number from 1 to 1,000.

    The defaults are measured (docs/research/learning.md).
    """

    start_width_efolds: float = 2.0
    """Standard deviation of the log rate in the initial prior."""
    start_sites: float = 10.0
    """Weight of the initial prior in sites, besides `prior_pull_share`."""
    prior_pull_share: float = 0.05
    """Weight of the initial prior as a share of the sites seen."""
    em_steps: int = 2
    """EM steps at each update of the prior."""
    start_share: float = 0.5
    """Share of the wide initial prior in the population."""
    memory_polls: float = 10_000.0
    """Polls over which the comparisons of hazards and of clocks are discounted."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "em_steps":
                positive(field.name, getattr(self, field.name))
        if self.start_share > 1:
            raise InvalidValueError("start_share", "at most 1", self.start_share)
        put(self, em_steps=whole("em_steps", self.em_steps, 1, MAX_EM_STEPS))


_TRACE = 1e-4
_LEAST = 1e-12
"""Lower bound of densities far from the centre, so that no rate is ruled out."""
_WIDE_SHARE = 0.2
"""Share of the initial prior that allows for rates far slower than the cycle."""
_TELLING = 1.0
"""Log-likelihood ratio, summed over all quiet sites, from which on slow rates can be told apart."""


def start_prior(lattice: Lattice, cycle: float, width: float) -> NDArray[np.float64]:
    """Returns a log-normal around one change per uniform cycle (s), `width` e-folds, float64[CELLS], sums to 1.

    A fifth of it is wider on the slow side, in proportion to the window's extension beyond the range that depends on
    the cycle. A cycle of seconds says next to nothing about how seldom pages change, and quiet pages must be able to
    get slow rates.
    """
    x = np.log(lattice.rates * cycle) / width
    wider = x[0] * width / math.log(SLOWEST_PER_CYCLE)
    widths = np.diff(lattice.edges)
    narrow, wide = _normal(x, widths), _normal(np.where(x < 0, x / wider, x), widths)
    return (1.0 - _WIDE_SHARE) * narrow + _WIDE_SHARE * wide


def _normal(x: NDArray[np.float64], widths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns normal masses of cells at x with widths, float64[k] each; they sum to 1."""
    mass = np.maximum(np.exp(-0.5 * x * x), _LEAST) * widths
    return np.asarray(mass / mass.sum())


def summed_posteriors(likelihood: NDArray[np.float32], prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the summed posteriors of rows [n, J] under a prior [J], float64[J]."""
    scale = 1.0 / np.maximum(likelihood @ prior.astype(np.float32), np.float32(1e-37))
    return np.asarray(prior * (scale @ likelihood))


def with_trace(prior: NDArray[np.float64], start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the prior mixed with a trace of the initial one, so that no rate is ever ruled out."""
    return (1.0 - _TRACE) * prior + _TRACE * start


def learn(
    likelihood: NDArray[np.float32],
    prior: NDArray[np.float64],
    odds: NDArray[np.float64],
    start: NDArray[np.float64],
    settings: LearningSettings,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the prior over rates, float64[CELLS], and odds of hazards, float64[H], that fit rows [n, H, CELLS] best.

    A few EM steps on the mixing weights. The prior is shrunk towards `start`, so that no rate is ever ruled out and a
    rate of only a few sites keeps some weight; the odds towards their initial values.
    """
    shape = likelihood.shape[1:]
    rows = likelihood.reshape(len(likelihood), shape[0] * shape[1])
    weight = (settings.prior_pull_share * len(rows) + settings.start_sites) * start
    merged = indistinguishable_slow(likelihood[:, 0])
    for _ in range(settings.em_steps):
        total = summed_posteriors(rows, (odds[:, None] * prior).ravel()).reshape(shape)
        prior, odds = total.sum(0) + weight, total.sum(1) + settings.start_sites * START_ODDS
        prior[:merged] = prior[:merged].sum() / start[:merged].sum() * start[:merged]
        prior, odds = prior / prior.sum(), odds / odds.sum()
    return prior, odds


def indistinguishable_slow(likelihood: NDArray[np.float32]) -> int:
    """Returns how many of the slowest rates the quiet sites do not tell apart, by rows [n, CELLS]; at least 1.

    Of two rates at which no change was to be expected yet, the slower one always explains quiet polls a little better.
    Step by step the prior would end on the slowest of all.
    """
    against = np.log(np.maximum(likelihood[:, :1], _LEAST)) - np.log(np.maximum(likelihood, _LEAST))
    distinguished = np.maximum(against, 0.0).sum(0) > _TELLING
    return int(distinguished.argmax()) if distinguished.any() else len(distinguished)


def next_update(observed: int, sites: int) -> int:
    """Returns the count of observations at which to learn next: a quarter more, at least 16, at most as many as sites.

    Geometric at first, so that the early prior is fresh; linear later, so that the cost per poll stays O(CELLS).
    """
    return observed + max(16, min(math.ceil(observed / 4), max(sites, 256)))


# A prior for each group of sites assumed to change alike (empirical Bayes on two levels).
#
# A group's prior is the mean of the posteriors of its pages and of a few pages' worth of the prior of all. It is the
# belief about a page without polls of its own, and counts less with each poll of it. Posteriors are taken under the
# prior of all: under the group's own they would confirm themselves, and pages would seem more alike than they are.

NONE = -1
"""Group of a site without a group."""
PAGES_OF_ALL = 5.0
"""Weight of the prior of all sites in each group's, in pages. With two, small groups lose by their own prior."""
FEWEST_PAGES = 2
"""Smallest number of pages with informative polls for a group to have its own prior."""
MAX_GROUPS = 4_096
"""Largest number of groups with their own prior: those with most pages, which gain most."""

T = TypeVar("T", np.float32, np.float64)


class Groups:
    """Priors of the groups that have one: `known` int64[P] ascending, `priors` float32[P, CELLS]."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.known = np.zeros(0, np.int64)
        self.priors = np.zeros((0, CELLS), np.float32)

    def rows(self, group: NDArray[np.int64], prior: NDArray[T]) -> NDArray[T]:
        """Returns priors [k, CELLS] of pages in the groups int64[k]; the common `prior` [CELLS] by default."""
        rows = np.tile(prior, (len(group), 1))
        if len(self.known):
            at = np.minimum(np.searchsorted(self.known, group), len(self.known) - 1)
            own = np.flatnonzero(self.known[at] == group)
            rows[own] = self.priors[at[own]]
        return np.asarray(rows)

    def learn(self, group: NDArray[np.int64], posterior: NDArray[np.float64], prior: NDArray[np.float64]) -> None:
        """Learns from pages in the groups int64[n], their posteriors float64[n, CELLS], common prior [CELLS]."""
        training_rows = np.flatnonzero(_in_large(group))
        training_rows = training_rows[np.argsort(group[training_rows], kind="stable")]
        known, first, pages = np.unique(group[training_rows], return_index=True, return_counts=True)
        self.known = known.astype(np.int64)
        self.priors = np.zeros((len(known), CELLS), np.float32)
        if len(known):
            total = np.add.reduceat(posterior[training_rows], first) + PAGES_OF_ALL * prior
            self.priors[:] = total / (pages + PAGES_OF_ALL)[:, None]

    def move(self, old: Lattice, new: Lattice, start: NDArray[np.float64]) -> None:
        """Converts to another window; `start` [CELLS] is the initial prior there."""
        moved = move_mass(self.priors.astype(np.float64), old, new)
        self.priors = with_trace(moved, start).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage."""
        return {f"{self._name}_known": self.known, f"{self._name}_priors": self.priors}

    @property
    def varying(self) -> tuple[str, str]:
        """Arrays of `state` whose sizes vary."""
        return f"{self._name}_known", f"{self._name}_priors"

    def check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Raises InvalidValueError unless each group in a state has one prior, and groups are ascending."""
        known, priors = (arrays[name] for name in self.varying)
        if priors.size != known.size * CELLS or (np.diff(known) <= 0).any():
            raise InvalidValueError(
                "shared_state", f"a prior of {CELLS} for each {self._name} in order", f"{known.size} of them"
            )

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores the output of `state`, flat."""
        self.known = arrays[f"{self._name}_known"]
        self.priors = arrays[f"{self._name}_priors"].reshape(-1, CELLS)


def _in_large(group: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns which of the pages, in the groups int64[n], are in a group that gets its own prior, bool[n]."""
    groups, which, pages = np.unique(group, return_inverse=True, return_counts=True)
    pages[groups == NONE] = 0
    most = np.zeros(len(groups), np.bool_)
    most[np.argsort(-pages, kind="stable")[:MAX_GROUPS]] = True
    return np.asarray((most & (pages >= FEWEST_PAGES))[which])


# Group priors (partial pooling): pages of one host tend to change alike, and so may neighbours in the list.
#
# Each page's prior is a mixture of the prior of all, of its host and of its neighbours, weighted by how well each has
# predicted the first polls of pages. So an unordered list loses nothing, and a sorted one need not be declared. They
# are compared with all pages as one group, by the same rule: the prior of all is wider than the pages' rates, and any
# narrower prior would look like knowledge of the group.

HOSTS, NEIGHBOURS = 0, 1
LOG_PRIOR_ODDS = np.array([-2.0, 3.0])
"""Initial log odds against hosts and neighbours: negative, thus in favour, for hosts."""
NEIGHBOURHOOD = 16
"""Smallest number of pages in a neighbourhood; larger if there would be too many groups."""
_NO_SHARE = 0.05
_TINY = 1e-9


class GroupPriors:
    """Host of each slot, the priors of hosts and neighbourhoods, and their shares in a page's prior.

    `host` int32[capacity], `groups.NONE` for none, empty until a slot is placed; `score` float64[2] log gain of hosts'
    and of neighbours' predictions over those of all pages as one group; `share` float64[2], which changes when the
    prior is updated.
    """

    def __init__(self) -> None:
        self.host = np.zeros(0, np.int32)
        self.score = np.zeros(2)
        self.share = np.zeros(2)
        self._width = NEIGHBOURHOOD
        self._groups = (Groups("host"), Groups("neighbour"))
        self._whole = Groups("whole")

    def place(self, slots: NDArray[np.int64], host: NDArray[np.int64], capacity: int) -> None:
        """Sets the hosts int64[k] of slots int64[k] below `capacity`."""
        self._grow(capacity)
        self.host[slots] = host

    def grow(self, capacity: int) -> None:
        """Grows to slots below `capacity`, if any has been placed."""
        if len(self.host):
            self._grow(capacity)

    def _grow(self, capacity: int) -> None:
        if capacity > len(self.host):
            lengthen(vars(self), "host", capacity - len(self.host), NONE)

    def host_of(self, slots: NDArray[np.int64]) -> int:
        """Returns the host that most of the slots int64[k] are on, NONE: none."""
        hosts = self.host[slots] if len(self.host) else np.zeros(0, np.int32)
        names, number = np.unique(hosts[hosts != NONE], return_counts=True)
        return int(names[number.argmax()]) if names.size else NONE

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Removes slots int64[k] from their hosts."""
        if len(self.host):
            self.host[slots] = NONE

    def shares_in(self, slot: int) -> tuple[bool, bool]:
        """Returns whether the slot's host, and whether its neighbours, have a share in its prior."""
        host, neighbours = (
            bool(self.share[kind] > 0 and np.isin(self._group(kind, np.array([slot])), groups.known)[0])
            for kind, groups in enumerate(self._groups)
        )
        return host, neighbours

    @property
    def active(self) -> bool:
        """Whether any page's prior differs from that of all."""
        return bool(self.share.any())

    def rows(self, part: slice | NDArray[np.int64], prior: NDArray[T]) -> NDArray[T]:
        """Returns the priors of the k slots in `part`, [k, CELLS]; [1, CELLS] if all have the common one."""
        if not self.active:
            return prior[None]
        rows = prior[None] * prior.dtype.type(1.0 - self.share.sum())
        for kind in np.flatnonzero(self.share).tolist():
            rows = rows + prior.dtype.type(self.share[kind]) * self._groups[kind].rows(self._group(kind, part), prior)
        return rows

    def observe(
        self,
        slots: NDArray[np.int64],
        unchanged: NDArray[np.float64],
        changed: NDArray[np.bool_],
        prior: NDArray[np.float64],
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Compares predictions of the first informative polls of slots int64[k], from which no group has learned.

        unchanged: the probabilities of no change at each rate, float64[k, CELLS]; changed bool[k]; prior [CELLS] of
        all; weights float64[k, CELLS] of the rates by what else is known of the pages, None: nothing.
        """

        def logarithm(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            if weights is None:
                quiet = (rows * unchanged).sum(1)
            else:
                quiet = (rows * weights * unchanged).sum(1) / np.maximum((rows * weights).sum(1), _TINY)
            return np.asarray(np.log(np.maximum(np.where(changed, 1.0 - quiet, quiet), _TINY)))

        if not len(slots) or not len(self._whole.known):
            return
        as_one = logarithm(self._whole.rows(np.zeros(1, np.int64), prior))
        for kind, groups in enumerate(self._groups):
            if len(groups.known):
                rows = groups.rows(self._group(kind, slots), prior)
                self.score[kind] += float((logarithm(rows) - as_one).sum())

    def learn(
        self,
        slots: NDArray[np.int64],
        likelihood: NDArray[np.float32],
        odds: NDArray[np.float64],
        prior: NDArray[np.float64],
    ) -> None:
        """Learns from slots int64[n], likelihood float32[n, H, CELLS], odds [H] of hazards, common prior [CELLS]."""
        most = int(slots.max(initial=0)) // MAX_GROUPS
        self._width = max(NEIGHBOURHOOD, 1 << most.bit_length())
        posterior = np.einsum("khj,h->kj", likelihood, odds) * prior
        posterior /= posterior.sum(1, keepdims=True)
        for kind, groups in enumerate(self._groups):
            groups.learn(self._group(kind, slots), posterior, prior)
        self._whole.learn(np.zeros(len(slots), np.int64), posterior, prior)
        self.score = np.clip(self.score, LOG_PRIOR_ODDS - MAX_BEHIND, LOG_PRIOR_ODDS + MAX_AHEAD)
        self.share = _shares(self.score, np.array([len(groups.known) > 0 for groups in self._groups]))

    def _group(self, kind: int, part: slice | NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the groups int64[k] of the slots in `part`."""
        if kind == NEIGHBOURS:
            return (np.arange(part.start, part.stop) if isinstance(part, slice) else part) // self._width
        if not len(self.host):  # restored, perhaps, and no slot placed yet
            return np.full(part.stop - part.start if isinstance(part, slice) else len(part), NONE)
        return self.host[part].astype(np.int64)

    def move(self, old: Lattice, new: Lattice, start: NDArray[np.float64]) -> None:
        """Converts to another window; `start` [CELLS] is the initial prior there."""
        for groups in (*self._groups, self._whole):
            groups.move(old, new, start)

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage; the slots are placed again after a restart."""
        numbers = {
            "group_score": self.score,
            "group_share": self.share,
            "group_width": np.array([self._width]),
        }
        return {**numbers, **self._groups[HOSTS].state(), **self._groups[NEIGHBOURS].state(), **self._whole.state()}

    @property
    def varying(self) -> tuple[str, ...]:
        """Arrays of `state` whose sizes vary."""
        return tuple(name for groups in (*self._groups, self._whole) for name in groups.varying)

    def check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Raises InvalidValueError if groups and priors of a state are inconsistent."""
        for groups in (*self._groups, self._whole):
            groups.check(arrays)
        if arrays["group_width"][0] < NEIGHBOURHOOD:
            raise InvalidValueError(
                "shared_state", f"neighbourhoods of {NEIGHBOURHOOD} or more", int(arrays["group_width"][0])
            )

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores the output of `state`, flat."""
        self.score, self.share = arrays["group_score"].copy(), arrays["group_share"]
        self._width = int(arrays["group_width"][0])
        for groups in (*self._groups, self._whole):
            groups.restore(arrays)


def _shares(score: NDArray[np.float64], has_groups: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Returns shares float64[2] of hosts and neighbours in a page's prior; 0 if negligible or without groups."""
    odds = np.append(np.where(has_groups, score - LOG_PRIOR_ODDS, -np.inf), 0.0)
    share = np.exp(odds - odds.max())
    share = share[:2] / share.sum()
    return np.where(share < _NO_SHARE, 0.0, share)
