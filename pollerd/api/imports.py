"""Importing lists of sites: a hundred thousand lines while the polling goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, HTTPException, Request

from pollerd.api.lists import Format, Line, parse_list
from pollerd.api.ports import ControlPort, Daemon
from pollerd.api.shapes import ImportResult, Rejection
from pollerd.errors import InvalidValueError
from pollerd.model import SiteSpec

router = APIRouter(prefix="/sites", tags=["sites"])
MAX_REJECTED_SHOWN = 100_000
_CHUNK = 5_000
_STRIDE = 250
_EXAMPLES: dict[str, Any] = {
    Format.TEXT.media: {"example": "# news\nhttps://example.org/news\nhttps://example.org/blog\n"},
    Format.CSV.media: {"example": "url,weight,tags\nhttps://example.org/news,2,news;daily\n"},
    Format.JSON_LINES.media: {"example": '{"url": "https://example.org/news", "weight": 2, "tags": ["news"]}\n'},
    Format.OPML.media: {
        "example": '<opml version="2.0"><body><outline text="News" xmlUrl="https://example.org/feed"/></body></opml>'
    },
}
_BODY = {
    "requestBody": {"required": True, "content": {k: {"schema": {"type": "string"}, **v} for k, v in _EXAMPLES.items()}}
}


@router.post("/import", openapi_extra=_BODY, summary="Add many sites")
async def import_sites(daemon: Daemon, request: Request) -> ImportResult:
    """Plain text (one URL a line), CSV, JSON lines or OPML, by Content-Type, up to 64 MiB.

    A line that cannot be used is named with its reason and stops no other. Repeating an import adds nothing twice.
    """
    content_type = request.headers.get("content-type", "")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must not be compressed")
    try:
        lines = parse_list(await request.body(), content_type)
    except InvalidValueError as error:
        if error.field != "content_type":
            raise
        detail = f"the list must be {error.allowed}"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail) from error
    return await _add(daemon.control, lines)


async def _add(control: ControlPort, lines: Iterator[Line]) -> ImportResult:
    result = ImportResult(added=0, existing=0, rejected=[], rejected_count=0)
    specs: list[tuple[int, SiteSpec]] = []
    for seen, (number, found) in enumerate(lines, 1):
        if isinstance(found, SiteSpec):
            specs.append((number, found))
        else:
            _reject(result, number, found)
        if seen % _STRIDE == 0:
            # Parsing holds the loop that polls: let it turn.
            await asyncio.sleep(0)
        if len(specs) == _CHUNK:
            await _flush(control, specs, result)
            specs = []
    await _flush(control, specs, result)
    return result


def _reject(result: ImportResult, line: int, error: InvalidValueError) -> None:
    result.rejected_count += 1
    if len(result.rejected) < MAX_REJECTED_SHOWN:
        reason = str(error).encode("utf-8", "replace").decode("utf-8")
        result.rejected.append(Rejection(line=line, reason=reason))


async def _flush(control: ControlPort, specs: list[tuple[int, SiteSpec]], result: ImportResult) -> None:
    if specs:
        done = await control.add_sites([spec for _, spec in specs])
        for i, error in done.refused:
            _reject(result, specs[i][0], error)
        result.added += len(done.added)
        result.existing += len(done.existing)
