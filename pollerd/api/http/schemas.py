"""The bodies of requests and answers, as OpenAPI shows them. Ranges of settings are checked by `specs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from pollerd import allocation, model
from pollerd.api.http import access, limits
from pollerd.api.http.context import LiveView
from pollerd.api.http.timestamps import rfc3339
from pollerd.errors import InvalidValueError
from pollerd.fetching import without_userinfo
from pollerd.model import Media, OutcomeKind, SiteState
from pollerd.quantities import per_second, seconds, share

REDIRECT_CONFIRMATIONS = 3
"""A permanent redirect seen so often in a row is proposed as the site's new URL."""

T = TypeVar("T")
Moment = Annotated[
    float,
    PlainSerializer(rfc3339, return_type=str, when_used="json-unless-none"),
    Field(description="RFC 3339, UTC", json_schema_extra={"format": "date-time"}),
]
_POSITIVE_SECONDS = {"minimum": limits.MIN_SECONDS, "maximum": limits.MAX_SECONDS, "description": "seconds"}
Url = Annotated[str, Field(json_schema_extra={"pattern": r"^[ \t\r\n]*[Hh][Tt][Tt][Pp][Ss]?://[^/?#]"})]
Weight = Annotated[float, Field(json_schema_extra={"minimum": 0, "maximum": limits.MAX_WEIGHT})]
Cost = Annotated[float, Field(json_schema_extra={"minimum": limits.MIN_COST, "maximum": limits.MAX_COST})]


def _written(
    read: Callable[[str], float], number: dict[str, Any], pattern: str
) -> tuple[BeforeValidator, WithJsonSchema]:
    """A number, or the same as a text that `read` understands; the pattern holds what is surely in range."""
    text = {"type": "string", "pattern": pattern}
    return (
        BeforeValidator(lambda value: read(value) if isinstance(value, str) else value),
        WithJsonSchema({"anyOf": [{"type": "number", **number}, text]}),
    )


_DURATION = r"^[1-9][0-9]{0,3}(\.[0-9]{1,3})?(s|m|min|h|d)?$"
_PACE = (
    r"^([1-9][0-9]{0,3}(/s)?|[1-9][0-9]{0,4}/min|(3[6-9]|[4-9][0-9]|[1-9][0-9]{2,6})/h"
    r"|(86[4-9]|8[7-9][0-9]|9[0-9]{2}|[1-9][0-9]{3,7})/d)$"
)
_SHARE = r"^(0(\.[0-9]{1,9})?|[1-9]?[0-9](\.[0-9]{1,9})?%)$"
MinInterval = Annotated[float, *_written(seconds, {**_POSITIVE_SECONDS, "minimum": 0}, _DURATION)]
Seconds = Annotated[float, *_written(seconds, _POSITIVE_SECONDS, _DURATION)]
MinYield = Annotated[
    float,
    *_written(share, {"minimum": 0, "exclusiveMaximum": 1}, _SHARE),
    Field(description="a site is not polled while a change is believed less likely; 0: whatever is believed"),
]
_PROXY = (
    "http:// or https:// URL of a proxy for all requests of this site, perhaps with user:password@; null: the daemon's"
)
_SECRET = {"maxLength": access.MAX_SECRET_LENGTH, "writeOnly": True}
Secret = Annotated[str, Field(json_schema_extra=_SECRET)]
BearerToken = Annotated[str, Field(json_schema_extra={**_SECRET, "pattern": access.BEARER})]
Headers = Annotated[
    dict[str, str],
    Field(
        json_schema_extra={
            "maxProperties": access.MAX_HEADERS,
            "propertyNames": {"pattern": access.HEADER_NAME},
            "additionalProperties": {"type": "string", "pattern": access.HEADER_VALUE},
            "writeOnly": True,
        }
    ),
]
Tag = Annotated[str, Field(json_schema_extra={"pattern": r"^[^;]*[^;\s][^;]*$"})]
Tags = Annotated[list[Tag], Field(json_schema_extra={"maxItems": limits.MAX_TAGS})]


_RESPECT_TTL = "leave the site alone for as long as its max-age or feed's ttl says, at most a day; null: the default"


