"""Routes of changes."""

from __future__ import annotations

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import ChangeId, Cursor, GivenOrder, Limit, Wanted
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing
from pollerd.api.schemas.polls import ChangeSchema

router = api_router("/changes", tag="changes")


@router.get("", summary="Changes of all sites")
async def list_changes(
    daemon: Daemon, wanted: Wanted, limit: Limit = 100, cursor: Cursor = None, order: GivenOrder = None
) -> Listing[ChangeSchema]:
    """Newest first, or oldest first. Going through the pages newest first ends, whatever is found meanwhile.

    To follow the changes read them oldest first, and repeat the last cursor: its page then grows at its end. `/events`
    tells of them as they are found.
    """
    page = await daemon.store.history.list_changes(wanted, limit, cursor, order)
    return Listing.of(map(ChangeSchema.model_validate, page.items), page.next_cursor)


@router.get("/{change_id:id}", summary="One change")
async def get_change(daemon: Daemon, change_id: ChangeId) -> ChangeSchema:
    """A change by its id."""
    return ChangeSchema.model_validate(await daemon.store.history.get_change(change_id))
