"""Reports in IndexNow's form, from anybody, and the keys that prove them.

A report whose key proves it counts as that of a pushed source.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from enum import StrEnum

import structlog
from msgspec.structs import replace

from pollerd.daemon.faults import RETRY_CAP_SECONDS
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.signal_control import SignalControl
from pollerd.errors import DatabaseUnavailableError, TooManyError
from pollerd.limits import LeakyBuckets
from pollerd.lists.index_now import IndexNowReport, holds_key
from pollerd.model import Outcome, OutcomeKind
from pollerd.storage.signals import ListedDate, SignalStore
from pollerd.texts import N_
from pollerd.urls import origin_of

# Keys of reports, checked by the file that holds them; the result is kept for a while.

KEPT_SECONDS = 86_400.0
"""How long a right key counts."""
REFUSED_SECONDS = 600.0
"""How long a wrong one does."""
_MAX_KEPT = 1_000

FetchKey = Callable[[str], Awaitable[Outcome]]
"""Fetches the file at a normalised URL, through the guard and within politeness; a long one is no key file."""


class IndexNowKeys:
    """Keys that were checked. Bounded, whatever is sent."""

    def __init__(self, fetch: FetchKey, clock: Callable[[], float]) -> None:
        self._fetch, self._clock = fetch, clock
        self._checked: OrderedDict[tuple[str, str], tuple[float, bool]] = OrderedDict()
        """(key, its place) -> (until when that counts, whether it is right)."""

    def known(self, report: IndexNowReport) -> bool | None:
        """Returns whether the report's key is right; None: that is not known."""
        until, right = self._checked.get((report.key, report.key_location), (0.0, False))
        return right if until > self._clock() else None

    async def check(self, report: IndexNowReport) -> bool:
        """Returns whether the file holds the key; fetches it unless that is known."""
        known = self.known(report)
        if known is not None:
            return known
        outcome = await self._fetch(report.key_location)
        here = all(origin_of(hop.url) == origin_of(report.key_location) for hop in outcome.redirects)
        right = outcome.kind is OutcomeKind.BODY and here and holds_key(outcome.body or b"", report.key)
        until = self._clock() + (KEPT_SECONDS if right else REFUSED_SECONDS)
        self._checked[report.key, report.key_location] = (until, right)
        if len(self._checked) > _MAX_KEPT:
            self._checked.popitem(last=False)
        return right


MAX_WAITING = 100
"""Reports whose key is not checked yet."""
_MAX_URLS = 10_000
"""URLs that wait under one key."""
_CHECKS, _CHECKS_PER_SECOND = 20.0, 0.1
_CHECKS_OF_HOST, _CHECKS_OF_HOST_PER_SECOND = 5.0, 1 / 600
"""Key files that are fetched at once and in the long run, of all hosts and of one."""
_MAX_LIMITS = 1_000
_BODIES_AT_ONCE = 16


class ReportAnswer(StrEnum):
    """What a report comes to."""

    TAKEN = "taken"
    WAITING = "waiting"
    """Its key is checked soon."""
    IGNORED = "ignored"
    """None of its URLs is a site."""
    REFUSED = "refused"
    """Its key is not the one that its host holds."""


class IndexNowReports:
    """Takes reports while a setting allows it. Only hosts that have sites here are asked for their key."""

    def __init__(
        self, *, allowed: bool, store: SignalStore, keys: IndexNowKeys, reports: SignalControl, runtime: Runtime
    ) -> None:
        self._store, self._keys, self._reports = store, keys, reports
        self._instruments = runtime.instruments
        self.allowed = allowed
        self.bodies = asyncio.Semaphore(_BODIES_AT_ONCE)
        """Held while the body of a report is read."""
        self._checks = LeakyBuckets(_CHECKS, _CHECKS_PER_SECOND)
        self._of_hosts = LeakyBuckets(_CHECKS_OF_HOST, _CHECKS_OF_HOST_PER_SECOND, most_keys=_MAX_LIMITS)
        self._clock = runtime.clock
        self._waiting: OrderedDict[tuple[str, str], IndexNowReport] = OrderedDict()
        """(key, its place) -> what was reported under it."""
        self._arrived = asyncio.Event()
        self._log = structlog.get_logger("pollerd.signals")

    async def take(self, report: IndexNowReport) -> ReportAnswer:
        """Takes a report; its key is checked later unless it was lately.

        Raises TooManyError, before anything is looked up, DatabaseUnavailableError.
        """
        self._reports.take_urls(len(report.urls))
        right = self._keys.known(report)
        if right is False:
            return self._counted(ReportAnswer.REFUSED)
        sites = await self._store.sites_at(report.urls)
        if not sites:
            return self._counted(ReportAnswer.IGNORED)
        report = replace(report, urls=tuple(sites))
        if right:
            await self._pass_on(report)
            return self._counted(ReportAnswer.TAKEN)
        self._wait(report)
        return self._counted(ReportAnswer.WAITING)

    async def run(self) -> None:
        """Checks keys, one at a time, until cancelled; ends at once if reports are not allowed."""
        if not self.allowed:
            return
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                try:
                    await self._check_next()
                except DatabaseUnavailableError as error:
                    self._log.warning("reports_put_off", reason=str(error))
                    await asyncio.sleep(RETRY_CAP_SECONDS)

    async def _check_next(self) -> None:
        place, report = next(iter(self._waiting.items()))
        right = await self._keys.check(report)
        report = self._waiting[place]  # more may have come meanwhile
        if right:
            await self._pass_on(report)
        else:
            self._log.info("report_unverified", host=report.host, reason="its host does not have the key")
        if self._waiting.get(place) is report:
            del self._waiting[place]

    async def _pass_on(self, report: IndexNowReport) -> None:
        try:
            await self._reports.report_as(f"indexnow:{report.host}", [ListedDate(url) for url in report.urls])
        except TooManyError as error:
            self._log.warning("report_refused", host=report.host, reason=str(error))

    def _wait(self, report: IndexNowReport) -> None:
        place = (report.key, report.key_location)
        before = self._waiting.get(place)
        if before is not None:
            urls = tuple(dict.fromkeys((*before.urls, *report.urls)))
            self._waiting[place] = replace(before, urls=urls[:_MAX_URLS])
            return
        if len(self._waiting) >= MAX_WAITING:
            raise TooManyError(N_("reports whose key is to be checked"), 60.0)
        now = self._clock()
        seconds = self._of_hosts.wait(now, report.host) or self._checks.take(now)
        if seconds > 0:
            raise TooManyError(N_("signals"), seconds)
        self._of_hosts.add(now, report.host)
        self._waiting[place] = report
        self._arrived.set()

    def _counted(self, answer: ReportAnswer) -> ReportAnswer:
        self._instruments.index_now_reports[answer.value].inc()
        return answer
