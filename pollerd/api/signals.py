"""Signal sources and signals.

Routes of signal sources, and of reports.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pollerd.allocation.evidence import SourceQuality
from pollerd.api.common import Given, Listing
from pollerd.api.http import MAX_ID, ApiPorts, Daemon, api_router, json_body, operation_id
from pollerd.api.problems import problem
from pollerd.errors import InvalidValueError, refusal
from pollerd.lists.hubs import HubVerification
from pollerd.lists.index_now import IndexNowReport, index_now_report
from pollerd.planning import about
from pollerd.shown import Moment
from pollerd.storage.hubs import HubState, OfferedHub
from pollerd.storage.signals import (
    ListedDate,
    SignalHosts,
    SignalKind,
    SignalOrigin,
    SignalSource,
    SignalSourceSpec,
    SourceOfSite,
)
from pollerd.texts import N_, _
from pollerd.timestamps import parse_moment
from pollerd.urls import normalise_url

# Signal sources and signals: input and output.

MAX_REPORTED = 10_000
"""Most URLs of one report, as IndexNow has it."""
_LONGEST_NAME = 100
_HOSTS = "same: it speaks only for pages of its host; any: for all sites"
SourceName = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME)]


def checked_hosts(kind: SignalKind, hosts: SignalHosts | None) -> SignalHosts:
    """Returns the hosts of a signal source of this kind; left out: same, for push any. Raises `InvalidValueError`."""
    if kind != "push":
        return hosts or "same"
    if hosts == "same":
        raise InvalidValueError("hosts", _("any for kind push: it has no host"), hosts)
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
            raise refusal("site_id", _("a source of kind push has no site"))
        if pushed and self.name is None:
            raise InvalidValueError("name", _("given for kind push"), None)
        if not pushed and self.site_id is None:
            raise InvalidValueError("site_id", _("given for kind {kind}", kind=self.kind), None)
        if not pushed and self.name is not None:
            raise refusal("name", _("only a source of kind push has a name"))
        return SignalSourceSpec(self.kind, self.site_id, self.name, checked_hosts(self.kind, self.hosts))


@dataclass(frozen=True, slots=True)
class SignalQuality(SourceQuality):
    """What the allocator learned of a signal source."""

    in_words: str

    @classmethod
    def of(cls, quality: SourceQuality | None) -> SignalQuality | None:
        """Returns what was learned, also in words."""
        return None if quality is None else cls(**asdict(quality), in_words=quality_in_words(quality))


class SignalSourceSchema(BaseModel):
    """A signal source as it stands."""

    id: int
    kind: SignalKind
    site_id: int | None
    url: str | None = Field(description="of its site; null: pushed")
    name: str | None
    hosts: SignalHosts = Field(description=_HOSTS)
    origin: SignalOrigin = Field(description="api; file: a list names it; index: an index of sitemaps names it")
    index_id: int | None = Field(None, description="the signal source in whose index of sitemaps it stands")
    created_at: Moment
    last_read_at: Moment | None = Field(description="last poll that could be read, or last report")
    last_signal_at: Moment | None
    signals: int = Field(description="since it was added")
    pages: int = Field(description="sites that it speaks for")
    last_detail: str = Field(description="what the last reading came to")
    quality: SignalQuality | None = Field(description="null: nothing is learned, or the allocator uses no signals")
    hub: OfferedHub | None = Field(None, description="null: no WebSub hub is offered, or none is subscribed to")

    @classmethod
    def of(
        cls, source: SignalSource, quality: SourceQuality | None, hub: OfferedHub | None = None
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
            quality=SignalQuality.of(quality),
            hub=hub,
        )


@dataclass(frozen=True, slots=True)
class SiteSignal(SourceOfSite):
    """What a signal source said last of a site."""

    quality: SignalQuality | None
    """Of the source; None: nothing is learned."""

    @classmethod
    def of(cls, signal: SourceOfSite, quality: SourceQuality | None) -> SiteSignal:
        """Returns the signal, without a date that cannot be written."""
        date = None if signal.date is None or not 0 <= signal.date < _SHOWN_UNTIL else signal.date
        return cls(**{**asdict(signal), "date": date}, quality=SignalQuality.of(quality))


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
    signals: list[ReportedChange] = Field([], max_length=MAX_REPORTED)
    urlList: list[str] = Field([], max_length=MAX_REPORTED)  # noqa: N815 (the protocol's word)

    def dates(self) -> list[ListedDate]:
        """Returns the URLs, normalised, with their dates. Raises `InvalidValueError` naming the place."""
        reported = [
            ListedDate(_url(f"signals[{place}].url", entry.url), _time(f"signals[{place}].at", entry.at))
            for place, entry in enumerate(self.signals)
        ]
        reported += [ListedDate(_url(f"urlList[{place}]", url)) for place, url in enumerate(self.urlList)]
        if not 1 <= len(reported) <= MAX_REPORTED:
            raise InvalidValueError(
                "signals",
                _("1 to {max_reported:,} URLs, with those of urlList", max_reported=MAX_REPORTED),
                len(reported),
            )
        return reported


class ReportTaken(BaseModel):
    """What became of a report."""

    signals: int = Field(description="URLs of sites of which this is news")
    ignored: int = Field(description="URLs that are no sites, or of which this was said before")


def quality_in_words(quality: SourceQuality) -> str:
    """Returns how reliable a source is, as one line for users."""
    if quality.polls < 1:
        return _("no track record yet")
    right, recall = round(100 * quality.precision), round(100 * quality.recall)
    words = [_("precision {share} %", share=right), _("recall {share} %", share=recall)]
    if math.isfinite(quality.delay):
        words.append(_("about {delay} late", delay=about(quality.delay)))
    return _("{words}; trust {share} %", words=", ".join(words), share=round(100 * quality.say))


def _url(field: str, url: str) -> str:
    try:
        return normalise_url(url)
    except InvalidValueError as error:
        raise error.of(field, given=url) from error


def _time(field: str, moment: str | None) -> float | None:
    return None if moment is None else parse_moment(field, moment)


router = api_router(tag="signals")
_SourceId = Annotated[int, Path(ge=1, le=MAX_ID, description="the signal source's id")]
_SiteId = Annotated[int, Path(ge=1, le=MAX_ID, description="the site's id")]
_JSON = [Depends(json_body)]


@router.get("/signal-sources", summary="List signal sources")
async def list_signal_sources(daemon: Daemon) -> Listing[SignalSourceSchema]:
    """All of them by id, with what was learned of each."""
    control = daemon.control.signals
    sources = await daemon.store.signals.all()
    hubs = {hub.source_id: hub for hub in await daemon.store.hubs.all()}
    shown = (SignalSourceSchema.of(source, control.quality(source.id), hubs.get(source.id)) for source in sources)
    return Listing.of(shown, None)


@router.post(
    "/signal-sources", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Make a site a signal source"
)
async def add_signal_source(daemon: Daemon, source: NewSignalSource, response: Response) -> SignalSourceSchema:
    """Each of its polls is read from now on. 409 with `existing_id` where the site or name is one already."""
    added = await daemon.control.signals.add(source.spec())
    response.headers["Location"] = f"/api/v1/signal-sources/{added.id}"
    return SignalSourceSchema.of(added, None)


@router.get("/signal-sources/{source_id:id}", summary="One signal source")
async def get_signal_source(daemon: Daemon, source_id: _SourceId) -> SignalSourceSchema:
    """The signal source as it stands, with what was learned of it."""
    source, quality = await daemon.store.signals.get(source_id), daemon.control.signals.quality(source_id)
    return SignalSourceSchema.of(source, quality, await daemon.store.hubs.of_source(source_id))


@router.delete(
    "/signal-sources/{source_id:id}",
    status_code=HTTPStatus.NO_CONTENT,
    response_class=Response,
    summary="Remove a signal source",
)
async def delete_signal_source(daemon: Daemon, source_id: _SourceId) -> None:
    """Its site, if it has one, is polled as before; what it said is forgotten."""
    await daemon.control.signals.delete(source_id)


@router.post("/signals", dependencies=_JSON, summary="Report changed pages")
async def report_signals(daemon: Daemon, report: ChangeReport) -> ReportTaken:
    """Evidence, never a command: the pages are polled when that is worth most. Reports may be repeated: what was said
    before is no news. 429 with Retry-After where they come too fast; nothing of such a report is taken.
    """
    signals, ignored = await daemon.control.signals.report(report.source, report.dates())
    return ReportTaken(signals=signals, ignored=ignored)


@router.get("/sites/{site_id:id}/signals", summary="What signal sources say of a site")
async def list_site_signals(daemon: Daemon, site_id: _SiteId) -> Listing[SiteSignal]:
    """The last signal of each source that speaks for the site, and how true the source is."""
    await daemon.store.sites.get(site_id)  # 404 for one that is none
    return Listing.of(await site_signals(daemon, site_id), None)


async def site_signals(daemon: ApiPorts, site_id: int) -> list[SiteSignal]:
    """Returns what each source says of a site, with what was learned of the source."""
    signals = await daemon.store.signals.of_site(site_id)
    return [SiteSignal.of(signal, daemon.control.signals.quality(signal.source_id)) for signal in signals]


# Routes that WebSub hubs call. At the root, without token: nobody guesses the path, and what comes is signed.

hub_router = APIRouter(prefix="/websub", include_in_schema=False, generate_unique_id_function=operation_id)
"""Outside the API: hubs call it, as W3C WebSub says."""
_UNKNOWN = N_("no such subscription")


@hub_router.get("/{callback}", response_class=Response)
async def verify_subscription(request: Request, daemon: Daemon, callback: str) -> Response:
    """Echoes the challenge of a hub that was asked; 404 for what was not asked for."""
    query = request.query_params
    asked = HubVerification(**{name: query.get(f"hub.{name}", "") for name in HubVerification.__struct_fields__})
    challenge = await daemon.control.hubs.verify(callback, asked)
    if challenge is None:
        return problem(HTTPStatus.NOT_FOUND, _(_UNKNOWN))
    return Response(challenge, media_type="text/plain")


@hub_router.post("/{callback}", response_class=Response)
async def receive_content(request: Request, daemon: Daemon, callback: str) -> Response:
    """Reads what a hub sends. 202 whatever it is, also with a bad signature, which has no effect; 404 for unknown
    paths, 410 for a subscription that was left.
    """
    subscription = await daemon.control.hubs.at(callback)
    if subscription is None:
        return problem(HTTPStatus.NOT_FOUND, _(_UNKNOWN))
    if subscription.state is HubState.LEAVING:
        return problem(HTTPStatus.GONE, _("the subscription was left"))
    headers = request.headers
    signature, content_type = headers.get("x-hub-signature", ""), headers.get("content-type")
    await daemon.control.hubs.deliver(subscription, request.body, content_type, signature)
    return Response(status_code=HTTPStatus.ACCEPTED)


# Routes of IndexNow's protocol. At the root, without token: reports are proved by a key that their host holds.

index_now_router = APIRouter(prefix="/indexnow", include_in_schema=False, generate_unique_id_function=operation_id)
"""Outside the API: programs call it as they call search engines."""
_BODY_SECONDS = 30.0


class _IndexNowBody(msgspec.Struct):
    """A report of several URLs, in the protocol's words."""

    key: str
    urlList: list[str]  # noqa: N815 (the protocol's word)
    host: str | None = None
    keyLocation: str | None = None  # noqa: N815


