"""Watches the main document of a page where its answers pass: redirects are permitted one by one, the site's own
headers reach its own origin only, and an answer that is no page is not loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Error, Page

from pollerd.errors import InvalidValueError
from pollerd.fetching import REDIRECT_STATUSES, MayFollow, kind_of_status, retry_after_seconds
from pollerd.model import OutcomeKind, Redirect
from pollerd.rendering.failures import PageRefusedError
from pollerd.rendering.proxy.dialling import Dialler
from pollerd.urls import host_of, join_url, origin_of

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
        names = {name.lower() for name, _ in self._own}
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
        return PageRefusedError(kind, f"HTTP status {status}")

    async def _follow(self, base: str, status: int) -> None:
        """Permits one redirect of the page's own answer; later ones are what the page loads."""
        try:
            target = join_url(base.partition("#")[0], self.header("location") or "")
        except InvalidValueError as error:
            raise PageRefusedError(OutcomeKind.PROTOCOL_ERROR, f"redirect {status} refused: {error}") from error
        if not self._first:
            self.url = target
            return
        self.redirects.append(Redirect(status, target))
        if len(self.redirects) > self._most:
            raise PageRefusedError(OutcomeKind.PROTOCOL_ERROR, f"more than {self._most} redirects")
        await self._ask(target)
        self.url = target
        self._on_sent(host_of(target))

    async def _ask(self, target: str) -> None:
        if self._may_follow is None or await _granted(self._may_follow(target)):
            return
        blocked = await self._dialler.check(target)
        raise blocked or PageRefusedError(OutcomeKind.DENIED, f"redirect to {target} is not allowed")


async def _granted(asking: Awaitable[bool]) -> bool:
    return await asking


def _joined(headers: Any) -> dict[str, str]:
    joined: dict[str, str] = {}
    for one in headers:
        name = str(one["name"]).lower()
        joined[name] = f"{joined[name]}\n{one['value']}" if name in joined else str(one["value"])
    return joined
