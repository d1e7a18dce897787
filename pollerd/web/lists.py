"""Imports of lists, and jobs.

Imports of lists: tried first, then added, with how far they are.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any

import structlog
from fastapi import Path, Query, Request, Response
from msgspec import structs

from pollerd.api.diff import Comparer
from pollerd.api.formats import SUFFIXES, Format, MovedFrom
from pollerd.api.http import MAX_ID, Caller, Cursor
from pollerd.api.jobs import shown_job
from pollerd.api.list_formats import Line, parse_file
from pollerd.api.list_schemas import ImportResult
from pollerd.api.lists import REJECTED_ENOUGH, Importer, ImportProgress
from pollerd.errors import InvalidValueError, NotFoundError, PollerdError, refusal
from pollerd.site_settings import SiteSpec
from pollerd.texts import N_, _
from pollerd.web.counts_form import in_words
from pollerd.web.http import Posted, PostedForm, one_of, within
from pollerd.web.moving import MovedList, MovePlan, MoveTrial, program_of, read_moved
from pollerd.web.page import Page, Shown, page_router, take_look
from pollerd.web.words import JOB_DONE

router = page_router(prefix="/sites/import")
_AT_ONCE_SECONDS = 1.0
"""An import that ends within this time is shown whole at once."""
_KEPT = 8
"""Imports that can be looked at; what older ones added stays."""
_ROWS_SHOWN = 300
"""Rows of each part of a plan that are shown."""
_EDITED_BYTES = 500_000
"""A longer list is not put into the form again."""
_CHOOSE_AGAIN = N_("choose the file again: only the last few tried ones are kept, each for one import")
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
    moved: MovedList | None = None
    """A file of another program that was tried, until its sites are added."""
    compared: dict[int, MoveTrial] = field(default_factory=dict)
    """By number of a site: what it kept and keeps, as far as a reader asked."""

    @property
    def plan(self) -> MovePlan | None:
        """What would become of each entry of another program; None: of none, or it is not known yet."""
        if self.moved is None or self.result is None:
            return None
        return self.moved.plan({rejection.line: rejection.reason for rejection in self.result.rejected})

    @property
    def progress(self) -> ImportProgress:
        """How far it is."""
        return self.importer.progress


@router.get("")
async def show_import(page: Shown) -> Response:
    """Where a list is pasted or chosen."""
    return _form(page)


def _form(page: Page, run: ImportRun | None = None, **values: Any) -> Response:
    shown = {"text": "", "tags": "", "form": "", "error": "", **values}
    return page.show("import.html", run=run, rows_shown=_ROWS_SHOWN, **shown)


@router.post("")
async def import_sites(page: Shown, form: Posted) -> Response:
    """Says what adding the sites of a list would do; with the button "add", adds them.

    A file of another program is tried first, and its sites are added from that run.
    """
    data = await form.file("file") or form.text("list").encode("utf-8", "replace")
    try:
        if form.has("run"):
            return await _moved_in(page, form)
        if not data.strip():
            raise InvalidValueError("list", _("addresses, one a line, or a file"), "nothing")
        tags, program = form.tags("tags"), _program(form, data)
        if program is not None:
            moved = await asyncio.to_thread(read_moved, program, data)
            run = _begun(page, _lines_of(moved, tags), adds=False, tags=tags, too_long=True)
            run.moved = moved
            return await _shown_soon(page, run, "", program.value)
        format_name = _format(form)
        lines = _tagged(parse_file(io.BytesIO(data), format_name), tags)
    except InvalidValueError as error:
        typed = "" if form.file_name("file") or len(data) > _EDITED_BYTES else data.decode("utf-8", "replace")
        kept: dict[str, Any] = {"text": typed, "tags": form.text("tags"), "form": form.text("format")}
        return _form(page, status=HTTPStatus.UNPROCESSABLE_ENTITY, error=error.text, **kept)
    run = _begun(page, lines, adds=form.has("add"), tags=tags, too_long=len(data) > _EDITED_BYTES)
    return await _shown_soon(page, run, "" if run.too_long else data.decode("utf-8", "replace"), format_name.value)


async def _moved_in(page: Page, form: PostedForm) -> Response:
    """Adds the sites of a file that was tried before; its secrets are forgotten then."""
    tried = _runs(page).get((form.numbers("run") or [0])[0])
    if tried is None or tried.moved is None:
        raise refusal("file", _(_CHOOSE_AGAIN))
    run = _begun(page, _lines_of(tried.moved, tried.tags), adds=True, tags=tried.tags, too_long=True)
    tried.moved = None
    return await _shown_soon(page, run, "", "")


async def _shown_soon(page: Page, run: ImportRun, text: str, form: str) -> Response:
    """Returns the result if it is there soon, else the page that follows the import."""
    assert run.task is not None
    await asyncio.wait([run.task], timeout=_AT_ONCE_SECONDS)
    if not run.task.done():
        return page.go(f"/sites/import/{run.id}")
    run.task.result()  # raises what was a fault of ours
    return _form(page, run, text=text, tags=", ".join(run.tags), form=form)


def _lines_of(moved: MovedList, tags: list[str]) -> Iterator[Line]:
    return _tagged(parse_file(io.BytesIO(moved.lines), Format.JSON_LINES), tags)


def _program(form: PostedForm, data: bytes) -> MovedFrom | None:
    """Returns the other program that the file is of: as chosen, else as it looks; None: it is a list."""
    chosen = form.text("format")
    if chosen in frozenset(MovedFrom):
        return MovedFrom(chosen)
    return None if chosen else program_of(form.file_name("file"), data)


def _format(form: PostedForm) -> Format:
    """Returns the format that was chosen, else that of the file by its name. Raises `InvalidValueError`."""
    chosen, suffix = form.text("format"), form.file_suffix("file")
    if chosen or not suffix:
        return one_of(Format, "format", chosen or Format.TEXT)
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise refusal(
            "file",
            _(
                "{suffix} is not read here: choose its format, or use `pollerd sites import` (known: {known})",
                suffix=suffix,
                known=known,
            ),
        )
    return SUFFIXES[suffix]


@router.get("/{import_id:id}")
async def show_run(page: Shown, import_id: ImportId) -> Response:
    """How far an import is; a script gets that part alone."""
    run = _runs(page).get(import_id)
    if run is None:
        raise NotFoundError(N_("import"), import_id)
    if run.task is not None and run.task.done():
        run.task.result()  # raises what was a fault of ours
    return page.show("import_progress.html", run=run, rows_shown=_ROWS_SHOWN) if page.is_fragment else _form(page, run)


@router.post("/{import_id:id}/compare")
async def compare_results(page: Shown, import_id: ImportId, form: Posted, caller: Caller, request: Request) -> Response:
    """Fetches the page of one entry, and puts what pollerd keeps of it next to what the other program kept last."""
    run, number = _runs(page).get(import_id), (form.numbers("row") or [0])[0]
    if run is None or run.moved is None:
        raise refusal("file", _(_CHOOSE_AGAIN))
    comparer: Comparer = request.app.state.comparer
    try:
        spec = run.moved.site(number)
        take_look(page, caller, "row")
        preview = await page.ports.control.preview.of_url(spec)
        async with comparer.turn():
            run.compared[number] = await asyncio.to_thread(run.moved.compared, number, preview)
    except InvalidValueError as error:
        run.compared[number] = MoveTrial(problem=in_words(error))
    return page.go(f"/sites/import/{import_id}#entry-{number}")


def _runs(page: Page) -> dict[int, ImportRun]:
    runs: dict[int, ImportRun] = page.web.kept.setdefault("imports", {})
    return runs


def _begun(page: Page, lines: Iterator[Line], *, adds: bool, tags: list[str], too_long: bool) -> ImportRun:
    """Begins an import, which goes on when its page is left."""
    runs = _runs(page)
    importer = Importer(page.ports.control, REJECTED_ENOUGH, dry_run=not adds)
    run = ImportRun(max(runs, default=0) + 1, importer, adds, tags, too_long)
    runs[run.id] = run
    run.task = asyncio.create_task(_run(run, lines), name="import")
    for old in [number for number, kept in runs.items() if kept.task is not None and kept.task.done()][:-_KEPT]:
        del runs[old]
    return run


async def _run(run: ImportRun, lines: Iterator[Line]) -> None:
    try:
        run.result = await run.importer.run(lines)
    except PollerdError as error:
        run.failed = str(error)
        structlog.get_logger("pollerd.web").warning("import_failed", reason=run.failed)


def _tagged(lines: Iterator[Line], tags: list[str]) -> Iterator[Line]:
    for number, spec in lines:
        if isinstance(spec, SiteSpec) and tags:
            spec = structs.replace(spec, tags=tuple(dict.fromkeys((*spec.tags, *tags))))
        yield number, spec


# Jobs: what was done to many sites at once, how far it is, and how to undo it.

jobs_router = page_router(prefix="/jobs")
JobId = Annotated[int, Path(ge=1, le=MAX_ID)]
_ROWS = 25


@jobs_router.get("")
async def list_jobs(page: Shown, cursor: Cursor = None) -> Response:
    """The last ones."""
    jobs = await page.ports.store.jobs.list_jobs(_ROWS, cursor)
    return page.show(
        "jobs.html",
        jobs=[shown_job(job) for job in jobs.items],
        done=JOB_DONE,
        cursor=cursor,
        next_cursor=jobs.next_cursor,
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
