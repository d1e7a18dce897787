"""Compares sites on trial by the focused crawler with the allocator's sites."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling.politeness.hosts import HostTable
from pollerd.scheduling.sites import SiteTable

BAR_SHARE, PATIENCE_SECONDS = 0.5, 1.0
"""While a site on trial waits for its host, for at most this time, sites with less than this share of its value are not
polled: where the budget exceeds what the best hosts permit, the rest would go to the least valuable pages."""


@dataclass(frozen=True)
class TrialCandidates:
    """The sites on trial and the allocator's sites on one scale.

    on_trial : bool[size]; `value` float64[size], their urgencies; `bar` and `bar_of_others`: urgencies below which no
    site on trial, and no other site, is polled now; `again_in`: seconds until an awaited site on trial may be polled,
    inf without one.
    """

    on_trial: NDArray[np.bool_]
    value: NDArray[np.float64]
    bar: float
    bar_of_others: float
    again_in: float


class Trials:
    """Compares the sites on trial with the allocator's sites."""

    def __init__(self, sites: SiteTable, hosts: HostTable) -> None:
        self._sites, self._hosts = sites, hosts
        self.value_unit = math.nan
        """Urgency of a site on trial with value 1; nan if the allocator's urgency has no such scale: then sites on
        trial are treated as new sites."""

    def rivals(self, now: float) -> TrialCandidates | None:
        """Returns the candidates, or None if there are none or they are not comparable with the other sites.

        Both bars are `BAR_SHARE` of the best value on trial that can be requested soon; the bar of other sites also
        counts requests under way, since their links are about to arrive. A site of infinite value comes first, but sets
        no bar.
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
