"""Pages requested outside of polls, under the same guard, robots.txt, politeness and budget."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import orjson
from msgspec.structs import replace

from pollerd.daemon.budget import Budget
from pollerd.daemon.redirects import RedirectFollower, RedirectPolicyMaker
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.workers import Effort, WorkerPool
from pollerd.daemon.write_pacer import Write
from pollerd.fetching.client import Send
from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.outcomes import MayFollow
from pollerd.fetching.request import Request
from pollerd.model import Detection, Outcome, OutcomeKind
from pollerd.scheduling.hosts import HostTable
from pollerd.storage.values import SiteContext
from pollerd.texts import _
from pollerd.urls import host_of

if TYPE_CHECKING:
    from pollerd.rendering.plan import RenderPlan
    from pollerd.rendering.renderer import Renderer


# The client: a page is fetched, or rendered by a browser if its site is set so.

_COMPILED = 1024


@dataclass(frozen=True, kw_only=True)
class PageClient:
    """The two ways to a page. `renderer`: None without a browser."""

    fetcher: Fetcher
    renderer: Renderer | None
    clock: Callable[[], float]

    async def get(self, context: SiteContext, request: Request, may_follow: MayFollow, send: Send) -> Outcome:
        """Returns the outcome of a request for the site's page. Without a browser, or by its fault, a site that is to
        be rendered is asked again later.
        """
        if not context.render:
            return await self.fetcher.fetch(request, may_follow, send)
        if self.renderer is None:
            detail = _("render: no browser is named; start pollerd with --browser")
            return Outcome(OutcomeKind.UNDECODABLE, self.clock(), 0.0, detail=detail)
        plan = _plan(context.render, context.access.typed, screenshot=context.keep_screenshots)
        if request.picture:
            plan = dataclasses.replace(plan, screenshot=True, boxes=True)
        outcome = await self.renderer.render(request, plan, may_follow=may_follow, send=send)
        # A browser's own fault is none of the site's, nor of our link.
        return replace(outcome, kind=OutcomeKind.UNDECODABLE) if outcome.browser_fault else outcome


def paused_hosts(hosts: HostTable, clock: Callable[[], float]) -> Callable[[str], str | None]:
    """Returns a function that says why pages may not connect to a host (name:port) now: while it is paused."""

    def may_connect(host: str) -> str | None:
        slot = hosts.slot_of(host)
        if slot is None or max(hosts.paused_until[slot], hosts.held_until[slot]) <= clock():
            return None
        return _("its host is paused")

    return may_connect


@lru_cache(maxsize=_COMPILED)
def _plan(render: str, typed: tuple[str, ...], *, screenshot: bool) -> RenderPlan:
    from pollerd.rendering.plan import compile_plan, join_secrets

    plan = compile_plan("render", join_secrets(orjson.loads(render), typed))
    return dataclasses.replace(plan, screenshot=screenshot)


_NO_HOST = -1
"""Host slot of a request that has reserved none yet."""


class PageRequests:
    """Requests that are no polls: documents of sources, previews."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        client: PageClient,
        redirects: RedirectPolicyMaker,
        budget: Budget,
        runtime: Runtime,
    ) -> None:
        self._scheduler, self._client, self._redirects, self._budget = scheduler, client, redirects, budget
        self._clock = runtime.clock

    async def get(self, context: SiteContext, request: Request, *, cost: float, patience_seconds: float) -> Outcome:
        """Returns the outcome of a request of this cost, sent when its host and the budget allow.

        context: says whether the page is rendered. patience_seconds: longest wait for the host; after that, and where
        robots.txt or the guard refuses, the outcome says so.
        """
        policy = self._redirects.policy(_NO_HOST, context, request.proxy)
        try:
            refusal = await self._turn(policy, request.url, patience_seconds)
            if refusal is not None:
                return refusal
            await self._budget.gate.acquire(cost)
            if not policy.holds(request.url):  # the budget took longer than the host was had for
                refusal = await self._turn(policy, request.url, patience_seconds)
                if refusal is not None:
                    return refusal
            self._budget.meter.note_start(cost)

            def send(write: Write) -> bool | Awaitable[bool]:
                return self._budget.pacer.send(cost, partial(_write_if_held, policy, request.url, write))

            outcome = await self._client.get(context, request, policy.may_follow, send)
            policy.answered(request.url, outcome)
        finally:
            policy.finish()
            self._scheduler.due.set()  # sites may wait for the host
        if policy.put_off is not None and outcome.kind is OutcomeKind.DENIED:
            return replace(outcome, kind=OutcomeKind.THROTTLED, retry_after=_finite(policy.put_off))
        return outcome

    async def robots_txt(self, url: str) -> bytes | None:
        """Returns the robots.txt that applies to the URL, empty if there is none; None if it cannot be read now."""
        hosts = self._scheduler.hosts
        slot = hosts.slot_of(host_of(url))
        if slot is None or hosts.robots_at[slot] == -math.inf:
            policy = self._redirects.policy(_NO_HOST, None, None)
            try:
                await policy.read_robots(url)
            finally:
                policy.finish()
            slot = hosts.slot_of(host_of(url))
        if slot is None or hosts.robots_at[slot] == -math.inf:
            return None
        text = hosts.robots_text(slot)
        return b"" if text is None else text.plain()

    def _unreachable(self, url: str) -> bool:
        hosts = self._scheduler.hosts
        slot = hosts.slot_of(host_of(url))
        return slot is not None and hosts.robots_at[slot] == -math.inf and hosts.robots_failures[slot] > 0

    async def _turn(self, policy: RedirectFollower, url: str, patience_seconds: float) -> Outcome | None:
        """Waits for the page's host; returns why it may not be asked, None if it may."""
        began_at = self._clock()
        while not await policy.may_follow(url):
            wait, policy.put_off = policy.put_off, None
            now = self._clock()
            if self._unreachable(url):
                denied = await self._client.fetcher.denial_of(url)
                kind = OutcomeKind.CONNECT_ERROR if denied is None else OutcomeKind.BLOCKED_ADDRESS
                detail = denied or _("robots.txt of the host cannot be read")
                return Outcome(kind, now, 0.0, retry_after=_finite(wait), detail=detail)
            if wait is None:
                return Outcome(OutcomeKind.DENIED, now, 0.0, detail=_("robots.txt of the host denies it"))
            if now + wait > began_at + patience_seconds:
                detail = _("its host cannot be asked now")
                return Outcome(OutcomeKind.THROTTLED, now, 0.0, retry_after=_finite(wait), detail=detail)
            await asyncio.sleep(wait)
        return None


