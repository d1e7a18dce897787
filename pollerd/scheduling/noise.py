"""Limits sites that change at nearly every poll to the uniform share, and decides whose changes have to be proven.

Such a page either changes faster than it is polled, or differs at every fetch (a token, a clock) and would consume the
whole budget for nothing. A proof poll, right after a poll, tells them apart: if the page is the same both times, its
changes are real and the limit is lifted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling.sites import SiteTable

_FAILURES_MOST = 3
"""Number of proofs in a row that left a difference after which proofs of a site become rare."""
_PAUSE_PERIODS = 8.0
"""Time between two rare proofs of one site, in uniform periods."""


class NoiseCap:
    """Limits always-changing sites. `period` is, or returns, the gap that round robin would leave each site (s)."""

    def __init__(self, sites: SiteTable) -> None:
        self._sites = sites

    def floors(
        self, period: float, slots: NDArray[np.int64] | None = None, exempt: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Returns float64[k]: minimum gap since the last poll of `slots` (None: all), s; 0 for sites without limit.

        exempt bool[k]: sites that are polled for something else than their own changes (None: no site is).
        """
        capped = self._sites.changes_always(slots)
        if exempt is not None:
            capped &= ~exempt
        return np.where(capped, period, 0.0)

    def wants_proof(self, slot: int, now: float, period: Callable[[], float], *, proven: bool) -> bool:
        """Returns whether a change of the slot has to be proven.

        proven: whether it is known what of the page is noise. Then only if the page changes at each of its last polls,
        and no more than every eight periods unless its last proof showed it the same; else always, unless three proofs
        in a row could not explain the page: it differs at every fetch in a way that no mask hides, and is proven no
        more often than that either. The period is asked for only where it decides: it looks at all sites.
        """
        sites = self._sites
        decided = not sites.keeps_changing(slot) if proven else bool(sites.proof_failures[slot] < _FAILURES_MOST)
        if decided:
            return not proven
        if proven and not sites.proof_failures[slot]:
            return True
        return bool(now - sites.proof_at[slot] >= _PAUSE_PERIODS * period())
