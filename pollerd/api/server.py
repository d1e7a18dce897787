"""The server of the API."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from email.utils import formatdate
from functools import partial
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from pollerd.api.auth.middleware import PEER
from pollerd.api.http.problems import stopping
from pollerd.api.http.protocol import Admission, HttpProtocol


class _Proxied(ProxyHeadersMiddleware):
    """Takes scheme and address from the headers of a proxy on this machine, or a trusted one; keeps the peer.

    Any process on this machine can write such headers: limits by address must not rely on them.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles one request."""
        scope[PEER] = scope.get("client")
        await super().__call__(scope, receive, send)


class ApiServer(uvicorn.Server):
    """uvicorn without its signal handlers, since the daemon has its own. On stop, event streams end first.

    drain_seconds: longest wait for other requests in flight at the end. admission: how many connections it takes.
    """

    def __init__(self, app: FastAPI, drain_seconds: int, admission: Admission | None = None) -> None:
        self._app, self._streams = app, app.state.streams
        self._ending = asyncio.Event()
        config = uvicorn.Config(
            _Proxied(_dated(_answered(app, self._ending)), trusted_hosts=_proxies(app)),  # type: ignore[arg-type]  # uvicorn has types of its own for ASGI
            http=partial(HttpProtocol, admission=admission or Admission()),  # type: ignore[arg-type]  # uvicorn asks for a class
            ws="none",
            proxy_headers=False,
            log_config=None,
            access_log=False,
            lifespan="off",
            date_header=False,
            timeout_graceful_shutdown=drain_seconds,
        )
        super().__init__(config)

    @property
    def should_exit(self) -> bool:
        """Whether the server is to end; can be set."""
        return self._ending.is_set()

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        if value:
            self._ending.set()

    async def main_loop(self) -> None:
        """Waits for the end. uvicorn's own loop checks ten times per second, and updates the date of answers."""
        await self.on_tick(0)
        await self._ending.wait()

    async def warm_up(self) -> None:
        """Prepares the application for its first request, which takes FastAPI 60 ms, before sites are polled."""
        scope = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": "/", "headers": []}

        async def nothing() -> Message:
            return {"type": "http.disconnect"}

        async def unheard(message: Message) -> None:
            """Discards the answer, a 404."""

        await self._app({**scope, "raw_path": b"/", "query_string": b""}, nothing, unheard)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the handlers unchanged."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the event streams, then waits for other requests."""
        self._streams.end()
        await super().shutdown(sockets)


def _proxies(app: FastAPI) -> list[str]:
    """Returns the addresses of proxies whose headers are believed."""
    return ["127.0.0.1", *map(str, app.state.tokens.settings.entrance.trusted_proxies)]


def _answered(app: ASGIApp, ending: asyncio.Event) -> ASGIApp:
    """Returns the application with an answer to requests that are called off because the server ends: 503.

    uvicorn cancels them after its drain, and would report each as a fault of the application.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await app(scope, receive, send_noted)
        except asyncio.CancelledError:
            if not ending.is_set():
                raise
            structlog.get_logger("pollerd.api").warning("request_called_off", path=scope["path"], why="stopping")
            if not begun:
                await stopping()(scope, receive, send)

    return answer


def _dated(app: ASGIApp) -> ASGIApp:
    """Returns the application with a Date header in each answer."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                date = (b"date", formatdate(usegmt=True).encode())
                message = {**message, "headers": [date, *message.get("headers", ())]}
            await send(message)

        await app(scope, receive, send_dated)

    return answer
