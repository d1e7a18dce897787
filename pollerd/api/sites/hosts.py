"""Routes of hosts."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query

from pollerd.api.http.context import Caller, Daemon
from pollerd.api.http.parameters import Cursor, Limit, Words, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing
from pollerd.api.schemas.hosts import Host, HostPatch

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
) -> Listing[Host]:
    """Hosts in the order in which they became known, those that fit every filter."""
    hosts = daemon.control.hosts
    page = await daemon.store.sites.list_hosts(q, hosts.ids(paused=paused, unreachable=unreachable), limit, cursor)
    return Listing.of(map(Host.model_validate, await hosts.views(page.items)), page.next_cursor)


@router.get("/{name}", summary="One host")
async def get_host(daemon: Daemon, name: HostName) -> Host:
    """The host as it stands: robots.txt, pauses, spacing, refusals."""
    (view,) = await daemon.control.hosts.views([await daemon.store.sites.get_host(name.lower())])
    return Host.model_validate(view)


@router.patch("/{name}", dependencies=[Depends(json_body)], summary="Pause a host, or end its pause")
async def change_host(daemon: Daemon, name: HostName, patch: HostPatch, caller: Caller) -> Host:
    """Takes effect at once and stays over a restart. What is under way at the host comes to its end.

    Where pauses end so do the backoffs of sites that were refused by status 429 or 503. A host that refuses again is
    paused again.
    """
    paused, until = patch.pause()
    view = await daemon.control.hosts.override(name.lower(), paused=paused, until=until, by=caller)
    return Host.model_validate(view)