def _write_if_held(policy: RedirectFollower, url: str, write: Write) -> bool:
    if not policy.holds(url):
        raise TimeoutError(_("another node asks the host now"))
    return write()


def _finite(wait: float | None) -> float | None:
    return wait if wait is not None and math.isfinite(wait) else None


# Detection by the selections of a site, in the event loop or in a worker.


def needs_whole_page(context: SiteContext) -> bool:
    """Returns whether a selection of the site has no baseline of the present reader: then no validators are sent."""
    from pollerd.detection.selection.comparing import begins_anew, is_of_earlier_reader

    failed = context.last_outcome is not None and context.last_outcome.failed  # some servers know 304 only
    return begins_anew(context.selections, context.states) or (not failed and is_of_earlier_reader(context.states))


async def detect_selected(
    workers: WorkerPool, effort: Effort, context: SiteContext, outcome: Outcome, elapsed: float | None
) -> Detection:
    """Returns the detection of a site with selections. Raises what reading a page may: the site alone is to blame."""
    # Loaded with the first site that has selections.
    from pollerd.detection.selection.comparing import detect_selections, heavy_for_selections

    known = (context.selections, context.baseline, context.states)
    arguments = (outcome, context.url, *known, elapsed, context.access.pdf_password)
    if heavy_for_selections(outcome, context.selections, context.baseline, context.states):
        return await workers.do(detect_selections, *arguments, effort=effort)
    return detect_selections(*arguments)
