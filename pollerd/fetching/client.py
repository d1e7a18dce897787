"""The HTTP client: one GET over a pooled connection, its response's head, and bounded reading of the body.

Uses aiohttp's connector (pool, name lookup, TLS, tunnels) and parser, but not its `ClientSession`: for a small response
that costs more than both together, and a poll needs none of it (ADR 12).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, NamedTuple
from weakref import WeakSet

import aiohttp
from aiohttp import StreamReader, hdrs
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from pollerd import __version__
from pollerd.fetching.failures import SITE_FAULTS, RefusedError, refusal
from pollerd.fetching.headers import ACCEPT_ENCODING, CutShortError, DecodingError, TooLargeError, decode, unsaid_gzip
from pollerd.fetching.settings import FetchSettings, Proxy
from pollerd.fetching.tls import Destination, ResumingContext, dialled, tls_of
from pollerd.fetching.tolerant import OddHosts, parse_tolerantly, watch_parser
from pollerd.model import OutcomeKind
from pollerd.texts import _
from pollerd.urls import host_of


class Response:
    """A response that must be read to the end or closed: its connection is busy until then."""

    __slots__ = ("_connection", "content", "headers", "status", "unpacked")

    def __init__(
        self, status: int, headers: CIMultiDictProxy[str], content: StreamReader, connection: Connection
    ) -> None:
        self.status = status
        self.headers = headers
        self.content = content
        """The body as sent, still content-encoded."""
        self.unpacked = False
        """Whether the body that was read was gzip without a word."""
        self._connection: Connection | None = connection
        content.on_eof(self._ended)

    @property
    def content_length(self) -> int | None:
        """The announced size of the body in bytes, as sent; None if there is none."""
        text = self.headers.get(hdrs.CONTENT_LENGTH)
        return int(text) if text is not None and text.isdecimal() else None

    def close(self) -> None:
        """Discards the unread rest and its connection; does nothing after the last byte."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ended(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            protocol = connection.protocol
            if protocol is not None:
                # Without its parser it buffers at most a few hundred kilobytes of unsolicited data and then stops
                # reading. With it, unsolicited responses would be stored without limit.
                protocol._parser = None  # noqa: SLF001
            connection.release()


_ACCEPT = (
    "text/html,application/xhtml+xml,application/atom+xml,application/rss+xml,application/feed+json,"
    "application/json;q=0.9,application/xml;q=0.9,*/*;q=0.8"
)
DNS_CACHE_SECONDS = 300
"""How long the addresses of a name are cached."""
_MAX_LINE_BYTES = 16 * 1024
_MAX_FIELD_BYTES = 32 * 1024
_MAX_HEADERS = 256
_TARGETS_KEPT = 8_192
"""Cached request heads, 0.4 kilobytes each: frequently polled sites reuse them soon."""
_ORIGINS_KEPT = 2_048
"""Cached connector arguments of origins, about two kilobytes each."""
_NEVER_USUAL = frozenset({hdrs.IF_NONE_MATCH, hdrs.IF_MODIFIED_SINCE})
_BREAK = re.compile(r"[\r\n\0]")

SocketFactory = Callable[[tuple[int, int, int, str, tuple[Any, ...]]], socket.socket]
"""Creates a socket for an entry of `getaddrinfo`."""

Sent = Callable[[str], None]
"""Called with the host (as in `host_of`) of each request as soon as it is written to its connection."""

Write = Callable[[], bool]
"""Writes a request at once; returns False if its connection has been closed meanwhile and nothing was written."""

Send = Callable[[Write], bool | Awaitable[bool]]
"""Calls the write when it is due, and returns its result."""

Repeat = Callable[[str], Awaitable[None]]
"""Waits until a host (as in `host_of`) may be requested again."""


class _Target(NamedTuple):
    """The part of a request that its URL determines: destination and head."""

    host: str
    destination: aiohttp.ClientRequest
    leads_to: Destination | None
    """Destination of the TLS sessions; None: none are resumed."""
    beginning: str


class HttpMessage(NamedTuple):
    """What is sent to a URL: headers, which replace default ones of the same name, and perhaps a body."""

    headers: Mapping[str, str]
    body: bytes | None = None
    """None: a GET, else a POST."""
    repeatable: bool = False
    """Whether a body may be written twice, where a kept connection proves to be closed: its receiver knows repeats."""

    def written(self, beginning: str, lines: str) -> bytes:
        """Returns the request. `beginning`: its head from the URL on; `lines`: all headers."""
        method = hdrs.METH_GET if self.body is None else hdrs.METH_POST
        head = f"{method}{beginning}{lines}\r\n".encode("utf-8", "surrogateescape")
        return head if self.body is None else head + self.body


