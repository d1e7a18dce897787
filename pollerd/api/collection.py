"""The focused crawler's collection.

Routes of the focused crawler's collection, and their schemas.
"""

from __future__ import annotations

import asyncio
import csv
import dataclasses
import io
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar
from xml.sax.saxutils import escape

import orjson
from fastapi import Query
from fastapi.responses import StreamingResponse

from pollerd.api.common import Listing, shown_values
from pollerd.api.formats import CollectionFormat, CollectionPart, csv_text
from pollerd.api.http import ApiPorts, Cursor, Daemon, Limit, Words, api_router
from pollerd.daemon.collection import CollectionView
from pollerd.errors import NotFoundError
from pollerd.model import PageState
from pollerd.storage.crawler.collection import CollectionStore, StoredPage
from pollerd.texts import N_, _

router = api_router("/collection", tag="collection")


@router.get("", summary="How the collection stands")
async def get_collection(daemon: Daemon) -> CollectionView:
    """Size, relevance, freshness and harvest rate; 404 where no topic was ever set (`pollerd run --topic`)."""
    view = await daemon.control.collection.view()
    if view is None:
        raise no_collection()
    return view


@router.get("/pages", summary="Pages that the crawler knows")
async def list_pages(
    daemon: Daemon,
    state: PageState | None = None,
    host: Annotated[Words | None, Query(description="name:port", examples=["example.org:443"])] = None,
    min_relevance: Annotated[float | None, Query(ge=0, le=1, description="least relevance as scored last")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Listing[StoredPage]:
    """By id, those that fit every filter: collected, on the frontier, rejected or gone; 404 where no topic was set."""
    await require_collection(daemon)
    name = None if host is None else host.lower()
    page = await daemon.store.collection.list_pages(state, name, min_relevance, limit, cursor)
    return Listing.of(page.items, page.next_cursor)


async def require_collection(daemon: ApiPorts) -> None:
    """Raises `NotFoundError` if there never was a collection."""
    if not await daemon.store.collection.exists():
        raise no_collection()


def no_collection() -> NotFoundError:
    """Returns the error of a missing collection, which says how to start one."""
    return NotFoundError(N_("collection"), _("no topic was ever set (pollerd run --topic)"))


# GraphML (graphml.graphdrawing.org, 1.0) of pages and links, for networkx, Gephi and yEd.

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
NODE_KEYS = {
    "url": "string",
    "state": "string",
    "reason": "string",
    "depth": "long",
    "relevance": "double",
    "worth": "double",
    "parent_id": "long",
    "discovered_at": "string",
    "asked_at": "string",
    "modified_at": "string",
    "site_id": "long",
    "own": "boolean",
}
"""Node attributes and their types. Unknown values are left out."""
EDGE_KEY = "anchor"
TAIL = "</graph>\n</graphml>\n"


def head() -> str:
    """Returns the document up to the first node."""
    keys = [
        f'<key id="{name}" for="node" attr.name="{name}" attr.type="{kind}"/>\n' for name, kind in NODE_KEYS.items()
    ]
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<graphml xmlns="{NAMESPACE}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xsi:schemaLocation="{NAMESPACE} {NAMESPACE}/1.0/graphml.xsd">\n{"".join(keys)}'
        f'<key id="{EDGE_KEY}" for="edge" attr.name="{EDGE_KEY}" attr.type="double"/>\n'
        '<graph id="collection" edgedefault="directed">\n'
    )


def node_element(page: Mapping[str, Any]) -> str:
    """Returns a page's node, from its values; its node id is p followed by its id."""
    data = [f'<data key="{name}">{_text(page[name])}</data>' for name in NODE_KEYS if page[name] is not None]
    return f'<node id="p{page["id"]}">{"".join(data)}</node>\n'


def edge(source_id: int, target_id: int, anchor: float) -> str:
    """Returns the edge of a link, with the score of its text."""
    return f'<edge source="p{source_id}" target="p{target_id}"><data key="{EDGE_KEY}">{anchor!r}</data></edge>\n'


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if not text.isprintable():
        # Removes them all: some cannot occur in XML, and none matters.
        text = "".join(filter(str.isprintable, text))
    return escape(text)


# Exports the focused crawler's pages, scores, parents and link graph as a file, streamed.

T = TypeVar("T")
_PIECE = 250
PAGE_FIELDS = tuple(field.name for field in dataclasses.fields(StoredPage))
LINK_FIELDS = ("source_id", "target_id", "anchor")


_EXAMPLES = {
    CollectionFormat.CSV: "source_id,target_id,anchor\n1,2,0.41\n",
    CollectionFormat.JSON_LINES: '{"source_id":1,"target_id":2,"anchor":0.41}\n',
    CollectionFormat.GRAPHML: f"{head()}{TAIL}",
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
        name, pieces = "collection", _graph(daemon.store.collection)
    else:
        name, pieces = part.value, _listed(daemon.store.collection, form, part)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form.value}"'}
    return StreamingResponse(pieces, media_type=form.media, headers=headers)


async def _listed(store: CollectionStore, form: CollectionFormat, part: CollectionPart) -> AsyncIterator[str]:
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


async def _graph(store: CollectionStore) -> AsyncIterator[str]:
    """Yields pages as nodes, then links as edges; leaves out links of pages discovered while the nodes were written."""
    yield head()
    last = 0

    def node(page: StoredPage) -> str:
        nonlocal last
        values = _page_values(page)
        last = max(last, values["id"])
        return node_element(values)

    async for piece in _pieces(store.iter_pages(), node):
        yield piece
    known = (link async for link in store.iter_links() if max(link[:2]) <= last)
    async for piece in _pieces(known, lambda link: edge(*link)):
        yield piece
    yield TAIL


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


def _page_values(page: StoredPage) -> dict[str, Any]:
    """Returns a page as in `GET /collection/pages`, times as RFC 3339."""
    return shown_values(page, "json")


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


ROUTERS = (router,)
