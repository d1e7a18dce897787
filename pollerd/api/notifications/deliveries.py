"""Routes of deliveries: what was told to whom, and when."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import MAX_ID, Cursor, GivenOrder, Limit, Words, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing
from pollerd.api.schemas.notifications import AttemptSchema, Delivery, Resend, Resent
from pollerd.events import NoticeState
from pollerd.storage import NoticeFilter

router = api_router("/deliveries", tag="notifications")
OfChannel = Annotated[int | None, Query(alias="channel", ge=1, le=MAX_ID, description="a channel's id")]
OfMessage = Annotated[Words | None, Query(alias="message", max_length=200, description="a message's id")]


async def _wanted(
    channel: OfChannel = None,
    state: Annotated[NoticeState | None, Query(description="only those in this state")] = None,
    change: Annotated[int | None, Query(ge=1, le=MAX_ID, description="a change's id: who was told of it")] = None,
    site: Annotated[int | None, Query(ge=1, le=MAX_ID, description="a site's id")] = None,
    message: OfMessage = None,
) -> NoticeFilter:
    return NoticeFilter(state, channel, change, site, message)


@router.get("", summary="What was told to whom, and when")
async def list_deliveries(
    daemon: Daemon,
    wanted: Annotated[NoticeFilter, Depends(_wanted)],
    limit: Limit = 100,
    cursor: Cursor = None,
    order: GivenOrder = None,
) -> Listing[Delivery]:
    """Each event for each channel: told, waiting, or dead."""
    page = await daemon.store.notifications.list_notices(wanted, limit, cursor, order)
    return Listing.of(map(Delivery.of, page.items), page.next_cursor)


@router.get("/attempts", summary="Attempts to send")
async def list_attempts(
    daemon: Daemon,
    channel: OfChannel = None,
    message: OfMessage = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    order: GivenOrder = None,
) -> Listing[AttemptSchema]:
    """Every attempt with its answer, without secrets."""
    page = await daemon.store.notifications.list_attempts(channel, message, limit, cursor, order)
    return Listing.of(map(AttemptSchema.model_validate, page.items), page.next_cursor)


@router.post("/resend", dependencies=[Depends(json_body)], summary="Send dead deliveries again")
async def resend(daemon: Daemon, body: Resend) -> Resent:
    """Those of these that are dead wait anew."""
    return Resent(resent=await daemon.control.notifications.resend(ids=body.ids))
