"""Group priors (partial pooling): pages of one host tend to change alike, and so may neighbours in the list.

Each page's prior is a mixture of the prior of all, of its host and of its neighbours, weighted by how well each has
predicted the first polls of pages. So an unordered list loses nothing, and a sorted one need not be declared. They are
compared with all pages as one group, by the same rule: the prior of all is wider than the pages' rates, and any
narrower prior would look like knowledge of the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.whittle.rate_model.common_rate import MOST_AHEAD, MOST_BEHIND
from pollerd.allocation.whittle.rate_model.grid import Lattice
from pollerd.allocation.whittle.rate_model.groups import MOST_GROUPS, NONE, Groups, T
from pollerd.columns import lengthen
from pollerd.errors import InvalidValueError

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
        most = int(slots.max(initial=0)) // MOST_GROUPS
        self._width = max(NEIGHBOURHOOD, 1 << most.bit_length())
        posterior = np.einsum("khj,h->kj", likelihood, odds) * prior
        posterior /= posterior.sum(1, keepdims=True)
        for kind, groups in enumerate(self._groups):
            groups.learn(self._group(kind, slots), posterior, prior)
        self._whole.learn(np.zeros(len(slots), np.int64), posterior, prior)
        self.score = np.clip(self.score, LOG_PRIOR_ODDS - MOST_BEHIND, LOG_PRIOR_ODDS + MOST_AHEAD)
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


def _shares(score: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Returns shares float64[2] of hosts and neighbours in a page's prior; 0 if negligible or without groups."""
    odds = np.append(np.where(there, score - LOG_PRIOR_ODDS, -np.inf), 0.0)
    share = np.exp(odds - odds.max())
    share = share[:2] / share.sum()
    return np.where(share < _NO_SHARE, 0.0, share)
