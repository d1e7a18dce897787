"""Sites: input and output."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pollerd import model
from pollerd.api.http import limits
from pollerd.api.http.ports.sites import LiveView
from pollerd.api.http.rendered import check_render
from pollerd.api.schemas.common import Given, Moment
from pollerd.api.schemas.inputs.settings import (
    RebaseChoice,
    Render,
    RespectTtlShown,
    Selections,
    SettingsFields,
    shown_setting,
)
from pollerd.api.schemas.inputs.windows import WindowsSchema
from pollerd.errors import InvalidValueError
from pollerd.fetching import without_userinfo
from pollerd.inheritance import inherit
from pollerd.model import OutcomeKind, SiteState
from pollerd.site_settings import INHERITED

REDIRECT_CONFIRMATIONS = 3
"""Consecutive polls with the same permanent redirect after which it is proposed as the site's new URL."""

Url = Annotated[str, Field(json_schema_extra={"pattern": r"^[ \t\r\n]*[Hh][Tt][Tt][Pp][Ss]?://[^/?#]"})]
Tag = Annotated[str, Field(json_schema_extra={"pattern": r"^[^;]*[^;\s][^;]*$"})]
Tags = Annotated[list[Tag], Field(json_schema_extra={"maxItems": limits.MAX_TAGS})]


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
    title: str = Field("", description="what users call it", max_length=limits.MAX_TITLE_LENGTH)
    tags: Tags = Field([])

    def spec(self) -> model.SiteSpec:
        """Returns the checked spec. Raises `InvalidValueError`."""
        render, typed = check_render(self.render)
        given: dict[str, Any] = {
            "tags": tuple(self.tags),
            "access": dataclasses.replace(self.access(model.NO_ACCESS), typed=typed),
            "render": render,
            "title": self.title.strip(),
        }
        return limits.check_spec(model.SiteSpec(self.url, **given, **self.inheritable()))


class SitePatch(SettingsFields):
    """New values for a site; what is left out stays. null takes a setting away: its tags' holds then, or the default.

    `headers` replaces all of them. A URL at another origin takes headers and credentials away where none are given.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"weight": 5.0, "tags": ["news"]}]})

    url: Url = ""
    title: str = Field("", description="what users call it", max_length=limits.MAX_TITLE_LENGTH)
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
            raise InvalidValueError("all", "given, or tag: one of the two", sorted(self.model_fields_set))
        return limits.check_tag(self.tag) if "tag" in self.model_fields_set else None


class SitesChanged(BaseModel):
    """How many sites it made a difference to."""

    count: int


class SiteSchema(BaseModel):
    """A site as it stands, with what it inherits from tags; null: the daemon's. `explain` says what comes whence."""

    id: int
    url: str
    title: str
    state: SiteState
    weight: float
    cost: float
    tags: tuple[str, ...]
    min_interval: float | None
    max_interval: float | None
    min_yield: float | None
    respect_ttl: RespectTtlShown | None
    half_life: float | None
    learned_half_life: float | None = Field(
        description="learned from reads of its changes; in force where half_life is null; null: none is"
    )
    deadline: float | None
    windows: WindowsSchema | None
    header_names: tuple[str, ...] = Field(
        description="of its request headers, inherited ones too; their values are secret"
    )
    has_credentials: bool
    method: Literal["GET", "POST"] = Field(description="POST: the site has a body of its own, which is secret")
    proxy: str | None = Field(description="the proxy that it or a tag has, without user name and password")
    selections: Selections | None = Field(description="what of the page counts; null: the whole page")
    render: Render | None = Field(description="null: fetched without a browser")
    keep_screenshots: bool
    created_at: Moment
    last_poll_at: Moment | None
    next_poll_at: Moment | None = Field(description="the earliest moment of the next poll; null: none is to come")
    rate_per_day: float | None = Field(description="believed changes per day; null: nothing is believed yet")
    polls: int
    changes: int
    failures: int = Field(description="in a row")
    last_outcome: OutcomeKind | None
    last_detail: str
    redirect_proposal: str | None = Field(description="where a permanent redirect leads; see accept-redirect")

    @classmethod
    def of(cls, site: model.Site, live: LiveView | None, tags: model.Tags) -> SiteSchema:
        """Returns the site with its in-memory values, and what it inherits from those of its tags among `tags`."""
        spec = inherit(site.spec, tags)
        said = {name: shown_setting(one, getattr(spec, name)) for name, one in INHERITED.items()}
        return cls(
            **{**said, "keep_screenshots": bool(spec.keep_screenshots)},
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
            created_at=site.created_at,
            last_poll_at=site.last_poll_at,
            next_poll_at=site.next_poll_at if live is None else live.next_poll_at,
            rate_per_day=None if live is None else live.rate_per_day,
            polls=site.polls,
            changes=site.changes,
            failures=site.failures,
            last_outcome=site.last_outcome,
            last_detail=site.last_detail,
            redirect_proposal=redirect_proposal(site),
        )


def redirect_proposal(site: model.Site) -> str | None:
    """Returns the URL that a permanent redirect proposes, once it was confirmed often enough."""
    return site.redirect_url if site.redirect_count >= REDIRECT_CONFIRMATIONS else None
