"""Dials what a page asks for: the guard judges every address of a name, and the address dialled is one of those."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from yarl import URL

from pollerd.fetching import (
    DIALLING_FAULTS,
    Address,
    BlockedAddressError,
    FetchSettings,
    Guard,
    Proxy,
    addresses_of,
    allowed_addresses,
    connect,
    normalise_proxy,
    open_socket,
    parse_proxy,
    proxy_refusal,
    why_not_dialled,
)
from pollerd.model import OutcomeKind
from pollerd.rendering.failures import PageRefusedError
from pollerd.rendering.proxy.heads import read_head, status_of


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
        raise PageRefusedError(OutcomeKind.CONNECT_ERROR, "the proxy's answer is not one of a proxy")
    if not 200 <= status < 300:
        raise PageRefusedError(OutcomeKind.CONNECT_ERROR, proxy_refusal(status))
