"""Sites.

Routes of sites.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Depends, Path, Query, Response
from fastapi.responses import JSONResponse
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, create_model

from pollerd import model, site_settings
from pollerd.api import access, inputs
from pollerd.api.common import Given, Listing
from pollerd.api.http import (
    MAX_ID,
    ApiPorts,
    Caller,
    Cursor,
    Daemon,
    GivenOrder,
    Limit,
    SiteId,
    Words,
    api_router,
    json_body,
)
from pollerd.api.inputs import (
    RebaseChoice,
    SettingsFields,
    check_render,
    check_spec,
    shown_fields,
    shown_setting,
)
from pollerd.api.problems import problem
from pollerd.daemon.transition import REDIRECT_CONFIRMATIONS
from pollerd.daemon.views import ExplanationView, LiveSite, NoiseView
from pollerd.errors import InvalidValueError
from pollerd.fetching.settings import without_userinfo
from pollerd.inheritance import inherit
from pollerd.model import OutcomeKind, SiteState
from pollerd.rendering.settings import DEFAULT_RENDER_COST
from pollerd.shown import Moment
from pollerd.site_settings import INHERITED, SiteSpec
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.site_order import SiteOrder, SiteSort
from pollerd.storage.values import SiteChanges, SiteFilter
from pollerd.texts import _
from pollerd.urls import normalise_url

# Sites: input and output.

Url = Annotated[str, Field(json_schema_extra={"pattern": r"^[ \t\r\n]*[Hh][Tt][Tt][Pp][Ss]?://[^/?#]"})]
Tag = Annotated[str, Field(json_schema_extra={"pattern": r"^[^;]*[^;\s][^;]*$"})]
Tags = Annotated[list[Tag], Field(json_schema_extra={"maxItems": inputs.MAX_TAGS})]


class NewSite(SettingsFields):
    """A site to poll."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"url": "https://example.org/news", "weight": 2.0},
                {
                    "url": "https://example.org/members",
                    "headers": {"Accept-Language": "en"},
                    "credentials": {"username": "reader", "password": "example"},
                },
            ]
        }
    )

    url: Url
    title: str = Field("", description="what users call it", max_length=inputs.MAX_TITLE_LENGTH)
    tags: Tags = Field([])

    def spec(self) -> site_settings.SiteSpec:
        """Returns the checked spec. Raises `InvalidValueError`."""
        render, typed = check_render(self.render)
        fields: dict[str, Any] = {
            "tags": tuple(self.tags),
            "access": dataclasses.replace(self.access(site_settings.NO_ACCESS), typed=typed),
            "render": render,
            "title": self.title.strip(),
        }
        return inputs.check_spec(site_settings.SiteSpec(self.url, **fields, **self.inheritable()))


class SitePatch(SettingsFields):
    """New values for a site; missing fields stay. null removes a setting: then its tags' applies, or the default.

    `headers` replaces all of them. A URL at another origin removes headers and credentials, unless new ones are given.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"weight": 5.0, "tags": ["news"]}]})

    url: Url = ""
    title: str = Field("", description="what users call it", max_length=inputs.MAX_TITLE_LENGTH)
    tags: Tags = Field([])
    rebase: RebaseChoice = None


class SiteSelection(Given):
    """All sites, or all with a tag."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"all": True}, {"tag": "news"}],
            "oneOf": [{"required": ["all"]}, {"required": ["tag"]}],
        }
    )

    all: Literal[True] = Field(True, description="every site")
    tag: Tag = Field("", description="every site with this tag")

    def wanted(self) -> str | None:
        """Returns the tag; None for all sites. Raises `InvalidValueError`."""
        if len(self.model_fields_set) != 1:
            raise InvalidValueError("all", _("given, or tag: one of the two"), sorted(self.model_fields_set))
        return inputs.check_tag(self.tag) if "tag" in self.model_fields_set else None


class RedirectSchema(BaseModel):
    """One hop."""

    model_config = ConfigDict(from_attributes=True)

    status: int
    url: str


