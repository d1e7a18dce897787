"""The poller, which runs one poll, from a site to its result."""

from __future__ import annotations

import time
from functools import partial

from msgspec.structs import replace

from pollerd.daemon.crawl_hook import PageHook
from pollerd.daemon.faults import reason
from pollerd.daemon.pages import PageClient, detect_selected, needs_whole_page
from pollerd.daemon.poll_result import PollResult
from pollerd.daemon.redirects import RedirectPolicyMaker
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.workers import Effort
from pollerd.daemon.write_pacer import WritePacer
from pollerd.detection.detect import detect, heavy
from pollerd.fetching.request import Request, own_headers
from pollerd.model import Detection, Outcome, OutcomeKind, Validators
from pollerd.site_settings import NO_ACCESS
from pollerd.storage.values import SiteContext
from pollerd.urls import host_of

_CLOCK_SET_SECONDS = 1.0
"""Smallest gap between recorded and computed start that indicates that the clock was set during the poll."""


class Poller:
    """Runs single polls. The caller has reserved the site and its host and has passed the budget gate."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        client: PageClient,
        redirects: RedirectPolicyMaker,
        pacer: WritePacer,
        hook: PageHook,
        runtime: Runtime,
    ) -> None:
        self._scheduler, self._client, self._redirects = scheduler, client, redirects
        self._pacer, self._hook = pacer, hook
        self._workers, self._faults, self._clock = runtime.workers, runtime.faults, runtime.clock
        self.full_get_every = runtime.settings.full_get_every
        """Every n-th poll of a site is unconditional; may be changed."""

    async def poll(self, slot: int, context: SiteContext) -> PollResult:
        """Polls the site in `slot`. Failures of the site, and internal faults that it triggers, are in the result."""
        try:
            return await self._poll(slot, context)
        except Exception as error:  # noqa: BLE001
            # Sites are untrusted: what one triggers is reported and sets it aside, and the other polls go on.
            return self._faults.set_aside(slot, context, error)

    async def _poll(self, slot: int, context: SiteContext) -> PollResult:
        outcome = await self._fetch(slot, context)
        screenshot = outcome.screenshot
        if screenshot is not None:  # detection needs none of it, and may run in another process
            outcome = replace(outcome, screenshot=None)
        effort = Effort() if outcome.body is None else Effort(host_of(context.url), len(outcome.body))
        began = time.perf_counter()
        try:
            detection = await self._detect(slot, context, outcome, effort)
            reading = await self._hook.read(context, outcome, detection)
        finally:
            self._hook.processed(time.perf_counter() - began)
        if detection is not None:
            self._scheduler.polled_under(context)
        if screenshot is not None and _finds_content(detection):
            outcome = replace(outcome, screenshot=screenshot)
        return PollResult(slot, context, outcome, detection, reading=reading, effort=effort)

    async def _fetch(self, slot: int, context: SiteContext) -> Outcome:
        """Sends the request when the budget allows, and follows redirects if robots.txt and politeness allow."""
        own, cost = int(self._scheduler.sites.host[slot]), float(self._scheduler.sites.cost[slot])
        redirects = self._redirects.policy(own, context, context.access.proxy)
        may_follow = self._hook.following(context.site_id, redirects.may_follow)
        began = time.perf_counter()
        try:
            request, send = self._request(slot, context), partial(self._pacer.send, cost)
            outcome = _dated(await self._client.get(context, request, may_follow, send), self._clock())
            redirects.answered(request.url, outcome)
        finally:
            redirects.finish()
            self._hook.responded(time.perf_counter() - began)
        if redirects.put_off is not None and outcome.kind is OutcomeKind.DENIED:
            return _put_off(outcome, redirects.put_off)
        return outcome

    def _request(self, slot: int, context: SiteContext) -> Request:
        """Returns a conditional request; a full one every n-th poll and after a change of settings, as some servers
        lie.
        """
        last_seen = float(self._scheduler.sites.last_seen[slot])
        changed_at = context.settings_changed_at
        full = (
            context.polls_since_full >= self.full_get_every - 1
            or context.baseline.fingerprint is None
            or self._hook.wants_whole(context.site_id)
            or (context.selections != "" and needs_whole_page(context))
            or slot in self._scheduler.sites.proofs
            or context.site_id in self._scheduler.unread_sources
            or (
                changed_at is not None
                and (changed_at > last_seen or context.site_id in self._scheduler.settings_pending)
            )
        )
        validators = Validators() if full else context.validators
        if context.access is NO_ACCESS:
            return Request(context.url, validators)
        access = context.access
        if access.body is None:
            return Request(context.url, validators, own_headers(access), access.proxy)
        # A POST has no representation of its own that validators could name (RFC 9110, section 13.1).
        return Request(context.url, Validators(), own_headers(access), access.proxy, access.body.encode())

    async def _detect(self, slot: int, context: SiteContext, outcome: Outcome, effort: Effort) -> Detection | None:
        """Compares the answer with the site's baseline; None if there is no answer to compare."""
        if outcome.kind not in (OutcomeKind.BODY, OutcomeKind.NOT_MODIFIED):
            return None
        last_seen = float(self._scheduler.sites.last_seen[slot])
        elapsed = max(outcome.started_at - last_seen, 0.0) if last_seen > 0 else None
        try:
            if context.selections:
                return await detect_selected(self._workers, effort, context, outcome, elapsed)
            if heavy(outcome, context.baseline):
                return await self._workers.do(detect, outcome, context.baseline, elapsed, effort=effort)
            return detect(outcome, context.baseline, elapsed)
        except Exception as error:  # noqa: BLE001
            # Bodies are untrusted: one that breaks a parser affects only its own site.
            self._faults.report(context, error)
            detail = f"detection failed: {reason(context, error)}"
            return Detection(OutcomeKind.UNDECODABLE, context.baseline, detail=detail)


def _finds_content(detection: Detection | None) -> bool:
    if detection is None:
        return False
    return detection.content is not None or any(part.content is not None for part in detection.selections)


def _dated(outcome: Outcome, now: float) -> Outcome:
    """Returns the outcome with its start corrected if the clock was set during the poll."""
    started_at = now - outcome.duration
    return replace(outcome, started_at=started_at) if started_at - outcome.started_at > _CLOCK_SET_SECONDS else outcome


def _put_off(outcome: Outcome, seconds: float) -> Outcome:
    """Returns a temporary refusal: the redirect's host may not be requested for `seconds`."""
    detail = f"redirect to {outcome.redirects[-1].url}: its host cannot be asked now"
    return replace(outcome, kind=OutcomeKind.THROTTLED, retry_after=seconds, detail=detail)
