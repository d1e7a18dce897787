"""One rendered poll: its own browser context, the page in it, and the outcome. Nothing of it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Error, Page, Route
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from pollerd.errors import InvalidValueError
from pollerd.fetching.client import Send
from pollerd.fetching.failures import kind_of_status
from pollerd.fetching.headers import fresh_seconds, http_date, retry_after_seconds, robots_tags_of
from pollerd.fetching.outcomes import REDIRECT_STATUSES, MayFollow
from pollerd.fetching.request import Request
from pollerd.logs import end_tasks
from pollerd.model import Box, OutcomeKind, Redirect
from pollerd.rendering.browser import BrowserLink, OpenBrowser
from pollerd.rendering.dialling import Dialler
from pollerd.rendering.outcome import PageRefusedError, RenderedOutcome, browser_fault, browser_gone, navigation_refusal
from pollerd.rendering.plan import RenderPlan
from pollerd.rendering.proxy import ForwardProxy, ProxySession
from pollerd.rendering.reading import read_boxes, read_html, screenshot, take_step
from pollerd.texts import _
from pollerd.urls import host_of, join_url, origin_of

# The watch on a page's main document: redirects are permitted one by one, the site's own headers reach its own origin
# only, and an answer that is no page is not loaded.

EMPTY_STATUSES = frozenset({204, 205})
_ALL_STATUSES = frozenset(range(200, 300))


class DocumentWatch:
    """The main document: its redirects, its answer, and why it was refused, if it was."""

    def __init__(
        self,
        url: str,
        *,
        headers: tuple[tuple[str, str], ...],
        may_follow: MayFollow | None,
        most_redirects: int,
        check: Dialler,
        on_sent: Callable[[str], None],
        stays: bool,
    ) -> None:
        """`stays`: a page with an error status is loaded, too, for there are steps to take on it."""
        self.url = url
        self.redirects: list[Redirect] = []
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        """Of the last answer, names in lower case; several of one name are joined by line breaks."""
        self.refusal: PageRefusedError | None = None
        self._own, self._origin = headers, origin_of(url)
        self._may_follow, self._most = may_follow, most_redirects
        self._dialler, self._on_sent, self._stays = check, on_sent, stays
        self._visited = {url}
        self._first = True
        self._frame = ""
        self._session: CDPSession
        self._tasks: set[asyncio.Task[None]] = set()

    async def attach(self, context: BrowserContext, page: Page) -> CDPSession:
        """Begins to watch; returns the session with the page's target. Raises Playwright's errors."""
        session = await context.new_cdp_session(page)
        self._session = session
        self._frame = str((await session.send("Page.getFrameTree"))["frameTree"]["frame"]["id"])
        session.on("Fetch.requestPaused", self._paused)
        patterns: list[dict[str, str]] = [{"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"}]
        if self._own:
            patterns.append({"urlPattern": f"{self._origin}/*", "requestStage": "Request"})
        await session.send("Fetch.enable", {"patterns": patterns})
        return session

    def detach(self) -> None:
        """Stops what is under way."""
        for task in tuple(self._tasks):
            task.cancel()

    def judge(self) -> None:
        """Raises `PageRefusedError` where the last answer is no page."""
        if self.refusal is not None:
            raise self.refusal
        if self.status is not None and self.status not in _ALL_STATUSES:
            raise self._by_status(self.status)

    def header(self, name: str) -> str | None:
        """Returns the first value of a header of the last answer."""
        value = self.headers.get(name)
        return None if value is None else value.partition("\n")[0]

    def retry_after(self, now: float) -> float | None:
        """Returns the seconds that the last answer asks to wait; `now`: its date, UTC epoch s."""
        return retry_after_seconds(self.header("retry-after"), now)

    def _paused(self, event: dict[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._handle(event), name="document-watch")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, event: dict[str, Any]) -> None:
        identity = {"requestId": event["requestId"]}
        with suppress(Error):  # the page is gone
            if "responseStatusCode" not in event and "responseErrorReason" not in event:
                await self._session.send("Fetch.continueRequest", {**identity, "headers": self._with_own(event)})
            elif event.get("frameId") != self._frame or await self._passes(event):
                await self._session.send("Fetch.continueRequest", identity)
            else:
                await self._session.send("Fetch.failRequest", {**identity, "errorReason": "BlockedByClient"})

    def _with_own(self, event: dict[str, Any]) -> list[dict[str, str]]:
        """Returns a request's headers and the site's own; the pattern has matched its origin."""
        sent = dict(event["request"]["headers"])
        names = {name.lower() for name, _value in self._own}
        kept = [(name, str(value)) for name, value in sent.items() if name.lower() not in names]
        return [{"name": name, "value": value} for name, value in (*kept, *self._own)]

    async def _passes(self, event: dict[str, Any]) -> bool:
        """Takes note of an answer to the main document; returns whether it may go on."""
        status = event.get("responseStatusCode")
        if status is None:
            return True
        self.status = int(status)
        self.headers = _joined(event.get("responseHeaders", ()))
        try:
            if self.status in REDIRECT_STATUSES and "location" in self.headers:
                await self._follow(str(event["request"]["url"]), self.status)
            else:
                self._settle(str(event["request"]["url"]))
        except PageRefusedError as refusal:
            self.refusal = refusal
            return False
        return True

    def _settle(self, url: str) -> None:
        """Ends the chain of redirects of a navigation."""
        self.url = url.partition("#")[0]
        first, self._first = self._first, False
        if first and not self._stays and self.status is not None and self.status not in _ALL_STATUSES:
            raise self._by_status(self.status)

    def _by_status(self, status: int) -> PageRefusedError:
        kind = kind_of_status(status, self.retry_after(0.0))
        return PageRefusedError(kind, _("HTTP status {status}", status=status))

    async def _follow(self, base: str, status: int) -> None:
        """Permits one redirect of the page's own answer; later ones are what the page loads."""
        try:
            target = join_url(base.partition("#")[0], self.header("location") or "")
        except InvalidValueError as error:
            raise PageRefusedError(
                OutcomeKind.PROTOCOL_ERROR, _("redirect {status} refused: {error}", status=status, error=error)
            ) from error
        if not self._first:
            self.url = target
            return
        self.redirects.append(Redirect(status, target))
        if len(self.redirects) > self._most:
            raise PageRefusedError(OutcomeKind.PROTOCOL_ERROR, _("more than {most} redirects", most=self._most))
        await self._ask(target)
        self.url = target
        self._on_sent(host_of(target))

    async def _ask(self, target: str) -> None:
        if self._may_follow is None or await _granted(self._may_follow(target)):
            return
        blocked = await self._dialler.check(target)
        raise blocked or PageRefusedError(OutcomeKind.DENIED, _("redirect to {target} is not allowed", target=target))


