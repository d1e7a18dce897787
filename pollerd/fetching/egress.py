"""Routes of requests: direct, through the daemon's proxy, or through a site's own; the guard checks each.

For direct requests, and for connections to a site's own proxy, the guard checks the address dialled. The daemon's proxy
is set by the operator and dialled at any address, by a client that dials nothing else. What a proxy dials is beyond our
control: the target is checked beforehand, as far as its addresses can be resolved here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from yarl import URL

from pollerd.fetching.client import HttpClient
from pollerd.fetching.failures import RefusedError
from pollerd.fetching.guard import Guard, GuardedResolver, open_socket
from pollerd.fetching.settings import FetchSettings, Proxy, normalise_proxy, parse_proxy
from pollerd.model import OutcomeKind


@dataclass(frozen=True, slots=True)
class Route:
    """One route: the client that dials, and the proxy it dials, if any."""

    client: HttpClient
    proxy: Proxy | None = None


class Router:
    """All routes of one fetcher; created inside the running loop, and must be closed.

    Used as a context manager it stays open: a retired router closes when the last such block has ended.
    """

    def __init__(self, settings: FetchSettings) -> None:
        """Raises `InvalidValueError` for a `ca_file` that cannot be loaded."""
        self._users = 0
        self._retired: Callable[[Router], None] | None = None
        self._guard = Guard(settings.allow_private)
        self._resolving_seconds = settings.connect_timeout_seconds
        self._guarded = HttpClient(settings, self._guard, GuardedResolver(self._guard))
        self._usual = Route(self._guarded)
        if settings.proxy is not None:
            proxy = parse_proxy(normalise_proxy(settings.proxy))
            self._usual = Route(HttpClient(settings, open_socket), proxy)

    def __enter__(self) -> Self:
        self._users += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if self._retired is not None:
            self._close_if_unused()

    def retire(self, closed: Callable[[Router], None]) -> None:
        """Closes the router once no request uses it, then calls `closed`; no new requests may follow."""
        self._retired = closed
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        closed = self._retired
        if self._users == 0 and closed is not None:
            closing = asyncio.get_running_loop().create_task(self.close(), name="close-egress")
            closing.add_done_callback(lambda _: closed(self))

    def way(self, proxy: str | None) -> Route:
        """Returns the route through a site's own proxy; None: the daemon's route."""
        return self._usual if proxy is None else Route(self._guarded, parse_proxy(proxy))

    def check_literal(self, url: str) -> None:
        """Checks a target that is itself an address, which needs no lookup. Raises `RefusedError`."""
        host = URL(url, encoded=True).raw_host or ""
        if ":" in host or host.rpartition(".")[2].isdecimal():
            self._refuse([host])

    async def check(self, url: str) -> None:
        """Checks a target that a proxy will dial. Raises `RefusedError`, and OSErrors of timeouts.

        All addresses of the name found here must be allowed. A name without any is left to the proxy, which may resolve
        more names.
        """
        host = URL(url, encoded=True).raw_host or ""
        self._refuse(await self._addresses(host))

    def _refuse(self, addresses: list[str]) -> None:
        reason = self._guard.denial_of_any(addresses)
        if reason is not None:
            raise RefusedError(OutcomeKind.BLOCKED_ADDRESS, reason)

    async def _addresses(self, host: str) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._resolving_seconds):
                entries = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except socket.gaierror:
            return []
        return [str(entry[4][0]) for entry in entries]

    async def close(self) -> None:
        """Closes every connection."""
        await self._guarded.close()
        if self._usual.client is not self._guarded:
            await self._usual.client.close()
