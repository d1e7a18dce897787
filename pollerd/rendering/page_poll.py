"""One rendered poll: a context of its own, the page in it, and what comes of it. Nothing of it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Error, Page, Route
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from pollerd.fetching import MayFollow, Request, Send, fresh_seconds, http_date, robots_tags_of
from pollerd.model import OutcomeKind
from pollerd.rendering.browser import BrowserLink, OpenBrowser
from pollerd.rendering.document import EMPTY_STATUSES, DocumentWatch
from pollerd.rendering.failures import PageRefusedError, browser_fault, browser_gone, navigation_refusal
from pollerd.rendering.outcome import RenderedOutcome
from pollerd.rendering.plan.plan import RenderPlan
from pollerd.rendering.proxy.dialling import Dialler
from pollerd.rendering.proxy.forward_proxy import ForwardProxy
from pollerd.rendering.proxy.session import ProxySession
from pollerd.rendering.reading import read_html, screenshot
from pollerd.rendering.step_runner import take_step
from pollerd.telemetry.ended_tasks import end_tasks
from pollerd.urls import host_of

_SETUP_SECONDS = 20.0
"""Longest time that a browser may take for an empty page."""
_CLOSE_SECONDS = 5.0
_IDLE_SECONDS = 10.0
_AFTER_STEPS_SECONDS = 0.2
"""What a last click begins has begun by then."""
_WITHOUT_PROXY = """(() => {
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCDataChannel", "WebTransport"]) {
    Object.defineProperty(globalThis, name, {value: undefined, writable: false, configurable: false});
  }
  delete Navigator.prototype.serviceWorker;
})()"""
"""Takes away what would not use the proxy, or outlive the page."""


@dataclass(frozen=True, slots=True)
class RenderEnvironment:
    """What all rendered polls share."""

    link: BrowserLink
    proxy: ForwardProxy
    dialler: Dialler
    clock: Callable[[], float]
    on_sent: Callable[[str], None]
    deadline_seconds: float
    page_bytes: int
    html_bytes: int
    most_redirects: int


class PagePoll:
    """One poll of one page; `run` is called once."""

    def __init__(
        self, environment: RenderEnvironment, request: Request, plan: RenderPlan, may_follow: MayFollow | None
    ) -> None:
        self._environment, self._request, self._plan = environment, request, plan
        self._loop = asyncio.get_running_loop()
        self._seconds = min(plan.timeout or environment.deadline_seconds, environment.deadline_seconds)
        self._started_at, self._started_mono = environment.clock(), self._loop.time()
        self._awaiting = "no complete page within the deadline"
        self._stopped: asyncio.Future[PageRefusedError] = self._loop.create_future()
        self._proxy_session: ProxySession | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._document = DocumentWatch(
            request.url,
            headers=request.headers,
            may_follow=may_follow,
            most_redirects=environment.most_redirects,
            check=environment.dialler,
            on_sent=environment.on_sent,
            stays=bool(plan.steps),
        )

    async def run(self, send: Send | None) -> RenderedOutcome:
        """Renders the page when `send` lets it begin; never raises for a fault of the site or the browser."""
        try:
            opened = await self._environment.link.browser()
            return await self._in_context(opened, send)
        except PageRefusedError as refusal:
            return self._failed(refusal)

    # --- the context ---

    async def _in_context(self, opened: OpenBrowser, send: Send | None) -> RenderedOutcome:
        environment = self._environment
        session = environment.proxy.begin(
            upstream=self._request.proxy,
            most_bytes=environment.page_bytes,
            seconds=_SETUP_SECONDS + self._seconds + 600.0,  # its wait for its turn counts here; else `_ended` ends it
            on_exhausted=self._stop,
        )
        self._proxy_session = session
        context: BrowserContext | None = None
        lost = partial(self._stop, browser_fault("it ended while it rendered"))
        opened.browser.on("disconnected", lost)
        try:
            try:
                async with asyncio.timeout(_SETUP_SECONDS):
                    context = await self._new_context(opened, session)
                    page, target = await self._new_page(context)
            except TimeoutError as error:
                raise browser_fault("it opens no page in time") from error
            except Error as error:
                raise browser_fault("it opens no page") from error
            return await self._rendered(page, target, send)
        except PageRefusedError as refusal:
            if refusal.ours:  # it may not know itself that it is gone
                await environment.link.discard(opened)
            raise
        finally:
            opened.browser.remove_listener("disconnected", lost)
            await self._end(opened, context, session)

    async def _new_context(self, opened: OpenBrowser, session: ProxySession) -> BrowserContext:
        plan = self._plan
        agent = next((value for name, value in self._request.headers if name.lower() == "user-agent"), None)
        context = await opened.browser.new_context(
            proxy={
                "server": self._environment.proxy.url,
                "username": session.username,
                "password": session.password,
                "bypass": "<-loopback>",
            },
            user_agent=agent or opened.user_agent,
            viewport={"width": plan.width, "height": plan.height},
            accept_downloads=False,
            service_workers="block",
            permissions=[],
            locale="en-US",
            timezone_id="UTC",
            reduced_motion="reduce",
        )
        await context.add_init_script(_WITHOUT_PROXY)
        if plan.block:
            await context.route("**/*", self._route)
        return context

    async def _new_page(self, context: BrowserContext) -> tuple[Page, CDPSession]:
        page = await context.new_page()
        context.on("page", self._popup)
        page.on("crash", lambda _: self._stop(PageRefusedError(OutcomeKind.PROTOCOL_ERROR, "the page crashed")))
        return page, await self._document.attach(context, page)

    async def _end(self, opened: OpenBrowser, context: BrowserContext | None, session: ProxySession) -> None:
        """Ends the page with all that it holds; a browser that cannot is ended itself."""
        self._document.detach()
        await self._environment.proxy.end(session)
        if context is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await context.unroute_all(behavior="ignoreErrors")
                await context.close()
        except Error:
            pass  # it is gone with its browser
        except TimeoutError:
            await self._environment.link.discard(opened)

    async def _route(self, route: Route) -> None:
        with suppress(Error):  # the page is gone
            if route.request.resource_type in self._plan.block:
                await route.abort("blockedbyclient")
            else:
                await route.fallback()

    def _popup(self, page: Page) -> None:
        closing = self._loop.create_task(_closed(page), name="close-popup")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _stop(self, refusal: PageRefusedError, *_: Any) -> None:
        if not self._stopped.done():
            self._stopped.set_result(refusal)

    # --- the page ---

    async def _rendered(self, page: Page, target: CDPSession, send: Send | None) -> RenderedOutcome:
        navigations: list[asyncio.Task[Any]] = []

        def write() -> bool:
            if self._stopped.done() or page.is_closed():
                return False
            navigations.append(self._loop.create_task(_gone_to(page, self._request.url)))
            self._started_at, self._started_mono = self._environment.clock(), self._loop.time()
            self._environment.on_sent(host_of(self._request.url))
            return True

        written = write() if send is None else send(write)
        if not (written if isinstance(written, bool) else await written):
            raise self._stopped.result() if self._stopped.done() else browser_fault("its page is gone")
        work = self._loop.create_task(self._work(page, target, navigations[0]), name="render")
        try:
            ends = self._started_mono + self._seconds
            either: set[asyncio.Future[Any]] = {work, self._stopped}
            await asyncio.wait(either, timeout=ends - self._loop.time(), return_when=asyncio.FIRST_COMPLETED)
            if self._stopped.done():
                raise self._stopped.result()
            if work.done():
                return work.result()
            raise PageRefusedError(OutcomeKind.TIMEOUT, self._awaiting)
        finally:
            await end_tasks(work, *navigations, expected=(Error, PageRefusedError))

    async def _work(self, page: Page, target: CDPSession, navigation: Awaitable[None]) -> RenderedOutcome:
        try:
            await navigation
        except Error as error:
            if self._document.status in EMPTY_STATUSES:
                return self._body(b"", None)
            raise self._not_loaded(error) from None
        try:
            await self._wait(page)
            for position, step in enumerate(self._plan.steps):
                self._awaiting = f"step {position + 1} ({step.action}) was not possible within the deadline"
                await take_step(page, position, step)
            if self._plan.steps:
                await asyncio.sleep(_AFTER_STEPS_SECONDS)
                await self._rest(page)
            self._awaiting = "the page could not be read within the deadline"
            self._document.judge()
            html = await read_html(target, self._environment.html_bytes, self._plan.secrets)
        except Error as error:
            raise _gone(error) or PageRefusedError(OutcomeKind.PROTOCOL_ERROR, "the page could not be read") from None
        picture = None
        if self._plan.screenshot:
            left = self._started_mono + self._seconds - self._loop.time()
            picture = await screenshot(page, self._plan.width, max(0.1, left * 0.9))
        return self._body(html, picture)

    async def _wait(self, page: Page) -> None:
        """Waits for what the plan says, before the first step."""
        wait = self._plan.wait
        await self._rest(page)
        if wait.selector is not None:
            self._awaiting = "nothing matched the selector that is waited for, within the deadline"
            await page.locator(f"css={wait.selector}").first.wait_for(state="attached", timeout=0)
        await asyncio.sleep(wait.seconds)

    async def _rest(self, page: Page) -> None:
        """Waits until the document is there, and the network idle if the plan says so; some pages never rest."""
        await page.wait_for_load_state("domcontentloaded", timeout=0)
        if self._plan.wait.idle:
            with suppress(PlaywrightTimeoutError):
                await page.wait_for_load_state("networkidle", timeout=_IDLE_SECONDS * 1000)

    def _not_loaded(self, error: Error) -> PageRefusedError:
        if self._document.refusal is not None:
            return self._document.refusal
        assert self._proxy_session is not None
        failure = self._proxy_session.failure_of(host_of(self._document.url))
        return failure or _gone(error) or navigation_refusal(error.message)

    # --- the outcome ---

    def _body(self, html: bytes, picture: bytes | None) -> RenderedOutcome:
        document = self._document
        date = self._date()
        self._environment.link.worked()
        return self._outcome(
            OutcomeKind.BODY,
            bytes=len(html),
            body=html,
            content_type="text/html; charset=utf-8",
            robots_tags=robots_tags_of(document.headers.get("x-robots-tag", "").split("\n"))
            if "x-robots-tag" in document.headers
            else (),
            fresh_for=fresh_seconds(
                document.header("cache-control"),
                document.header("expires"),
                document.header("age"),
                self._environment.clock() if date is None else date,
            ),
            screenshot=picture,
        )

    def _failed(self, refusal: PageRefusedError) -> RenderedOutcome:
        date = self._date()
        now = self._environment.clock() if date is None else date
        if not refusal.ours:
            self._environment.link.worked()
        return self._outcome(
            refusal.kind,
            retry_after=None if refusal.ours else self._document.retry_after(now),
            detail=refusal.detail,
            browser_fault=refusal.ours,
        )

    def _outcome(self, kind: OutcomeKind, **more: Any) -> RenderedOutcome:
        session = self._proxy_session
        return RenderedOutcome(
            kind,
            self._started_at,
            self._loop.time() - self._started_mono,
            status=self._document.status,
            redirects=tuple(self._document.redirects),
            server_date=self._date(),
            loaded_bytes=0 if session is None else session.bytes,
            requests=0 if session is None else session.requests,
            refused=0 if session is None else session.refused,
            **more,
        )

    def _date(self) -> float | None:
        text = self._document.header("date")
        return None if text is None else http_date(text)


def _gone(error: Error) -> PageRefusedError | None:
    """Returns the refusal of a page whose browser, or the driver between it and us, is gone; None: they are there."""
    return browser_fault("it ended while it rendered") if browser_gone(error.message) else None


async def _gone_to(page: Page, url: str) -> None:
    await page.goto(url, wait_until="domcontentloaded", timeout=0)


async def _closed(page: Page) -> None:
    with suppress(Error):
        await page.close()
