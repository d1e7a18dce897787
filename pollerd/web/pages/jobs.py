"""Jobs: what was done to many sites at once, how far it is, and how to undo it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from pollerd.api.http.context import Caller
from pollerd.api.http.parameters import MAX_ID, Cursor
from pollerd.api.jobs.schemas import JobSchema
from pollerd.web.http.addresses import within
from pollerd.web.http.page import Shown
from pollerd.web.http.route import page_router

router = page_router(prefix="/jobs")
JobId = Annotated[int, Path(ge=1, le=MAX_ID)]
_ROWS = 25
_DONE = {
    "pause": "paused",
    "resume": "resumed",
    "tag": "tagged",
    "untag": "a tag removed",
    "weight": "given a weight",
    "limits": "given an interval",
    "delete": "deleted",
    "poll": "to be polled at once",
}


@router.get("")
async def list_jobs(page: Shown, cursor: Cursor = None) -> Response:
    """The last ones."""
    found = await page.ports.store.jobs.list_jobs(_ROWS, cursor)
    return page.show(
        "jobs.html",
        jobs=[JobSchema.of(job) for job in found.items],
        done=_DONE,
        cursor=cursor,
        next_cursor=found.next_cursor,
    )


@router.get("/{job_id:id}")
async def show_job(page: Shown, job_id: JobId, back: Annotated[str, Query(max_length=2_000)] = "/sites") -> Response:
    """One job; a script asks for it again while it runs."""
    job = JobSchema.of(await page.ports.store.jobs.get(job_id))
    can_undo = job.undo_until is not None and job.undo_until > page.now
    return page.show("job.html", job=job, done=_DONE, back=within(back, "/sites"), can_undo=can_undo)


@router.post("/{job_id:id}/undo")
async def undo(page: Shown, job_id: JobId, caller: Caller) -> Response:
    """Takes back what it did."""
    await page.ports.control.jobs.undo(job_id, by=caller)
    return page.go(f"/jobs/{job_id}")
