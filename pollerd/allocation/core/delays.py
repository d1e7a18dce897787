"""How long after a change the next poll learns of it, over all changes of sites that are polled at given periods."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_HALF = 0.5


class Delays:
    """Delays from change to detection, of all changes of k sites, also of those that the same poll learns of.

    Changes are Poisson: given that there is one between two polls `period` apart, it may be at any time in between. So
    its delay is uniform from 0 to the period, whatever the rate, and rates only say how many changes are a site's. They
    do not depend on the objective: that decides the periods.

    periods: float64[k] s between two polls, > 0, inf: never; changes: float64[k] >= 0, expected changes of each row per
    second.
    """

    def __init__(self, periods: NDArray[np.float64], changes: NDArray[np.float64]) -> None:
        order = np.argsort(periods)
        self._periods, changes = periods[order], changes[order]
        total = float(changes.sum())
        self._changes = changes / total if total > 0 else np.full(len(changes), math.nan)

    def share(self, within: float) -> float:
        """Returns the share of the changes that is learned of within so many seconds; nan without changes."""
        if not len(self._periods):
            return math.nan
        return float(self._changes @ np.minimum(within / self._periods, 1.0))

    def quantile(self, share: float) -> float:
        """Returns the seconds within which this share of the changes, 0 < share < 1, is learned of.

        inf: so many are never learned of; nan without changes.
        """
        if not len(self._periods) or math.isnan(self._changes[0]):
            return math.nan
        # F(w) rises linearly between periods: the sites with shorter ones count whole, the others at w / period.
        whole = np.concatenate([[0.0], np.cumsum(self._changes)])
        slope = np.append(np.cumsum((self._changes / self._periods)[::-1])[::-1], 0.0)
        finite = int(np.searchsorted(self._periods, math.inf))
        reached = whole[1 : finite + 1] + self._periods[:finite] * slope[1 : finite + 1]
        place = int(np.searchsorted(reached, share))
        if place == finite:
            return math.inf
        return float((share - whole[place]) / slope[place])


def typical_rates(belief: tuple[NDArray[np.float64], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Returns the median of each rate under a belief as returned by `Allocator.belief_of`, float64[k] 1/s.

    nan: no belief. The mean of a belief is mostly the mean of its far tail, kept open for pages that wake up: sums over
    many quiet pages come out too large by a tenth, and shares too small by up to .1 (docs/model.md).
    """
    rates, shares = belief
    if rates.shape[1] == 1:
        return np.asarray(rates[:, 0])
    middle = np.cumsum(shares, axis=1) - _HALF * shares
    right = np.clip((middle < _HALF).sum(1), 1, shares.shape[1] - 1)
    rows = np.arange(len(shares))
    low, high = middle[rows, right - 1], middle[rows, right]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, (_HALF - low) / (high - low), 0.0)
    logs = np.log(rates[0])
    between = logs[right - 1] + np.clip(part, 0.0, 1.0) * (logs[right] - logs[right - 1])
    return np.where(np.isnan(shares).any(1), math.nan, np.exp(between))
