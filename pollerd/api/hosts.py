"""Hosts.

Routes of hosts.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.common import Given, Listing, Moment
from pollerd.api.context import Caller, Daemon
from pollerd.api.http import api_router
from pollerd.api.parameters import Cursor, Limit, Words, json_body
from pollerd.errors import InvalidValueError
from pollerd.timestamps import parse_moment

# Hosts: state and changes.


class HostOverrideSchema(BaseModel):
    """What an operator last did to a host's pause."""

    model_config = ConfigDict(from_attributes=True)

    at: Moment
    by: str = Field(description="what it took to be let in: the scope of the token")
    paused: bool = Field(description="true: paused by hand; false: a pause was ended")
    until: Moment | None = Field(description="of a pause by hand; null: until somebody ends it")


class HostRobots(BaseModel):
    """What is known of a host's robots.txt."""

    model_config = ConfigDict(from_attributes=True)

    state: Literal["unknown", "found", "absent", "unreachable"] = Field(
        description="unknown: never asked for; found: its rules hold; absent: all is allowed; unreachable: nothing is "
        "asked of the host until it could be read"
    )
    fetched_at: Moment | None
    retry_at: Moment | None = Field(description="not asked for again before")
    failures: int = Field(description="in a row")
    detail: str


class Host(BaseModel):
    """What is known of a host. Durations in seconds."""

    model_config = ConfigDict(from_attributes=True)

    name: str = Field(description="name:port")
    sites: int
    spacing: float = Field(description="between two requests")
    crawl_delay: float | None = Field(description="what its robots.txt asks for")
    robots: HostRobots
    paused: bool
    paused_until: Moment | None = Field(description="null with `paused`: until somebody ends it")
    paused_by: Literal["host", "operator"] | None
    pause_reason: str | None
    refusals: int = Field(description="answers of status 429 or 503 in a row")
    last_request_at: Moment | None = Field(description="null: never, or not known since a restart")
    next_request_at: Moment | None = Field(description="the earliest moment; null: none is to come")
    busy: bool = Field(description="a request is under way")
    override: HostOverrideSchema | None = Field(description="what an operator last did to its pause")


class HostPatch(Given):
    """`paused` true: until `paused_until`, null or left out: until somebody ends it. `paused` false, or `paused_until`
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
            raise InvalidValueError("paused", "given, or paused_until", None)
        until = None if self.paused_until is None else parse_moment("paused_until", self.paused_until)
        if "paused" not in self.model_fields_set:
            return until is not None, until
        if until is not None and not self.paused:
            raise InvalidValueError("paused_until", "null or left out where paused is false", self.paused_until)
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


ROUTERS = (router,)
