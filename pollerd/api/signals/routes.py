"""Routes of signal sources, and of reports."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Response

from pollerd.api.http.context import ApiPorts, Daemon
from pollerd.api.http.parameters import MAX_ID, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing
from pollerd.api.signals.schemas import ChangeReport, NewSignalSource, ReportTaken, SignalSourceSchema, SiteSignal

router = api_router(tag="signals")
_SourceId = Annotated[int, Path(ge=1, le=MAX_ID, description="the signal source's id")]
_SiteId = Annotated[int, Path(ge=1, le=MAX_ID, description="the site's id")]
_JSON = [Depends(json_body)]


@router.get("/signal-sources", summary="List signal sources")
async def list_signal_sources(daemon: Daemon) -> Listing[SignalSourceSchema]:
    """All of them by id, with what was learned of each."""
    control = daemon.control.signals
    sources = await daemon.store.signals.all()
    hubs = {one.source_id: one for one in await daemon.store.hubs.all()}
    shown = (SignalSourceSchema.of(one, control.quality(one.id), hubs.get(one.id)) for one in sources)
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
    found = await daemon.store.signals.of_site(site_id)
    return [SiteSignal.of(said, daemon.control.signals.quality(said.source_id)) for said in found]
