"""Dialling for the proxy: the guard judges every address of a name, and the address dialled is one of those."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from yarl import URL

from pollerd.fetching.failures import proxy_refusal
from pollerd.fetching.guard import (
    DIALLING_FAULTS,
    Address,
    BlockedAddressError,
    Guard,
    addresses_of,
    allowed_addresses,
    connect,
    open_socket,
    why_not_dialled,
)
from pollerd.fetching.settings import FetchSettings, Proxy, normalise_proxy, parse_proxy
from pollerd.model import OutcomeKind
from pollerd.rendering.outcome import PageRefusedError
from pollerd.texts import _

# Heads of HTTP/1.1 messages that cross the proxy, read and rewritten; bodies pass untouched. Lenient, as browsers are:
# a line that is not understood passes unchanged.

_END = re.compile(rb"\r?\n\r?\n")
_REQUEST = re.compile(rb"([A-Z]{1,32}) ([\x21-\x7e]{1,65536}) HTTP/1\.[01]")
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")
_HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"upgrade"})
_OF_ANSWERS = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate"})
MAX_HEAD_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request to the proxy."""

    method: bytes
    target: bytes
    """CONNECT: host:port; otherwise an absolute http URL."""
    fields: tuple[tuple[bytes, bytes], ...]
    """(name as sent, value)."""

    def get(self, name: bytes) -> bytes | None:
        """Returns the value of the first field of this name, given in lower case."""
        return next((value for key, value in self.fields if key.lower() == name), None)

    def forwarded(self, target: bytes, authorization: str | None) -> bytes:
        """Returns the head to send on, for a connection that ends with its answer.

        `authorization`: of a further proxy; None: none.
        """
        kept = [(name, value) for name, value in self.fields if name.lower() not in _HOP_BY_HOP]
        if authorization is not None:
            kept.append((b"Proxy-Authorization", authorization.encode("ascii")))
        kept.append((b"Connection", b"close"))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in kept)
        return self.method + b" " + target + b" HTTP/1.1\r\n" + lines + b"\r\n"


async def read_head(reader: asyncio.StreamReader, begun: bytes = b"") -> tuple[bytes, bytes]:
    """Returns a head with its empty line, and what came with it; an empty head where the stream ended first.

    `begun`: what was read of the stream before. Raises `ValueError` for a head of more than 128 KiB.
    """
    data = bytearray(begun)
    while (end := _END.search(data, max(0, len(data) - 65_540))) is None:
        if len(data) > MAX_HEAD_BYTES:
            raise ValueError(_("head too long"))
        chunk = await reader.read(65_536)
        if not chunk:
            return b"", bytes(data)
        data += chunk
    return bytes(data[: end.end()]), bytes(data[end.end() :])


def parse_request(head: bytes) -> RequestHead:
    """Parses the head of a request. Raises `ValueError`."""
    first, *lines = head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    request = _REQUEST.fullmatch(first)
    if request is None:
        raise ValueError(_("not a request"))
    return RequestHead(request[1], request[2], tuple(_field(line) for line in lines))


def status_of(head: bytes) -> int | None:
    """Returns the status of a response's head; None where it is not one of HTTP/1."""
    status = _STATUS.match(head)
    return None if status is None else int(status[1])


def ending(head: bytes) -> bytes:
    """Returns a response's head that announces the end of its connection."""
    first, *lines = head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _OF_ANSWERS]
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or name != name.strip():
        raise ValueError(_("not a header field"))
    return name, value.strip(b" \t")


