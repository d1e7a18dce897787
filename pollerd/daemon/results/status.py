"""The status step: derives what each result means for its site and host, given their status before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pollerd.daemon.results.transition import REDIRECTS, SiteStatus, poll_effect
from pollerd.daemon.state.poll_effect import PollEffect
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.urls import host_of


class StatusStep:
    """Derives the effect of each poll, and backs off hosts that refused."""

    def __init__(self, scheduler: SchedulerState, runtime: Runtime) -> None:
        self._scheduler, self._faults = scheduler, runtime.faults
        self._rng, self._clock = runtime.rng, runtime.clock

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
        """Returns the effect of one poll; updates its host's pause and count of refusals."""
        sites, hosts = self._scheduler.sites, self._scheduler.hosts
        host, slot = self._answering_host(result), result.slot
        last_seen = float(sites.last_seen[slot])
        before = SiteStatus(
            failures=int(sites.failures[slot]),
            last_seen_at=last_seen if math.isfinite(last_seen) else None,
            host_throttles=int(hosts.throttles[host]),
            keeps_changing=sites.keeps_changing(slot),
        )
        effect = poll_effect(result, before, summary, self._scheduler.settings, self._rng)
        if hosts.throttles[host] != effect.host_throttles:  # or an old refusal would count after a restart
            hosts.throttles[host], hosts.touched[host] = effect.host_throttles, True
        if effect.host_pause_seconds is not None:
            hosts.pause(host, self._clock() + effect.host_pause_seconds)
        return effect

    def _answering_host(self, result: PollResult) -> int:
        """Returns the slot of the host that answered: after redirects, the last one requested."""
        own, outcome = int(self._scheduler.sites.host[result.slot]), result.outcome
        refused = outcome.status in REDIRECTS  # the redirect was not followed: the redirecting host answered
        if not outcome.redirects or refused:
            return own
        slot = self._scheduler.hosts.slot_of(host_of(outcome.redirects[-1].url))
        return own if slot is None else slot
