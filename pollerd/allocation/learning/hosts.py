"""A prior for each host: pages of one host tend to change alike (empirical Bayes on two levels).

A host's prior is the mean of the posteriors of its pages and of some pages' worth of the prior of all. It is what a
page without polls of its own is believed to do, and weighs less with each poll of it. Posteriors are taken under the
prior of all: under the host's own they would confirm themselves, and pages be believed to be more alike than they are.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.learning.grid import CELLS, slide_mass
from pollerd.allocation.learning.prior import with_trace
from pollerd.columns import lengthen

PAGES_OF_ALL = 5.0
"""So many pages' worth of the prior of all sites are in each host's. With two, hosts of few pages lose by theirs."""
FEWEST_PAGES = 2
"""Pages that have taught something, for a host to have a prior of its own."""
MOST_HOSTS = 4_096
"""Hosts with a prior of their own: those with most pages, which gain most."""
NOWHERE = -1

T = TypeVar("T", np.float32, np.float64)


class HostPriors:
    """Which host each slot is on, and what is believed of a page there before it has been polled.

    `host` int32[capacity], -1 for none, empty until a slot is placed; `known` int64[P] hosts in ascending order;
    `priors` float32[P, CELLS], rows that sum to 1.
    """

    def __init__(self) -> None:
        self.host = np.zeros(0, np.int32)
        self.known = np.zeros(0, np.int64)
        self.priors = np.zeros((0, CELLS), np.float32)

    def place(self, slots: NDArray[np.int64], host: NDArray[np.int64], capacity: int) -> None:
        """The slots int64[k] below `capacity` are on the hosts int64[k]."""
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
        """The slots int64[k] are on no host until they are placed."""
        if len(self.host):
            self.host[slots] = NOWHERE

    def has_own(self, slot: int) -> bool:
        """Whether the host of the slot has a prior of its own."""
        return len(self.host) > 0 and bool(np.isin(self.host[slot], self.known))

    def rows(self, part: slice | NDArray[np.int64], prior: NDArray[T]) -> NDArray[T]:
        """The priors of the k slots in `part`, [k, CELLS]; [1, CELLS] where all have that of all, `prior` [CELLS]."""
        if not len(self.known) or not len(self.host):  # restored, perhaps, and no slot placed
            return prior[None]
        host = self.host[part]
        at = np.minimum(np.searchsorted(self.known, host), len(self.known) - 1)
        own = np.flatnonzero(self.known[at] == host)
        rows = np.tile(prior, (len(host), 1))
        rows[own] = self.priors[at[own]]
        return np.asarray(rows)

    def learn(
        self,
        slots: NDArray[np.int64],
        likelihood: NDArray[np.float32],
        odds: NDArray[np.float64],
        prior: NDArray[np.float64],
    ) -> None:
        """From slots int64[n], likelihood float32[n, H, CELLS], odds [H] of hazards and the prior [CELLS] of all."""
        if not len(self.host):
            return
        teachers = np.flatnonzero(_many(self.host[slots]))
        host = self.host[slots[teachers]]
        order = np.argsort(host, kind="stable")
        teachers = teachers[order]
        known, first, pages = np.unique(host[order], return_index=True, return_counts=True)
        self.known = known.astype(np.int64)
        self.priors = np.zeros((len(known), CELLS), np.float32)
        if len(known):
            mass = np.einsum("khj,h->kj", likelihood[teachers], odds) * prior
            mass /= mass.sum(1, keepdims=True)
            total = np.add.reduceat(mass, first) + PAGES_OF_ALL * prior
            self.priors[:] = total / (pages + PAGES_OF_ALL)[:, None]

    def slide(self, by: int, start: NDArray[np.float64]) -> None:
        """Follows a slide of the rate window; `start` [CELLS] is where priors start in the new one."""
        moved = slide_mass(self.priors.astype(np.float64), by)
        self.priors = with_trace(moved, start).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for storage; where the slots are is told anew after a restart."""
        return {"host_known": self.known, "host_priors": self.priors}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Puts back what `state` gave, flat."""
        self.known, self.priors = arrays["host_known"], arrays["host_priors"].reshape(-1, CELLS)


def _many(host: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which of the pages, on hosts int32[n], are on one of the hosts that shall have a prior, bool[n]."""
    hosts, which, pages = np.unique(host, return_inverse=True, return_counts=True)
    pages[hosts == NOWHERE] = 0
    most = np.zeros(len(hosts), np.bool_)
    most[np.argsort(-pages, kind="stable")[:MOST_HOSTS]] = True
    return np.asarray((most & (pages >= FEWEST_PAGES))[which])
