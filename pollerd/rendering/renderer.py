"""The renderer: renders requests in a browser and returns their outcomes as values, as the fetcher does."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pollerd.errors import ConfigError
from pollerd.fetching.client import Send, Sent
from pollerd.fetching.outcomes import MayFollow
from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.rendering.browser import check_startable
from pollerd.rendering.dialling import Dialler
from pollerd.rendering.outcome import RenderedOutcome
from pollerd.rendering.plan import DEFAULT_PLAN, RenderPlan
from pollerd.rendering.proxy import ForwardProxy, MayConnect
from pollerd.rendering.settings import RenderingSettings, place_of
from pollerd.texts import _

if TYPE_CHECKING:
    from pollerd.rendering.browser import BrowserLink
    from pollerd.rendering.page_poll import RenderEnvironment


# The number of pages rendered at once: a bound that may change while pages are rendered and others wait.


class PageTurns:
    """An asynchronous context manager: waits for a turn, first come, first served. Used inside one event loop."""

    def __init__(self, most: int) -> None:
        self._most, self._owed = most, 0
        self._free = asyncio.Semaphore(most)

    @property
    def most(self) -> int:
        """Maximum number of turns at once."""
        return self._most

    def adopt(self, most: int) -> None:
        """Sets the maximum, 1 or more. Pages under way end as they would; a smaller one holds for those that begin."""
        more, self._most = most - self._most, most
        if more < 0:
            self._owed -= more
            return
        paid = min(more, self._owed)
        self._owed -= paid
        for _place in range(more - paid):
            self._free.release()

    async def __aenter__(self) -> None:
        while True:
            await self._free.acquire()
            if not self._owed:
                return
            self._owed -= 1  # this turn is one of those that are no more

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owed:
            self._owed -= 1
        else:
            self._free.release()


_LOOPBACK = ("127.0.0.1", 0)
UNTIL_RESTART = ("browser", "browser_no_sandbox", "browser_proxy")
"""Settings that `adopt` leaves as they are."""


def how_to_install() -> str:
    """Returns the command that installs Playwright where this process finds it, in the tried versions."""
    requirements = [
        requirement.partition(";")[0].strip() for requirement in importlib.metadata.requires("pollerd") or ()
    ]
    package = next((name for name in requirements if name.startswith("playwright")), "playwright")
    return f"{sys.executable} -m pip install '{package}'"


class Renderer:
    """Renders pages; an asynchronous context manager, used inside one event loop.

    The browser is started, or connected to, when the first page is rendered. `clock` returns UTC epoch seconds.
    `on_sent` is called with the host of the page's request and of each of its redirects, as the fetcher's; what a page
    loads besides is part of its poll. `may_connect` is asked before each connection of a page.
    """

    def __init__(
        self,
        settings: RenderingSettings,
        fetching: FetchSettings,
        *,
        clock: Callable[[], float] = time.time,
        on_sent: Sent | None = None,
        may_connect: MayConnect | None = None,
    ) -> None:
        """`fetching`: its guard, proxy, contact, redirects, size of a body and time to connect apply here, too."""
        self._settings, self._fetching = settings, fetching
        self._clock, self._on_sent, self._may_connect = clock, on_sent or _count_nothing, may_connect
        self._turns = PageTurns(settings.browser_pages)
        self._stack = AsyncExitStack()
        self._environment: RenderEnvironment
        self._proxy: ForwardProxy
        self._link: BrowserLink

    async def __aenter__(self) -> Self:
        """Opens the proxy. Raises `ConfigError` without a usable browser or Playwright, `InvalidValueError` for a
        `browser_proxy` that cannot be listened at.
        """
        settings, fetching = self._settings, self._fetching
        if settings.browser is None:
            raise ConfigError(_("browser: none is named; say --browser with the path of a Chromium, or an address"))
        if settings.starts_browser:
            check_startable(settings)
        try:  # in a thread: it takes a third of a second
            module = await asyncio.to_thread(importlib.import_module, "pollerd.rendering.page_poll")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "playwright":
                raise
            raise ConfigError(
                _("browser: Playwright is not installed; {how_to_install}", how_to_install=how_to_install())
            ) from error
        from pollerd.rendering.browser import BrowserLink

        dialler = Dialler(fetching)
        place = _LOOPBACK if settings.browser_proxy is None else place_of(settings.browser_proxy)
        proxy = ForwardProxy(dialler, place=place, may_connect=self._may_connect)
        self._proxy = await self._stack.enter_async_context(proxy)
        self._link = link = BrowserLink(settings, proxy_url=proxy.url, contact=fetching.contact)
        self._stack.push_async_callback(link.close)
        self._environment = module.RenderEnvironment(
            link=link,
            proxy=proxy,
            dialler=dialler,
            clock=self._clock,
            on_sent=self._on_sent,
            deadline_seconds=settings.browser_deadline_seconds,
            page_bytes=settings.browser_page_bytes,
            html_bytes=fetching.max_body_bytes,
            most_redirects=fetching.max_redirects,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def settings(self) -> RenderingSettings:
        """The settings in force."""
        return self._settings

    def adopt(self, settings: RenderingSettings, fetching: FetchSettings) -> None:
        """Puts new settings in force for pages that begin from now on, and the guard's for connections.

        Which browser it is, its sandbox and the place of the proxy stay until a restart; the contact that it shows
        follows when the browser is started the next time.
        """
        kept = {name: getattr(self._settings, name) for name in UNTIL_RESTART}
        self._settings, self._fetching = replace(settings, **kept), fetching
        dialler = Dialler(fetching)
        self._proxy.adopt(dialler)
        self._link.contact = fetching.contact
        self._turns.adopt(settings.browser_pages)
        self._environment = replace(
            self._environment,
            dialler=dialler,
            deadline_seconds=settings.browser_deadline_seconds,
            page_bytes=settings.browser_page_bytes,
            html_bytes=fetching.max_body_bytes,
            most_redirects=fetching.max_redirects,
        )

    @property
    def most_connections(self) -> int:
        """The most connections that one host has had at once."""
        return self._environment.proxy.hosts.most_seen

    @property
    def starts(self) -> int:
        """How many times the browser was started or connected to."""
        return self._environment.link.starts

    async def render(
        self,
        request: Request,
        plan: RenderPlan = DEFAULT_PLAN,
        *,
        may_follow: MayFollow | None = None,
        send: Send | None = None,
    ) -> RenderedOutcome:
        """Renders a page; never raises for a fault of the site or of the browser (`browser_fault`).

        BODY has the page's HTML as rendered. Validators of the request are not sent. `send` decides when the page's
        request is written, as in `Fetcher.fetch`; the wait for it, and for one of the `browser_pages`, counts neither
        for the deadline nor as `duration`. `may_follow` permits each redirect of the page's own answer. Cancellation
        and exceptions of `send` pass through.
        """
        from pollerd.rendering.page_poll import PagePoll

        async with self._turns:
            return await PagePoll(self._environment, request, plan, may_follow).run(send)


def _count_nothing(_host: str) -> None:
    """Default of `on_sent`: does nothing."""
