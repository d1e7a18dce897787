"""Routes of a site's selections: how each stands, and the values that they had."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import Cursor, GivenOrder, Limit, Since, SiteId, Words
from pollerd.api.http.routing import api_router
from pollerd.api.http.timestamps import parse_moment
from pollerd.api.schemas.common import Listing
from pollerd.api.schemas.selections import SelectionStatus, ValueSchema
from pollerd.storage import ReadingFilter

router = api_router("/sites", tag="sites")
Name = Annotated[Words | None, Query(max_length=100)]


async def _wanted_values(selection: Name = None, name: Name = None, since: Since = None) -> ReadingFilter:
    return ReadingFilter(None if since is None else parse_moment("since", since), selection, name)


WantedValues = Annotated[ReadingFilter, Depends(_wanted_values)]


@router.get("/{site_id:id}/selections", summary="How a site's selections stand")
async def list_selections(daemon: Daemon, site_id: SiteId) -> Listing[SelectionStatus]:
    """Each with its present values, and why the last poll found nothing of it, if so. None before the first poll."""
    await daemon.store.sites.get(site_id)
    states = await daemon.store.history.selection_states(site_id)
    return Listing.of(map(SelectionStatus.of, states), None)


@router.get("/{site_id:id}/values", summary="The values of a site's selections over time")
async def list_values(
    daemon: Daemon,
    site_id: SiteId,
    wanted: WantedValues,
    limit: Limit = 100,
    cursor: Cursor = None,
    order: GivenOrder = None,
) -> Listing[ValueSchema]:
    """Each value as it was read first, until its next record; newest first, or oldest first."""
    await daemon.store.sites.get(site_id)
    page = await daemon.store.history.list_readings(site_id, wanted, limit, cursor, order)
    return Listing.of(map(ValueSchema.of, page.items), page.next_cursor)
