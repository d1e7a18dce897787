"""The HTTP client, made once: connector with the guard, TLS, headers that every request carries."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp

from pollerd import __version__
from pollerd.errors import InvalidValueError
from pollerd.fetching.decoding import ACCEPT_ENCODING
from pollerd.fetching.settings import FetchSettings

_ACCEPT = (
    "text/html,application/xhtml+xml,application/atom+xml,application/rss+xml,application/feed+json,"
    "application/json;q=0.9,application/xml;q=0.9,*/*;q=0.8"
)
_DNS_CACHE_SECONDS = 300
_MAX_LINE_BYTES = 16 * 1024
_MAX_FIELD_BYTES = 32 * 1024
_MAX_HEADERS = 256

SocketFactory = Callable[[tuple[int, int, int, str, tuple[Any, ...]]], socket.socket]
"""A new socket for an entry of `getaddrinfo`."""


def user_agent(contact: str | None) -> str:
    """The User-Agent: name and version, and where its owner can be reached."""
    name = f"pollerd/{__version__}"
    return name if contact is None else f"{name} (+{contact})"


def new_session(settings: FetchSettings, dial: SocketFactory) -> aiohttp.ClientSession:
    """A client session that dials by `dial`; must be called inside the running loop, and closed.

    Decompression is left to `decoding`, redirects to the fetcher; cookies are neither kept nor parsed; proxies and
    .netrc of the environment are not used. Raises `InvalidValueError` for a `ca_file` that cannot be loaded.
    """
    connector = aiohttp.TCPConnector(
        limit=settings.max_connections,
        limit_per_host=0,
        ttl_dns_cache=_DNS_CACHE_SECONDS,
        keepalive_timeout=settings.keepalive_seconds,
        socket_factory=dial,
        ssl=_tls(settings.ca_file),
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "User-Agent": user_agent(settings.contact),
            "Accept": _ACCEPT,
            "Accept-Encoding": ACCEPT_ENCODING,
        },
        timeout=timeout(settings, settings.total_timeout_seconds),
        auto_decompress=False,
        trust_env=False,
        max_line_size=_MAX_LINE_BYTES,
        max_field_size=_MAX_FIELD_BYTES,
        max_headers=_MAX_HEADERS,
    )


def timeout(settings: FetchSettings, total: float) -> aiohttp.ClientTimeout:
    """The deadlines of one request that has `total` seconds left."""
    return aiohttp.ClientTimeout(total=total, connect=settings.connect_timeout_seconds)


def _tls(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as error:
            raise InvalidValueError("ca_file", "a readable PEM file of certificates", ca_file) from error
    return context
