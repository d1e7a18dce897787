"""Hosts.

Routes of hosts.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query
from pydantic import ConfigDict, Field

from pollerd.api.common import Given, Listing
from pollerd.api.http import Caller, Cursor, Daemon, Limit, Words, api_router, json_body
from pollerd.daemon.views import HostView
from pollerd.errors import InvalidValueError, refusal
from pollerd.texts import _
from pollerd.timestamps import parse_moment


class HostPatch(Given):
    """`paused` true: until `paused_until`, null or missing: until a user ends it. `paused` false, or `paused_until`
    null alone: all pauses end, also one that the host asked for.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"paused": False}, {"paused": True}, {"paused_until": "2126-01-31T12:00:00Z"}],
            "minProperties": 1,
        }
    )

    paused: bool = False
    paused_until: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None

    def pause(self) -> tuple[bool, float | None]:
        """Returns whether to pause the host, and until when (epoch s), None: no limit. Raises `InvalidValueError`."""
        if not self.model_fields_set:
            raise InvalidValueError("paused", _("given, or paused_until"), None)
        until = None if self.paused_until is None else parse_moment("paused_until", self.paused_until)
        if "paused" not in self.model_fields_set:
            return until is not None, until
        if until is not None and not self.paused:
            raise refusal("paused_until", _("a host that is not paused has no end of its pause"))
        return self.paused, until


router = api_router("/hosts", tag="hosts")
HostName = Annotated[Words, Path(description="name:port, percent-encoded; IPv6 addresses in brackets")]


@router.get("", summary="List hosts")
async def list_hosts(
    daemon: Daemon,
    q: Annotated[Words | None, Query(description="part of the name")] = None,
    paused: Annotated[bool | None, Query(description="are paused now, by themselves or by hand; or are not")] = None,
    unreachable: Annotated[bool | None, Query(description="have a robots.txt that could not be read; or not")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Listing[HostView]:
    """Hosts in the order in which they became known, those that fit every filter."""
    hosts = daemon.control.hosts
    page = await daemon.store.sites.hosts.page(q, hosts.ids(paused=paused, unreachable=unreachable), limit, cursor)
    return Listing.of(await hosts.views(page.items), page.next_cursor)


@router.get("/{name}", summary="One host")
async def get_host(daemon: Daemon, name: HostName) -> HostView:
    """The host as it stands: robots.txt, pauses, spacing, refusals."""
    (view,) = await daemon.control.hosts.views([await daemon.store.sites.hosts.get(name.lower())])
    return view


@router.patch("/{name}", dependencies=[Depends(json_body)], summary="Pause a host, or end its pause")
async def change_host(daemon: Daemon, name: HostName, patch: HostPatch, caller: Caller) -> HostView:
    """Takes effect at once and stays over a restart. What is under way at the host comes to its end.

    Where pauses end so do the backoffs of sites that were refused by status 429 or 503. A host that refuses again is
    paused again.
    """
    paused, until = patch.pause()
    return await daemon.control.hosts.override(name.lower(), paused=paused, until=until, by=caller)


ROUTERS = (router,)