class Given(BaseModel):
    """What a caller sends: no field but the known, no text for a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _exactly(title: str, given: list[str], without: list[str]) -> dict[str, Any]:
    texts, nothing = ({"type": kind} for kind in ("string", "null"))
    return {
        "title": title,
        "required": given,
        "properties": dict.fromkeys(given, texts) | dict.fromkeys(without, nothing),
    }


class CredentialsSchema(Given):
    """A user name and a password, or a bearer token. Kept sealed, never given out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"username": "reader", "password": "example"}],
            "oneOf": [
                _exactly("UserCredentials", ["username", "password"], without=["token"]),
                _exactly("TokenCredentials", ["token"], without=["username", "password"]),
            ],
        }
    )

    username: Secret | None = None
    password: Secret | None = None
    token: BearerToken | None = None


class _Reached(Given):
    """How the site is asked. Kept sealed; of it answers tell the headers' names and the proxy's place only."""

    headers: Headers = Field({}, description="sent to the origin of the URL only, never across a redirect to another")
    credentials: CredentialsSchema | None = Field(
        None, description="sent to the origin of the URL only, as headers are"
    )
    proxy: str | None = Field(None, description=_PROXY, examples=["http://proxy.example.org:3128"])

    def access(self, base: model.Access) -> model.Access:
        """The access that was given, unchecked; what was left out is that of `base`."""
        given = {name: getattr(self, name) for name in access.FIELDS if name in self.model_fields_set}
        if self.credentials is not None:
            given["credentials"] = self.credentials.model_dump(exclude_none=True)
        return access.access_of(given, base)


class NewSite(_Reached):
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
    tags: Tags = []
    min_interval: MinInterval | None = None
    max_interval: Seconds | None = None
    min_yield: MinYield | None = None
    respect_ttl: bool | None = Field(None, description=_RESPECT_TTL)
    half_life: Seconds | None = None

    def spec(self) -> model.SiteSpec:
        """The checked spec. Raises `InvalidValueError`."""
        settings = self.model_dump(exclude=set(access.FIELDS))
        reached = self.access(model.NO_ACCESS)
        return limits.check_spec(model.SiteSpec(**{**settings, "tags": tuple(self.tags), "access": reached}))


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
        """The tag; None for all sites. Raises `InvalidValueError`."""
        if len(self.model_fields_set) != 1:
            raise InvalidValueError("all", "given, or tag: one of the two", sorted(self.model_fields_set))
        return limits.check_tag(self.tag) if "tag" in self.model_fields_set else None


class SitesChanged(BaseModel):
    """How many sites it made a difference to."""

    count: int


class SitePatch(_Reached):
    """New values for a site; what is left out stays. null takes an interval, a half-life, credentials or proxy away.

    `headers` replaces all of them. A URL at another origin takes headers and credentials away where none are given.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"weight": 5.0, "tags": ["news"]}]})

    url: Url = ""
    weight: Weight = 1.0
    cost: Cost = 1.0
    tags: Tags = []
    min_interval: MinInterval | None = None
    max_interval: Seconds | None = None
    min_yield: MinYield | None = None
    respect_ttl: bool | None = Field(None, description=_RESPECT_TTL)
    half_life: Seconds | None = None


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
        """The site, with what the running daemon knows of it."""
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
    """The URL that a permanent redirect proposes, once it was confirmed often enough."""
    return site.redirect_url if site.redirect_count >= REDIRECT_CONFIRMATIONS else None


class ChangeSchema(BaseModel):
    """A change found: it happened between the previous poll and the one that detected it."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    site_id: int
    url: str
    detected_at: Moment
    previous_poll_at: Moment | None
    kind: Media
    summary: str


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


class Listing(BaseModel, Generic[T]):
    """Some items of a list; `next_cursor` asks for the next ones, null: there are no more now."""

    items: list[T]
    next_cursor: str | None

    @classmethod
    def of(cls, items: Iterable[T], next_cursor: str | None) -> Listing[T]:
        """A page of a list."""
        return cls(items=list(items), next_cursor=next_cursor)