class PollSchema(BaseModel):
    """One poll. `elapsed` is seconds since the last informative poll, `duration` seconds."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    at: Moment
    elapsed: float | None
    outcome: OutcomeKind
    status: int | None
    duration: float
    bytes: int
    changed: bool
    detail: str
    redirects: tuple[RedirectSchema, ...]


class SitesChanged(BaseModel):
    """How many sites it made a difference to."""

    count: int


class _NamedSite(BaseModel):
    id: int
    url: str
    title: str
    state: SiteState
    tags: tuple[str, ...]


if TYPE_CHECKING:

    class _ShownSite(_NamedSite):
        def __getattr__(self, setting: str) -> Any: ...
else:
    _ShownSite = create_model("_ShownSite", __base__=_NamedSite, **shown_fields(INHERITED, in_force=True))


class SiteSchema(_ShownSite):
    """A site as it stands, with what it inherits from tags; null: the daemon's. `explain` says what comes whence."""

    page_title: str = Field(description="what the page or feed calls itself, shown if `title` is empty; empty: nothing")
    learned_half_life: float | None = Field(
        description="learned from reads of its changes; in force where half_life is null; null: none is"
    )
    header_names: tuple[str, ...] = Field(
        description="of its request headers, inherited ones too; their values are secret"
    )
    has_credentials: bool
    method: Literal["GET", "POST"] = Field(description="POST: the site has its own body, which is secret")
    proxy: str | None = Field(description="the proxy that it or a tag has, without user name and password")
    created_at: Moment
    last_poll_at: Moment | None
    last_change_at: Moment | None = Field(description="when its last change was detected; null: none was")
    next_poll_at: Moment | None = Field(description="the earliest moment of the next poll; null: none is to come")
    rate_per_day: float | None = Field(
        description="changes per day (estimate: the median, the true rate is as likely above); null: no estimate yet"
    )
    polls: int
    changes: int
    failures: int = Field(description="in a row")
    last_outcome: OutcomeKind | None
    last_detail: str
    hidden_changes: int = Field(description="polls that found nothing because all that differed is masked; see noise")
    redirect_proposal: str | None = Field(description="where a permanent redirect leads; see accept-redirect")

    @classmethod
    def of(cls, site: model.Site, live: LiveSite | None, tags: site_settings.Tags) -> SiteSchema:
        """Returns the site with its in-memory values, and what it inherits from those of its tags among `tags`."""
        spec = inherit(site.spec, tags)
        settings = {}
        for name, setting in INHERITED.items():
            settings[name] = shown_setting(setting, getattr(spec, name))
        return cls(
            **{**settings, "keep_screenshots": bool(spec.keep_screenshots)},
            id=site.id,
            url=spec.url,
            tags=spec.tags,
            state=site.state,
            learned_half_life=None if live is None else live.learned_half_life,
            header_names=spec.access.header_names,
            has_credentials=spec.access.credentials is not None,
            method="GET" if spec.access.body is None else "POST",
            proxy=None if spec.access.proxy is None else without_userinfo(spec.access.proxy),
            title=spec.title,
            page_title=site.page_title,
            created_at=site.created_at,
            last_poll_at=site.last_poll_at,
            last_change_at=site.last_change_at,
            next_poll_at=site.next_poll_at if live is None else live.next_poll_at,
            rate_per_day=None if live is None else live.rate_per_day,
            polls=site.polls,
            changes=site.changes,
            failures=site.failures,
            last_outcome=site.last_outcome,
            last_detail=site.last_detail,
            hidden_changes=site.hidden_changes,
            redirect_proposal=redirect_proposal(site),
        )


def redirect_proposal(site: model.Site) -> str | None:
    """Returns the URL that a permanent redirect proposes, once it was confirmed often enough."""
    return site.redirect_url if site.redirect_count >= REDIRECT_CONFIRMATIONS else None


# Lists of sites: pages of them, and the filters by which they are chosen.

