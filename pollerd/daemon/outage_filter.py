"""The outage filter, which separates outages of our own link from failures of sites."""

from __future__ import annotations

import asyncio
import math
import time

import structlog

from pollerd.daemon.commit import Journal
from pollerd.daemon.process import BlindCause
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.stages import Found
from pollerd.scheduling.outage import LinkState, OutageDetector, hosts_that_must_fail
from pollerd.telemetry import descriptors_used
from pollerd.texts import _

PATIENCE_SECONDS = 300.0
"""A failure held back for this long without evidence from another host counts."""


class OutageFilter:
    """Passes results to the journal, and holds back failures that our own link may have caused."""

    def __init__(self, *, scheduler: SchedulerState, journal: Journal, runtime: Runtime) -> None:
        self._scheduler, self._journal, self._instruments = scheduler, journal, runtime.instruments
        self._blindness, self._clock = runtime.blindness, runtime.clock
        self._watch: OutageDetector[Found] = OutageDetector()
        self._held_since = 0.0
        self.holds_back = False
        """Whether failures are held back, or were when the link went down."""
        self.online = asyncio.Event()
        """Cleared while our own link seems down."""
        self.online.set()
        self._log = structlog.get_logger("pollerd.link")

    @property
    def offline(self) -> bool:
        """Whether our own link seems down."""
        return not self.online.is_set()

    def put(self, result: Found) -> None:
        """Takes a finished poll."""
        if not result.answer.asked:
            self._journal.put(result)
        elif result.answer.outcome.kind.link_suspect:
            self._failed(result)
        else:
            if self.holds_back:
                self.answered()
            self._journal.put(result)

    def answered(self) -> None:
        """Notes that a host answered: failures that were held back count, and our own link is up."""
        was_offline, self.holds_back = self.offline, False
        for held in self._watch.answered():
            self._journal.put(held)
        if was_offline:
            self.online.set()
            self._blindness.end(BlindCause.LINK, self._clock())
            self._instruments.offline.set(0)
            self._log.info("online", effect="polling resumes")

    def forget(self, site_id: int) -> None:
        """Drops held-back results of a site whose URL changed."""
        self._watch.drop(lambda result: result.site_id == site_id)

    @property
    def review_in(self) -> float:
        """Seconds until `review` has work, negative if overdue; inf: nothing is held back."""
        if not self._watch.holding:
            return math.inf
        slow = 2 * hosts_that_must_fail(self._scheduler.hosts.size) / self._scheduler.budget
        return self._held_since + max(PATIENCE_SECONDS, slow) - time.monotonic()

    def review(self) -> None:
        """Counts failures that were held back for long without evidence from other hosts."""
        if self.review_in < 0:
            for result in self._watch.held():
                self._journal.put(result)

    def close(self) -> None:
        """Discards the held-back failures at a stop."""
        for result in self._watch.held():
            self._release(result)

    def _failed(self, result: Found) -> None:
        was_offline, self.holds_back = self.offline, True
        if not self._watch.holding:
            self._held_since = time.monotonic()
        host = int(self._scheduler.sites.host[result.slot])
        others = self._scheduler.hosts_polled(result.outcome.started_at + PATIENCE_SECONDS)
        counted, dropped = self._watch.failed(host, result, others)
        for known in counted:
            self._journal.put(known)
        for nobodys in dropped:
            self._instruments.dropped_while_offline.inc()
            self._release(nobodys)
        if self._watch.state is LinkState.OFFLINE and not was_offline:
            self.online.clear()
            self._blindness.begin(BlindCause.LINK, self._clock())
            self._instruments.offline.set(1)
            if descriptors_used() >= 1.0:
                hint = _("raise the limit, for example with LimitNOFILE")
                self._log.error("descriptors_exhausted", effect="polling is paused", hint=hint)
            reason = _("every host fails; the last: {detail}", detail=result.outcome.detail)
            self._log.warning(
                "offline", polls=len(dropped), reason=reason, effect="polling is paused, apart from probes"
            )

    def _release(self, result: Found) -> None:
        sites, hosts = self._scheduler.sites, self._scheduler.hosts
        if sites.site_id[result.slot] == result.site_id:
            sites.in_flight[result.slot] = False
            sites.touch([result.slot])
            hosts.robots_retry_at[int(sites.host[result.slot])] = 0.0
