"""Lists of sites: imported and exported.

Imports lists of sites: hundreds of thousands of lines while polling continues.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

import orjson
from fastapi import HTTPException, Query, Request
from fastapi.responses import StreamingResponse

from pollerd.api import opml
from pollerd.api.formats import Format, csv_text
from pollerd.api.http import Daemon, api_router, media_type
from pollerd.api.inputs import shown_setting
from pollerd.api.list_formats import FIELDS, LIST_BODY, Line, parse_file, parse_list
from pollerd.api.list_schemas import ImportResult, Rejection
from pollerd.daemon.control.control import Control
from pollerd.errors import InvalidValueError
from pollerd.model import Site
from pollerd.site_settings import SITE_SETTINGS, Kind, SiteSpec
from pollerd.storage.sites import SiteStore
from pollerd.storage.values import ListPage
from pollerd.texts import _, n_

router = api_router("/sites", tag="sites")
MAX_REJECTED = 100_000
REJECTED_ENOUGH = 1_000
"""Default limit of bad lines: such a list has another format, and reading on is useless."""
_CHUNK = 5_000
_STRIDE = 250
ListFormat = Annotated[
    Format | None,
    Query(
        alias="format",
        description="format of the list; default: that of Content-Type, else text",
        examples=["csv"],
    ),
]


MaxRejected = Annotated[
    int, Query(ge=1, le=MAX_REJECTED, description="bad lines after which the rest of the list is not read")
]


DryRun = Annotated[bool, Query(description="only say what the import would do")]


@router.post("/import", openapi_extra=LIST_BODY, summary="Add many sites")
async def import_sites(
    daemon: Daemon,
    request: Request,
    form: ListFormat = None,
    max_rejected: MaxRejected = REJECTED_ENOUGH,
    dry_run: DryRun = False,
) -> ImportResult:
    """Plain text (one URL a line), CSV, JSON lines or OPML, up to 64 MiB.

    `format` says which it is, or Content-Type: text/plain, text/csv, application/x-ndjson or text/x-opml. A line that
    cannot be used is named with its reason and stops no other, up to `max_rejected` of them: then `stopped` says so,
    `lines_read` where, and what was added before stays. Repeating an import adds nothing twice. With `dry_run` the same
    answer says what would be added, and nothing is.
    """
    return await Importer(daemon.control, max_rejected, dry_run=dry_run).run(await posted_lines(request, form))


async def posted_lines(request: Request, form: Format | None) -> Iterator[Line]:
    """Returns the sites of the posted list, in the given format, else that of its Content-Type.

    Raises `InvalidValueError` for an unreadable document, and 415 if no format is given.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, _("the body must not be compressed"))
    data, content_type = await request.body(), request.headers.get("content-type", "")
    if form is None and media_type(content_type) == "application/octet-stream":
        form = Format.TEXT
    if form is not None:
        return parse_file(io.BytesIO(data), form)
    try:
        return parse_list(data, content_type)
    except InvalidValueError as error:
        if error.field != "content_type":
            raise
        detail = _("the list must be {allowed}, or its format be named", allowed=error.allowed)
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail) from error


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """How far an import is: lines read, sites added, sites that there were, lines rejected."""

    lines: int
    added: int
    existing: int
    rejected: int


class Importer:
    """Imports one list, or says what importing it would do."""

    def __init__(self, control: Control, max_rejected: int, *, dry_run: bool = False) -> None:
        self._control, self._max_rejected, self._dry_run = control, max_rejected, dry_run
        self._would_be: set[int] = set()
        """Hashes of the URLs that a dry run has seen: a list may have millions."""
        self._specs: list[tuple[int, SiteSpec]] = []
        self._added = self._existing = self._lines_read = 0
        self._rejected: list[Rejection] = []

    async def run(self, lines: Iterator[Line]) -> ImportResult:
        """Adds the sites of the lines, as far as they are read."""
        for seen, (number, spec) in enumerate(lines, 1):
            self._lines_read = number
            if isinstance(spec, SiteSpec):
                self._specs.append((number, spec))
            elif spec is not None:
                self._reject(number, spec)
            if spec is None or seen % _STRIDE == 0:
                # Parsing blocks the loop: yield to it.
                await asyncio.sleep(0)
            if len(self._specs) == _CHUNK:
                await self._flush()
            if self._full:
                break
        await self._flush()
        return self._result(whole=next(lines, None) is None)

    @property
    def progress(self) -> ImportProgress:
        """How far it is."""
        return ImportProgress(self._lines_read, self._added, self._existing, len(self._rejected))

    @property
    def _full(self) -> bool:
        return len(self._rejected) >= self._max_rejected

    def _reject(self, line: int, error: InvalidValueError) -> None:
        reason = str(error).encode("utf-8", "replace").decode("utf-8")
        self._rejected.append(Rejection(line=line, reason=reason))

    async def _flush(self) -> None:
        if self._specs and self._dry_run:
            await self._check()
        elif self._specs:
            done = await self._control.sites.add([spec for _number, spec in self._specs])
            for i, error in done.refused:
                self._reject(self._specs[i][0], error)
            self._added += len(done.added)
            self._existing += len(done.existing)
        self._specs = []

    async def _check(self) -> None:
        outcome = await self._control.sites.would_add([spec for _number, spec in self._specs])
        refused = {i for i, _error in outcome.refused}
        for i, error in outcome.refused:
            self._reject(self._specs[i][0], error)
        for i, (_number, spec) in enumerate(self._specs):
            if i in refused:
                continue
            seen = hash(spec.url) in self._would_be
            self._existing += seen or i in outcome.existing
            self._added += not seen and i not in outcome.existing
            self._would_be.add(hash(spec.url))

    def _result(self, *, whole: bool) -> ImportResult:
        count = len(self._rejected)
        stopped = _(
            "{rejected}: read up to line {lines_read}, no further",
            rejected=_rejected(count),
            lines_read=self._lines_read,
        )
        stopped += "" if self._dry_run else _("; sites already added were kept")
        return ImportResult(
            added=self._added,
            existing=self._existing,
            rejected=sorted(self._rejected, key=lambda rejection: rejection.line),
            rejected_count=count,
            lines_read=self._lines_read,
            stopped=None if whole else stopped,
            dry_run=self._dry_run,
        )


