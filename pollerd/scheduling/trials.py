"""Sites that the focused crawler has on trial: what each is worth, and what is not worth the wait for a better one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.scheduling.politeness.hosts import HostTable
from pollerd.scheduling.sites import SiteTable

BAR_SHARE, PATIENCE_SECONDS = 0.5, 1.0
"""While a site on trial waits for its host, at most so long, nothing is polled that is worth less than a share of it:
where the budget is more than the best hosts may be asked, the rest of it would go to what is worth least."""


@dataclass(frozen=True)
class TrialCandidates:
    """The sites on trial beside the allocator's, on one scale.

    on_trial : bool[size]; `worth` float64[size], the urgency of those; `bar` and `bar_of_others`: urgencies below
    which no site on trial, and none of the others, is polled now; `again_in`: seconds until a site that is waited for
    may be polled, inf where there is none.
    """

    on_trial: NDArray[np.bool_]
    worth: NDArray[np.float64]
    bar: float
    bar_of_others: float
    again_in: float


class Trials:
    """Weighs the sites on trial against the allocator's."""

    def __init__(self, sites: SiteTable, hosts: HostTable) -> None:
        self._sites, self._hosts = sites, hosts
        self.worth_unit = math.nan
        """Urgency of a site on trial whose worth is 1; nan where the allocator's urgency is on no such scale: then they
        are new sites like others."""

    def rivals(self, now: float) -> TrialCandidates | None:
        """Those there are, where they are weighed against the others.

        Both bars are `BAR_SHARE` of the best on trial that can be asked soon; for the others what is being asked
        counts, too: what it leads to is about to come. A site whose worth is infinite comes first, but says nothing of
        what others are worth.
        """
        sites, hosts = self._sites, self._hosts
        on_trial = None if math.isnan(self.worth_unit) else sites.on_trial()
        if on_trial is None:
            return None
        worth = self.worth_unit * sites.worth[: sites.size]
        slots = np.flatnonzero(np.isfinite(worth) & ~sites.paused[: sites.size])
        host = sites.host[slots]
        ready = np.maximum(hosts.ready_at()[host], sites.not_before[slots])
        under_way, lately = sites.in_flight[slots], hosts.last_start[host] > now - PATIENCE_SECONDS
        soon = (ready <= now + PATIENCE_SECONDS) & ((~hosts.busy[host] & ~under_way) | lately)
        value = BAR_SHARE * worth[slots]
        bar = float(value[soon & ~under_way].max(initial=0.0))
        later = ready[soon & ~under_way & (ready > now) & (worth[slots] >= bar)]
        again_in = float(later.min(initial=math.inf)) - now
        return TrialCandidates(on_trial, worth, bar, float(value[soon].max(initial=0.0)), again_in)
