"""The user's settings of fetching."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import UnionType

from pollerd.errors import InvalidValueError
from pollerd.fetching.network.proxy import normalise_proxy
from pollerd.ranges import FETCH_COUNTS, FETCH_SECONDS, Range


@dataclass(frozen=True)
class FetchSettings:
    """Settings of the fetcher. Raises `InvalidValueError` naming the field that is out of range."""

    contact: str | None = None
    """URL or mail address of the operator; sent in the User-Agent. Printable ASCII, at most 200."""
    total_timeout_seconds: float = 30.0
    """Deadline of a whole poll, including redirects."""
    connect_timeout_seconds: float = 10.0
    """Deadline of one connection: waiting for a free one, name lookup, TCP and TLS."""
    max_body_bytes: int = 10 * 1024 * 1024
    """Largest body, both as sent and after decompression."""
    max_redirects: int = 10
    allow_private: bool = False
    """Opens loopback, private and link-local networks; cloud metadata addresses stay closed (see `guard`)."""
    keepalive_seconds: float = 30.0
    """How long an idle connection is kept. Idle connections do not count against `max_connections`."""
    max_connections: int = 512
    """Most connections in use at once; must not be below the number of polls in flight."""
    robots_max_bytes: int = 500 * 1024
    """How much of a robots.txt is read; the rest is ignored. RFC 9309 requires at least 500 KiB."""
    ca_file: str | None = None
    """PEM file of certificate authorities trusted in addition to the system's."""
    tls_session_bytes: int = 64 * 1024 * 1024
    """Memory for resumable TLS sessions, some 12 kB each; 0: none are resumed."""
    proxy: str | None = field(default=None, repr=False)
    """URL of the proxy for all requests, except of sites with their own. Its address is trusted: it may be private."""

    def __post_init__(self) -> None:
        for allowed in FETCH_SECONDS.values():
            _require(allowed, getattr(self, allowed.name), int | float)
        for allowed in FETCH_COUNTS.values():
            _require(allowed, getattr(self, allowed.name), int)
        if self.proxy is not None:
            normalise_proxy(self.proxy)
        contact = self.contact
        if contact is not None and not (
            0 < len(contact) <= 200 and contact.isascii() and contact.isprintable() and contact.strip() == contact
        ):
            raise InvalidValueError("contact", "1 to 200 printable ASCII characters, or unset", contact)


def _require(allowed: Range, value: float, kind: type | UnionType) -> None:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise InvalidValueError(allowed.name, allowed.allowed, value)
    allowed.check(value)
