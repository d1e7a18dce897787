"""Sites: input and output."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pollerd import model
from pollerd.api.http import access, limits
from pollerd.api.http.context import LiveView
from pollerd.api.schemas.common import Given, Moment
from pollerd.api.schemas.numbers import Cost, HalfLife, MaxInterval, MinInterval, MinYield, Weight
from pollerd.api.schemas.site_access import AccessFields
from pollerd.errors import InvalidValueError
from pollerd.fetching import without_userinfo
from pollerd.model import OutcomeKind, SiteState

REDIRECT_CONFIRMATIONS = 3
"""Consecutive polls with the same permanent redirect after which it is proposed as the site's new URL."""

Url = Annotated[str, Field(json_schema_extra={"pattern": r"^[ \t\r\n]*[Hh][Tt][Tt][Pp][Ss]?://[^/?#]"})]
Tag = Annotated[str, Field(json_schema_extra={"pattern": r"^[^;]*[^;\s][^;]*$"})]
Tags = Annotated[list[Tag], Field(json_schema_extra={"maxItems": limits.MAX_TAGS})]
_RESPECT_TTL = "leave the site alone for as long as its max-age or feed's ttl says, at most a day; null: the default"


class NewSite(AccessFields):
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
    weight: Weight = 1.0
    cost: Cost = 1.0
    tags: Tags = Field([])
    min_interval: MinInterval | None = None
    max_interval: MaxInterval | None = None
    min_yield: MinYield | None = None
    respect_ttl: bool | None = Field(None, description=_RESPECT_TTL)
    half_life: HalfLife | None = None

    def spec(self) -> model.SiteSpec:
        """Returns the checked spec. Raises `InvalidValueError`."""
        settings = self.model_dump(exclude=set(access.FIELDS))
        reached = self.access(model.NO_ACCESS)
        return limits.check_spec(model.SiteSpec(**{**settings, "tags": tuple(self.tags), "access": reached}))


class SitePatch(AccessFields):
    """New values for a site; what is left out stays. null takes an interval, a half-life, credentials or proxy away.

    `headers` replaces all of them. A URL at another origin takes headers and credentials away where none are given.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"weight": 5.0, "tags": ["news"]}]})

    url: Url = ""
    weight: Weight = 1.0
    cost: Cost = 1.0
    tags: Tags = Field([])
    min_interval: MinInterval | None = None
    max_interval: MaxInterval | None = None
    min_yield: MinYield | None = None
    respect_ttl: bool | None = Field(None, description=_RESPECT_TTL)
    half_life: HalfLife | None = None


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
    """A site as it stands."""

    id: int
    url: str
    state: SiteState
    weight: float
    cost: float
    tags: tuple[str, ...]
    min_interval: float | None
    max_interval: float | None
    min_yield: float | None
    respect_ttl: bool | None
    half_life: float | None
    header_names: tuple[str, ...] = Field(description="of the site's own request headers; their values are secret")
    has_credentials: bool
    proxy: str | None = Field(description="the site's own proxy, without user name and password")
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
    def of(cls, site: model.Site, live: LiveView | None) -> SiteSchema:
        """Returns the site with its in-memory values."""
        spec = site.spec
        return cls(
            id=site.id,
            url=spec.url,
            state=site.state,
            weight=spec.weight,
            cost=spec.cost,
            tags=spec.tags,
            min_interval=spec.min_interval,
            max_interval=spec.max_interval,
            min_yield=spec.min_yield,
            respect_ttl=spec.respect_ttl,
            half_life=spec.half_life,
            header_names=spec.access.header_names,
            has_credentials=spec.access.credentials is not None,
            proxy=None if spec.access.proxy is None else without_userinfo(spec.access.proxy),
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
