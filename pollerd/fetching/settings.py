"""What a user may set about fetching."""

from __future__ import annotations

from dataclasses import dataclass, field

from pollerd.errors import InvalidValueError
from pollerd.fetching.network.proxy import normalise_proxy


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
        for name in ("total_timeout_seconds", "connect_timeout_seconds", "keepalive_seconds"):
            _require_seconds(name, getattr(self, name))
        for name, least in (
            ("max_body_bytes", 1),
            ("max_redirects", 0),
            ("max_connections", 1),
            ("robots_max_bytes", 1),
            ("tls_session_bytes", 0),
        ):
            _require_count(name, getattr(self, name), least)
        if self.proxy is not None:
            normalise_proxy(self.proxy)
        contact = self.contact
        if contact is not None and not (
            0 < len(contact) <= 200 and contact.isascii() and contact.isprintable() and contact.strip() == contact
        ):
            raise InvalidValueError("contact", "1 to 200 printable ASCII characters, or unset", contact)


def _require_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not (0 < value <= 86_400):
        raise InvalidValueError(name, "seconds above 0, at most 86400", value)


def _require_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidValueError(name, f"a whole number, {least} or more", value)
