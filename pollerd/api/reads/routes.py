"""Routes of reads."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Depends, Response

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import SiteId, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.reads.schemas import ReadsReport, ReadsTaken, SiteReadsSchema

router = api_router(tag="reads")


@router.post("/reads", dependencies=[Depends(json_body)], summary="Report reads of changes")
async def report_reads(daemon: Daemon, report: ReadsReport) -> ReadsTaken:
    """Half-lives of interest are learned from them, for the objective `interest`. A report may be repeated.

    Each read counts for the newest change that was published before it, or the one that it names. 422 for times in the
    future, or before the history. 429 with Retry-After where reports come too fast; nothing of such a report is taken.
    """
    return ReadsTaken.of(await daemon.control.reads.report(report.report, report.entries(), report.until()))


@router.get("/sites/{site_id:id}/reads", summary="What reads say of a site")
async def get_site_reads(daemon: Daemon, site_id: SiteId) -> SiteReadsSchema:
    """Its reads so far, and the half-life that was learned from them."""
    await daemon.store.sites.get(site_id)  # 404 for one that is none
    return SiteReadsSchema.of(await daemon.store.reads.of_site(site_id))


@router.delete(
    "/sites/{site_id:id}/reads",
    status_code=HTTPStatus.NO_CONTENT,
    response_class=Response,
    summary="Forget the reads of a site",
)
async def delete_site_reads(daemon: Daemon, site_id: SiteId) -> None:
    """What was learned from them holds no longer. 404 where there are none."""
    await daemon.control.reads.forget(site_id)