MAX_WORDS_LENGTH = 1_000
MAX_CURSOR = 12_000
"""Characters: a cursor may hold a URL."""
SORTS = f"^-?({'|'.join(SiteSort)})$"
"""What sites may be sorted by."""
_SHORT = Field(max_length=MAX_WORDS_LENGTH)
PerDay = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Duration = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SiteList(Listing[SiteSchema]):
    """Some sites of a list, and where it goes on in either direction; null: there are no more that way now."""

    previous_cursor: str | None
    total: int | None = Field(
        description="of a page that is asked for without a cursor: how many sites fit; null: not counted"
    )
    total_is_exact: bool = Field(description="false: there are more than `total`, or may be")


class SiteFilterSchema(Given):
    """Which sites; those that fit all that is given. Without anything: every site."""

    q: Annotated[Words, _SHORT] | None = Field(None, description="words that are parts of URL or title")
    tag: Annotated[Words, _SHORT] | None = None
    state: Annotated[SiteState, Field(strict=False)] | None = None
    host: Annotated[Words, _SHORT] | None = Field(None, description="name:port")
    source: Annotated[int, Field(ge=1, le=MAX_ID)] | None = Field(None, description="id of a source that lists them")
    rate_min: PerDay | None = Field(None, description="minimum changes per day (estimate)")
    rate_max: PerDay | None = Field(None, description="maximum changes per day (estimate)")
    changed: Duration | None = Field(None, description="a change was found within so many seconds")

    def filter(self) -> SiteFilter:
        """Returns the filter, as of now. Raises `InvalidValueError`."""
        return site_filter(**self.model_dump())


def site_filter(  # noqa: PLR0913 (the fields of a filter)
    *,
    q: str | None,
    tag: str | None,
    state: SiteState | None,
    host: str | None,
    source: int | None,
    rate_min: float | None,
    rate_max: float | None,
    changed: float | None,
) -> SiteFilter:
    """Returns the filter, as of now. changed: seconds within which a change was found. Raises `InvalidValueError`."""
    if rate_min is not None and rate_max is not None and rate_min > rate_max:
        raise InvalidValueError("rate_max", _("at least rate_min ({rate_min:g} a day)", rate_min=rate_min), rate_max)
    return SiteFilter(
        q=q if q and q.strip() else None,
        tag=tag,
        state=state,
        host=None if host is None else host.lower(),
        source=source,
        rate_min=rate_min,
        rate_max=rate_max,
        changed_since=None if changed is None else time.time() - changed,
    )


router = api_router("/sites", tag="sites")
_JSON = [Depends(json_body)]


async def shown_sites(daemon: ApiPorts, sites: Sequence[model.Site]) -> list[SiteSchema]:
    """Returns sites as they stand, with what they inherit."""
    live = await daemon.control.sites.shown([site.id for site in sites])
    return [SiteSchema.of(site, live.get(site.id), daemon.store.sites.tags.in_force) for site in sites]


async def shown_site(daemon: ApiPorts, site: model.Site) -> SiteSchema:
    """Returns a site as it stands, with what it inherits."""
    live = await daemon.control.sites.shown([site.id])
    return SiteSchema.of(site, live.get(site.id), daemon.store.sites.tags.in_force)


async def number_of_sites(daemon: ApiPorts) -> int:
    """Returns the number of all sites, also of those that other nodes poll."""
    several = daemon.store.several_writers
    return await daemon.store.sites.count() if several else daemon.control.health.sites


async def current_site(daemon: ApiPorts, site: model.Site) -> SiteSchema:
    """Returns a site as it stands at whichever node polls it, with what it inherits."""
    return SiteSchema.of(site, await daemon.control.sites.current(site.id), daemon.store.sites.tags.in_force)


@router.post("", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Add a site")
async def add_site(daemon: Daemon, site: NewSite, response: Response) -> SiteSchema:
    """201 with the site and its `Location`; 409 with `existing_id` where the URL is polled already."""
    added = await daemon.control.sites.add_one(site.spec())
    response.headers["Location"] = f"/api/v1/sites/{added.id}"
    return await shown_site(daemon, added)


Text = Annotated[Words, Query(max_length=MAX_WORDS_LENGTH)]
_SORT = "sort key, descending with - before it; default: the cursor's order, without a cursor by id"


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
    conditions: Annotated[dict[str, Any], Depends(_wanted)],
    rate_min: Annotated[PerDay | None, Query(description="minimum changes per day (estimate)")] = None,
    rate_max: Annotated[PerDay | None, Query(description="maximum changes per day (estimate)")] = None,
    changed: Annotated[Duration | None, Query(description="a change was found within so many seconds")] = None,
) -> SiteFilter:
    return site_filter(**conditions, rate_min=rate_min, rate_max=rate_max, changed=changed)