def posting(headers: Mapping[str, str], body: bytes) -> HttpMessage:
    """Returns a POST: of a form, unless the headers give another type."""
    own = {name.lower() for name in headers}
    typed: dict[str, str] = {} if "content-type" in own else {hdrs.CONTENT_TYPE: "application/x-www-form-urlencoded"}
    fields: dict[str, str] = {**headers, **typed}
    fields[hdrs.CONTENT_LENGTH] = str(len(body))
    return HttpMessage(fields, body)


def user_agent(contact: str | None) -> str:
    """Returns the User-Agent: name and version, and the operator's contact."""
    name = f"pollerd/{__version__}"
    return name if contact is None else f"{name} (+{contact})"


class HttpClient:
    """Pooled connections opened by `dial`; created inside the running loop, and must be closed.

    `headers.decode` does decompression, the fetcher redirects and the deadline; there are no cookies, and proxies and
    .netrc of the environment are not used.
    """

    def __init__(self, settings: FetchSettings, dial: SocketFactory, names: AbstractResolver | None = None) -> None:
        """`names` resolves names; None: the system does. Raises `InvalidValueError` for a `ca_file` that cannot be
        loaded.
        """
        self._tls = ResumingContext.create(settings.ca_file, settings.tls_session_bytes)
        self._connector = aiohttp.TCPConnector(
            limit=settings.max_connections,
            limit_per_host=0,
            ttl_dns_cache=DNS_CACHE_SECONDS,
            keepalive_timeout=settings.keepalive_seconds,
            socket_factory=dial,
            resolver=names,
            ssl=self._tls,
        )
        self._connecting = aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout_seconds)
        self._usual = CIMultiDict(
            {
                hdrs.USER_AGENT: user_agent(settings.contact),
                hdrs.ACCEPT: _ACCEPT,
                hdrs.ACCEPT_ENCODING: ACCEPT_ENCODING,
            }
        )
        self._usual_lines = _lines(self._usual)
        self._target = lru_cache(maxsize=_TARGETS_KEPT)(self._new_target)
        self._destination = lru_cache(maxsize=_ORIGINS_KEPT)(self._new_destination)
        self._kept: WeakSet[ResponseHandler] = WeakSet()
        self._odd = OddHosts()

    @property
    def closed(self) -> bool:
        """Whether the client is closed."""
        return self._connector.closed

    async def close(self) -> None:
        """Closes every connection."""
        await self._connector.close()

    async def send(
        self,
        url: str,
        message: HttpMessage,
        sent: Sent,
        proxy: Proxy | None = None,
        send: Send | None = None,
        repeat: Repeat | None = None,
    ) -> Response:
        """Sends a request and returns once the head of the response has arrived, whatever its status.

        `url` as `normalise_url` returns it, in any percent-encoding. If a kept connection proves to be closed, another
        one replaces it, and `sent` is called again, unless a body was written that is not `repeatable`: that is never
        sent twice; likewise, without the call, if it has received unsolicited data. A request whose answer breaks
        HTTP's rules is sent once more, unless a body was written: the tolerant parser reads that answer, and for a day
        all of this host. `send`: decides when each request is written; None: at once. `repeat`: waits before a written
        request is written again; None: no wait.

        Raises `SITE_FAULTS`; `RuntimeError` if the client is closed, `ValueError` for a header with a line break.
        """
        target = self._checked_target(url, proxy)
        request = message.written(target.beginning, self._merged(message.headers))
        tolerant = target.host in self._odd and self._odd[target.host] > asyncio.get_running_loop().time()
        while True:
            connection = await self._connect(target)
            protocol = connection.protocol
            assert protocol is not None
            kept = protocol in self._kept
            write = partial(_write, protocol, kept, request, sent, target.host, tolerant)
            tls = None if kept else tls_of(protocol.transport)  # gone once the server has closed
            written: bool | Awaitable[bool] = False
            try:
                written = write() if send is None else send(write)
                if not (written if isinstance(written, bool) else await written):
                    connection.close()
                    continue
                answer, content = await _answer(protocol, None if tolerant else partial(self._note_odd, target.host))
            except BaseException as error:
                connection.close()
                odd = isinstance(error, HttpProcessingError)
                if odd:
                    self._note_odd(target.host)
                if not _may_repeat(error, message, tolerant=tolerant, kept=kept, written=bool(written)):
                    raise
                tolerant = tolerant or odd
                if written and repeat is not None:
                    await repeat(target.host)
            else:
                if not kept:
                    self._kept.add(protocol)
                if tls is not None:
                    self._tls.sessions.settle(tls)
                return Response(answer.code, answer.headers, content, connection)

    def _note_odd(self, host: str) -> None:
        self._odd.add(host, asyncio.get_running_loop().time())

    def _checked_target(self, url: str, proxy: Proxy | None) -> _Target:
        """Returns the target. Raises InvalidURL; RuntimeError if the client is closed."""
        if self.closed:
            raise RuntimeError("the client is closed")
        try:
            return self._target(url, proxy)
        except ValueError as error:  # damaged in the database, since it was normalised before
            raise aiohttp.InvalidURL(url) from error

    def _merged(self, headers: Mapping[str, str]) -> str:
        """Returns the default headers and these, as lines."""
        if _NEVER_USUAL.issuperset(headers):
            return self._usual_lines + _lines(headers)
        merged = self._usual.copy()
        merged.update(headers)
        return _lines(merged)

    async def _connect(self, target: _Target) -> Connection:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        dialled.set(target.leads_to)
        try:
            connection = await self._connector.connect(target.destination, traces=[], timeout=self._connecting)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError from error
        if task.cancelling() > before:
            # aiohappyeyeballs loses a cancellation that arrives while it waits for the slower address: deadlines fire
            # once only
            connection.close()
            raise asyncio.CancelledError
        return connection

    def _new_target(self, url: str, proxy: Proxy | None) -> _Target:
        """Builds the request head: through a proxy, http pages are requested by the whole URL; for https pages the
        proxy sees only the CONNECT, and the page must not see the proxy credentials. Raises `ValueError` for an invalid
        URL.
        """
        parsed = URL(url, encoded=True)
        origin = parsed.origin()
        in_the_open = proxy is not None and parsed.scheme == "http"
        asked = url if in_the_open else url[url.index("/", url.index("://") + 3) :]  # with an empty query, too
        if _BREAK.search(asked):
            raise ValueError(_("line break in the URL {url!r}", url=url))
        headers: dict[str, str] = {hdrs.HOST: parsed.host_port_subcomponent or ""}
        if in_the_open and proxy is not None and proxy.authorization is not None:
            headers[hdrs.PROXY_AUTHORIZATION] = proxy.authorization
        beginning = f" {asked} HTTP/1.1\r\n{_lines(headers)}"
        leads_to: Destination | None = Destination(str(origin), None if proxy is None else proxy.url)
        if proxy is not None and URL(proxy.url).raw_host == origin.raw_host:
            leads_to = None  # the TLS sessions of proxy and origin would be indistinguishable
        return _Target(host_of(url), self._destination(origin, proxy), leads_to, beginning)

    def _new_destination(self, origin: URL, proxy: Proxy | None) -> aiohttp.ClientRequest:
        """Returns the connector's request object of an origin. The connector only reads it: one is shared by many
        requests.
        """
        if proxy is None:
            return aiohttp.ClientRequest(hdrs.METH_GET, origin)
        connecting = None
        if origin.scheme == "https":
            # Includes the Host that the connector would add: these arguments are part of the pool's key.
            host = origin.host_port_subcomponent or ""
            connecting = CIMultiDict({hdrs.HOST: host, hdrs.USER_AGENT: self._usual[hdrs.USER_AGENT]})
            if proxy.authorization is not None:
                connecting[hdrs.PROXY_AUTHORIZATION] = proxy.authorization
        return aiohttp.ClientRequest(hdrs.METH_GET, origin, proxy=URL(proxy.url), proxy_headers=connecting)


