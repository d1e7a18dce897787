"""Imports of lists, and jobs.

Imports of lists: tried first, then added, with how far they are.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import structlog
from fastapi import Path, Query, Response
from msgspec import structs

from pollerd.api.formats import SUFFIXES, Format
from pollerd.api.http import MAX_ID, Caller, Cursor
from pollerd.api.jobs import shown_job
from pollerd.api.list_formats import Line, parse_file
from pollerd.api.list_schemas import ImportResult
from pollerd.api.lists import REJECTED_ENOUGH, Importer, ImportProgress
from pollerd.errors import InvalidValueError, NotFoundError, PollerdError, refusal
from pollerd.site_settings import SiteSpec
from pollerd.web.http import Posted, PostedForm, one_of, within
from pollerd.web.page import Page, Shown, page_router
from pollerd.web.words import JOB_DONE

router = page_router(prefix="/sites/import")
_AT_ONCE_SECONDS = 1.0
"""An import that ends within this time is shown whole at once."""
_KEPT = 8
"""Imports that can be looked at; what older ones added stays."""
_EDITED_BYTES = 500_000
"""A longer list is not put into the form again."""
ImportId = Annotated[int, Path(ge=1, le=MAX_ID)]


@dataclass(slots=True)
class ImportRun:
    """One import, while it runs and after it has ended."""

    id: int
    importer: Importer
    adds: bool
    """Whether sites are added, or it is only said what would be."""
    tags: list[str]
    too_long: bool
    """Whether the list is too long to be put into the form again."""
    result: ImportResult | None = None
    failed: str = ""
    task: asyncio.Task[None] | None = None

    @property
    def progress(self) -> ImportProgress:
        """How far it is."""
        return self.importer.progress


@router.get("")
async def show_import(page: Shown) -> Response:
    """Where a list is pasted or chosen."""
    return _form(page)


def _form(page: Page, run: ImportRun | None = None, **values: Any) -> Response:
    shown = {"text": "", "tags": "", "form": "", **values}
    return page.show("import.html", run=run, **shown)


@router.post("")
async def import_sites(page: Shown, form: Posted) -> Response:
    """Says what adding the sites of a list would do; with the button "add", adds them."""
    data = await form.file("file") or form.text("list").encode("utf-8", "replace")
    if not data.strip():
        raise InvalidValueError("list", "addresses, one a line, or a file", "nothing")
    tags, format_name = form.tags("tags"), _format(form)
    lines = _tagged(parse_file(io.BytesIO(data), format_name), tags)
    run = _begun(page, lines, adds=form.has("add"), tags=tags, too_long=len(data) > _EDITED_BYTES)
    assert run.task is not None
    await asyncio.wait([run.task], timeout=_AT_ONCE_SECONDS)
    if not run.task.done():
        return page.go(f"/sites/import/{run.id}")
    run.task.result()  # raises what was a fault of ours
    text = "" if run.too_long else data.decode("utf-8", "replace")
    return _form(page, run, text=text, tags=", ".join(tags), form=format_name.value)


def _format(form: PostedForm) -> Format:
    """Returns the format that was chosen, else that of the file by its name. Raises `InvalidValueError`."""
    chosen, suffix = form.text("format"), form.file_suffix("file")
    if chosen or not suffix:
        return one_of(Format, "format", chosen or Format.TEXT)
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise refusal(
            "file", f"{suffix} is not read here: choose its format, or use `pollerd sites import` (known: {known})"
        )
    return SUFFIXES[suffix]


@router.get("/{import_id:id}")
async def show_run(page: Shown, import_id: ImportId) -> Response:
    """How far an import is; a script gets that part alone."""
    run = _runs(page).get(import_id)
    if run is None:
        raise NotFoundError("import", import_id)
    if run.task is not None and run.task.done():
        run.task.result()  # raises what was a fault of ours
    return page.show("import_progress.html", run=run) if page.is_fragment else _form(page, run)


def _runs(page: Page) -> dict[int, ImportRun]:
    found: dict[int, ImportRun] = page.web.kept.setdefault("imports", {})
    return found


def _begun(page: Page, lines: Iterator[Line], *, adds: bool, tags: list[str], too_long: bool) -> ImportRun:
    """Begins an import, which goes on when its page is left."""
    runs = _runs(page)
    importer = Importer(page.ports.control, REJECTED_ENOUGH, dry_run=not adds)
    run = ImportRun(max(runs, default=0) + 1, importer, adds, tags, too_long)
    runs[run.id] = run
    run.task = asyncio.create_task(_run(run, lines), name="import")
    for old in [one for one, kept in runs.items() if kept.task is not None and kept.task.done()][:-_KEPT]:
        del runs[old]
    return run


async def _run(run: ImportRun, lines: Iterator[Line]) -> None:
    try:
        run.result = await run.importer.run(lines)
    except PollerdError as error:
        run.failed = str(error)
        structlog.get_logger("pollerd.web").warning("import_failed", reason=run.failed)


def _tagged(lines: Iterator[Line], tags: list[str]) -> Iterator[Line]:
    for number, found in lines:
        if isinstance(found, SiteSpec) and tags:
            found = structs.replace(found, tags=tuple(dict.fromkeys((*found.tags, *tags))))
        yield number, found


# Jobs: what was done to many sites at once, how far it is, and how to undo it.

jobs_router = page_router(prefix="/jobs")
JobId = Annotated[int, Path(ge=1, le=MAX_ID)]
_ROWS = 25


@jobs_router.get("")
async def list_jobs(page: Shown, cursor: Cursor = None) -> Response:
    """The last ones."""
    found = await page.ports.store.jobs.list_jobs(_ROWS, cursor)
    return page.show(
        "jobs.html",
        jobs=[shown_job(job) for job in found.items],
        done=JOB_DONE,
        cursor=cursor,
        next_cursor=found.next_cursor,
    )


@jobs_router.get("/{job_id:id}")
async def show_job(page: Shown, job_id: JobId, back: Annotated[str, Query(max_length=2_000)] = "/sites") -> Response:
    """One job; a script asks for it again while it runs."""
    job = shown_job(await page.ports.store.jobs.get(job_id))
    can_undo = job.undo_until is not None and job.undo_until > page.now
    return page.show("job.html", job=job, done=JOB_DONE, back=within(back, "/sites"), can_undo=can_undo)


@jobs_router.post("/{job_id:id}/undo")
async def undo(page: Shown, job_id: JobId, caller: Caller) -> Response:
    """Takes back what it did."""
    await page.ports.control.jobs.undo(job_id, by=caller)
    return page.go(f"/jobs/{job_id}")


ROUTERS = (router, jobs_router)
