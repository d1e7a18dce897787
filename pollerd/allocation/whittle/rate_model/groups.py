"""A prior for each group of sites assumed to change alike (empirical Bayes on two levels).

A group's prior is the mean of the posteriors of its pages and of a few pages' worth of the prior of all. It is the
belief about a page without polls of its own, and counts less with each poll of it. Posteriors are taken under the prior
of all: under the group's own they would confirm themselves, and pages would seem more alike than they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.whittle.rate_model.grid import CELLS, Lattice, move_mass
from pollerd.allocation.whittle.rate_model.prior import with_trace
from pollerd.errors import InvalidValueError

NONE = -1
"""Group of a site without a group."""
PAGES_OF_ALL = 5.0
"""Weight of the prior of all sites in each group's, in pages. With two, small groups lose by their own prior."""
FEWEST_PAGES = 2
"""Smallest number of pages with informative polls for a group to have its own prior."""
MOST_GROUPS = 4_096
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
    most[np.argsort(-pages, kind="stable")[:MOST_GROUPS]] = True
    return np.asarray((most & (pages >= FEWEST_PAGES))[which])
