"""What a user may set about fetching."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import UnionType

from pollerd.errors import InvalidValueError
from pollerd.fetching.network.proxy import normalise_proxy
from pollerd.ranges import FETCH_COUNTS, FETCH_SECONDS, Range


@dataclass(frozen=True)
class FetchSettings:
    """How pages are fetched. Raises `InvalidValueError` naming the field that is out of range."""

    contact: str | None = None
    """URL or mail address of whoever runs the daemon; sent in the User-Agent. Printable ASCII, at most 200."""
    total_timeout_seconds: float = 30.0
    """One deadline for a whole poll, redirects included."""
    connect_timeout_seconds: float = 10.0
    """For one connection: waiting for a free one, name lookup, TCP and TLS."""
    max_body_bytes: int = 10 * 1024 * 1024
    """Largest body, both as sent and after decompression."""
    max_redirects: int = 10
    allow_private: bool = False
    """Open loopback, private and link-local networks; cloud metadata addresses stay closed (see `guard`)."""
    keepalive_seconds: float = 30.0
    """How long an idle connection is kept. Idle connections do not count against `max_connections`."""
    max_connections: int = 512
    """Connections in use at once; keep it at or above the number of polls in flight."""
    robots_max_bytes: int = 500 * 1024
    """How much of a robots.txt is read; the rest is ignored. RFC 9309 asks for 500 KiB at least."""
    ca_file: str | None = None
    """PEM file of certificate authorities trusted besides the system's own."""
    tls_session_bytes: int = 64 * 1024 * 1024
    """Room for the TLS sessions of servers that are resumed at the next connection, some 12 kB each; 0: none are."""
    proxy: str | None = field(default=None, repr=False)
    """URL of the proxy that every request goes through, but those of sites with one of their own. Its address is
    trusted: it may be a private one."""

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
