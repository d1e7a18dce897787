"""Exports the focused crawler's pages, scores, parents and link graph as a file, streamed."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Query
from fastapi.responses import StreamingResponse

from pollerd.api.collection import graphml
from pollerd.api.collection.routes import KnownPage, require_collection
from pollerd.api.http.context import Daemon
from pollerd.api.http.format_names import CollectionFormat, CollectionPart, csv_text
from pollerd.api.http.routing import api_router
from pollerd.storage import CrawlStore

router = api_router("/collection", tag="collection")
T = TypeVar("T")
_PIECE = 250
PAGE_FIELDS = tuple(KnownPage.model_fields)
LINK_FIELDS = ("source_id", "target_id", "anchor")


_EXAMPLES = {
    CollectionFormat.CSV: "source_id,target_id,anchor\n1,2,0.41\n",
    CollectionFormat.JSON_LINES: '{"source_id":1,"target_id":2,"anchor":0.41}\n',
    CollectionFormat.GRAPHML: f"{graphml.head()}{graphml.TAIL}",
}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the pages or links, in the type of the format",
        "content": {
            form.media: {"schema": {"type": "string"}, "example": _EXAMPLES[form]} for form in CollectionFormat
        },
    }
}


@router.get("/export", response_class=StreamingResponse, responses=_ANSWERS, summary="The collection as a file")
async def export_collection(
    daemon: Daemon,
    form: Annotated[
        CollectionFormat, Query(alias="format", description="graphml holds pages and links")
    ] = CollectionFormat.JSON_LINES,
    part: Annotated[CollectionPart, Query(description="what csv and jsonl hold")] = CollectionPart.PAGES,
) -> StreamingResponse:
    """All pages that the crawler knows, whatever their state, or the links between them; 404 where no topic was set.

    It comes as it is read. An answer that breaks off is cut short, and clients see that it is.
    """
    await require_collection(daemon)
    if form is CollectionFormat.GRAPHML:
        name, pieces = "collection", _graph(daemon.store.crawl)
    else:
        name, pieces = part.value, _listed(daemon.store.crawl, form, part)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form.value}"'}
    return StreamingResponse(pieces, media_type=form.media, headers=headers)


async def _listed(store: CrawlStore, form: CollectionFormat, part: CollectionPart) -> AsyncIterator[str]:
    write = _csv if form is CollectionFormat.CSV else _json_line
    fields = PAGE_FIELDS if part is CollectionPart.PAGES else LINK_FIELDS
    if form is CollectionFormat.CSV:
        yield _csv(dict(zip(fields, fields, strict=True)))
    if part is CollectionPart.PAGES:
        rows: AsyncIterator[dict[str, Any]] = (_page_values(page) async for page in store.iter_pages())
    else:
        rows = (dict(zip(LINK_FIELDS, link, strict=True)) async for link in store.iter_links())
    async for piece in _pieces(rows, write):
        yield piece


async def _graph(store: CrawlStore) -> AsyncIterator[str]:
    """Yields pages as nodes, then links as edges; leaves out links of pages discovered while the nodes were written."""
    yield graphml.head()
    last = 0

    def node(page: object) -> str:
        nonlocal last
        values = _page_values(page)
        last = max(last, values["id"])
        return graphml.node(values)

    async for piece in _pieces(store.iter_pages(), node):
        yield piece
    known = (link async for link in store.iter_links() if max(link[:2]) <= last)
    async for piece in _pieces(known, lambda link: graphml.edge(*link)):
        yield piece
    yield graphml.TAIL


async def _pieces(rows: AsyncIterator[T], write: Callable[[T], str]) -> AsyncIterator[str]:
    """Yields the rows, formatted by `write`, in pieces."""
    lines = list[str]()
    async for row in rows:
        lines.append(write(row))
        if len(lines) >= _PIECE:
            yield "".join(lines)
            lines.clear()
            # Otherwise a fast client would hold the loop for a whole piece of storage.
            await asyncio.sleep(0)
    yield "".join(lines)


def _page_values(page: object) -> dict[str, Any]:
    """Returns a page as in `GET /collection/pages`, times as RFC 3339."""
    return KnownPage.model_validate(page).model_dump(mode="json")


def _csv(values: dict[str, Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(_cells(values.values()))
    return out.getvalue()


def _cells(values: Iterable[Any]) -> list[str]:
    """Formats cells: null is empty, numbers are exact, booleans lower case, texts never formulas."""
    return [_cell(value) for value in values]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return csv_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json_line(values: dict[str, Any]) -> str:
    return orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE).decode()
