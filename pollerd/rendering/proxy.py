"""The forward proxy of rendered pages: CONNECT and absolute-form requests, each with the credentials of its page.

It has no other users: a request without the credentials of a page that is being rendered is refused. Each connection is
dialled anew, so the guard judges each; none is shared by two pages.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Self

from pollerd.errors import InvalidValueError
from pollerd.fetching.failures import proxy_refusal
from pollerd.fetching.settings import basic
from pollerd.logs import end_tasks
from pollerd.model import OutcomeKind
from pollerd.rendering.dialling import (
    Dialled,
    Dialler,
    HeldConnection,
    HostConnections,
    RequestHead,
    ending,
    parse_request,
    read_head,
    status_of,
)
from pollerd.rendering.outcome import PageRefusedError
from pollerd.texts import _
from pollerd.urls import host_of, normalise_url

# Sessions: the credentials of one page, its limits, and the results of its connections.

MayConnect = Callable[[str], str | None]
"""Returns why a host (name:port, as in `host_of`) may not be connected to now, one line; None: it may."""


class ProxySession:
    """One page's use of the proxy, from its opening to its end. Its credentials are valid for that time only."""

    def __init__(
        self, *, upstream: str | None, most_bytes: int, on_exhausted: Callable[[PageRefusedError], None]
    ) -> None:
        self.username = secrets.token_hex(8)
        self.password = secrets.token_urlsafe(24)
        self.authorization = basic(self.username, self.password)
        self.upstream = upstream
        """The site's own proxy, as `normalise_proxy` returns it; None: the daemon's, if it has one."""
        self.bytes = 0
        """Both ways, without heads of the proxy's own."""
        self.requests = 0
        self.refused = 0
        self.ended = False
        self.expiry: asyncio.TimerHandle | None = None
        self._most_bytes = most_bytes
        self._on_exhausted = on_exhausted
        self._failures: dict[str, PageRefusedError] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, task: asyncio.Task[None]) -> None:
        """Counts a connection's task among the page's: it ends with the session."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def count(self, size: int) -> None:
        """Counts bytes that crossed. Raises `PageRefusedError` once the page has had its share."""
        self.bytes += size
        if self.bytes > self._most_bytes:
            refusal = PageRefusedError(
                OutcomeKind.TOO_LARGE, _("the page loads more than {most_bytes} bytes", most_bytes=self._most_bytes)
            )
            self._on_exhausted(refusal)
            raise refusal

    def connected(self, host: str) -> None:
        """Notes that a host (name:port) was reached."""
        self._failures.pop(host, None)

    def failed(self, host: str, refusal: PageRefusedError) -> None:
        """Notes why a host was not reached."""
        self.refused += 1
        self._failures[host] = refusal

    def failure_of(self, host: str) -> PageRefusedError | None:
        """Returns why the host was not reached at the last try, at this port or, if not tried, at another."""
        if host in self._failures:
            return self._failures[host]
        name = host.rpartition(":")[0]
        return next((failure for tried, failure in self._failures.items() if tried.rpartition(":")[0] == name), None)

    async def end(self) -> None:
        """Ends every connection of the page."""
        self.ended = True
        if self.expiry is not None:
            self.expiry.cancel()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


_PAGE = re.compile(r"http://(?P<authority>[^/?#@]+)", re.IGNORECASE)
_CHUNK_BYTES = 64 * 1024
_HEAD_SECONDS = 30.0
"""How long a connection may be open without a request."""
_WHO = b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="pollerd"\r\n'
_ENDING = b"Content-Length: 0\r\nConnection: close\r\n\r\n"
_REFUSED = b"HTTP/1.1 403 Refused\r\n" + _ENDING
_NOT_REACHED = b"HTTP/1.1 502 Not reached\r\n" + _ENDING
_NOT_UNDERSTOOD = b"HTTP/1.1 400 Bad Request\r\n" + _ENDING
_CONNECTED = b"HTTP/1.1 200 Connected\r\n\r\n"


class ForwardProxy:
    """Listens while its block lasts; an asynchronous context manager, used inside one event loop."""

    def __init__(
        self, dialler: Dialler, *, place: tuple[str, int] = ("127.0.0.1", 0), may_connect: MayConnect | None = None
    ) -> None:
        """`place`: host and port to listen at, and by which the browser reaches it; port 0: a free one."""
        self._dialler = dialler
        self._host, self._port = place
        self._may_connect: MayConnect = may_connect or _always
        self._sessions: dict[str, ProxySession] = {}
        self._server: asyncio.Server
        self._strangers: set[asyncio.Task[None]] = set()
        self.hosts = HostConnections()

    def adopt(self, dialler: Dialler) -> None:
        """Has connections from now on dialled by another one."""
        self._dialler = dialler

    async def __aenter__(self) -> Self:
        """Starts to listen. Raises `InvalidValueError` where that is not possible."""
        try:
            self._server = await asyncio.start_server(self._connected, self._host, self._port)
        except (OSError, UnicodeError) as error:
            allowed = _("HOST:PORT of this machine, where nothing listens yet")
            raise InvalidValueError("browser_proxy", allowed, f"{self._host}:{self._port} ({error})") from error
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()
        for session in tuple(self._sessions.values()):
            await self.end(session)
        for task in tuple(self._strangers):
            task.cancel()
        if self._strangers:
            await asyncio.wait(tuple(self._strangers))
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """The proxy's URL for browsers, without credentials."""
        return f"http://[{self._host}]:{self._port}" if ":" in self._host else f"http://{self._host}:{self._port}"

    def begin(
        self, *, upstream: str | None, most_bytes: int, seconds: float, on_exhausted: Callable[[PageRefusedError], None]
    ) -> ProxySession:
        """Returns the session of one page; must be ended, and ends by itself after so many seconds.

        `on_exhausted` is called when the page has loaded `most_bytes`.
        """
        session = ProxySession(upstream=upstream, most_bytes=most_bytes, on_exhausted=on_exhausted)
        self._sessions[session.username] = session
        session.expiry = asyncio.get_running_loop().call_later(seconds, self._expire, session)
        return session

    async def end(self, session: ProxySession) -> None:
        """Ends a session: its credentials are void, its connections closed."""
        self._sessions.pop(session.username, None)
        await session.end()

    def _expire(self, session: ProxySession) -> None:
        if not session.ended:
            ending_session = asyncio.get_running_loop().create_task(self.end(session), name="end-proxy-session")
            self._strangers.add(ending_session)
            ending_session.add_done_callback(self._strangers.discard)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._strangers.add(task)
        try:
            await self._serve(reader, writer, task)
        except (OSError, asyncio.IncompleteReadError, PageRefusedError):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()  # the page's end, or ours
        finally:
            self._strangers.discard(task)
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head, rest = await read_head(reader)
            if not head:
                return
            request = parse_request(head)
        except ValueError:
            writer.write(_NOT_UNDERSTOOD)
            return
        session = self._session_of(request)
        if session is None:
            writer.write(_WHO + _ENDING)
            return
        session.join(task)
        self._strangers.discard(task)
        session.requests += 1
        session.count(len(head) + len(rest))
        await _Exchange(session, request, rest, reader, writer).run(self._dialler, self.hosts, self._may_connect)

    def _session_of(self, request: RequestHead) -> ProxySession | None:
        """Returns the page whose credentials the request shows."""
        shown = request.get(b"proxy-authorization") or b""
        matching = None
        for session in self._sessions.values():  # as many as pages at once
            if hmac.compare_digest(session.authorization.encode("ascii"), shown):
                matching = session
        return matching