def _rejected(count: int) -> str:
    return n_("{count} line was rejected", "{count} lines were rejected", count)


# Exports all sites as a list that can be imported: with all settings, but no secrets.

_PAGE = 1000
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the list, in the type of its format",
        "content": {
            Format.TEXT.media: {"schema": {"type": "string"}, "example": "https://example.org/news\n"},
            Format.CSV.media: {"schema": {"type": "string"}},
            Format.JSON_LINES.media: {"schema": {"type": "string"}},
            Format.OPML.media: {"schema": {"type": "string"}},
        },
    }
}


@router.get("/export", response_class=StreamingResponse, responses=_ANSWERS, summary="All sites as a list")
async def export_sites(
    daemon: Daemon,
    form: Annotated[Format, Query(alias="format", description="text holds the URLs only")] = Format.JSON_LINES,
) -> StreamingResponse:
    """As `import` reads it: what defines a site, nothing that was learned, and no headers, credentials or proxies.

    It comes as it is read. An answer that breaks off is cut short, and clients see that it is.
    """
    # The first page is read before the answer begins, so that a database failure becomes a problem document.
    first = await daemon.store.sites.page(limit=_PAGE)
    headers = {"Content-Disposition": f'attachment; filename="sites.{form.suffix}"'}
    return StreamingResponse(_written(daemon.store.sites, first, form), media_type=form.media, headers=headers)


async def _written(store: SiteStore, page: ListPage[Site], form: Format) -> AsyncIterator[str]:
    write = WRITERS[form]
    yield HEADS.get(form, "")
    while True:
        yield "".join(write(site.spec) for site in page.items)
        if page.next_cursor is None:
            break
        page = await store.page(limit=_PAGE, cursor=page.next_cursor)
    yield TAILS.get(form, "")


def settings(spec: SiteSpec) -> dict[str, Any]:
    """Returns the set values of `FIELDS`, in their order."""
    values = {
        name: shown_setting(setting, getattr(spec, name))
        for name, setting in SITE_SETTINGS.items()
        if setting.kind is not Kind.ACCESS
    }
    values["url"] = spec.sent_url
    values["title"] = spec.title or None
    values["method"] = "POST" if spec.access.body == "" else None  # another body is secret
    return {name: value for name, value in values.items() if value is not None and (name, value) != ("paused", False)}


def _texts(spec: SiteSpec) -> dict[str, str]:
    """Returns the settings as texts for CSV cells: tags separated by `;`, booleans lower case, numbers exact."""
    return {name: _cell(name, value) for name, value in settings(spec).items()}


def _cell(name: str, value: Any) -> str:
    match SITE_SETTINGS[name].kind if name in SITE_SETTINGS else Kind.TEXT:
        case Kind.TAGS:
            return ";".join(value)
        case Kind.WINDOWS | Kind.SELECTIONS | Kind.RENDER:
            return orjson.dumps(value).decode()
    return value if isinstance(value, str) else repr(value).lower()


def _text_line(spec: SiteSpec) -> str:
    return f"{spec.sent_url}\n"


def _csv_line(spec: SiteSpec) -> str:
    texts = _texts(spec)
    return _csv([csv_text(texts.get(name, "")) for name in FIELDS])


def _csv(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _json_line(spec: SiteSpec) -> str:
    return orjson.dumps(settings(spec), option=orjson.OPT_APPEND_NEWLINE).decode()


def _outline(spec: SiteSpec) -> str:
    texts = _texts(spec)
    return opml.outline(texts.pop("url"), texts)


WRITERS: Mapping[Format, Callable[[SiteSpec], str]] = {
    Format.TEXT: _text_line,
    Format.CSV: _csv_line,
    Format.JSON_LINES: _json_line,
    Format.OPML: _outline,
}
"""Writer of a site by format."""
HEADS = {Format.CSV: _csv(FIELDS), Format.OPML: opml.HEAD}
"""Text before the first site."""
TAILS = {Format.OPML: opml.TAIL}
"""Text after the last site."""


ROUTERS = (router,)
