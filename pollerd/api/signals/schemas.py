"""Signal sources and signals: input and output."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from pollerd.allocation.source_quality import SourceQuality
from pollerd.api.schemas.common import Given, Moment
from pollerd.errors import InvalidValueError
from pollerd.planning.durations import about
from pollerd.storage import (
    HubState,
    HubSubscription,
    ListedDate,
    SignalHosts,
    SignalKind,
    SignalOrigin,
    SignalSource,
    SignalSourceSpec,
    SourceOfSite,
)
from pollerd.timestamps import parse_moment
from pollerd.urls import normalise_url

MOST_REPORTED = 10_000
"""Most URLs of one report, as IndexNow has it."""
_LONGEST_NAME = 100
_HOSTS = "same: it speaks for pages of its own host only; any: for all sites"
SourceName = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME)]


def checked_hosts(kind: SignalKind, given: SignalHosts | None) -> SignalHosts:
    """Returns the hosts of a signal source of this kind; left out: same, for push any. Raises `InvalidValueError`."""
    if kind != "push":
        return given or "same"
    if given == "same":
        raise InvalidValueError("hosts", "any for kind push: it has no host", given)
    return "any"


class NewSignalSource(Given):
    """A site whose polls say when other pages change, or, of kind `push`, a name under which programs report that."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"kind": "sitemap", "site_id": 7}, {"kind": "push", "name": "cms"}]}
    )

    kind: SignalKind = Field(
        description="sitemap; feed; list: JSON or lines, a URL and perhaps a date; links: the links of a page; push"
    )
    site_id: int | None = Field(None, ge=1, description="the site that is polled for it; of all kinds but push")
    name: SourceName | None = Field(None, description="of kind push only")
    hosts: SignalHosts | None = Field(None, description=f"{_HOSTS}; null: same, for push any")

    def spec(self) -> SignalSourceSpec:
        """Returns the checked spec. Raises `InvalidValueError`."""
        pushed = self.kind == "push"
        if pushed and self.site_id is not None:
            raise InvalidValueError("site_id", "left out for kind push", self.site_id)
        if pushed and self.name is None:
            raise InvalidValueError("name", "given for kind push", None)
        if not pushed and self.site_id is None:
            raise InvalidValueError("site_id", f"given for kind {self.kind}", None)
        if not pushed and self.name is not None:
            raise InvalidValueError("name", "left out, except for kind push", self.name)
        return SignalSourceSpec(self.kind, self.site_id, self.name, checked_hosts(self.kind, self.hosts))


class SignalQuality(BaseModel):
    """What the allocator learned of a signal source."""

    recall: float = Field(description="share of the changes that it signals")
    precision: float = Field(description="share of its signals behind which a change stands")
    false_rate: float = Field(description="false signals per second and page")
    delay: float | None = Field(description="seconds from a change to its signal; null: not known")
    say: float = Field(description="how far it is believed, 0 to 1")
    polls: float = Field(description="polls of its pages from which this was learned, with forgetting")
    in_words: str

    @classmethod
    def of(cls, quality: SourceQuality) -> SignalQuality:
        """Returns what was learned in the API's words."""
        delay = quality.delay if math.isfinite(quality.delay) else None
        return cls(
            recall=quality.recall,
            precision=quality.precision,
            false_rate=quality.false_rate,
            delay=delay,
            say=quality.say,
            polls=quality.polls,
            in_words=quality_in_words(quality),
        )


class HubSchema(BaseModel):
    """The subscription at the WebSub hub that a source's answers offer."""

    hub: str
    topic: str = Field(description="as its publisher writes it")
    state: HubState = Field(description="pending; active: verified; denied; leaving")
    lease_ends_at: Moment | None
    last_received_at: Moment | None = Field(description="when it last sent something with a right signature")
    received: int = Field(description="how often it did")
    last_detail: str

    @classmethod
    def of(cls, subscription: HubSubscription) -> HubSchema:
        """Returns the subscription in the API's words."""
        return cls(**{name: getattr(subscription, name) for name in cls.model_fields})


