"""The best split of a budget under `interest` where some sites show only their newest items (`finite_feeds`).

Of these sites the mean rate counts, in place of the expectation over the belief: the index of one is a table of gaps,
and the expectation would cost twenty times as much for figures that are shown.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.crossing_times import CrossingTimes
from pollerd.allocation.core.mixture import Mixture
from pollerd.allocation.core.objectives.finite_feeds import finite_index, finite_value
from pollerd.allocation.core.objectives.priced_sites import PricedSites

Array = NDArray[np.float64]
_SHORTEST, _LONGEST = 0.02, 60.0
"""Gaps of the table, in units of the shortest time in which a feed fills or items fade, and the longest of fading."""
_COLUMNS_PER_EFOLD = 8.0
_WIDEST = 1e12


def with_items_shown(sites: PricedSites, weight: Array, items: Array, objective: str) -> PricedSites:
    """Returns the sites as they are polled if they show `items` float64[k] of their newest items; nan: no limit.

    weight: float64[k]. Only `interest` depends on it.
    """
    if objective != "interest" or not isinstance(sites, Mixture) or np.isnan(items).all():
        return sites
    return FeedMixture(sites, weight, items)


class FeedMixture(Mixture):
    """As `Mixture` for `interest`, with indices and values of finite feeds where items float64[k] is not nan."""

    def __init__(self, of: Mixture, weight: Array, items: Array) -> None:
        super().__init__(*of.columns)
        known = ~np.isnan(items) & (weight > 0)
        self._limited = np.flatnonzero(known)
        some = self._limited
        decay = self._rate[some] if len(self._rate) > 1 or len(self._cost) == 1 else self._rate[np.zeros_like(some)]
        self._weight, self._items, self._decay = weight[some, None], items[some, None], decay
        self._mean = self._amplitude[some].sum(1, keepdims=True) * decay / self._weight

    @cached_property
    def crossings(self) -> CrossingTimes:
        """Table of the gaps at which the index of each site reaches a level, without floors."""
        gaps = self._gaps()
        return CrossingTimes(gaps, self._index(gaps))

    def _gaps(self) -> Array:
        fading = self._rate[self._rate > 0]
        if not fading.size:
            return np.array([1.0, 2.0])
        fills = self._items[self._mean > 0] / self._mean[self._mean > 0]
        longest = _LONGEST / float(fading.min())
        shortest = _SHORTEST * min(1.0 / float(fading.max()), float(fills.min(initial=np.inf)))
        shortest = max(shortest, longest / _WIDEST)
        columns = 2 + math.ceil(math.log(longest / shortest) * _COLUMNS_PER_EFOLD)
        return np.geomspace(shortest, longest, columns)

    def _index(self, gaps: Array) -> NDArray[np.float32]:
        out = super()._index(gaps)
        found = self._weight * finite_index(gaps[None], self._mean, self._decay, self._items)
        out[self._limited] = found / self._cost[self._limited, None]
        return out

    def value(self, period: Array) -> float:
        """Returns the expected value per second when each site is polled every `period` float64[k] s; inf: never."""
        others = period.copy()
        others[self._limited] = np.inf
        gap = period[self._limited, None]
        polled = np.isfinite(gap) & (gap > 0)
        gap = np.where(polled, gap, 1.0)
        found = self._weight * finite_value(gap, self._mean, self._decay, self._items) / gap
        return super().value(others) + float(found.sum(where=polled))
