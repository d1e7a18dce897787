"""What the daemon asks of fetching."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiohttp import hdrs

from pollerd.fetching.network.proxy import basic
from pollerd.model import Access, Validators

NO_VALIDATORS = Validators()


@dataclass(frozen=True, slots=True)
class Request:
    """One page to get."""

    url: str
    """As `normalise_url` returns it."""
    validators: Validators = NO_VALIDATORS
    """Sent back verbatim; empty: a full GET."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The site's own, perhaps with credentials: sent to the origin of `url` only, never across a redirect."""
    proxy: str | None = field(default=None, repr=False)
    """The site's own proxy, as `normalise_proxy` returns it; None: the daemon's, if it has one."""


def own_headers(access: Access) -> tuple[tuple[str, str], ...]:
    """The headers that a site's access asks for, its credentials among them."""
    credentials = access.credentials
    if credentials is None:
        return access.headers
    if credentials.token is not None:
        value = f"Bearer {credentials.token}"
    else:
        value = basic(credentials.username or "", credentials.password or "")
    return (*access.headers, (hdrs.AUTHORIZATION, value))
