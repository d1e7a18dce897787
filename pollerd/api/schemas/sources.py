"""Sources of sites: input and output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pollerd import storage
from pollerd.api.schemas.common import Given, Moment, first_refusal
from pollerd.api.schemas.inputs.numbers import ListLimit, ReadInterval, ShrinkShare, Weight
from pollerd.api.schemas.inputs.source_limits import check_source
from pollerd.api.schemas.sites import Tags, Url
from pollerd.errors import InvalidValueError

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
_SHRINK = "the largest share by which the list may shrink and still be believed; 1: any"
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

    def spec(self) -> storage.SourceSpec:
        """Returns the checked spec. Raises `InvalidValueError`."""
        given = _renamed(self.model_dump())
        return check_source(storage.SourceSpec(**{**given, "tags": tuple(self.tags), "hosts": self.hosts or ""}))


class SourcePatch(Given):
    """New values for a source; what is left out stays. Tags and weight hold for sites that join from now on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"pattern": "/news/"}, {"paused": True}]})

    tags: Tags = Field([])
    weight: Weight = 1.0
    limit: ListLimit = 100_000
    pattern: Pattern = None
    hosts: SourceHosts = Field("same", description=_HOSTS)
    interval: ReadInterval | None = Field(None, description=_INTERVAL)
    max_shrink: ShrinkShare = Field(0.5, description=_SHRINK)
    paused: bool = False

    def over(self, before: storage.SourceSpec) -> storage.SourceSpec:
        """Returns the new settings, checked. Raises `InvalidValueError`."""
        given = _renamed({name: getattr(self, name) for name in self.model_fields_set})
        if "tags" in given:
            given["tags"] = tuple(given["tags"])
        return check_source(replace(before, **given))


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
    listed: int | None = Field(description="pages in the last list that was believed, before the pattern")
    joined: int = Field(description="its pages that are listed now")
    vanished: int = Field(description="its pages that are no longer listed")
    failures: int = Field(description="readings in a row that failed or were not believed")
    last_detail: str = Field(description="what the last reading came to")

    @classmethod
    def of(cls, source: storage.Source) -> SourceSchema:
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


class ListedPageSchema(BaseModel):
    """A page of a source, and its site."""

    model_config = ConfigDict(from_attributes=True)

    site_id: int
    url: str = Field(description="as listed; the site may have been moved since")
    state: Literal["joined", "vanished"]
    since: Moment
    paused: bool = Field(description="the source paused the site, and resumes it when the page is listed again")

    @classmethod
    def of(cls, member: storage.Member) -> ListedPageSchema:
        """Returns the page in the API's words."""
        state: Literal["joined", "vanished"] = "joined" if member.joined else "vanished"
        return cls(site_id=member.site_id, url=member.url, state=state, since=member.since, paused=member.paused)


class SourceRemoved(BaseModel):
    """How many sites went with a source."""

    sites_removed: int


def source_of(fields: Mapping[str, Any]) -> storage.SourceSpec:
    """Returns the source of fields as the API takes them, checked. Raises `InvalidValueError`."""
    try:
        return NewSource.model_validate(fields).spec()
    except ValidationError as error:
        raise first_refusal(error, "source", "as the API takes it") from error


def sources_of(sources: Sequence[Mapping[str, Any]]) -> list[storage.SourceSpec]:
    """Returns the sources of a list. Raises `InvalidValueError`, naming place and field; none may stand twice."""
    found: dict[str, storage.SourceSpec] = {}
    for place, fields in enumerate(sources):
        try:
            spec = source_of(fields)
        except InvalidValueError as error:
            raise InvalidValueError(f"sources[{place}].{error.field}", error.allowed, error.given) from error
        if spec.url in found:
            raise InvalidValueError(f"sources[{place}].url", "no source's before it", spec.url)
        found[spec.url] = spec
    return list(found.values())


def settings_of(spec: storage.SourceSpec) -> dict[str, Any]:
    """Returns the settings of a source under the API's names."""
    back = {inner: outer for outer, inner in _NAMES.items()}
    return {back.get(name, name): getattr(spec, name) for name in spec.__struct_fields__}


def _renamed(given: dict[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): value for name, value in given.items()}
