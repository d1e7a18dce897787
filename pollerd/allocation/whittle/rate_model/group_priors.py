"""Priors of groups: pages of one host tend to change alike, and so may those that stand together in the list.

Each page's prior is mixed of that of all, that of its host and that of its neighbours, by how well each of the three
has predicted the first polls of pages. So nothing is lost where a list is in no order, and of one that is sorted
nothing has to be told. They compare with all pages as one group, by the same rule: the prior of all is wider than
what pages show, and whatever is narrower would pass for knowledge of the group.
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
"""Logarithmic odds against hosts and neighbours at the start: against hosts there are none."""
NEIGHBOURHOOD = 16
"""Pages that stand together, at least: more of them where else there would be too many groups."""
_NO_SHARE = 0.05
_TINY = 1e-9


class GroupPriors:
    """Which host each slot is on, the priors of hosts and neighbourhoods, and what share each has in a page's prior.

    `host` int32[capacity], `groups.NONE` for none, empty until a slot is placed; `score` float64[2] logarithmic gain of
    hosts' and of neighbours' predictions over those by the prior of all; `share` float64[2], which changes when the
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
        """The slots int64[k] below `capacity` are on the hosts int64[k]."""
        self._grow(capacity)
        self.host[slots] = host

    def grow(self, capacity: int) -> None:
        """Room for slots below `capacity`, where any has been placed."""
        if len(self.host):
            self._grow(capacity)

    def _grow(self, capacity: int) -> None:
        if capacity > len(self.host):
            lengthen(vars(self), "host", capacity - len(self.host), NONE)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """The slots int64[k] are on no host until they are placed."""
        if len(self.host):
            self.host[slots] = NONE

    def shares_in(self, slot: int) -> tuple[bool, bool]:
        """Whether the slot's host, and whether its neighbours, have a share in its prior."""
        host, neighbours = (
            bool(self.share[kind] > 0 and np.isin(self._group(kind, np.array([slot])), groups.known)[0])
            for kind, groups in enumerate(self._groups)
        )
        return host, neighbours

    @property
    def active(self) -> bool:
        """Whether any page's prior is another than that of all."""
        return bool(self.share.any())

    def rows(self, part: slice | NDArray[np.int64], prior: NDArray[T]) -> NDArray[T]:
        """The priors of the k slots in `part`, [k, CELLS]; [1, CELLS] where all have that of all, `prior` [CELLS]."""
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
    ) -> None:
        """Compares predictions of the first polls that tell of slots int64[k], from which no group has learned.

        unchanged: the chances of no change at each rate, float64[k, CELLS]; changed bool[k]; prior [CELLS] that of all.
        """

        def logarithm(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            quiet = (rows * unchanged).sum(1)
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
        """From slots int64[n], likelihood float32[n, H, CELLS], odds [H] of hazards and the prior [CELLS] of all."""
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
        """The groups int64[k] of the slots in `part`."""
        if kind == NEIGHBOURS:
            return (np.arange(part.start, part.stop) if isinstance(part, slice) else part) // self._width
        if not len(self.host):  # restored, perhaps, and no slot placed
            return np.full(part.stop - part.start if isinstance(part, slice) else len(part), NONE)
        return self.host[part].astype(np.int64)

    def move(self, old: Lattice, new: Lattice, start: NDArray[np.float64]) -> None:
        """Another window was laid; `start` [CELLS] is where priors start in the new one."""
        for groups in (*self._groups, self._whole):
            groups.move(old, new, start)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for storage; the slots are placed again after a restart."""
        numbers = {
            "group_score": self.score,
            "group_share": self.share,
            "group_width": np.array([self._width]),
        }
        return {**numbers, **self._groups[HOSTS].state(), **self._groups[NEIGHBOURS].state(), **self._whole.state()}

    @property
    def varying(self) -> tuple[str, ...]:
        """Arrays of `state` whose sizes go by what was seen."""
        return tuple(name for groups in (*self._groups, self._whole) for name in groups.varying)

    def check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Raises InvalidValueError where groups and priors of a state do not go together."""
        for groups in (*self._groups, self._whole):
            groups.check(arrays)
        if arrays["group_width"][0] < NEIGHBOURHOOD:
            raise InvalidValueError(
                "shared_state", f"neighbourhoods of {NEIGHBOURHOOD} or more", int(arrays["group_width"][0])
            )

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Puts back what `state` gave, flat."""
        self.score, self.share = arrays["group_score"].copy(), arrays["group_share"]
        self._width = int(arrays["group_width"][0])
        for groups in (*self._groups, self._whole):
            groups.restore(arrays)


def _shares(score: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Shares float64[2] of hosts and neighbours in a page's prior; what is hardly believed, or not there, has none."""
    odds = np.append(np.where(there, score - LOG_PRIOR_ODDS, -np.inf), 0.0)
    share = np.exp(odds - odds.max())
    share = share[:2] / share.sum()
    return np.where(share < _NO_SHARE, 0.0, share)