class Rejection(BaseModel):
    """A line that names no site that can be polled."""

    line: int
    reason: str


class ImportResult(BaseModel):
    """What became of a list.

    lines_read: number of the last line that was read and said something. stopped: why what follows was not read; null:
    all was.
    """

    added: int
    existing: int
    rejected: list[Rejection]
    rejected_count: int
    lines_read: int
    stopped: str | None


class HostOverrideSchema(BaseModel):
    """What an operator last did to a host's pause."""

    model_config = ConfigDict(from_attributes=True)

    at: Moment
    by: str = Field(description="what it took to be let in: the scope of the token")
    paused: bool = Field(description="true: paused by hand; false: a pause was ended")
    until: Moment | None = Field(description="of a pause by hand; null: until somebody ends it")


class FieldDifference(BaseModel):
    """One setting as it is and as the list has it. Of headers the names are told, of a proxy its place."""

    field: str
    before: Any = Field(description="as it is; null: not set")
    after: Any = Field(description="as the list has it; null: not set")
    note: str | None = Field(description="that a secret differs of which the same is told before and after")


class SiteDifference(BaseModel):
    """A site whose settings a list would change."""

    id: int
    url: str
    fields: list[FieldDifference]


class ListDifference(BaseModel):
    """What a list would do. Each of the lists shows at most 100,000; the counts count all."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    added: list[str] = Field(default=[], description="URLs")
    added_count: int = 0
    existing: int = Field(default=0, description="sites of the list that are there already")
    changed: list[SiteDifference] = []
    changed_count: int = 0
    removed: list[str] = Field(default=[], description="URLs")
    removed_count: int = 0
    left_out_as_deleted: list[str] = Field(default=[], description="URLs that a user deleted: sync brings them back")
    left_out_as_deleted_count: int = 0
    rejected: list[Rejection] = []
    rejected_count: int = 0


class SecretKind(StrEnum):
    """What of a site is secret."""

    HEADERS = "headers"
    CREDENTIALS = "credentials"
    PROXY = "proxy"


class SecretsMissing(BaseModel):
    """A site whose secrets the document names and does not hold."""

    url: str
    kinds: list[SecretKind]


class RestoredSection(BaseModel):
    """What became of one section of a document; with `dry_run` (`compared`) what would."""

    section: str
    status: Literal["applied", "compared", "refused", "not_tried"]
    added: int
    changed: int
    unchanged: int
    reason: str | None = Field(description="why it was refused: nothing of the section is in force")


class RestoreReport(BaseModel):
    """What became of a document. `secrets_missing` shows at most 10,000 sites; `secrets_missing_count` counts all."""

    dry_run: bool
    complete: bool = Field(description="false: a section was refused, and those behind it were not tried")
    sections: list[RestoredSection]
    secrets_missing: list[SecretsMissing]
    secrets_missing_count: int


class Explanation(BaseModel):
    """Why a site is polled as it is. Durations in seconds."""

    model_config = ConfigDict(from_attributes=True)

    site_id: int
    allocator: str
    objective: str
    rate_per_day: float | None
    rate_low_per_day: float | None
    rate_high_per_day: float | None
    elapsed: float | None
    change_probability: float | None
    urgency: float | None
    rank: int | None = Field(description="1: the most urgent of all; estimated above 16,384 sites")
    price: float | None
    budget_share: float | None
    expected_interval: float | None
    next_poll_at: Moment | None
    next_expected_poll_at: Moment | None
    believed_unchanged_until: Moment | None = Field(
        description="until then a change is believed less likely than min_yield, or the page's max-age or ttl holds, "
        "where that is respected; null: neither holds now"
    )
    told_ttl: float | None = Field(
        validation_alias="announced_ttl",
        description="for how long the page last said that it need not be asked again; null: it does not, or the site "
        "does not respect it",
    )
    why_not_now: str | None
    capped_to_uniform: bool
    failures: int
    notes: dict[str, str] = Field(
        description="what else the allocator has to say of the site: prior_source, profile, spell, drift"
    )
    host: str = Field(description="name:port")
    host_override: HostOverrideSchema | None = Field(description="what an operator last did to the host's pause")
    mask: tuple[str, ...] = Field(description="what of the page differs at every fetch and does not count, a line each")


class Decile(BaseModel):
    """Polls whose predicted probability of a change lay in one tenth of 0 to 1."""

    model_config = ConfigDict(from_attributes=True)

    polls: int
    predicted: float | None = Field(description="the mean of what was predicted")
    found: float | None = Field(description="the share that found a change")


class Calibration(BaseModel):
    """How well changes were foretold since the allocator took over, or the daemon started."""

    model_config = ConfigDict(from_attributes=True)

    polls: int
    expected_error: float | None = Field(description="mean distance of found from predicted, weighted by polls")
    deciles: tuple[Decile, ...] = Field(description="ten, by predicted probability: below 0.1 first")


class BenefitPoint(BaseModel):
    """What the best split of a budget would bring."""

    model_config = ConfigDict(from_attributes=True)

    budget: float = Field(description="polls per second")
    expected_detections_per_hour: float


class Shadow(BaseModel):
    """An allocator in shadow. It never sees polls it would have made itself, and is judged by another's belief."""

    model_config = ConfigDict(from_attributes=True)

    allocator: str
    state: Literal["learning", "following", "dropped"]
    expected_detections_per_hour: float | None = Field(
        description="of the frequencies it would poll at, under the present belief of the allocator in charge; null: "
        "not worked out yet, or the one in charge believes nothing of rates"
    )
    reason: str | None = Field(description="why it was dropped")


