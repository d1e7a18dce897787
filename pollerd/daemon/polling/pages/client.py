"""Gets a page: fetched, or rendered by a browser where its site says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import orjson
from msgspec.structs import replace

from pollerd.fetching import Fetcher, MayFollow, Request, Send
from pollerd.model import Outcome, OutcomeKind
from pollerd.scheduling import HostTable
from pollerd.storage import SiteContext

if TYPE_CHECKING:  # loaded where a browser is named
    from pollerd.rendering import Renderer
    from pollerd.rendering.plan.plan import RenderPlan

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
            detail = "render: no browser is named; start pollerd with --browser"
            return Outcome(OutcomeKind.UNDECODABLE, self.clock(), 0.0, detail=detail)
        plan = _plan(context.render, context.access.typed, screenshot=context.keep_screenshots)
        outcome = await self.renderer.render(request, plan, may_follow=may_follow, send=send)
        # A browser's own fault is none of the site's, nor of our link.
        return replace(outcome, kind=OutcomeKind.UNDECODABLE) if outcome.browser_fault else outcome


def paused_hosts(hosts: HostTable, clock: Callable[[], float]) -> Callable[[str], str | None]:
    """Returns a function that says why pages may not connect to a host (name:port) now: while it is paused."""

    def may_connect(host: str) -> str | None:
        slot = hosts.slot_of(host)
        if slot is None or max(hosts.paused_until[slot], hosts.held_until[slot]) <= clock():
            return None
        return "its host is paused"

    return may_connect


@lru_cache(maxsize=_COMPILED)
def _plan(render: str, typed: tuple[str, ...], *, screenshot: bool) -> RenderPlan:
    from pollerd.rendering.plan.compile import compile_plan
    from pollerd.rendering.plan.secrets import join_secrets

    plan = compile_plan("render", join_secrets(orjson.loads(render), typed))
    return dataclasses.replace(plan, screenshot=screenshot)
