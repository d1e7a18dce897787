"""Server of the demo's web: many loopback addresses, with changes drawn in advance."""

from __future__ import annotations

import asyncio
import errno
import math
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from types import TracebackType

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from pollerd.cli.demo.web.changes import bursty_times, poisson_times
from pollerd.cli.demo.web.pages import feed, page
from pollerd.cli.demo.web.sites import DemoSite, SiteKind, check_count, draw_sites
from pollerd.errors import ConfigError, InvalidValueError

CRAWL_DELAY_SECONDS = 2
ROBOTS_TXT = f"User-agent: *\nDisallow: /private/\nCrawl-delay: {CRAWL_DELAY_SECONDS}\n"
FAILING_SHARE = 0.25
"""Share of the flaky site's answers that are 500, 503 or a reset, with equal probabilities."""
RETRY_AFTER_SECONDS = 2
SLOW_SECONDS = (0.6, 1.4)
_FEED_START_ENTRIES = 5
_PORT_TRIES = 20


@dataclass(frozen=True)
class _Plan:
    """Change times of one site: before the start (for its first date and entries) and after it."""

    site: DemoSite
    seed: int
    before: NDArray[np.float64]
    times: NDArray[np.float64]

    def version(self, now: float) -> int:
        return int(np.searchsorted(self.times, now, side="right"))

    def history(self, now: float) -> NDArray[np.float64]:
        return np.concatenate([self.before, self.times[: self.version(now)]])


