"""The calls on changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from pollerd.api.parameters import ChangeId, Cursor, Limit
from pollerd.api.ports import Daemon
from pollerd.api.shapes import Change, Listing
from pollerd.api.times import parse_moment

router = APIRouter(prefix="/changes", tags=["changes"])


@router.get("", summary="Changes of all sites")
async def list_changes(
    daemon: Daemon,
    since: Annotated[str | None, Query(description="RFC 3339 or epoch seconds", max_length=100)] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Listing[Change]:
    """In the order found. To follow them, repeat the last cursor: the newest page then grows at its end."""
    moment = None if since is None else parse_moment("since", since)
    page = await daemon.store.list_changes(since=moment, limit=limit, cursor=cursor)
    return Listing.of(map(Change.model_validate, page.items), page.next_cursor)


@router.get("/{change_id}", summary="One change")
async def get_change(daemon: Daemon, change_id: ChangeId) -> Change:
    """A change by its id."""
    return Change.model_validate(await daemon.store.get_change(change_id))
