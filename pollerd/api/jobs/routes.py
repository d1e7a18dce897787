"""Routes of jobs: one thing that is done to many sites."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path
from fastapi.responses import JSONResponse

from pollerd.api.http.context import Caller, Daemon
from pollerd.api.http.parameters import MAX_ID, Cursor, Limit, json_body
from pollerd.api.http.problems import problem
from pollerd.api.http.routing import api_router
from pollerd.api.jobs.schemas import BulkChange, JobSchema
from pollerd.api.schemas.common import Listing
from pollerd.errors import InvalidValueError

router = api_router(tag="sites")
JobId = Annotated[int, Path(ge=1, le=MAX_ID, description="the job's id")]


@router.post(
    "/sites/bulk", status_code=HTTPStatus.ACCEPTED, dependencies=[Depends(json_body)], summary="Change many sites"
)
async def change_sites(daemon: Daemon, change: BulkChange, caller: Caller) -> JobSchema:
    """Starts a job on the sites that fit the filter now, or that have these ids; sites that are added later are not.

    It works on 1,000 sites at a time, goes on after a restart, and has ended in this answer where there are no more.
    What was changed can be undone for 24 hours; sites that it deletes are purged after them. Resuming takes pauses
    away, and nothing else.
    """
    return JobSchema.of(await daemon.control.jobs.start(change.spec(), by=caller))


@router.get("/jobs", summary="List jobs")
async def list_jobs(daemon: Daemon, limit: Limit = 100, cursor: Cursor = None) -> Listing[JobSchema]:
    """Newest first; ended ones for about 30 days."""
    page = await daemon.store.jobs.list_jobs(limit, cursor)
    return Listing.of(map(JobSchema.of, page.items), page.next_cursor)


@router.get("/jobs/{job_id:id}", summary="One job")
async def get_job(daemon: Daemon, job_id: JobId) -> JobSchema:
    """The job and how far it is."""
    return JobSchema.of(await daemon.store.jobs.get(job_id))


@router.post("/jobs/{job_id:id}/undo", status_code=HTTPStatus.ACCEPTED, response_model=JobSchema, summary="Undo a job")
async def undo_job(daemon: Daemon, job_id: JobId, caller: Caller) -> JobSchema | JSONResponse:
    """Takes back what it did, but for what was changed again since; 409 where that is not possible (any more)."""
    try:
        return JobSchema.of(await daemon.control.jobs.undo(job_id, by=caller))
    except InvalidValueError as error:
        return problem(HTTPStatus.CONFLICT, f"the job must be {error.allowed}", kind="not-undoable")