class DemoWeb:
    """A few dozen sites on 127.0.0.0/8, each on its own address, all on one free port. An async context manager.

    `count`: number of sites, 12 to 200. `rng`: draws hosts, rates, change times and the flaky site's failures.
    `horizon_seconds`: for how long after the start pages change, > 0. `clock`: UTC epoch seconds. Raises
    InvalidValueError for values out of range, ConfigError if the system does not serve all of 127.0.0.0/8 (Linux does).
    """

    def __init__(
        self,
        count: int,
        rng: np.random.Generator,
        *,
        horizon_seconds: float = 3_600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not 0 < horizon_seconds < math.inf:
            raise InvalidValueError("horizon_seconds", "a finite number of seconds above 0", horizon_seconds)
        self._count, self._rng = check_count(count), rng
        self._horizon, self._clock = horizon_seconds, clock
        self._plans: dict[tuple[str, str], _Plan] = {}
        self._runner: web.AppRunner | None = None
        self._visits = 0
        self._first_answer_at: dict[str, float] = {}
        self.sites: tuple[DemoSite, ...] = ()
        self.started_at = math.nan

    async def __aenter__(self) -> DemoWeb:
        state = self._rng.bit_generator.state
        for _ in range(_PORT_TRIES):
            # If the port is taken on one of the addresses, the same web is drawn again for another port.
            self._rng.bit_generator.state = state
            port = _free_port()
            self.sites = draw_sites(self._count, port, self._rng)
            sockets = _listen(sorted({site.host for site in self.sites}), port)
            if sockets:
                break
        else:
            raise ConfigError(f"demo: no port is free on all of {self._count} loopback addresses")
        self._draw_changes()
        await self._serve(sockets)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def truth(self, now: float) -> dict[str, NDArray[np.float64]]:
        """Returns URL -> times (epoch s, ascending float64) at which its visible content changed, up to `now`.

        Empty for the site that differs at every request.
        """
        return {plan.site.url: plan.times[: plan.version(now)] for plan in self._plans.values()}

    def first_answers(self) -> dict[str, float]:
        """Returns URL -> time of its first answer with content (epoch s); sites not yet requested are omitted."""
        return dict(self._first_answer_at)

    def _draw_changes(self) -> None:
        self.started_at = self._clock()
        for site in self.sites:
            seed = int(self._rng.integers(2**31))
            self._plans[site.host, site.path] = _Plan(site, seed, self._before(site), self._times(site))

    def _times(self, site: DemoSite) -> NDArray[np.float64]:
        if math.isinf(site.true_rate_per_second):
            return np.empty(0)
        draw = bursty_times if site.kind is SiteKind.BURSTY else poisson_times
        return draw(site.true_rate_per_second, self.started_at, self.started_at + self._horizon, self._rng)

    def _before(self, site: DemoSite) -> NDArray[np.float64]:
        entries = _FEED_START_ENTRIES if site.kind is SiteKind.FEED else 1
        gaps = self._rng.exponential(1 / site.true_rate_per_second, entries)
        return np.asarray(self.started_at - np.cumsum(gaps)[::-1])

    async def _serve(self, sockets: list[socket.socket]) -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        for listener in sockets:
            await web.SockSite(self._runner, listener).start()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        now = self._clock()
        host = request.host.partition(":")[0]
        if request.path == "/robots.txt" and (host, "/private/") in self._plans:
            return web.Response(text=ROBOTS_TXT)
        plan = self._plans.get((host, request.path))
        if plan is None:
            return web.Response(status=404, text="there is no such page\n")
        if plan.site.kind is SiteKind.SLOW:
            await asyncio.sleep(self._rng.uniform(*SLOW_SECONDS))
        if plan.site.kind is SiteKind.FLAKY and self._rng.random() < FAILING_SHARE:
            return self._fail(request)
        return self._content(plan, request, now)

    def _content(self, plan: _Plan, request: web.Request, now: float) -> web.Response:
        history = plan.history(now)
        validators = _validators(plan, history, now)
        if _not_modified(request, validators):
            return web.Response(status=304, headers=validators)
        self._first_answer_at.setdefault(plan.site.url, now)
        title = f"{plan.site.kind.capitalize()} {plan.site.path}"
        if plan.site.kind is SiteKind.FEED:
            text = feed(title, plan.site.url, plan.seed, history.tolist(), now)
            return web.Response(text=text, content_type="application/rss+xml", headers=validators)
        version = plan.version(now)
        if plan.site.kind is SiteKind.ALWAYS:
            self._visits += 1
            version = self._visits
        text = page(title, plan.seed, version, self._rng.bytes(12).hex())
        return web.Response(text=text, content_type="text/html", headers=validators)

    def _fail(self, request: web.Request) -> web.Response:
        status = int(self._rng.choice([500, 503, 0]))
        if not status and request.transport is not None:
            request.transport.abort()
        headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
        return web.Response(status=status or 500, headers=headers, text="try again\n")


def _validators(plan: _Plan, history: NDArray[np.float64], now: float) -> dict[str, str]:
    kind = plan.site.kind
    if kind in (SiteKind.PLAIN, SiteKind.ALWAYS):
        return {}
    if kind in (SiteKind.LAST_MODIFIED, SiteKind.SLOW):
        return {"Last-Modified": formatdate(float(history[-1]), usegmt=True)}
    # Weak: the same visible text, although the invisible token differs in each answer.
    return {"ETag": f'W/"{plan.seed:x}-{plan.version(now)}"'}


def _not_modified(request: web.Request, validators: dict[str, str]) -> bool:
    """Returns whether 304 applies, RFC 9110, section 13.2.2: If-None-Match if given, else If-Modified-Since."""
    if "If-None-Match" in request.headers:
        return validators.get("ETag") in [tag.strip() for tag in request.headers["If-None-Match"].split(",")]
    return "Last-Modified" in validators and request.headers.get("If-Modified-Since") == validators["Last-Modified"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listen(hosts: list[str], port: int) -> list[socket.socket]:
    """Returns listening sockets on all hosts; empty if the port is taken on one of them."""
    sockets: list[socket.socket] = []
    try:
        for host in hosts:
            sockets.append(socket.create_server((host, port)))
    except OSError as error:
        for listener in sockets:
            listener.close()
        if error.errno == errno.EADDRINUSE:
            return []
        raise ConfigError(f"demo: this system does not answer on {host}, as Linux does: {error.strerror}") from error
    return sockets