async def _granted(asking: Awaitable[bool]) -> bool:
    return await asking


def _joined(headers: Any) -> dict[str, str]:
    joined: dict[str, str] = {}
    for header in headers:
        name = str(header["name"]).lower()
        joined[name] = f"{joined[name]}\n{header['value']}" if name in joined else str(header["value"])
    return joined


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
        self._awaiting = _("no complete page within the deadline")
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
        lost = partial(self._stop, browser_fault(_("it ended while it rendered")))
        opened.browser.on("disconnected", lost)
        try:
            try:
                async with asyncio.timeout(_SETUP_SECONDS):
                    context = await self._new_context(opened, session)
                    page, target = await self._new_page(context)
            except TimeoutError as error:
                raise browser_fault(_("it opens no page in time")) from error
            except Error as error:
                raise browser_fault(_("it opens no page")) from error
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
        page.on("crash", lambda _page: self._stop(PageRefusedError(OutcomeKind.PROTOCOL_ERROR, _("the page crashed"))))
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

    def _stop(self, refusal: PageRefusedError, *_sources: Any) -> None:
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
            raise self._stopped.result() if self._stopped.done() else browser_fault(_("its page is gone"))
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
                return self._body(b"", None, {})
            raise self._not_loaded(error) from None
        try:
            await self._wait(page)
            for position, step in enumerate(self._plan.steps):
                self._awaiting = _(
                    "step {position} ({action}) was not possible within the deadline",
                    position=position + 1,
                    action=step.action,
                )
                await take_step(page, position, step)
            if self._plan.steps:
                await asyncio.sleep(_AFTER_STEPS_SECONDS)
                await self._rest(page)
            self._awaiting = _("the page could not be read within the deadline")
            self._document.judge()
            html = await read_html(target, self._environment.html_bytes, self._plan.secrets)
        except Error as error:
            raise _gone(error) or PageRefusedError(
                OutcomeKind.PROTOCOL_ERROR, _("the page could not be read")
            ) from None
        picture, boxes = None, dict[str, Box]()
        if self._plan.screenshot:
            left = self._started_mono + self._seconds - self._loop.time()
            picture = await screenshot(page, self._plan.width, max(0.1, left * 0.9))
        if self._plan.boxes and picture is not None:
            with suppress(Error, PageRefusedError):  # the page can be picked by its lines without them
                boxes = await read_boxes(target)
        return self._body(html, picture, boxes)

    async def _wait(self, page: Page) -> None:
        """Waits for what the plan says, before the first step."""
        wait = self._plan.wait
        await self._rest(page)
        if wait.selector is not None:
            self._awaiting = _("nothing matched the selector that is waited for, within the deadline")
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

    def _body(self, html: bytes, picture: bytes | None, boxes: Mapping[str, Box]) -> RenderedOutcome:
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
            boxes=boxes,
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
    return browser_fault(_("it ended while it rendered")) if browser_gone(error.message) else None


async def _gone_to(page: Page, url: str) -> None:
    await page.goto(url, wait_until="domcontentloaded", timeout=0)


async def _closed(page: Page) -> None:
    with suppress(Error):
        await page.close()
