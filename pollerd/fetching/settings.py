"""User settings of fetching, and proxies: their normalised URLs and the credentials sent to them."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from functools import lru_cache
from types import UnionType
from urllib.parse import unquote

from pollerd.errors import InvalidValueError
from pollerd.ranges import FETCH_COUNTS, FETCH_SECONDS, Range
from pollerd.texts import N_, _
from pollerd.urls import normalise_url

# Proxies. Pure.

_SHAPE = re.compile(r"(?P<scheme>https?)://(?:(?P<userinfo>[^/?#@]*)@)?(?P<place>[^/?#@]+)/?", re.IGNORECASE)
_USERINFO = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2}){1,512}")
_ALLOWED = N_("http://host:port or https://host:port, perhaps with user:password@ (percent-encoded) before the host")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy to be dialled. `repr` hides the credentials."""

    url: str
    """Without user name and password."""
    authorization: str | None = field(default=None, repr=False)
    """Value of Proxy-Authorization."""


def normalise_proxy(text: str) -> str:
    """Returns the normal form of a proxy's URL, including user name and password.

    Raises `InvalidValueError(field="proxy")`, which shows at most the scheme of the given text.
    """
    shape = _SHAPE.fullmatch(text.strip())
    if shape is None:
        raise _invalid(text)
    userinfo = shape["userinfo"]
    if userinfo is not None and not _USERINFO.fullmatch(userinfo):
        raise _invalid(text)
    try:
        url = normalise_url(f"{shape['scheme']}://{shape['place']}").removesuffix("/")
    except InvalidValueError as error:
        raise _invalid(text) from error
    return url if userinfo is None else url.replace("://", f"://{userinfo}@", 1)


def without_userinfo(proxy: str) -> str:
    """Returns a proxy's URL without credentials; `proxy` as `normalise_proxy` returns it."""
    return parse_proxy(proxy).url


@lru_cache(maxsize=1024)
def parse_proxy(proxy: str) -> Proxy:
    """Parses a result of `normalise_proxy`."""
    scheme, _separator, rest = proxy.partition("://")
    userinfo, at, place = rest.rpartition("@")
    if not at:
        return Proxy(proxy)
    name, _colon, password = userinfo.partition(":")
    return Proxy(f"{scheme}://{place}", basic(unquote(name), unquote(password)))


def basic(username: str, password: str) -> str:
    """Returns the value of an Authorization header (RFC 7617, in UTF-8)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")


def _invalid(text: str) -> InvalidValueError:
    """Returns the error, which shows at most the scheme: an invalid URL may contain a password anywhere."""
    scheme, separator, _rest = text.strip().partition("://")
    return InvalidValueError("proxy", _(_ALLOWED), f"{scheme}://…" if separator and scheme.isalnum() else "(not shown)")


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
            raise InvalidValueError("contact", _("1 to 200 printable ASCII characters, or unset"), contact)


def _require(allowed: Range, value: float, kind: type | UnionType) -> None:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise InvalidValueError(allowed.name, allowed.allowed, value)
    allowed.check(value)
