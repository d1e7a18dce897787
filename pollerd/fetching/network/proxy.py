"""Normalises proxy URLs, and derives what is sent to a proxy. Pure."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote

from pollerd.errors import InvalidValueError
from pollerd.urls import normalise_url

_SHAPE = re.compile(r"(?P<scheme>https?)://(?:(?P<userinfo>[^/?#@]*)@)?(?P<place>[^/?#@]+)/?", re.IGNORECASE)
_USERINFO = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2}){1,512}")
_ALLOWED = "http://host:port or https://host:port, perhaps with user:password@ (percent-encoded) before the host"


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
    scheme, _, rest = proxy.partition("://")
    userinfo, at, place = rest.rpartition("@")
    if not at:
        return Proxy(proxy)
    name, _, password = userinfo.partition(":")
    return Proxy(f"{scheme}://{place}", basic(unquote(name), unquote(password)))


def basic(username: str, password: str) -> str:
    """Returns the value of an Authorization header (RFC 7617, in UTF-8)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")


def _invalid(given: str) -> InvalidValueError:
    """Returns the error, which shows at most the scheme: an invalid URL may contain a password anywhere."""
    scheme, separator, _ = given.strip().partition("://")
    return InvalidValueError("proxy", _ALLOWED, f"{scheme}://…" if separator and scheme.isalnum() else "(not shown)")
