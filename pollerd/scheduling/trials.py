"""Sites that the focused crawler has on trial: their values, and what waits until a better one can be asked."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling.politeness.hosts import HostTable
from pollerd.scheduling.sites import SiteTable

BAR_SHARE, PATIENCE_SECONDS = 0.5, 1.0
"""While a site on trial waits for its host, for at most so long, nothing is polled whose value is less than a share of
its own: where the budget exceeds what the best hosts permit, the rest of it would go to the least valuable pages."""


@dataclass(frozen=True)
class TrialCandidates:
    """The sites on trial beside the allocator's, on one scale.

    on_trial : bool[size]; `value` float64[size], the urgency of those; `bar` and `bar_of_others`: urgencies below
    which no site on trial, and none of the others, is polled now; `again_in`: seconds until a site that is waited for
    may be polled, inf where there is none.
    """

    on_trial: NDArray[np.bool_]
    value: NDArray[np.float64]
    bar: float
    bar_of_others: float
    again_in: float


class Trials:
    """Weighs the sites on trial against the allocator's."""

    def __init__(self, sites: SiteTable, hosts: HostTable) -> None:
        self._sites, self._hosts = sites, hosts
        self.value_unit = math.nan
        """Urgency of a site on trial whose value is 1; nan where the allocator's urgency is on no such scale: then they
        are new sites like others."""

    def rivals(self, now: float) -> TrialCandidates | None:
        """Those there are, where they are weighed against the others.

        Both bars are `BAR_SHARE` of the best on trial that can be asked soon; for the others what is being asked
        counts, too: what it leads to is about to come. A site of infinite value comes first, but sets no bar
        for the others.
        """
        sites, hosts = self._sites, self._hosts
        on_trial = None if math.isnan(self.value_unit) else sites.on_trial()
        if on_trial is None:
            return None
        value = self.value_unit * sites.value[: sites.size]
        slots = np.flatnonzero(np.isfinite(value) & ~sites.paused[: sites.size])
        host = sites.host[slots]
        ready = np.maximum(hosts.ready_at()[host], sites.not_before[slots])
        under_way, started_recently = sites.in_flight[slots], hosts.last_start[host] > now - PATIENCE_SECONDS
        soon = (ready <= now + PATIENCE_SECONDS) & ((~hosts.busy[host] & ~under_way) | started_recently)
        bars = BAR_SHARE * value[slots]
        bar = float(bars[soon & ~under_way].max(initial=0.0))
        later = ready[soon & ~under_way & (ready > now) & (value[slots] >= bar)]
        again_in = float(later.min(initial=math.inf)) - now
        return TrialCandidates(on_trial, value, bar, float(bars[soon].max(initial=0.0)), again_in)
