"""Limits sites that change at nearly every poll to the uniform share, and schedules repeat fetches of them.

Such a page either changes faster than it is polled, or differs at every fetch (a token, a clock) and would consume the
whole budget for nothing. A repeat fetch, right after a poll, tells them apart: if the page is the same both times, its
changes are real and the limit is lifted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling.sites import SiteTable

REPEAT_SHARE = 1 / 50
"""Maximum share of repeat fetches among polls."""
_CREDIT_MOST = 16.0
"""Maximum number of repeat fetches saved up while no site needs one."""
_REPEAT_GAP_SHARE = 0.25
_REPEAT_GAP_SECONDS = 3.0
"""A repeat fetch comes within this share of the uniform period or these seconds, whichever is longer, or not at all."""
_REPEAT_PAUSE_PERIODS = 8.0
"""Minimum time between two repeat fetches of one site, in uniform periods."""


class NoiseCap:
    """Limits always-changing sites. `period` is the gap that round robin would leave each site (s)."""

    def __init__(self, sites: SiteTable) -> None:
        self._sites = sites
        self._credit = 0.0

    def floors(self, period: float, slots: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Returns float64[k]: minimum gap since the last poll of `slots` (None: all), s; 0 for sites without limit.

        Doubled after a repeat fetch, so that the site's own share pays for it.
        """
        part = slice(0, self._sites.size) if slots is None else slots
        repeated = self._sites.last_gap[part] < min(_longest_gap(period), period)
        return np.where(self._sites.changes_always(slots), np.where(repeated, 2 * period, period), 0.0)

    def earn(self, polls: int) -> None:
        """Adds the credit for repeat fetches that the chosen polls earn."""
        self._credit = min(self._credit + polls * REPEAT_SHARE, _CREDIT_MOST)

    def repeat(self, suspects: NDArray[np.int64], now: float, period: float) -> NDArray[np.int64]:
        """Returns the slot to fetch again, int64[0 or 1], from always-changing slots int64[k] that may be polled now.

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
    """Returns the seconds within which a second poll is a repeat fetch of the first."""
    return max(_REPEAT_GAP_SHARE * period, _REPEAT_GAP_SECONDS)
