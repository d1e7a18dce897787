"""The focused crawler's collection.

The focused crawler's collection.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Annotated, Any

import numpy as np
from fastapi import Query, Response
from numpy.typing import NDArray

from pollerd.api.http import Cursor
from pollerd.model import PageState
from pollerd.plots import framed, text
from pollerd.texts import N_, _, n_
from pollerd.web.http import one_of
from pollerd.web.page import Page, Shown, drawing, page_router
from pollerd.web.words import visible

# Draws the hosts of the collection as a graph: circles by number of pages, lines where hosts link to each other.

WIDTH, HEIGHT = 720, 420
_MARGIN = 40
_STEPS = 120
_NAMED = 14
_MIN_LINKS = 2
_SMALLEST, _LARGEST = 5, 22


def host_graph_plot(names: Sequence[str], pages: Sequence[int], links: Sequence[tuple[int, int, int]]) -> str:
    """Returns the plot. links: (host, host, number), hosts as positions in `names`; single links are left out."""
    drawn = [(first, second) for first, second, number in links if number >= _MIN_LINKS]
    places = _placed(len(names), drawn)
    x = (_MARGIN + places[:, 0] * (WIDTH - 2 * _MARGIN)).round().astype(int).tolist()
    y = (_MARGIN + places[:, 1] * (HEIGHT - 2 * _MARGIN)).round().astype(int).tolist()
    most = max(pages, default=1)
    path = "".join(f"M{x[first]} {y[first]}L{x[second]} {y[second]}" for first, second in drawn)
    inside = [f'<path class="links" d="{path}"/>'] if path else []
    for n, name in enumerate(names):
        radius = round(_SMALLEST + (_LARGEST - _SMALLEST) * math.sqrt(pages[n] / most))
        label = escape(f"{visible(name, 100)}: {n_('{count} page', '{count} pages', pages[n])}")
        inside.append(f'<circle class="mean" cx="{x[n]}" cy="{y[n]}" r="{radius}"><title>{label}</title></circle>')
        if n < _NAMED:
            inside.append(text(x[n], y[n] - radius - 4, visible(name.rpartition(":")[0], 40), anchor="middle"))
    description = _(
        "{hosts}, {pairs} of which link to each other.",
        hosts=n_("{count} host", "{count} hosts", len(names)),
        pairs=n_("{count} pair", "{count} pairs", len(drawn)),
    )
    title = _("Hosts of the collection")
    return framed("".join(inside), WIDTH, HEIGHT, key="graph-plot", title=title, description=description)


def _placed(count: int, links: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Returns places in the unit square, float64[n, 2]: nodes repel each other, links pull.

    The same graph is always placed in the same way. Fruchterman and Reingold 1991.
    """
    if count == 0:
        return np.empty((0, 2))
    angle = np.arange(count) * 2.399963  # the golden angle: an even start without chance
    places = 0.5 + 0.4 * np.sqrt((np.arange(count) + 0.5) / count)[:, None] * np.c_[np.cos(angle), np.sin(angle)]
    ends, ideal = np.array(links, np.int64).reshape(-1, 2), 0.8 / math.sqrt(count)
    for step in range(_STEPS):
        between = places[:, None, :] - places[None, :, :]
        distance = np.sqrt((between**2).sum(2)) + 1e-6
        move = (between / distance[..., None] * (ideal**2 / distance)[..., None]).sum(1)
        apart = places[ends[:, 0]] - places[ends[:, 1]]
        pull = apart * np.sqrt((apart**2).sum(1))[:, None] / ideal
        np.subtract.at(move, ends[:, 0], pull)
        np.add.at(move, ends[:, 1], pull)
        length = np.sqrt((move**2).sum(1))[:, None] + 1e-9
        places = places + move / length * np.minimum(length, 0.1 * (1 - step / _STEPS))
    low, high = places.min(0), places.max(0)
    spread: NDArray[np.float64] = (places - low) / np.maximum(high - low, 1e-9) if count > 1 else places * 0 + 0.5
    return spread


router = page_router(prefix="/collection")
_ROWS = 50
_HOSTS = 60
_GRAPH_SECONDS = 60.0
_STATES = [
    (PageState.COLLECTED.value, N_("in the collection")),
    (PageState.FRONTIER.value, N_("not fetched yet")),
    (PageState.ASKED.value, N_("being fetched")),
    (PageState.REJECTED.value, N_("rejected")),
    (PageState.GONE.value, N_("gone")),
]


@dataclass(slots=True)
class _Drawn:
    """The last picture of the graph."""

    at: float = -math.inf
    svg: str = ""
    rows: Sequence[tuple[str, int]] = ()


async def _graph(page: Page) -> dict[str, Any] | None:
    """Returns the graph of hosts, drawn beside the loop and kept for a minute; None without hosts."""
    kept: _Drawn = page.web.kept.setdefault(_("host graph"), _Drawn())
    if time.monotonic() - kept.at > _GRAPH_SECONDS:
        kept.at = time.monotonic()
        graph = await page.ports.store.collection.host_graph(_HOSTS)
        kept.svg = await asyncio.to_thread(host_graph_plot, graph.names, graph.pages, graph.links)
        kept.rows = list(zip(graph.names, graph.pages, strict=True))
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
        pages = await page.ports.store.collection.list_pages(chosen, None, None, _ROWS, cursor)
    listed = [] if pages is None else pages.items
    graph = None if view is None else await _graph(page)
    return page.show(
        "collection.html",
        graph=graph,
        view=view,
        pages=listed,
        titles=await page.ports.store.sites.titles({one.site_id for one in listed if one.site_id}) if listed else {},
        next_cursor=None if pages is None else pages.next_cursor,
        cursor=cursor,
        state=state,
        states=_STATES,
    )


ROUTERS = (router,)