class Allocation(BaseModel):
    """What the budget brings under the present belief."""

    model_config = ConfigDict(from_attributes=True)

    allocator: str
    objective: str
    budget: float = Field(description="polls per second")
    utilization: float
    spendable: float = Field(description="what of the budget intervals, min_yields and politeness let be spent")
    binding: Literal[
        "budget",
        "no_sites",
        "private",
        "first_answers",
        "host_interval",
        "min_yield",
        "ttl",
        "min_interval",
        "backoff",
        "robots",
        "blocked",
        "paused",
        "gone",
    ] = Field(description="what keeps most sites from being polled more often")
    binding_in_words: str
    price: float | None = Field(description="value of one more poll per second (theta)")
    expected_detections_per_hour_as_scheduled: float | None = Field(
        description="like the next two within the same min_intervals, min_yields and politeness"
    )
    expected_detections_per_hour_uniform: float | None
    expected_detections_per_hour_best: float | None
    sites: int
    late_sites: int
    noisy_sites: int
    maximum_intervals_feasible: bool
    calibration: Calibration
    one_more_poll_per_second_finds_per_hour: float | None = Field(
        description="more expected detections per hour at the best split with a budget of one poll per second more"
    )
    benefit_curve: tuple[BenefitPoint, ...] = Field(
        description="expected detections over budgets of 0.1 to 10 times the present one, in expectation over what is "
        "believed of the rates, within min_intervals, and within what politeness lets be spent"
    )
    shadows: tuple[Shadow, ...]


AllocatorName = Annotated[str, Field(json_schema_extra={"enum": list(allocation.names())})]
Objective = Annotated[str, Field(json_schema_extra={"enum": ["changes", "freshness", "interest"]})]
_BUDGET = {"minimum": 0.01, "maximum": 10_000, "description": "polls per second"}
Budget = Annotated[float, *_written(per_second, _BUDGET, _PACE)]


class AllocationPatch(Given):
    """What is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"budget": 20.0}]})

    allocator: AllocatorName | None = None
    objective: Objective | None = None
    budget: Budget | None = None
    shadows: list[AllocatorName] | None = Field(
        None,
        description="at most three other allocators to run in shadow, in place of those there are, until a restart",
        json_schema_extra={"maxItems": 3, "uniqueItems": True},
    )


class Health(BaseModel):
    """Whether the scheduler's loop turns."""

    status: Literal["ok", "stalled"]


class Readiness(BaseModel):
    """Whether the database takes commits, and why not."""

    status: Literal["ready", "not_ready"]
    reason: str | None