class _Exchange:
    """One request of a page, or one tunnel."""

    def __init__(
        self,
        session: ProxySession,
        request: RequestHead,
        rest: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._session, self._request, self._rest = session, request, rest
        self._reader, self._writer = reader, writer
        self._tunnel = request.method == b"CONNECT"

    async def run(self, dialler: Dialler, hosts: HostConnections, may_connect: MayConnect) -> None:
        """Serves it to its end. Raises what ends a connection."""
        try:
            url = _url_of(self._request)
        except ValueError:
            self._writer.write(_NOT_UNDERSTOOD)
            return
        host = host_of(url)
        reason = may_connect(host)
        if reason is not None:
            self._refuse(host, PageRefusedError(OutcomeKind.DENIED, reason))
            return
        held = await hosts.hold(host, self._session)
        try:
            name, _colon, port = host.rpartition(":")
            upstream = self._session.upstream
            dialled = await dialler.dial(name.strip("[]"), int(port), upstream, tunnel=self._tunnel)
            try:
                await self._exchange(host, dialled, held)
            finally:
                dialled.writer.transport.abort()
        except PageRefusedError as refusal:
            if refusal.kind is OutcomeKind.TOO_LARGE:
                raise
            self._refuse(host, refusal)
        finally:
            hosts.let_go(held)

    def _refuse(self, host: str, refusal: PageRefusedError) -> None:
        """A tunnel is refused by an answer; a request by none, for the page would take one for its site's."""
        self._session.failed(host, refusal)
        if self._tunnel:
            denied = refusal.kind in (OutcomeKind.BLOCKED_ADDRESS, OutcomeKind.DENIED)
            self._writer.write(_REFUSED if denied else _NOT_REACHED)
        else:
            self._writer.transport.abort()

    async def _exchange(self, host: str, dialled: Dialled, held: HeldConnection) -> None:
        held.abort = self._writer.transport.abort
        if self._tunnel:
            self._session.connected(host)
            self._writer.write(_CONNECTED)
        else:
            dialled.writer.write(self._forwarded(dialled))
        if self._rest:
            dialled.writer.write(self._rest)
        up = asyncio.ensure_future(self._pump(self._reader, dialled.writer, held))
        down = asyncio.ensure_future(self._down(host, dialled, held))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            for done in (down, up):
                if done.done():
                    done.result()
        finally:
            await end_tasks(up, down, expected=(OSError, PageRefusedError))

    def _forwarded(self, dialled: Dialled) -> bytes:
        target = self._request.target
        if dialled.via is not None:
            return self._request.forwarded(target, dialled.via.authorization)
        _host, _slash, path = target.partition(b"://")[2].partition(b"/")
        return self._request.forwarded(b"/" + path, None)

    async def _down(self, host: str, dialled: Dialled, held: HeldConnection) -> None:
        if not self._tunnel:
            await self._answer(host, dialled)
        await self._pump(dialled.reader, self._writer, held)
        await self._writer.drain()

    async def _answer(self, host: str, dialled: Dialled) -> None:
        """Passes the head of the answer, which says that its connection ends, and those of interim ones (1xx)."""
        status, rest = 100, b""
        while 100 <= status < 200:
            try:
                head, rest = await read_head(dialled.reader, rest)
            except ValueError as error:
                raise PageRefusedError(OutcomeKind.PROTOCOL_ERROR, _("the head of the answer is too long")) from error
            if dialled.via is not None and status_of(head) == 407:
                raise PageRefusedError(OutcomeKind.CONNECT_ERROR, proxy_refusal(407))
            self._session.connected(host)
            status_read = status_of(head)
            status = 200 if status_read is None else status_read
            passed = (head if status_read is None or 100 <= status_read < 200 else ending(head)) + (
                b"" if status < 200 else rest
            )
            self._session.count(len(passed))
            self._writer.write(passed)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: HeldConnection) -> None:
        """Passes bytes to the end of one side."""
        loop = asyncio.get_running_loop()
        while data := await reader.read(_CHUNK_BYTES):
            self._session.count(len(data))
            held.active_at = loop.time()
            writer.write(data)
            await writer.drain()


def _url_of(request: RequestHead) -> str:
    """Returns the normal URL of the origin that a request names. Raises `ValueError`."""
    target = request.target.decode("ascii")
    if request.method == b"CONNECT":
        return normalise_url(f"https://{target}/")
    page = _PAGE.match(target)
    if page is None:
        raise ValueError(_("not the absolute URL of a page"))
    return normalise_url(f"http://{page['authority']}/")


def _always(_host: str) -> None:
    """Default of `may_connect`: every host may be connected to."""
