"""Sites that change at nearly every poll: held to the uniform share, and asked twice now and then to find out why.

Such a page either changes faster than it is polled, or differs at every fetch (a token, a clock) and would draw the
whole budget for nothing. A repeat fetch, right after the first, tells them apart: a page that holds still in
between is no noise, and is let go.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling.sites import SiteTable

REPEAT_SHARE = 1 / 50
"""At most one repeat fetch in so many polls."""
_CREDIT_MOST = 16.0
"""Repeat fetches that may be saved up while no site needs one."""
_REPEAT_GAP_SHARE = 0.25
_REPEAT_GAP_SECONDS = 3.0
"""A repeat fetch comes within this share of the uniform period, or so soon, or not at all."""
_REPEAT_PAUSE_PERIODS = 8.0
"""Uniform periods between two repeat fetches of one site."""


class NoiseCap:
    """Holds the sites that change always. `period` is the gap that round robin would leave each site (s)."""

    def __init__(self, sites: SiteTable) -> None:
        self._sites = sites
        self._credit = 0.0

    def floors(self, period: float, slots: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """float64[k]: shortest gap since the last poll of `slots` (None: all), s; 0 for sites that are not held.

        After a repeat fetch the wait is doubled, so that the site's own share pays for it.
        """
        part = slice(0, self._sites.size) if slots is None else slots
        repeated = self._sites.last_gap[part] < min(_longest_gap(period), period)
        return np.where(self._sites.changes_always(slots), np.where(repeated, 2 * period, period), 0.0)

    def earn(self, polls: int) -> None:
        """So many polls were chosen: they earn the allowance."""
        self._credit = min(self._credit + polls * REPEAT_SHARE, _CREDIT_MOST)

    def repeat(self, suspects: NDArray[np.int64], now: float, period: float) -> NDArray[np.int64]:
        """The slot to ask a second time, int64[0 or 1], of those int64[k] that changed always and may be asked now.

        The one whose last repeat fetch is longest ago; of several without any, the one with the longest history.
        """
        sites = self._sites
        if self._credit < 1.0:
            return np.empty(0, np.int64)
        fresh = now - sites.last_poll[suspects] < _longest_gap(period)
        rested = now - sites.repeat_at[suspects] >= _REPEAT_PAUSE_PERIODS * period
        slots = suspects[fresh & rested]
        if not len(slots):
            return slots
        length = sites.history_length[slots].astype(np.int64)
        slot = slots[np.lexsort((-length, sites.repeat_at[slots]))[0]]
        sites.repeat_at[slot] = now
        self._credit -= 1.0
        return np.array([slot], np.int64)


def _longest_gap(period: float) -> float:
    """Seconds within which a second poll is a repeat fetch of the first."""
    return max(_REPEAT_GAP_SHARE * period, _REPEAT_GAP_SECONDS)
