"""Sources of sites.

Routes of sources: sitemaps and feeds whose pages become sites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query, Response
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pollerd.api import inputs
from pollerd.api.common import Given, Listing, first_refusal
from pollerd.api.http import MAX_ID, Cursor, Daemon, Limit, api_router, json_body
from pollerd.api.inputs import ListLimit, ReadInterval, ShrinkShare, Weight
from pollerd.api.sites import Tags, Url
from pollerd.errors import InvalidValueError, refusal
from pollerd.lists.readings import check_pattern
from pollerd.masking import masked
from pollerd.ranges import SOURCE
from pollerd.shown import Moment
from pollerd.site_settings import SiteSpec
from pollerd.storage import sources as storage_sources
from pollerd.storage.sources import ListedPage, MemberState, SourceSpec
from pollerd.texts import _

# Validates a source's settings, for all ways in.

KINDS = ("sitemap", "feed")
HOSTS = ("same", "any")
DEFAULT_HOSTS = {"sitemap": "same", "feed": "any"}
"""By kind: sitemaps list pages of their own host, a feed's links may lead anywhere."""


def check_source(spec: SourceSpec) -> SourceSpec:
    """Returns the spec with its URL normalised and its tags trimmed and deduplicated; empty `hosts`: by its kind.

    Numbers are in the ranges of `SOURCE`; tags and weight as those of a site; the pattern as in `check_pattern`. Raises
    `InvalidValueError`, naming the field.
    """
    _among("kind", spec.kind, KINDS)
    hosts = spec.hosts or DEFAULT_HOSTS[spec.kind]
    _among("hosts", hosts, HOSTS)
    SOURCE["limit"].check(spec.site_limit)
    SOURCE["max_shrink"].check(spec.most_shrink)
    if spec.interval is not None:
        SOURCE["interval"].check(spec.interval)
    if spec.pattern is not None:
        check_pattern(spec.pattern)
    of_sites = inputs.check_spec(SiteSpec(spec.url, weight=spec.weight, tags=spec.tags))
    return replace(spec, url=of_sites.url, tags=of_sites.tags, hosts=hosts)


def _among(field: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidValueError(field, _("one of {known}", known=", ".join(known)), str(value)[:100])


# Sources of sites: input and output.

SourceKind = Literal["sitemap", "feed"]
SourceHosts = Literal["same", "any"]
Pattern = Annotated[
    str | None,
    Field(
        description="only URLs that fit: a part of the URL, or `re:` and an RE2 expression; null: all",
        json_schema_extra={"anyOf": [{"type": "string", "pattern": "^[a-z0-9/._-]{1,100}$"}, {"type": "null"}]},
    ),
]
_HOSTS = "same: pages of the list's own host, and of hosts whose robots.txt names the list; any: all pages"
_INTERVAL = "between two readings; null: learned from what they bring"
_SHRINK = "the largest share by which the list can shrink and still be accepted; 1: any"
_NAMES = {"limit": "site_limit", "max_shrink": "most_shrink"}
"""Field -> its name in the spec, where they differ."""


class NewSource(Given):
    """A sitemap or feed whose pages become sites, and stay in step with it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"url": "https://example.org/sitemap.xml", "tags": ["news"], "pattern": "/news/"},
                {"url": "https://example.org/feed", "kind": "feed", "interval": "1h"},
            ]
        }
    )

    url: Url
    kind: SourceKind = "sitemap"
    tags: Tags = Field([], description="of the sites that it adds")
    weight: Weight = 1.0
    limit: ListLimit = 100_000
    pattern: Pattern = None
    hosts: SourceHosts | None = Field(None, description=f"{_HOSTS}; null: same for a sitemap, any for a feed")
    interval: ReadInterval | None = Field(None, description=_INTERVAL)
    max_shrink: ShrinkShare = Field(0.5, description=_SHRINK)
    paused: bool = False

    def spec(self) -> storage_sources.SourceSpec:
        """Returns the checked spec. Raises `InvalidValueError`."""
        fields = _renamed(self.model_dump())
        return check_source(
            storage_sources.SourceSpec(**{**fields, "tags": tuple(self.tags), "hosts": self.hosts or ""})
        )


class SourcePatch(Given):
    """New values for a source; missing fields stay. Tags and weight apply for sites that join from now on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"pattern": "/news/"}, {"paused": True}]})

    tags: Tags = Field([])
    weight: Weight = 1.0
    limit: ListLimit = 100_000
    pattern: Pattern = None
    hosts: SourceHosts = Field("same", description=_HOSTS)
    interval: ReadInterval | None = Field(None, description=_INTERVAL)
    max_shrink: ShrinkShare = Field(0.5, description=_SHRINK)
    paused: bool = False

    def over(self, before: storage_sources.SourceSpec) -> storage_sources.SourceSpec:
        """Returns the new settings, checked. Raises `InvalidValueError`."""
        fields = _renamed({name: getattr(self, name) for name in self.model_fields_set})
        if "tags" in fields:
            fields["tags"] = tuple(fields["tags"])
        return check_source(replace(before, **fields))