@index_now_router.get("", response_class=Response)
async def report_url(request: Request, daemon: Daemon) -> Response:
    """Takes one URL: parameters url, key and perhaps keyLocation."""
    if not daemon.control.index_now.allowed:
        return _absent()
    query = request.query_params
    urls, key = query.getlist("url"), query.get("key", "")
    return await _taken(daemon, index_now_report(urls, key, query.get("host"), query.get("keyLocation")))


@index_now_router.post("", response_class=Response)
async def report_urls(request: Request, daemon: Daemon) -> Response:
    """Takes up to 10,000 URLs of one host, as JSON."""
    if not daemon.control.index_now.allowed:
        return _absent()
    try:
        async with daemon.control.index_now.bodies, asyncio.timeout(_BODY_SECONDS):
            body = msgspec.json.decode(await request.body(), type=_IndexNowBody)
    except TimeoutError:
        return problem(
            HTTPStatus.REQUEST_TIMEOUT, _("the body must come within {body_seconds:g} s", body_seconds=_BODY_SECONDS)
        )
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return problem(HTTPStatus.BAD_REQUEST, _("the body must be a JSON object with host, key, keyLocation, urlList"))
    return await _taken(daemon, index_now_report(body.urlList, body.key, body.host, body.keyLocation))


async def _taken(daemon: ApiPorts, report: IndexNowReport) -> Response:
    """Answers as the protocol has it: 200 taken, 202 the key is checked later, 403 it is wrong."""
    answer = await daemon.control.index_now.take(report)
    if answer == "refused":
        return problem(HTTPStatus.FORBIDDEN, _("the host of the URLs does not hold this key where it should"))
    return Response(status_code=HTTPStatus.ACCEPTED if answer == "waiting" else HTTPStatus.OK)


def _absent() -> Response:
    return problem(HTTPStatus.NOT_FOUND, _("reports in IndexNow's form are not taken here"))


ROUTERS = (router, hub_router, index_now_router)
