"""Requests to the fetcher."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiohttp import hdrs

from pollerd.fetching.settings import basic
from pollerd.model import Validators
from pollerd.site_settings import Access

NO_VALIDATORS = Validators()


@dataclass(frozen=True, slots=True)
class Request:
    """A page to fetch."""

    url: str
    """As `normalise_url` returns it, but for its percent-encoding, which is sent as it is."""
    validators: Validators = NO_VALIDATORS
    """Sent back verbatim; empty: a full GET."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The site's own, perhaps with credentials: sent only to the origin of `url`, never across a redirect."""
    proxy: str | None = field(default=None, repr=False)
    """The site's own proxy, as `normalise_proxy` returns it; None: the daemon's, if it has one."""
    body: bytes | None = field(default=None, repr=False)
    """Sent by POST, once, and never across a redirect; None: GET."""
    most_bytes: int | None = None
    """Largest body in bytes; None: the daemon's `max_body_bytes`."""
    picture: bool = False
    """If the page is rendered: whether a picture is taken of it, and the boxes of its elements are read."""


def own_headers(access: Access) -> tuple[tuple[str, str], ...]:
    """Returns the headers of a site's access, including its credentials."""
    credentials = access.credentials
    if credentials is None:
        return access.headers
    if credentials.token is not None:
        value = f"Bearer {credentials.token}"
    else:
        value = basic(credentials.username or "", credentials.password or "")
    return (*access.headers, (hdrs.AUTHORIZATION, value))
