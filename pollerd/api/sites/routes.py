"""Routes of sites."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Query, Response
from fastapi.responses import JSONResponse
from msgspec.structs import replace

from pollerd import model
from pollerd.api.http import access
from pollerd.api.http.context import ApiPorts, Caller, Daemon
from pollerd.api.http.limits import check_spec
from pollerd.api.http.parameters import MAX_ID, Cursor, GivenOrder, Limit, SiteId, Words, json_body
from pollerd.api.http.problems import problem
from pollerd.api.http.rendered import check_render
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing
from pollerd.api.schemas.explanation import Explanation
from pollerd.api.schemas.polls import ChangeSchema, PollSchema
from pollerd.api.schemas.site_list import (
    MAX_CURSOR,
    MAX_WORDS_LENGTH,
    SORTS,
    Duration,
    PerDay,
    SiteList,
    site_filter,
)
from pollerd.api.schemas.sites import NewSite, SitePatch, SitesChanged, SiteSchema, SiteSelection, redirect_proposal
from pollerd.model import SiteSpec, SiteState
from pollerd.rendering.settings import DEFAULT_RENDER_COST
from pollerd.storage import ChangeFilter, SiteChanges, SiteFilter, SiteOrder
from pollerd.urls import normalise_url

router = api_router("/sites", tag="sites")
_JSON = [Depends(json_body)]


async def shown_sites(daemon: ApiPorts, sites: Sequence[model.Site]) -> list[SiteSchema]:
    """Returns sites as they stand, with what they inherit."""
    live = await daemon.control.sites.shown([site.id for site in sites])
    return [SiteSchema.of(site, live.get(site.id), daemon.store.sites.tags) for site in sites]


async def shown_site(daemon: ApiPorts, site: model.Site) -> SiteSchema:
    """Returns a site as it stands, with what it inherits."""
    return (await shown_sites(daemon, [site]))[0]


async def number_of_sites(daemon: ApiPorts) -> int:
    """Returns the number of all sites, also of those that other nodes poll."""
    several = daemon.store.several_writers
    return await daemon.store.sites.count() if several else daemon.control.health.status().sites


async def current_site(daemon: ApiPorts, site: model.Site) -> SiteSchema:
    """Returns a site as it stands at whichever node polls it, with what it inherits."""
    return SiteSchema.of(site, await daemon.control.sites.current(site.id), daemon.store.sites.tags)


@router.post("", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Add a site")
async def add_site(daemon: Daemon, site: NewSite, response: Response) -> SiteSchema:
    """201 with the site and its `Location`; 409 with `existing_id` where the URL is polled already."""
    added = await daemon.control.sites.add_one(site.spec())
    response.headers["Location"] = f"/api/v1/sites/{added.id}"
    return await shown_site(daemon, added)


Text = Annotated[Words, Query(max_length=MAX_WORDS_LENGTH)]
_SORT = "what they are sorted by, descending with - before it; left out: the cursor's order, without a cursor by id"


async def _wanted(
    q: Annotated[Text | None, Query(description="words that are parts of URL or title")] = None,
    tag: Text | None = None,
    state: SiteState | None = None,
    host: Annotated[Text | None, Query(description="name:port", examples=["example.org:443"])] = None,
    source: Annotated[
        int | None, Query(ge=1, le=MAX_ID, description="id of a source that lists, or listed, them")
    ] = None,
) -> dict[str, Any]:
    return {"q": q, "tag": tag, "state": state, "host": host, "source": source}


async def _filter(
    wanted: Annotated[dict[str, Any], Depends(_wanted)],
    rate_min: Annotated[PerDay | None, Query(description="least believed changes per day")] = None,
    rate_max: Annotated[PerDay | None, Query(description="most believed changes per day")] = None,
    changed: Annotated[Duration | None, Query(description="a change was found within so many seconds")] = None,
) -> SiteFilter:
    return site_filter(**wanted, rate_min=rate_min, rate_max=rate_max, changed=changed)


@router.get("", summary="List sites")
async def list_sites(
    daemon: Daemon,
    wanted: Annotated[SiteFilter, Depends(_filter)],
    limit: Limit = 100,
    cursor: Annotated[
        str | None,
        Query(
            max_length=MAX_CURSOR,
            description="next_cursor or previous_cursor of a page before",
            json_schema_extra={"pattern": "^[A-Za-z0-9_-]*$"},
        ),
    ] = None,
    sort: Annotated[str | None, Query(description=_SORT, json_schema_extra={"pattern": SORTS})] = None,
) -> SiteList:
    """Sites that fit every filter, in either direction from a cursor. They are counted on the first page.

    They are counted exactly without a filter, else up to 10,000. Filters and orders go by what was committed with the
    last poll; the believed rate is rewritten when it differs by more than 2 %, next_poll goes by the site's own
    intervals.
    """
    order = None if sort is None else SiteOrder.of(sort)
    page = await daemon.store.sites.listed(wanted, order, limit, cursor, count=cursor is None)
    total = page.count
    if cursor is None and wanted == SiteFilter():
        total = await number_of_sites(daemon)
    return SiteList(
        items=await shown_sites(daemon, page.items),
        next_cursor=page.next_cursor,
        previous_cursor=page.previous_cursor,
        total=total,
        total_is_exact=page.count_is_exact,
    )


@router.get("/{site_id:id}", summary="One site")
async def get_site(daemon: Daemon, site_id: SiteId) -> SiteSchema:
    """The site as it stands, at whichever node polls it; as its last poll left it while that one gives no answer."""
    return await current_site(daemon, await daemon.store.sites.get(site_id))


@router.patch("/{site_id:id}", dependencies=_JSON, summary="Change a site's settings")
async def change_site(daemon: Daemon, site_id: SiteId, patch: SitePatch) -> SiteSchema:
    """What was learned of the site stays, unless it gets another URL."""
    async with daemon.turn:
        site = await daemon.store.sites.get(site_id)
        changes = site_changes(site.spec, patch)
        return await shown_site(daemon, await daemon.control.sites.update(site_id, changes) if changes else site)


def site_changes(spec: SiteSpec, patch: SitePatch) -> SiteChanges:
    """Returns the changes of the patch, checked with the remaining settings. Raises `InvalidValueError`."""
    given: dict[str, Any] = {name: getattr(patch, name) for name in patch.model_fields_set & {"url", "tags", "title"}}
    given |= patch.inheritable()
    if patch.model_fields_set & set(access.FIELDS):
        url = normalise_url(given.get("url", spec.url))
        given["access"] = patch.access(access.base_of(spec, url))
    if "render" in patch.model_fields_set:
        given["render"], typed = check_render(patch.render)
        given["access"] = dataclasses.replace(given.get("access", spec.access), typed=typed)
        if "cost" not in given and spec.cost in (None, DEFAULT_RENDER_COST):
            given["cost"] = None  # what a rendered poll costs belongs to its plan
    checked = check_spec(_merged(spec, given)) if given else spec
    changes = {name: getattr(checked, name) for name in given}
    if changes and patch.rebase is not None:
        changes["rebase"] = patch.rebase
    return changes


def _merged(spec: SiteSpec, given: dict[str, Any]) -> SiteSpec:
    return replace(spec, **{**given, "tags": tuple(given.get("tags", spec.tags))})


@router.delete("/{site_id:id}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="Delete a site")
async def delete_site(daemon: Daemon, site_id: SiteId) -> None:
    """Polling stops at once; the site's polls and changes go with it."""
    await daemon.control.sites.delete(site_id)


