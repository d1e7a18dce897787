"""Detects calls by pages of other sites in a browser, as opposed to programs and users.

A page can post to a daemon on loopback (then Origin, Referer or Sec-Fetch-Site identify the page), or read from it
under a name of its own (DNS rebinding: then Host does). Only daemons without tokens need this: no page knows a token.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers

from pollerd.api.http.settings import is_loopback

_HOST = re.compile(r"(?P<name>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_ORIGIN = re.compile(r"https?://(?P<host>[^/?#@\\\s]+)", re.IGNORECASE)
_REFERER = re.compile(_ORIGIN.pattern + r"(?:[/?#].*)?", re.IGNORECASE | re.DOTALL)
_OWN_FETCHES = frozenset({"same-origin", "none"})
"""Excludes `same-site`: to a browser all ports of this machine are one site, including other servers."""


def foreign_page(headers: Headers, *, writes: bool) -> str | None:
    """Returns why a call is refused as possibly coming from another site's page; None if it is accepted.

    Refuses a Host or Origin that is not exactly a loopback address or equal to the Host, or that is repeated. `writes`:
    the call changes something; only then Referer and Sec-Fetch-Site are checked, since a user may follow a link from
    any page.
    """
    hosts = headers.getlist("host")
    if len(hosts) > 1 or not all(map(_names_loopback, hosts)):
        return "without a token the API answers to loopback names only"
    own = hosts[0].lower() if hosts else ""
    origins = [(_ORIGIN, value) for value in headers.getlist("origin")]
    referers = [(_REFERER, value) for value in headers.getlist("referer")] if writes else []
    if not all(_is_of(own, shape, value) for shape, value in origins + referers):
        return "without a token the API takes no calls from other sites' pages"
    if writes and not _OWN_FETCHES.issuperset(headers.getlist("sec-fetch-site")):
        return "without a token the API takes changes from its own pages and from programs only"
    return None


def _names_loopback(host: str) -> bool:
    """Returns whether a Host header is a loopback name or address, optionally with a port, and nothing else."""
    match = _HOST.fullmatch(host)
    return match is not None and is_loopback(match["name"].strip("[]"))


def _is_of(own: str, shape: re.Pattern[str], value: str) -> bool:
    match = shape.fullmatch(value)
    return match is not None and match["host"].lower() == own
