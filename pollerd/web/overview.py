"""Today: what changed, what needs the reader, and the day in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from pollerd.api.events import LiveState
from pollerd.api.sites import SiteSchema
from pollerd.daemon.transition import REDIRECT_CONFIRMATIONS
from pollerd.model import Change
from pollerd.storage.changes import ChangeFilter
from pollerd.web.first_steps import first_steps
from pollerd.web.http import PAGE_HEADERS, query
from pollerd.web.page import Page, Shown, drawing, page_router
from pollerd.web.plots import hours_plot
from pollerd.web.quiet import quiet_numbers
from pollerd.web.standing import Standing, StandingShown, standings

router = page_router()
_TROUBLED, _ALL_TROUBLED = 8, 200
"""Sites that need their user: on the page, and if all are asked for."""
_READ, _SHOWN = 50, 10
"""Changes that are read, and rows that come of them, as those of several sites can share one."""
_COUNTED = 1_000
"""Changes since the reader looked are counted so far."""
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class NewsRow:
    """Changes that say the same, one after the other; most often there is one."""

    change: Change
    """The newest of them."""
    sites: int
    """How many sites they are of."""
    tag: str = ""
    """Which all these sites have; empty: it is one site, or they have none in common."""


@router.get("/")
async def today(
    page: Shown, step: str = Query("", max_length=10), needs: str = Query("", pattern="^(all)?$")
) -> Response:
    """What people look at first; with `needs=all` all sites that need their user."""
    if step:  # the slider's former address
        return page.go(f"/budget{query(step=step)}")
    ports, now = page.ports, page.now
    unread = (await ports.store.changes.page(ChangeFilter(matters=True, unseen_by=page.reader), _READ)).items
    changes = unread or (await ports.store.changes.page(ChangeFilter(matters=True), _READ)).items
    tags = await ports.store.sites.tags_of(list({change.site_id for change in changes}))
    allocation = ports.control.allocation.view()
    trouble, troubled = await _trouble(page, _ALL_TROUBLED if needs else _TROUBLED)
    looked_at = await ports.store.changes.look(page.reader, now)
    hours = await ports.store.history.found_by_hour(now - _DAY, now)
    return page.show(
        "overview.html",
        allocation=allocation,
        news=_rows(changes, tags)[:_SHOWN],
        sent=await ports.store.changes.sent_by([change.id for change in changes]),
        is_news=bool(unread),
        news_sites=len({change.site_id for change in unread}),
        more=len(unread) == _READ,
        looked_at=looked_at,
        since=None if looked_at is None else await ports.store.changes.found_since(looked_at, _COUNTED),
        counted=_COUNTED,
        trouble=trouble,
        trouble_count=troubled,
        found=sum(hours),
        steps=await first_steps(page),
        quiet=await quiet_numbers(page),
        hours=drawing(hours_plot(hours)) if any(hours) else None,
    )


def _rows(changes: list[Change], tags: Mapping[int, Sequence[str]]) -> list[NewsRow]:
    """Returns the changes, newest first; those that follow each other and say the same become one row."""
    rows = []
    for _summary, same in groupby(changes, key=lambda change: change.summary or change.id):
        together = list(same)
        sites = {change.site_id for change in together}
        if len(sites) > 1:
            common = set.intersection(*(set(tags.get(site, ())) for site in sites))
            tag = next((tag for tag in tags.get(together[0].site_id, ()) if tag in common), "")
            rows.append(NewsRow(together[0], len(sites), tag))
        else:
            rows += [NewsRow(change, 1) for change in together]
    return rows


async def _trouble(page: Page, limit: int) -> tuple[list[tuple[SiteSchema, StandingShown]], int]:
    """Returns the first sites that need their user, with how they stand, and how many need them.

    One that was put right is none of them from then on, before it is checked again.
    """
    sites, count = await page.ports.store.sites.in_trouble(limit, REDIRECT_CONFIRMATIONS)
    shown = await standings(page.ports, sites, page.now)
    needing = [(site, at) for site, at in shown if at.standing is not Standing.ASKED]
    return needing, count - len(shown) + len(needing)


# How the daemon is, for pages that can hold no stream: they ask now and then.

live_router = page_router(prefix="/live")


@live_router.get("/state")
async def live_state(request: Request) -> JSONResponse:
    """As the event `health` has it."""
    state: LiveState = request.app.state.live_state
    return JSONResponse(state.state(), headers=PAGE_HEADERS)


ROUTERS = (router, live_router)