@router.get("", summary="List sites")
async def list_sites(
    daemon: Daemon,
    conditions: Annotated[SiteFilter, Depends(_filter)],
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
    last poll; the estimated rate is rewritten when it differs by more than 2 %, next_poll goes by the site's own
    intervals.
    """
    order = None if sort is None else SiteOrder.of(sort)
    page = await daemon.store.sites.listed(conditions, order, limit, cursor, count=cursor is None)
    total = page.count
    if cursor is None and conditions == SiteFilter():
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
        site = await daemon.control.sites.update(site_id, lambda before: site_changes(before.spec, patch))
        return await shown_site(daemon, site)


def site_changes(spec: SiteSpec, patch: SitePatch) -> SiteChanges:
    """Returns the changes of the patch, checked with the remaining settings. Raises `InvalidValueError`."""
    values: dict[str, Any] = {name: getattr(patch, name) for name in patch.model_fields_set & {"url", "tags", "title"}}
    values |= patch.inheritable()
    if "url" in values:
        values["spelling"] = ""  # of the old one
    if patch.model_fields_set & set(access.FIELDS):
        url = normalise_url(values.get("url", spec.url))
        values["access"] = patch.access(access.base_of(spec, url))
    if "render" in patch.model_fields_set:
        values["render"], typed = check_render(patch.render)
        values["access"] = dataclasses.replace(values.get("access", spec.access), typed=typed)
        if "cost" not in values and spec.cost in (None, DEFAULT_RENDER_COST):
            values["cost"] = None  # what a rendered poll costs belongs to its plan
    checked = check_spec(_merged(spec, values)) if values else spec
    changes = {name: getattr(checked, name) for name in values}
    if changes and patch.rebase is not None:
        changes["rebase"] = patch.rebase
    return changes


def _merged(spec: SiteSpec, values: dict[str, Any]) -> SiteSpec:
    return replace(spec, **{**values, "tags": tuple(values.get("tags", spec.tags))})


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
            return problem(HTTPStatus.CONFLICT, _("no redirect is proposed for this site"), kind="no-redirect")
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
) -> Listing[model.Change]:
    """Newest first, or oldest first."""
    await daemon.store.sites.get(site_id)
    page = await daemon.store.changes.page(ChangeFilter(site_id=site_id), limit, cursor, order)
    return Listing.of(page.items, page.next_cursor)


@router.get("/{site_id:id}/explain", summary="Why a site is polled as it is")
async def explain_site(daemon: Daemon, site_id: SiteId) -> ExplanationView:
    """Estimated rate, urgency, share of the budget, why not now, next expected poll, and what of the page is noise."""
    return await daemon.control.sites.explain(site_id)


RuleName = Annotated[Words, Path(max_length=40, description="id of the part")]


class NoisePatch(BaseModel):
    """What is to become of a part of a page that is masked as noise, or was."""

    model_config = ConfigDict(extra="forbid")
    hidden: bool = Field(description="false: it is shown again, and its changes count")


@router.get("/{site_id:id}/noise", summary="What of a site is masked as noise")
async def list_noise(daemon: Daemon, site_id: SiteId) -> Listing[NoiseView]:
    """How each part is known as noise, how often it differed, and which parts are shown again."""
    return Listing.of((await daemon.control.sites.explain(site_id)).noise, None)


@router.patch("/{site_id:id}/noise/{rule}", dependencies=_JSON, summary="Show a masked part again, or hide it")
async def change_noise(daemon: Daemon, site_id: SiteId, rule: RuleName, patch: NoisePatch) -> Listing[NoiseView]:
    """The next poll is compared with what was recorded last, so that what was hidden since is found."""
    return Listing.of((await daemon.control.sites.hide_noise(site_id, rule, hidden=patch.hidden)).noise, None)


ROUTERS = (router,)
