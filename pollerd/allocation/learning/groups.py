"""A prior for each group of sites: those of one host, or else those that stand together in the list.

Pages of one host tend to change alike, and lists are mostly in some order. A group's prior is the mean of the
posteriors of its sites and of some sites' worth of the prior of all. It is what a site without polls of its own is
believed to do, and weighs less with each poll of it. Posteriors are taken under the prior of all: under the group's own
they would confirm themselves, and a group be believed to be more alike than it is.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.learning.grid import CELLS, slide_mass
from pollerd.allocation.learning.prior import with_trace
from pollerd.columns import lengthen

SITES_OF_ALL = 20.0
"""So many sites' worth of the prior of all are in each group's. With few of them chance likenesses count for much."""
FEWEST_SITES = 2
"""Sites that have taught something, for a group to have a prior of its own."""
MOST_GROUPS = 4_096
"""Groups with a prior of their own: those with most sites, which gain most."""
NOWHERE = -1
"""The host of a slot of which it was not told."""
NEIGHBOURS = 16
"""Slots of no known host make a group with so many around them."""

T = TypeVar("T", np.float32, np.float64)


class GroupPriors:
    """Which group each slot is of, and what is believed of a site there before it has been polled.

    `host` int32[capacity], -1 where it is not known, empty until a slot is placed; `known` int64[P] groups in ascending
    order; `priors` float32[P, CELLS], rows that sum to 1. A group's number is its host's, or negative.
    """

    def __init__(self) -> None:
        self.host = np.zeros(0, np.int32)
        self.known = np.zeros(0, np.int64)
        self.priors = np.zeros((0, CELLS), np.float32)

    def place(self, slots: NDArray[np.int64], host: NDArray[np.int64], capacity: int) -> None:
        """The slots int64[k] below `capacity` are on the hosts int64[k], -1: not known."""
        self._grow(capacity)
        self.host[slots] = host

    def grow(self, capacity: int) -> None:
        """Room for slots below `capacity`, where any has been placed."""
        if len(self.host):
            self._grow(capacity)

    def _grow(self, capacity: int) -> None:
        if capacity > len(self.host):
            lengthen(vars(self), "host", capacity - len(self.host), NOWHERE)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """The hosts of the slots int64[k] are not known until they are placed."""
        if len(self.host):
            self.host[slots] = NOWHERE

    def of(self, part: slice | NDArray[np.int64]) -> NDArray[np.int64]:
        """The groups of the k slots in `part`, int64[k]."""
        slots = np.arange(part.start, part.stop) if isinstance(part, slice) else part
        around = NOWHERE - 1 - slots // NEIGHBOURS
        if not len(self.host):
            return around
        host = self.host[slots].astype(np.int64)
        return np.where(host == NOWHERE, around, host)

    def knows_host(self, slot: int) -> bool:
        """Whether it was told which host the slot is on."""
        return len(self.host) > 0 and bool(self.host[slot] != NOWHERE)

    def has_own(self, slot: int) -> bool:
        """Whether the group of the slot has a prior of its own."""
        return bool(np.isin(self.of(np.array([slot])), self.known)[0])

    def rows(self, part: slice | NDArray[np.int64], prior: NDArray[T]) -> NDArray[T]:
        """The priors of the k slots in `part`, [k, CELLS]; [1, CELLS] where all have that of all, `prior` [CELLS]."""
        if not len(self.known):
            return prior[None]
        group = self.of(part)
        at = np.minimum(np.searchsorted(self.known, group), len(self.known) - 1)
        own = np.flatnonzero(self.known[at] == group)
        rows = np.tile(prior, (len(group), 1))
        rows[own] = self.priors[at[own]]
        return np.asarray(rows)

    def learn(
        self,
        slots: NDArray[np.int64],
        likelihood: NDArray[np.float32],
        odds: NDArray[np.float64],
        prior: NDArray[np.float64],
    ) -> None:
        """Works out the priors from slots int64[n], likelihood float32[n, H, CELLS], odds [H], prior [CELLS] of all."""
        group = self.of(slots)
        teachers = np.flatnonzero(_many(group))
        teachers = teachers[np.argsort(group[teachers], kind="stable")]
        self.known, first, sites = np.unique(group[teachers], return_index=True, return_counts=True)
        self.priors = np.zeros((len(self.known), CELLS), np.float32)
        if len(self.known):
            mass = np.einsum("khj,h->kj", likelihood[teachers], odds) * prior
            mass /= mass.sum(1, keepdims=True)
            total = np.add.reduceat(mass, first) + SITES_OF_ALL * prior
            self.priors[:] = total / (sites + SITES_OF_ALL)[:, None]

    def slide(self, by: int, start: NDArray[np.float64]) -> None:
        """Follows a slide of the rate window; `start` [CELLS] is where priors start in the new one."""
        moved = slide_mass(self.priors.astype(np.float64), by)
        self.priors = with_trace(moved, start).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for storage; which host a slot is on is told anew after a restart."""
        return {"group_known": self.known, "group_priors": self.priors}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Puts back what `state` gave, flat."""
        self.known, self.priors = arrays["group_known"], arrays["group_priors"].reshape(-1, CELLS)


def _many(group: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the sites, of groups int64[n], are of one of those that shall have a prior, bool[n]."""
    _, which, sites = np.unique(group, return_inverse=True, return_counts=True)
    most = np.zeros(len(sites), np.bool_)
    most[np.argsort(-sites, kind="stable")[:MOST_GROUPS]] = True
    return np.asarray((most & (sites >= FEWEST_SITES))[which])
