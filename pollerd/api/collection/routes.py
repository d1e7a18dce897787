"""Routes of the focused crawler's collection, and their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.http.context import ApiPorts, Daemon
from pollerd.api.http.parameters import Cursor, Limit, Words
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing, Moment
from pollerd.errors import NotFoundError
from pollerd.model import PageState

router = api_router("/collection", tag="collection")
Share = Annotated[float, Field(json_schema_extra={"minimum": 0, "maximum": 1})]


class Collection(BaseModel):
    """How the focused crawler's collection stands."""

    model_config = ConfigDict(from_attributes=True)

    topic: str
    started_at: Moment
    size: int = Field(description="pages in the collection")
    mean_relevance: Share | None = Field(description="of the pages in the collection; null: there are none")
    freshness: Share | None = Field(
        description="expected share of the collection's relevance whose copy is current, as the allocator believes; "
        "null: it believes nothing yet"
    )
    requests: int = Field(description="pages asked for from the frontier so far")
    harvest_rate: Share | None = Field(description="share of them that were relevant; null: there were none")
    frontier: int = Field(description="pages known and not asked for yet")
    fringe: int = Field(description="the same by its older name", deprecated=True)
    hosts: int = Field(description="hosts of all pages that are known")
    pages: Mapping[PageState, int] = Field(description="pages by state")


class KnownPage(BaseModel):
    """A page that the focused crawler knows."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    url: str
    state: PageState
    reason: str = Field(description="why it was rejected or is gone; else empty")
    depth: int = Field(description="links from the nearest seed, as far as is known")
    relevance: Share | None = Field(description="as scored last; null: it was never read")
    worth: float | None = Field(
        validation_alias="value", description="on the frontier: what asking for it is expected to bring, Q(x, 1)"
    )
    parent_id: int | None = Field(description="the page that it was discovered on; null for a seed")
    discovered_at: Moment
    asked_at: Moment | None
    modified_at: Moment | None = Field(description="when a sitemap or feed says that it last changed")
    site_id: int | None = Field(description="its site, while it is one")
    own: bool = Field(description="whether the site is the crawler's; false where it is the user's, or there is none")


@router.get("", summary="How the collection stands")
async def get_collection(daemon: Daemon) -> Collection:
    """Size, relevance, freshness and harvest rate; 404 where no topic was ever set (`pollerd run --topic`)."""
    view = await daemon.control.collection.view()
    if view is None:
        raise no_collection()
    return Collection.model_validate(view)


@router.get("/pages", summary="Pages that the crawler knows")
async def list_pages(
    daemon: Daemon,
    state: PageState | None = None,
    host: Annotated[Words | None, Query(description="name:port", examples=["example.org:443"])] = None,
    min_relevance: Annotated[float | None, Query(ge=0, le=1, description="least relevance as scored last")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Listing[KnownPage]:
    """By id, those that fit every filter: collected, on the frontier, rejected or gone; 404 where no topic was set."""
    await require_collection(daemon)
    name = None if host is None else host.lower()
    page = await daemon.store.crawl.list_pages(state, name, min_relevance, limit, cursor)
    return Listing.of(map(KnownPage.model_validate, page.items), page.next_cursor)


async def require_collection(daemon: ApiPorts) -> None:
    """Raises `NotFoundError` if there never was a collection."""
    if not await daemon.store.crawl.exists():
        raise no_collection()


def no_collection() -> NotFoundError:
    """Returns the error of a missing collection, which says how to start one."""
    return NotFoundError("collection", "no topic was ever set (pollerd run --topic)")
