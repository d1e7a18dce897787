"""The focused crawler's collection."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Response

from pollerd.api.collection.routes import KnownPage
from pollerd.api.http.parameters import Cursor
from pollerd.model import PageState
from pollerd.web.http.forms import one_of
from pollerd.web.http.markup import drawing
from pollerd.web.http.page import Page, Shown
from pollerd.web.http.route import page_router
from pollerd.web.plots.host_graph import host_graph_plot

router = page_router(prefix="/collection")
_ROWS = 50
_HOSTS = 60
_GRAPH_SECONDS = 60.0
_STATES = [
    (PageState.COLLECTED.value, "in the collection"),
    (PageState.FRONTIER.value, "on the frontier"),
    (PageState.ASKED.value, "being asked for"),
    (PageState.REJECTED.value, "rejected"),
    (PageState.GONE.value, "gone"),
]


@dataclass(slots=True)
class _Drawn:
    """The last picture of the graph."""

    at: float = -math.inf
    svg: str = ""
    rows: Sequence[tuple[str, int]] = ()


async def _graph(page: Page) -> dict[str, Any] | None:
    """Returns the graph of hosts, drawn beside the loop and kept for a minute; None without hosts."""
    kept: _Drawn = page.web.kept.setdefault("host graph", _Drawn())
    if time.monotonic() - kept.at > _GRAPH_SECONDS:
        kept.at = time.monotonic()
        found = await page.ports.store.crawl.host_graph(_HOSTS)
        kept.svg = await asyncio.to_thread(host_graph_plot, found.names, found.pages, found.links)
        kept.rows = list(zip(found.names, found.pages, strict=True))
    return {"svg": drawing(kept.svg), "rows": kept.rows} if kept.rows else None


@router.get("")
async def show_collection(
    page: Shown, state: Annotated[str, Query(max_length=20)] = "collected", cursor: Cursor = None
) -> Response:
    """How it stands, and its pages."""
    chosen = one_of(PageState, "state", state)
    view: Any = await page.ports.control.collection.view()
    pages = None
    if view is not None:
        pages = await page.ports.store.crawl.list_pages(chosen, None, None, _ROWS, cursor)
    graph = None if view is None else await _graph(page)
    return page.show(
        "collection.html",
        graph=graph,
        view=view,
        pages=[] if pages is None else [KnownPage.model_validate(one) for one in pages.items],
        next_cursor=None if pages is None else pages.next_cursor,
        cursor=cursor,
        state=state,
        states=_STATES,
    )