@dataclass(frozen=True, slots=True)
class Dialled:
    """A connection to the target, or to the proxy that leads there."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    via: Proxy | None = None


class Dialler:
    """Dials targets, straight or through the site's own or the daemon's proxy. Used inside one event loop.

    As in fetching, the guard judges the address dialled, and a site's own proxy; the daemon's proxy is trusted. What a
    proxy dials is beyond our control: the target's addresses are judged as far as they can be found here.
    """

    def __init__(self, settings: FetchSettings) -> None:
        self._guard = Guard(settings.allow_private)
        self._seconds = settings.connect_timeout_seconds
        self._usual = None if settings.proxy is None else parse_proxy(normalise_proxy(settings.proxy))
        self._ca_file = settings.ca_file
        self._tls: ssl.SSLContext | None = None

    async def dial(self, host: str, port: int, own_proxy: str | None, *, tunnel: bool) -> Dialled:
        """Connects to a target; `host`: a name, or an address without brackets. Raises `PageRefusedError`.

        `own_proxy`: the site's; `tunnel`: through a proxy, a tunnel to the target is opened.
        """
        try:
            async with asyncio.timeout(self._seconds):
                proxy = self._usual if own_proxy is None else parse_proxy(own_proxy)
                if proxy is None:
                    return Dialled(*await self._connect(await self._checked(host, port), self._guard))
                await self._check(host)
                return await self._through(proxy, host, port, guarded=own_proxy is not None, tunnel=tunnel)
        except DIALLING_FAULTS as error:
            raise PageRefusedError(*why_not_dialled(error)) from error

    async def check(self, url: str) -> PageRefusedError | None:
        """Returns why the guard refuses the host of a URL, as far as its addresses can be found here; None: it does
        not.
        """
        try:
            async with asyncio.timeout(self._seconds):
                await self._check(URL(url, encoded=True).raw_host or "")
        except PageRefusedError as refusal:
            return refusal
        except OSError:
            return None
        return None

    async def _check(self, host: str) -> None:
        try:
            await self._checked(host, 0)
        except socket.gaierror:
            return  # left to the proxy, which may know more names

    async def _checked(self, host: str, port: int) -> list[Address]:
        """Returns the addresses of a host, all of them allowed. Raises `PageRefusedError` and OSErrors."""
        try:
            return await allowed_addresses(self._guard, host, port)
        except BlockedAddressError as error:
            raise PageRefusedError(OutcomeKind.BLOCKED_ADDRESS, str(error)) from error

    async def _connect(
        self, addresses: Sequence[Address], create: Any, tls: ssl.SSLContext | None = None, name: str | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to one of these addresses and to no other. Raises OSErrors."""
        sock = await connect(addresses, create)
        try:
            return await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=name)
        except BaseException:
            sock.close()
            raise

    async def _through(self, proxy: Proxy, host: str, port: int, *, guarded: bool, tunnel: bool) -> Dialled:
        place = URL(proxy.url)
        proxy_host, proxy_port = place.raw_host or "", place.port or 80
        if guarded:
            addresses = await self._checked(proxy_host, proxy_port)
        else:
            addresses = await addresses_of(proxy_host, proxy_port)
        https = place.scheme == "https"
        tls = self._context() if https else None
        reader, writer = await self._connect(
            addresses, self._guard if guarded else open_socket, tls, proxy_host if https else None
        )
        if tunnel:
            try:
                await _open_tunnel(reader, writer, proxy, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
            except BaseException:
                writer.close()
                raise
        return Dialled(reader, writer, proxy)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            if self._ca_file is not None:
                self._tls.load_verify_locations(cafile=self._ca_file)
        return self._tls


async def _open_tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: Proxy, target: str) -> None:
    authorization = "" if proxy.authorization is None else f"Proxy-Authorization: {proxy.authorization}\r\n"
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n".encode("ascii"))
    head, rest = await read_head(reader)
    status = status_of(head)
    if status is None or rest:
        raise PageRefusedError(OutcomeKind.CONNECT_ERROR, _("the proxy's answer is not one of a proxy"))
    if not 200 <= status < 300:
        raise PageRefusedError(OutcomeKind.CONNECT_ERROR, proxy_refusal(status))


# Connections by host: bounded over all pages, and shared such that no page keeps the others from a host.

MAX_CONNECTIONS = 6
"""Connections to one host at once, over all pages: what a browser opens."""
_SILENT_SECONDS = 1.0
"""A waiting page takes over a connection that was silent for so long, of a page with more than its share."""
_PATIENCE_SECONDS = 5.0
"""After which it takes over one that is not silent."""


class HeldConnection:
    """A connection that counts at its host, from before it is dialled until it is let go."""

    __slots__ = ("abort", "active_at", "host", "owner")

    def __init__(self, host: str, owner: object, now: float) -> None:
        self.host, self.owner, self.active_at = host, owner, now
        self.abort: Callable[[], object] | None = None
        """Ends the connection; None: it cannot be taken over yet."""


class HostConnections:
    """Counts connections by host (name:port) and owner (a page)."""

    def __init__(self, most: int = MAX_CONNECTIONS) -> None:
        self._most = most
        self._held: defaultdict[str, set[HeldConnection]] = defaultdict(set)
        self._waiting: defaultdict[str, dict[asyncio.Future[None], object]] = defaultdict(dict)
        self.most_seen = 0
        """The most connections that one host had at once."""

    async def hold(self, host: str, owner: object) -> HeldConnection:
        """Returns a connection's place once the host has one; it must be let go."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while len(self._held[host]) >= self._most:
            free: asyncio.Future[None] = loop.create_future()
            self._waiting[host][free] = owner
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_SILENT_SECONDS):
                        await free
            finally:
                self._stop_waiting(host, free)
            if len(self._held[host]) >= self._most:
                self._take_over(host, owner, impatient=loop.time() - began > _PATIENCE_SECONDS)
        held = HeldConnection(host, owner, loop.time())
        self._held[host].add(held)
        self.most_seen = max(self.most_seen, len(self._held[host]))
        return held

    def let_go(self, held: HeldConnection) -> None:
        """Frees the place for who has waited longest."""
        left = self._held[held.host]
        left.discard(held)
        for free in self._waiting.get(held.host, ()):
            if not free.done():
                free.set_result(None)
                break
        if not left and held.host not in self._waiting:
            del self._held[held.host]

    def _stop_waiting(self, host: str, free: asyncio.Future[None]) -> None:
        waiting = self._waiting[host]
        waiting.pop(free, None)
        if not waiting:
            del self._waiting[host]

    def _take_over(self, host: str, owner: object, *, impatient: bool) -> None:
        """Ends the longest silent connection of another page that has more than its share of the host."""
        held = self._held[host]
        owners = {connection.owner for connection in held} | {owner}
        share = max(1, self._most // len(owners))
        now = asyncio.get_running_loop().time()
        beyond = [
            connection
            for connection in held
            if connection.owner is not owner
            and connection.abort is not None
            and sum(other.owner is connection.owner for other in held) > share
            and (impatient or now - connection.active_at >= _SILENT_SECONDS)
        ]
        if beyond:
            longest = min(beyond, key=lambda connection: connection.active_at)
            assert longest.abort is not None
            longest.abort()
