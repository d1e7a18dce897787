"""The status step: derives what each result means for its site, given its status before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pollerd.daemon.results.transition import SiteStatus, poll_effect
from pollerd.daemon.state.poll_effect import PollEffect
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState


class StatusStep:
    """Derives the effect of each poll."""

    def __init__(self, scheduler: SchedulerState, runtime: Runtime) -> None:
        self._scheduler, self._faults = scheduler, runtime.faults
        self._rng = runtime.rng

    def effects(
        self, results: Sequence[PollResult], summaries: Mapping[int, str]
    ) -> tuple[list[PollResult], list[PollEffect]]:
        """Returns results and their effects, row by row; `summaries` describe changes by site id.

        A site whose result raises is set aside: its row becomes that result.
        """
        out, effects = list(results), list[PollEffect]()
        for i, result in enumerate(results):
            try:
                effects.append(self.effect(result, summaries.get(result.site_id, "")))
            except Exception as error:  # noqa: BLE001
                # Whatever one result triggers is reported and sets its site aside; the others of the batch are kept.
                out[i] = self._faults.set_aside(result.slot, result.context, error)
                effects.append(self.effect(out[i]))
        return out, effects

    def effect(self, result: PollResult, summary: str = "") -> PollEffect:
        """Returns the effect of one poll."""
        sites, slot = self._scheduler.sites, result.slot
        last_seen = float(sites.last_seen[slot])
        before = SiteStatus(
            failures=int(sites.failures[slot]),
            last_seen_at=last_seen if math.isfinite(last_seen) else None,
            promised=max(float(sites.announced_ttl[slot]), result.context.baseline.ttl or 0.0),
            keeps_changing=sites.keeps_changing(slot),
        )
        return poll_effect(result, before, summary, self._scheduler.settings, self._rng)
