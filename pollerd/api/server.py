"""The server of the API."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from enum import Enum, auto
from functools import partial
from http import HTTPStatus
from typing import Any

import h11
import structlog
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from pollerd.api.auth.middleware import PEER
from pollerd.api.http import HEADERS
from pollerd.api.problems import RETRY_SECONDS, ProblemResponse, problem, stopping
from pollerd.texts import _

# uvicorn's HTTP/1.1 protocol with limits on slow requests and on connections, and another refusal of invalid HTTP.

HEAD_SECONDS = 10.0
"""Longest time until the head of a request has arrived."""
BODY_SECONDS = 30.0
"""Longest time until the body of a request has arrived, besides `BODY_RATE`."""
BODY_RATE = 64 * 1024
"""Bytes of a body for which it has a second more."""
MAX_CONNECTIONS = 512
_SAID_EVERY_SECONDS = 60.0
_CAN_ANSWER = (h11.IDLE, h11.SEND_RESPONSE)


class Admission:
    """How many connections the server takes at once; the descriptors of the others are the polls'."""

    def __init__(self, most: int = MAX_CONNECTIONS, on_refused: Callable[[], object] = lambda: None) -> None:
        """on_refused: called for each connection that is refused."""
        self.most, self._on_refused = most, on_refused
        self._said_at = -_SAID_EVERY_SECONDS

    def refused(self) -> None:
        """Notes that a connection was refused."""
        self._on_refused()
        if time.monotonic() >= self._said_at + _SAID_EVERY_SECONDS:
            self._said_at = time.monotonic()
            log = structlog.get_logger("pollerd.api")
            log.warning("api_connections_full", limit=self.most, effect="more connections are refused")


class _Awaited(Enum):
    """What a connection waits for."""

    HEAD = auto()
    BODY = auto()


class HttpProtocol(H11Protocol):
    """Refuses invalid HTTP with a problem document and the headers of all answers, and likewise requests that do not
    arrive in time and connections beyond the most.
    """

    def __init__(self, *args: Any, admission: Admission, **more: Any) -> None:
        super().__init__(*args, **more)
        self._admission = admission
        self._awaited: _Awaited | None = None
        self._since = 0.0
        self._received = 0
        """Bytes since `_since`."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the head of the first request."""
        super().connection_made(transport)
        if len(self.connections) > self._admission.most:
            self._admission.refused()
            detail = _("there are {most} connections already", most=self._admission.most)
            headers = {"Retry-After": str(RETRY_SECONDS)}
            self._refuse(problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, kind="no-connection", headers=headers))
            return
        self._wait_for(_Awaited.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops waiting."""
        self._wait_for(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes bytes of requests."""
        self._received += len(data)
        if not self.transport.is_closing():
            super().data_received(data)

    def handle_events(self) -> None:
        """Handles what has arrived, and waits for the rest of a request that has begun."""
        super().handle_events()
        idle = self.timeout_keep_alive_task is not None  # between requests: uvicorn's own limit
        if self.conn.their_state is h11.SEND_BODY:
            awaited: _Awaited | None = _Awaited.BODY
        else:
            awaited = _Awaited.HEAD if self.conn.their_state is h11.IDLE and not idle else None
        if awaited is not self._awaited:
            self._wait_for(awaited)

    def send_400_response(self, msg: str) -> None:
        """Answers, if no answer has begun yet, and closes the connection."""
        self._refuse(problem(HTTPStatus.BAD_REQUEST, msg))

    def _refuse(self, answer: ProblemResponse) -> None:
        if self.conn.our_state in _CAN_ANSWER:
            headers = [
                (b"date", formatdate(usegmt=True).encode()),
                *answer.raw_headers,
                *HEADERS,
                (b"connection", b"close"),
            ]
            phrase = HTTPStatus(answer.status_code).phrase
            begin = h11.Response(status_code=answer.status_code, headers=headers, reason=phrase)
            for event in (begin, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait_for(self, awaited: _Awaited | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._awaited, self._since, self._received = awaited, self.loop.time(), 0
        if awaited is not None:
            self._timer = self.loop.call_later(self._left(), self._look)

    def _left(self) -> float:
        """Returns for how long the rest of the request is waited for, s."""
        if self._awaited is _Awaited.HEAD:
            return self._since + HEAD_SECONDS - self.loop.time()
        return self._since + BODY_SECONDS + self._received / BODY_RATE - self.loop.time()

    def _look(self) -> None:
        """Refuses the request if it is late, unless it is us who do not read."""
        left = max(self._left(), 1.0 if self.flow.read_paused else 0.0)
        if left > 0.0:
            self._timer = self.loop.call_later(left, self._look)
            return
        self._timer = None
        if self.transport.is_closing():
            return
        if self._awaited is _Awaited.HEAD and not self._received:  # a connection made in advance, as browsers do
            self.transport.close()
            return
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        what = "head" if self._awaited is _Awaited.HEAD else "body"
        self._refuse(
            problem(HTTPStatus.REQUEST_TIMEOUT, _("the {what} of the request did not arrive in time", what=what))
        )


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
            _Proxied(_answered(app, self._ending), trusted_hosts=_proxies(app)),  # type: ignore[arg-type]  # uvicorn has types of its own for ASGI
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
        scope = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "headers": []}

        async def nothing() -> Message:
            return {"type": "http.disconnect"}

        async def unheard(message: Message) -> None:
            """Discards the answer."""

        await self._app({**scope, "path": "/healthz", "raw_path": b"/healthz", "query_string": b""}, nothing, unheard)

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
    """Returns the application with a Date header in each answer, and a 503 to requests called off as the server ends.

    uvicorn cancels them after its drain, and would report each as a fault of the application.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_dated(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                date = (b"date", formatdate(usegmt=True).encode())
                message = {**message, "headers": [date, *message.get("headers", ())]}
            await send(message)

        try:
            await app(scope, receive, send_dated)
        except asyncio.CancelledError:
            if not ending.is_set():
                raise
            structlog.get_logger("pollerd.api").warning(
                "request_cancelled", path=scope["path"], reason="pollerd is stopping"
            )
            if not begun:
                await stopping()(scope, receive, send_dated)

    return answer