@router.post("/{site_id:id}/poll", status_code=HTTPStatus.ACCEPTED, summary="Poll as soon as politeness allows")
async def poll_site(daemon: Daemon, site_id: SiteId) -> SiteSchema:
    """The site goes before all others, within its host's limits."""
    return await shown_site(daemon, await daemon.control.sites.poll_now(site_id))


@router.post("/pause", dependencies=_JSON, summary="Pause all sites, or all with a tag")
async def pause_sites(daemon: Daemon, selection: SiteSelection, caller: Caller) -> SitesChanged:
    """They are not polled until they are resumed. Sites that are added later are polled."""
    return SitesChanged(count=await daemon.control.sites.pause_all(selection.wanted(), True, by=caller))


@router.post("/resume", dependencies=_JSON, summary="Resume all sites, or all with a tag")
async def resume_sites(daemon: Daemon, selection: SiteSelection, caller: Caller) -> SitesChanged:
    """Takes their pauses away, and nothing else: a backoff goes on, and a site that was gone stays so."""
    return SitesChanged(count=await daemon.control.sites.pause_all(selection.wanted(), False, by=caller))


@router.post("/{site_id:id}/pause", summary="Pause a site")
async def pause_site(daemon: Daemon, site_id: SiteId) -> SiteSchema:
    """It is not polled until it is resumed."""
    return await shown_site(daemon, await daemon.control.sites.pause(site_id, True))


@router.post("/{site_id:id}/resume", summary="Resume a site")
async def resume_site(daemon: Daemon, site_id: SiteId) -> SiteSchema:
    """Also ends a backoff, and brings a site back that was gone."""
    return await shown_site(daemon, await daemon.control.sites.pause(site_id, False))


@router.post("/{site_id:id}/accept-redirect", response_model=SiteSchema, summary="Move a site to where it redirects")
async def accept_redirect(daemon: Daemon, site_id: SiteId) -> SiteSchema | JSONResponse:
    """The proposed permanent redirect becomes the site's URL; 409 where none is proposed, or the URL is a site."""
    async with daemon.turn:
        url = redirect_proposal(await daemon.store.sites.get(site_id))
        if url is None:
            return problem(HTTPStatus.CONFLICT, "no redirect is proposed for this site", kind="no-redirect")
        return await shown_site(daemon, await daemon.control.sites.update(site_id, {"url": normalise_url(url)}))


@router.get("/{site_id:id}/polls", summary="A site's polls")
async def list_polls(
    daemon: Daemon, site_id: SiteId, limit: Limit = 100, cursor: Cursor = None, order: GivenOrder = None
) -> Listing[PollSchema]:
    """Newest first, or oldest first."""
    await daemon.store.sites.get(site_id)
    page = await daemon.store.history.list_polls(site_id, limit, cursor, order)
    return Listing.of(map(PollSchema.model_validate, page.items), page.next_cursor)


@router.get("/{site_id:id}/changes", summary="A site's changes")
async def list_site_changes(
    daemon: Daemon, site_id: SiteId, limit: Limit = 100, cursor: Cursor = None, order: GivenOrder = None
) -> Listing[ChangeSchema]:
    """Newest first, or oldest first."""
    await daemon.store.sites.get(site_id)
    page = await daemon.store.history.list_changes(ChangeFilter(site_id=site_id), limit, cursor, order)
    return Listing.of(map(ChangeSchema.model_validate, page.items), page.next_cursor)


@router.get("/{site_id:id}/explain", summary="Why a site is polled as it is")
async def explain_site(daemon: Daemon, site_id: SiteId) -> Explanation:
    """Believed rate, urgency, share of the budget, why not now, next expected poll, and what of the page is noise."""
    return Explanation.model_validate(await daemon.control.sites.explain(site_id))
