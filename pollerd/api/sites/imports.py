"""Imports lists of sites: hundreds of thousands of lines while polling continues."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request

from pollerd.api.http.context import ControlPort, Daemon
from pollerd.api.http.format_names import Format, media_type
from pollerd.api.schemas.lists import ImportResult, Rejection
from pollerd.api.sites.list_formats import LIST_BODY, Line, parse_file, parse_list
from pollerd.errors import InvalidValueError
from pollerd.model import SiteSpec
from pollerd.wording import counted

router = APIRouter(prefix="/sites", tags=["sites"])
MAX_REJECTED = 100_000
REJECTED_ENOUGH = 1_000
"""Default limit of bad lines: such a list has another format, and reading on is useless."""
_CHUNK = 5_000
_STRIDE = 250
ListFormat = Annotated[
    Format | None,
    Query(
        alias="format",
        description="how the list is written; as Content-Type says where left out, else text",
        examples=["csv"],
    ),
]


MaxRejected = Annotated[
    int, Query(ge=1, le=MAX_REJECTED, description="bad lines after which the rest of the list is not read")
]


@router.post("/import", openapi_extra=LIST_BODY, summary="Add many sites")
async def import_sites(
    daemon: Daemon, request: Request, form: ListFormat = None, max_rejected: MaxRejected = REJECTED_ENOUGH
) -> ImportResult:
    """Plain text (one URL a line), CSV, JSON lines or OPML, up to 64 MiB.

    `format` says which it is, or Content-Type: text/plain, text/csv, application/x-ndjson or text/x-opml. A line that
    cannot be used is named with its reason and stops no other, up to `max_rejected` of them: then `stopped` says so,
    `lines_read` where, and what was added before stays. Repeating an import adds nothing twice.
    """
    return await _Import(daemon.control, max_rejected).run(await posted_lines(request, form))


async def posted_lines(request: Request, form: Format | None) -> Iterator[Line]:
    """Returns the sites of the posted list, in the given format, else that of its Content-Type.

    Raises `InvalidValueError` for an unreadable document, and 415 if no format is given.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must not be compressed")
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
        detail = f"the list must be {error.allowed}, or its format be named"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail) from error


class _Import:
    """Imports one list."""

    def __init__(self, control: ControlPort, max_rejected: int) -> None:
        self._control, self._max_rejected = control, max_rejected
        self._specs: list[tuple[int, SiteSpec]] = []
        self._added = self._existing = self._lines_read = 0
        self._rejected: list[Rejection] = []

    async def run(self, lines: Iterator[Line]) -> ImportResult:
        """Adds the sites of the lines, as far as they are read."""
        for seen, (number, found) in enumerate(lines, 1):
            self._lines_read = number
            if isinstance(found, SiteSpec):
                self._specs.append((number, found))
            elif found is not None:
                self._reject(number, found)
            if found is None or seen % _STRIDE == 0:
                # Parsing blocks the loop: yield to it.
                await asyncio.sleep(0)
            if len(self._specs) == _CHUNK:
                await self._flush()
            if self._full:
                break
        await self._flush()
        return self._result(whole=next(lines, None) is None)

    @property
    def _full(self) -> bool:
        return len(self._rejected) >= self._max_rejected

    def _reject(self, line: int, error: InvalidValueError) -> None:
        reason = str(error).encode("utf-8", "replace").decode("utf-8")
        self._rejected.append(Rejection(line=line, reason=reason))

    async def _flush(self) -> None:
        if self._specs:
            done = await self._control.sites.add([spec for _, spec in self._specs])
            for i, error in done.refused:
                self._reject(self._specs[i][0], error)
            self._added += len(done.added)
            self._existing += len(done.existing)
            self._specs = []

    def _result(self, *, whole: bool) -> ImportResult:
        count = len(self._rejected)
        stopped = f"{_rejected(count)}: read up to line {self._lines_read}, no further; what was added stays"
        return ImportResult(
            added=self._added,
            existing=self._existing,
            rejected=sorted(self._rejected, key=lambda rejection: rejection.line),
            rejected_count=count,
            lines_read=self._lines_read,
            stopped=None if whole else stopped,
        )


def _rejected(count: int) -> str:
    return f"{counted(count, 'line')} {'was' if count == 1 else 'were'} rejected"
