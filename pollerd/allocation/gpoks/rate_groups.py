"""GPOKS in two levels: a knapsack of groups of sites with like rates, and one of the sites within a group.

With one level all sites' steps are ordered anew after each poll. With two, only the polled site's group and the groups
among each other are: of n sites in about √n groups, that is √n rows in place of n.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.periodic import water_filling

COLUMNS = 3
"""Numbers in a site's row: its group's number (0: none yet), its share of the group's amount, and the group's amount
for which that share was computed (0: to be computed)."""
_DRIFT = 1.25
"""A group's shares are computed again if its amount has changed by this factor."""
_GROUP, _SHARE, _AMOUNT = range(COLUMNS)
_PRICES = np.concatenate([[100.0, 10.0, 4.0], np.linspace(2.0, 0.0, 513)])
"""Values of a poll at which groups state their demand, falling; few are above 1."""
_MOST = 1.0 + 1e-9
_MAX_GROUPS = 2.0**40
_ROUNDING = 1.0 + 1e-9
SOUND = "a whole group number >= 0, and shares from 0 to 1, above 0 of an amount above 0"
"""Condition that `RateGroups.sound` checks, for error messages."""
SiteValues = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Value of each amount to slots int64[k], float64[k, m]; -1: a site may not take it."""


class RateGroups:
    """Groups of sites whose estimated rates lie within a factor of two, at most √n sites each.

    A group's demand at a price is that of its sites together. So both levels have one price, up to the grid of prices.
    Sites without polls are a group of their own with equal shares, and a site is one by itself from its first poll to
    the next division. Everything that is not in the rows follows from them.
    """

    def __init__(self) -> None:
        self._rows = np.zeros((0, COLUMNS))
        self._demands: dict[int, NDArray[np.float64]] = {}
        """What a group takes at each price, float64[J], by its number; missing: to be computed."""

    def set_rows(self, rows: NDArray[np.float64]) -> None:
        """Sets the rows float64[capacity, COLUMNS], which are written to."""
        self._rows = rows

    @staticmethod
    def sound(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Returns which stored rows float64[k, COLUMNS] are possible, bool[k]."""
        group = rows[:, _GROUP]
        shares = ((rows[:, _SHARE:] >= 0) & (rows[:, _SHARE:] <= _MOST)).all(1)
        shared_out = (rows[:, _SHARE] > 0) | (rows[:, _AMOUNT] == 0)
        whole = (group >= 0) & (group <= _MAX_GROUPS) & (group == np.rint(group))
        return np.asarray(whole & shares & shared_out)

    def reset(self) -> None:
        """Forgets what was computed from the rows: sites came or went, rows were restored, or amounts are others."""
        self._demands.clear()

    def dissolve(self) -> None:
        """Dissolves all groups: the next `amounts` divides the sites anew."""
        self._rows[:] = 0.0
        self.reset()

    def polled(self, slots: NDArray[np.int64], first: NDArray[np.bool_]) -> None:
        """Notes that the functions of distinct slots int64[k] have changed; first bool[k]: it was a site's first poll.

        Its group's shares are computed again, but not where it leaves the sites without polls, which stay alike.
        """
        for group in np.unique(self._rows[slots, _GROUP]).astype(np.int64).tolist():
            self._demands.pop(group, None)
        new = slots[first & (self._rows[slots, _GROUP] > 0)]
        number = self._rows[:, _GROUP].max(initial=0.0) + 1.0
        self._rows[new] = np.column_stack([number + np.arange(len(new)), np.ones(len(new)), np.zeros(len(new))])
        for group in np.unique(self._rows[slots[~first], _GROUP]).astype(np.int64).tolist():
            self._rows[self._rows[:, _GROUP] == group, _AMOUNT] = 0.0

    def amounts(
        self, slots: NDArray[np.int64], rates: NDArray[np.float64], values: SiteValues, steps: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Returns the amounts of slots int64[k], all sites, float64[k], which sum to 1 if they can take as much.

        rates float64[k] 1/s, estimated; nan: no polls. values: of the amounts to some slots; steps float64[m]: the
        amounts, ascending. The first amount is given to every site.
        """
        if not self._rows[slots, _GROUP].all():
            self._divide(slots, rates)
        numbers, group, sizes = np.unique(self._rows[slots, _GROUP], return_inverse=True, return_counts=True)
        by_group = np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1])
        for number, members in zip(numbers.astype(np.int64).tolist(), by_group, strict=True):
            if number not in self._demands:
                self._demands[number] = _demand(values(slots[members]), steps)
        group_amounts = _between_groups(np.array([self._demands[int(number)] for number in numbers]), sizes, steps)
        before = self._rows[slots[[members[0] for members in by_group]], _AMOUNT]
        for at in np.flatnonzero((group_amounts > _DRIFT * before) | (before > _DRIFT * group_amounts)).tolist():
            members = by_group[at]
            alike = bool(np.isnan(rates[members]).all())
            self._rows[slots[members], _AMOUNT] = group_amounts[at]
            self._rows[slots[members], _SHARE] = (
                1.0 / len(members) if alike else _shares(values(slots[members]), steps, float(group_amounts[at]))
            )
        share = self._rows[slots, _SHARE]
        return np.asarray(share / np.bincount(group, share)[group] * group_amounts[group])

    def _divide(self, slots: NDArray[np.int64], rates: NDArray[np.float64]) -> None:
        """Puts sites into groups, fastest first; those without polls into the last."""
        most = max(2, int(np.ceil(len(slots) ** 0.5)))
        polled = np.isfinite(rates)
        octave = np.where(polled, -np.floor(np.log2(np.where(polled, rates, 1.0))), np.inf)
        order = np.lexsort((np.where(polled, -rates, 0.0), octave))
        ranked = octave[order]
        place = np.arange(len(slots)) - np.searchsorted(ranked, ranked)
        part = np.where(polled[order], place // most, 0)
        begins = np.append(True, (ranked[1:] != ranked[:-1]) | (part[1:] != part[:-1]))
        self._rows[slots[order], _GROUP] = np.cumsum(begins)
        self._rows[slots, _AMOUNT] = 0.0
        self.reset()


def _demand(values: NDArray[np.float64], steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns what sites with values float64[k, m] take beyond the first amount at each of `_PRICES`, float64[J].

    A step is taken at a price if its value, or the least before it, is not below the price.
    """
    level = np.minimum.accumulate(values[:, 1:], axis=1)
    widths = np.broadcast_to(np.diff(steps), level.shape)
    place = np.searchsorted(-_PRICES, -level[level >= 0])
    return np.cumsum(np.bincount(place, widths[level >= 0], minlength=len(_PRICES)))


def _shares(values: NDArray[np.float64], steps: NDArray[np.float64], amount: float) -> NDArray[np.float64]:
    """Returns the shares float64[k] of an amount of sites with values float64[k, m], by DET-KS."""
    rest = (amount - len(values) * float(steps[0])) * _ROUNDING
    taken = water_filling(values[None, :, 1:], np.diff(steps), rest)[0]
    amounts = steps[np.minimum(taken, (values >= 0).sum(1) - 1)]
    return np.asarray(amounts / amounts.sum())


def _between_groups(
    demand: NDArray[np.float64], sizes: NDArray[np.int64], steps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the amounts of groups, float64[G], at the price at which they take all, between two of `_PRICES`.

    demand float64[G, J], sizes int64[G], steps float64[m].
    """
    least = sizes * float(steps[0])
    rest, total = max(1.0 - float(least.sum()), 0.0), np.append(0.0, demand.sum(0))
    curves = np.column_stack([np.zeros(len(sizes)), demand])
    if total[-1] <= rest:
        return np.asarray(least + curves[:, -1])
    at = int(np.searchsorted(total, rest, "right")) - 1
    part = (rest - total[at]) / (total[at + 1] - total[at])
    return np.asarray(least + curves[:, at] + part * (curves[:, at + 1] - curves[:, at]))