class SourceSchema(BaseModel):
    """A source as it stands. Durations in seconds."""

    id: int
    url: str
    kind: SourceKind
    tags: tuple[str, ...]
    weight: float
    limit: int = Field(description="most sites that it may have")
    pattern: str | None
    hosts: SourceHosts
    interval: float | None = Field(description=_INTERVAL)
    max_shrink: float
    paused: bool
    created_at: Moment
    last_read_at: Moment | None
    next_read_at: Moment | None = Field(description="null: it is paused")
    learned_interval: float | None = Field(description="null: nothing is learned yet")
    listed: int | None = Field(description="pages in the last list that was accepted, before the pattern")
    joined: int = Field(description="its pages that are listed now")
    vanished: int = Field(description="its pages that are no longer listed")
    failures: int = Field(description="readings in a row that failed or were not accepted")
    last_detail: str = Field(description="what the last reading came to")

    @classmethod
    def of(cls, source: storage_sources.Source) -> SourceSchema:
        """Returns the source in the API's words."""
        spec = source.spec
        return cls(
            id=source.id,
            **settings_of(spec),
            created_at=source.created_at,
            last_read_at=source.last_read_at,
            next_read_at=None if spec.paused else source.next_read_at,
            learned_interval=source.pace,
            listed=source.entries,
            joined=source.joined,
            vanished=source.vanished,
            failures=source.failures,
            last_detail=source.last_detail,
        )


class SourceRemoved(BaseModel):
    """How many sites went with a source."""

    sites_removed: int


def source_of(fields: Mapping[str, Any]) -> storage_sources.SourceSpec:
    """Returns the source of fields as the API takes them, checked. Raises `InvalidValueError`."""
    try:
        return NewSource.model_validate(fields).spec()
    except ValidationError as error:
        raise first_refusal(error, "source", _("as the API takes it")) from error


def sources_of(sources: Sequence[Mapping[str, Any]]) -> list[storage_sources.SourceSpec]:
    """Returns the sources of a list. Raises `InvalidValueError`, naming place and field; none may stand twice."""
    specs: dict[str, storage_sources.SourceSpec] = {}
    for place, fields in enumerate(sources):
        try:
            spec = source_of(fields)
        except InvalidValueError as error:
            raise error.of(f"sources[{place}].{error.field}") from error
        if spec.url in specs:
            raise refusal(f"sources[{place}].url", _("{url} is listed twice", url=masked(spec.url)))
        specs[spec.url] = spec
    return list(specs.values())


def settings_of(spec: storage_sources.SourceSpec) -> dict[str, Any]:
    """Returns the settings of a source under the API's names."""
    back = {inner: outer for outer, inner in _NAMES.items()}
    return {back.get(name, name): getattr(spec, name) for name in spec.__struct_fields__}


def _renamed(fields: dict[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): value for name, value in fields.items()}


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
) -> Listing[ListedPage]:
    """Pages that the source lists, or listed, by the ids of their sites."""
    page = await daemon.store.sources.sites_of(source_id, state, limit, cursor)
    return Listing.of(page.items, page.next_cursor)


ROUTERS = (router,)