class SignalSourceSchema(BaseModel):
    """A signal source as it stands."""

    id: int
    kind: SignalKind
    site_id: int | None
    url: str | None = Field(description="of its site; null: pushed")
    name: str | None
    hosts: SignalHosts = Field(description=_HOSTS)
    origin: SignalOrigin = Field(description="api; file: a list names it; index: it stands in an index of sitemaps")
    index_id: int | None = Field(None, description="the signal source in whose index of sitemaps it stands")
    created_at: Moment
    last_read_at: Moment | None = Field(description="last poll that could be read, or last report")
    last_signal_at: Moment | None
    signals: int = Field(description="since it was added")
    pages: int = Field(description="sites that it speaks for")
    last_detail: str = Field(description="what the last reading came to")
    quality: SignalQuality | None = Field(description="null: nothing is learned, or the allocator uses no signals")
    hub: HubSchema | None = Field(None, description="null: no WebSub hub is offered, or none is subscribed to")

    @classmethod
    def of(
        cls, source: SignalSource, quality: SourceQuality | None, hub: HubSubscription | None = None
    ) -> SignalSourceSchema:
        """Returns the source in the API's words."""
        spec = source.spec
        return cls(
            id=source.id,
            kind=spec.kind,
            site_id=spec.site_id,
            url=source.url,
            name=spec.name,
            hosts=spec.hosts,
            origin=source.origin,
            index_id=source.index_id,
            created_at=source.created_at,
            last_read_at=source.last_read_at,
            last_signal_at=source.last_signal_at,
            signals=source.signals,
            pages=source.pages,
            last_detail=source.last_detail,
            quality=None if quality is None else SignalQuality.of(quality),
            hub=None if hub is None else HubSchema.of(hub),
        )


class SiteSignal(BaseModel):
    """What a signal source said last of a site."""

    source_id: int
    source: str = Field(description="URL of the source's site, or its name")
    date: Moment | None = Field(description="of the change, as it was said; null: none was given")
    signalled_at: Moment | None = Field(description="when that was last news; null: never")
    waiting: bool = Field(description="whether no poll that saw the page has followed it")
    signals: int = Field(description="of this site since the source was added")
    quality: SignalQuality | None = Field(description="of the source; null: nothing is learned")

    @classmethod
    def of(cls, said: SourceOfSite, quality: SourceQuality | None) -> SiteSignal:
        """Returns the signal in the API's words."""
        return cls(
            source_id=said.source_id,
            source=said.source,
            date=None if said.date is None or not 0 <= said.date < _SHOWN_UNTIL else said.date,
            signalled_at=said.signalled_at,
            waiting=said.waiting,
            signals=said.signals,
            quality=None if quality is None else SignalQuality.of(quality),
        )


_SHOWN_UNTIL = 253_402_300_800.0
"""End of the year 9999: later dates cannot be written."""


class ReportedChange(Given):
    """A page that changed, and when."""

    url: str = Field(description="normalised as that of a site")
    at: str | None = Field(
        None, description="RFC 3339; null: it is not known", json_schema_extra={"format": "date-time"}
    )


class ChangeReport(Given):
    """What a program says of pages; in `signals`, or without dates in `urlList` as in IndexNow's protocol."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"source": "cms", "signals": [{"url": "https://example.org/a", "at": "2026-01-31T12:00:00Z"}]},
                {"source": "cms", "urlList": ["https://example.org/a"]},
            ]
        }
    )

    source: SourceName = Field(description="name of a signal source of kind push")
    signals: list[ReportedChange] = Field([], max_length=MOST_REPORTED)
    urlList: list[str] = Field([], max_length=MOST_REPORTED)  # noqa: N815 (the protocol's word)

    def dates(self) -> list[ListedDate]:
        """Returns the URLs, normalised, with their dates. Raises `InvalidValueError` naming the place."""
        found = [
            ListedDate(_url(f"signals[{place}].url", one.url), _time(f"signals[{place}].at", one.at))
            for place, one in enumerate(self.signals)
        ]
        found += [ListedDate(_url(f"urlList[{place}]", url)) for place, url in enumerate(self.urlList)]
        if not 1 <= len(found) <= MOST_REPORTED:
            raise InvalidValueError("signals", f"1 to {MOST_REPORTED:,} URLs, with those of urlList", len(found))
        return found


class ReportTaken(BaseModel):
    """What became of a report."""

    signals: int = Field(description="URLs of sites of which this is news")
    ignored: int = Field(description="URLs that are no sites, or of which this was said before")


def quality_in_words(quality: SourceQuality) -> str:
    """Returns how true a source is, as one line for users."""
    if quality.polls < 1:
        return "nothing is known yet"
    right, tells = round(100 * quality.precision), round(100 * quality.recall)
    words = [f"right in {right} of 100", f"tells of {tells} of 100 changes"]
    if math.isfinite(quality.delay):
        words.append(f"{about(quality.delay)} late")
    return f"{', '.join(words)}; believed to {quality.say:.0%}"


def _url(field: str, given: str) -> str:
    try:
        return normalise_url(given)
    except InvalidValueError as error:
        raise InvalidValueError(field, error.allowed, given) from error


def _time(field: str, given: str | None) -> float | None:
    return None if given is None else parse_moment(field, given)