def _write(protocol: ResponseHandler, kept: bool, request: bytes, sent: Sent, host: str, tolerant: bool) -> bool:
    """Writes the request unless the kept connection is unusable; reports a write to `sent`.

    Unsolicited data on a kept connection must not be taken for the answer, which is parsed tolerantly or not.
    """
    if kept and protocol.should_close:
        return False
    if protocol.transport is None:
        raise aiohttp.ServerDisconnectedError
    protocol.set_response_params(
        read_until_eof=True,
        auto_decompress=False,
        max_line_size=_MAX_LINE_BYTES,
        max_field_size=_MAX_FIELD_BYTES,
        max_headers=_MAX_HEADERS,
    )
    if tolerant:
        parse_tolerantly(protocol)
    protocol.transport.write(request)
    sent(host)
    return True


def _may_repeat(error: BaseException, message: HttpMessage, *, tolerant: bool, kept: bool, written: bool) -> bool:
    """Returns whether a request that ended so is sent again: over a new connection, or to the tolerant parser."""
    if isinstance(error, HttpProcessingError):
        return not tolerant and message.body is None
    lost = isinstance(error, aiohttp.ClientOSError | aiohttp.ServerDisconnectedError)
    return kept and lost and (not written or message.body is None or message.repeatable)


async def _answer(
    protocol: ResponseHandler, refused: Callable[[], None] | None
) -> tuple[RawResponseMessage, StreamReader]:
    """Returns the head and the stream of the final response; skips interim ones (1xx).

    `refused`: called if the strict parser refuses the rest of the body; None: the tolerant one parses it.
    """
    while True:
        message, content = await protocol.read()
        if message.code >= 200 or message.code == HTTPStatus.SWITCHING_PROTOCOLS:
            if refused is not None and not content.is_eof():
                watch_parser(protocol, content, refused)
            return message, content


