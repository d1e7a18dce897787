"""Routes of sources: sitemaps and feeds whose pages become sites."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Query, Response

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import MAX_ID, Cursor, Limit, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing
from pollerd.api.schemas.sources import ListedPageSchema, NewSource, SourcePatch, SourceRemoved, SourceSchema
from pollerd.storage import MemberState

router = api_router("/sources", tag="sources")
SourceId = Annotated[int, Path(ge=1, le=MAX_ID, description="the source's id")]
_JSON = [Depends(json_body)]


@router.get("", summary="List sources")
async def list_sources(daemon: Daemon, limit: Limit = 100, cursor: Cursor = None) -> Listing[SourceSchema]:
    """Sources by id, with the numbers of their pages."""
    page = await daemon.store.sources.page(limit, cursor)
    return Listing.of(map(SourceSchema.of, page.items), page.next_cursor)


@router.post("", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Add a source")
async def add_source(daemon: Daemon, source: NewSource, response: Response) -> SourceSchema:
    """It is read as soon as its host and the budget allow. 409 with `existing_id` where the URL is a source already."""
    added = await daemon.control.sources.add(source.spec())
    response.headers["Location"] = f"/api/v1/sources/{added.id}"
    return SourceSchema.of(added)


@router.get("/{source_id:id}", summary="One source")
async def get_source(daemon: Daemon, source_id: SourceId) -> SourceSchema:
    """The source as it stands."""
    return SourceSchema.of(await daemon.store.sources.get(source_id))


@router.patch("/{source_id:id}", dependencies=_JSON, summary="Change a source's settings")
async def change_source(daemon: Daemon, source_id: SourceId, patch: SourcePatch) -> SourceSchema:
    """Where pattern, limit, hosts, max_shrink or interval change, it is read at once. Its URL and kind stay."""
    async with daemon.turn:
        before = await daemon.store.sources.get(source_id)
        return SourceSchema.of(await daemon.control.sources.update(source_id, patch.over(before.spec)))


@router.delete("/{source_id:id}", summary="Remove a source")
async def delete_source(
    daemon: Daemon,
    source_id: SourceId,
    remove_sites: Annotated[
        bool, Query(description="also remove the sites that it added and that no other source lists")
    ] = False,
) -> SourceRemoved:
    """Its sites stay as they are, unless `remove_sites` is given."""
    return SourceRemoved(sites_removed=await daemon.control.sources.delete(source_id, remove_sites=remove_sites))


@router.post("/{source_id:id}/read", status_code=HTTPStatus.ACCEPTED, summary="Read as soon as politeness allows")
async def read_source(daemon: Daemon, source_id: SourceId) -> SourceSchema:
    """Reads the list now, within its host's limits and the budget; a paused source is not read."""
    return SourceSchema.of(await daemon.control.sources.read_now(source_id))


@router.get("/{source_id:id}/sites", summary="A source's pages")
async def list_source_sites(
    daemon: Daemon,
    source_id: SourceId,
    state: Annotated[MemberState | None, Query(description="only pages in this state")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Listing[ListedPageSchema]:
    """Pages that the source lists, or listed, by the ids of their sites."""
    page = await daemon.store.sources.sites_of(source_id, state, limit, cursor)
    return Listing.of(map(ListedPageSchema.of, page.items), page.next_cursor)
