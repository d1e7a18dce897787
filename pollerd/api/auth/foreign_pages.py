"""Detects calls by pages of other sites in a browser, as opposed to programs and users.

A page can post to a daemon on loopback (then Origin, Referer or Sec-Fetch-Site identify the page), or read from it
under a name of its own (DNS rebinding: then Host does). Daemons that let everybody in need all of this. Where callers
must sign in, no page knows a token and no foreign name has a cookie: only pages that use the browser's cookie remain,
such as those of another port of this machine, which are the same site to a browser.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.datastructures import Headers

from pollerd.api.http.settings import is_loopback

_HOST = re.compile(r"(?P<name>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_ORIGIN = re.compile(r"https?://(?P<host>[^/?#@\\\s]+)", re.IGNORECASE)
_REFERER = re.compile(_ORIGIN.pattern + r"(?:[/?#].*)?", re.IGNORECASE | re.DOTALL)
_OWN_FETCHES = frozenset({"same-origin", "none"})
"""Excludes `same-site`: to a browser all ports of this machine are one site, including other servers."""


def foreign_page(headers: Headers, *, writes: bool, allowed: Collection[str] = ()) -> str | None:
    """Returns why a call is refused as possibly coming from another site's page; None if it is accepted.

    Refuses a Host that is neither a loopback address nor among `allowed`, an Origin that is neither the Host nor among
    `allowed`, and either if it is repeated. `writes`: the call changes something; only then Referer and Sec-Fetch-Site
    are checked, since a user may follow a link from any page.
    """
    hosts = headers.getlist("host")
    if len(hosts) > 1 or not all(_names_loopback(host) or _is_named(host, allowed) for host in hosts):
        return "without a token the API answers to loopback names, and to those of allowed_host, only"
    if not _origin_is_ours(headers, allowed, referer=writes):
        return "without a token the API takes no calls from other sites' pages"
    if writes and not _OWN_FETCHES.issuperset(headers.getlist("sec-fetch-site")):
        return "without a token the API takes changes from its own pages and from programs only"
    return None


def foreign_origin(headers: Headers, *, writes: bool, allowed: Collection[str] = ()) -> str | None:
    """Returns why a call that a browser may make by itself is refused; None if no header says that it is foreign.

    As `foreign_page`, but under any Host, and without Referer: a browser that sends neither Origin nor Sec-Fetch-Site
    is too old to tell.
    """
    if not _origin_is_ours(headers, allowed, referer=False):
        return "the call came from another site's page"
    if writes and not _OWN_FETCHES.issuperset(headers.getlist("sec-fetch-site")):
        return "the call came from another site's page"
    return None


def _origin_is_ours(headers: Headers, allowed: Collection[str], *, referer: bool) -> bool:
    own = headers.get("host", "").lower()
    named = [(_ORIGIN, value) for value in headers.getlist("origin")]
    named += [(_REFERER, value) for value in headers.getlist("referer")] if referer else []
    return all(_is_of(own, allowed, shape, value) for shape, value in named)


def _names_loopback(host: str) -> bool:
    """Returns whether a Host header is a loopback name or address, optionally with a port, and nothing else."""
    match = _HOST.fullmatch(host)
    return match is not None and is_loopback(match["name"].strip("[]"))


def _is_named(host: str, allowed: Collection[str]) -> bool:
    """Returns whether a host is allowed by name and port, or by name with any port."""
    match = _HOST.fullmatch(host)
    return match is not None and (host.lower() in allowed or match["name"].lower() in allowed)


def _is_of(own: str, allowed: Collection[str], shape: re.Pattern[str], value: str) -> bool:
    match = shape.fullmatch(value)
    return match is not None and (match["host"].lower() == own or _is_named(match["host"], allowed))