def _lines(headers: Mapping[str, str]) -> str:
    lines = ""
    for name, value in headers.items():
        if _BREAK.search(name) or _BREAK.search(value):
            raise ValueError(_("line break in the header {name!r}", name=name))
        lines += f"{name}: {value}\r\n"
    return lines


# Bodies are read up to a limit, and unwanted ones drained so that their connections can be reused.

_MAX_DISCARDED_BYTES = 64 * 1024
_DISCARDING_SECONDS = 2.0
"""Longest time spent on draining a body to keep its connection."""
_DECODED_ELSEWHERE_BYTES = 64 * 1024
_DECODED_HERE_BYTES = 512 * 1024
"""Encoded and decoded sizes from which decompression runs in a thread."""


async def read_body(response: Response, limit: int) -> bytes:
    """Returns the whole body, content-decoded (also of text that is gzip), at most `limit` bytes before and after.

    Raises `RefusedError`: too large, cut short, wrongly encoded, or too late; `CutShortError` if all was sent, but its
    compressed data end too early. A body that is too large is not drained.
    """
    length = response.content_length
    if length is not None and length > limit:
        raise _too_large(limit)
    body, whole = await _read(response, limit)
    if not whole:
        raise _too_large(limit)
    if hdrs.CONTENT_ENCODING in response.headers:
        body = await _decoded(body, _encoding(response), limit, partial=False)
    return await _without_unsaid_gzip(response, body, limit, partial=False)


async def read_beginning(response: Response, limit: int) -> bytes:
    """Returns the first `limit` bytes of the body, content-decoded; the rest is ignored.

    Raises `RefusedError` if the connection breaks earlier, or the encoding is wrong.
    """
    body, _complete = await _read(response, limit)
    body = await _decoded(body, _encoding(response), limit, partial=True)
    return await _without_unsaid_gzip(response, body, limit, partial=True)


async def discard_body(response: Response) -> int:
    """Drains an unwanted body so that its connection can be reused; closes the connection if it is long, slow or
    broken.

    Returns the bytes read, as sent.
    """
    size = 0
    try:
        async with asyncio.timeout(_DISCARDING_SECONDS):
            while size <= _MAX_DISCARDED_BYTES and (chunk := await response.content.readany()):
                size += len(chunk)
    except SITE_FAULTS:
        return size
    finally:
        response.close()
    return size


async def _read(response: Response, limit: int) -> tuple[bytes, bool]:
    """Returns the body, and whether it is complete; stops soon after `limit` bytes."""
    chunks: list[bytes] = []
    size = 0
    try:
        while chunk := await response.content.readany():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                break
    except SITE_FAULTS as error:
        raise refusal(error) from error
    return (chunks[0] if len(chunks) == 1 else b"".join(chunks)), size <= limit


def _encoding(response: Response) -> str:
    return ",".join(response.headers.getall(hdrs.CONTENT_ENCODING, ()))


async def _without_unsaid_gzip(response: Response, body: bytes, limit: int, partial: bool) -> bytes:
    if unsaid_gzip(body, response.headers.get(hdrs.CONTENT_TYPE)):
        try:
            body = await _decoded(body, "gzip", limit, partial=partial)
            response.unpacked = True
        except RefusedError as error:
            if error.kind is OutcomeKind.TOO_LARGE:
                raise
    return body  # also of what only begins as gzip does


async def _decoded(body: bytes, encoding: str, limit: int, partial: bool) -> bytes:
    try:
        if len(body) < _DECODED_ELSEWHERE_BYTES:
            if partial or limit <= _DECODED_HERE_BYTES:
                return decode(body, encoding, limit, partial=partial)
            with contextlib.suppress(TooLargeError):  # a large result goes to the thread
                return decode(body, encoding, _DECODED_HERE_BYTES)
        return await asyncio.to_thread(decode, body, encoding, limit, partial=partial)
    except TooLargeError as error:
        raise _too_large(limit) from error
    except CutShortError:
        raise
    except DecodingError as error:
        raise RefusedError(OutcomeKind.PROTOCOL_ERROR, str(error)) from error


def _too_large(limit: int) -> RefusedError:
    return RefusedError(OutcomeKind.TOO_LARGE, _("body of more than {limit} bytes", limit=limit))
