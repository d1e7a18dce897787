"""A real web server on loopback whose pages a test changes while it is being polled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import web

from tests.support.ports import free_port
from tests.support.stamped_listener import StampedListener

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")


@dataclass
class Page:
    """What one path answers with. `handler` overrides all else."""

    body: str = "<html><body><p>hello</p></body></html>"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    etag: str | None = None
    handler: Handler | None = None


@dataclass(frozen=True)
class Hit:
    """One request as the server's kernel saw it: `at` on the monotonic clock, however late the loop turned then."""

    at: float
    host: str
    path: str
    status: int
    headers: dict[str, str]


class Origin:
    """Serves `pages` on every 127.x.y.z address of one port, and keeps a log."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.robots: Page | None = None
        self.log: list[Hit] = []
        self.concurrent: dict[str, int] = {}
        self.most_concurrent = 0
        self.port = 0
        self._runner: web.AppRunner | None = None
        self._listener: StampedListener | None = None

    async def __aenter__(self) -> Origin:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Serves, on the port it had before if there was one."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        self._listener = StampedListener(self.port or free_port())
        await web.SockSite(self._runner, self._listener).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stops serving; connections are refused from now on."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def url(self, path: str = "/", host: int | str = 1) -> str:
        """The URL of a path on the host 127.0.0.<host>."""
        name = f"127.0.{host // 250}.{host % 250 + 1}" if isinstance(host, int) else host
        return f"http://{name}:{self.port}{path}"

    def hits(self, path: str | None = None) -> list[Hit]:
        """Page requests so far (robots.txt only when asked for by its path)."""
        if path is None:
            return [h for h in self.log if h.path != "/robots.txt"]
        return [h for h in self.log if h.path == path]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        host = request.host
        assert self._listener is not None
        at = self._listener.came_at(request.get_extra_info("sockname"), request.get_extra_info("peername"))
        self.concurrent[host] = self.concurrent.get(host, 0) + 1
        self.most_concurrent = max(self.most_concurrent, self.concurrent[host])
        response: web.StreamResponse | None = None
        try:
            response = await self.answer(request)
            return response
        finally:
            self.concurrent[host] -= 1
            status = response.status if response is not None else 0
            self.log.append(Hit(at, host, request.path, status, dict(request.headers)))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """What is said to the request, as `pages` and `robots` are now."""
        if request.path == "/robots.txt":
            page = self.robots or Page(status=404, body="none")
        else:
            page = self.pages.get(request.path) or Page(status=404, body="no such page")
        if page.handler is not None:
            return await page.handler(request)
        headers = dict(page.headers)
        headers.setdefault("Content-Type", "text/html; charset=utf-8")
        if page.etag is not None:
            headers["ETag"] = page.etag
            if request.headers.get("If-None-Match") == page.etag:
                return web.Response(status=304, headers={"ETag": page.etag})
        return web.Response(status=page.status, body=page.body.encode(), headers=headers)


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Waits until the condition holds; fails when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)


async def until_found(look: Callable[[], Awaitable[T | None]], seconds: float = 120.0) -> T:
    """Looks until something is found that is not false, and returns it; fails when it is not there in time."""
    deadline = time.monotonic() + seconds
    while not (found := await look()):
        assert time.monotonic() < deadline, f"it did not come in time: {found!r}"
        await asyncio.sleep(0.02)
    return found
