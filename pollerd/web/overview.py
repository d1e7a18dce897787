"""Today: what changed, what needs the reader, and the day in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from pollerd.api.events import LiveState
from pollerd.api.sites import SiteSchema, shown_sites
from pollerd.daemon.transition import REDIRECT_CONFIRMATIONS
from pollerd.model import Change, Site, SiteState
from pollerd.storage.changes import ChangeFilter
from pollerd.web.first_steps import first_steps
from pollerd.web.http import PAGE_HEADERS, query
from pollerd.web.page import Page, Shown, drawing, page_router
from pollerd.web.plots import hours_plot
from pollerd.web.quiet import quiet_numbers
from pollerd.web.standing import StandingShown, site_standing

router = page_router()
_TROUBLED = 8
_READ, _SHOWN = 50, 10
"""Changes that are read, and rows that come of them, as those of several sites can share one."""
_DAY = 86_400.0
_TROUBLES = (SiteState.BACKING_OFF, SiteState.BLOCKED, SiteState.GONE)


@dataclass(frozen=True, slots=True)
class NewsRow:
    """Changes that say the same, one after the other; most often there is one."""

    change: Change
    """The newest of them."""
    sites: int
    """How many sites they are of."""


@router.get("/")
async def today(page: Shown, step: str = Query("", max_length=10)) -> Response:
    """What people look at first."""
    if step:  # the slider's former address
        return page.go(f"/budget{query(step=step)}")
    ports, now = page.ports, page.now
    unread = (await ports.store.changes.page(ChangeFilter(matters=True, unseen_by=page.reader), _READ)).items
    changes = unread or (await ports.store.changes.page(ChangeFilter(matters=True), _READ)).items
    allocation, status = ports.control.allocation.view(), ports.control.health.status()
    hours = await ports.store.history.found_by_hour(now - _DAY, now)
    return page.show(
        "overview.html",
        allocation=allocation,
        news=_rows(changes)[:_SHOWN],
        sent=await ports.store.changes.sent_by([change.id for change in changes]),
        is_news=bool(unread),
        news_sites=len({change.site_id for change in unread}),
        more=len(unread) == _READ,
        trouble=await _trouble(page),
        trouble_count=sum(status.by_state.get(state, 0) for state in _TROUBLES),
        found=sum(hours),
        steps=await first_steps(page),
        quiet=await quiet_numbers(page),
        hours=drawing(hours_plot(hours)) if any(hours) else None,
    )


def _rows(changes: list[Change]) -> list[NewsRow]:
    """Returns the changes, newest first; those that follow each other and say the same become one row."""
    rows = []
    for _summary, same in groupby(changes, key=lambda change: change.summary or change.id):
        together = list(same)
        sites = {change.site_id for change in together}
        if len(sites) > 1:
            rows.append(NewsRow(together[0], len(sites)))
        else:
            rows += [NewsRow(change, 1) for change in together]
    return rows


async def _trouble(page: Page) -> list[tuple[SiteSchema, StandingShown]]:
    """Returns the first sites that need their user, with how they stand."""
    ports = page.ports
    status = ports.control.health.status()
    sites: list[Site] = list(await ports.store.sites.moved(_TROUBLED, REDIRECT_CONFIRMATIONS))
    for state in _TROUBLES:
        if len(sites) < _TROUBLED:
            sites += (await ports.store.sites.page(state=state, limit=_TROUBLED - len(sites))).items
    shown = await shown_sites(ports, sites)
    return [(site, site_standing(site, page.now, offline=status.offline)) for site in shown]


# How the daemon is, for pages that can hold no stream: they ask now and then.

live_router = page_router(prefix="/live")


@live_router.get("/state")
async def live_state(request: Request) -> JSONResponse:
    """As the event `health` has it."""
    state: LiveState = request.app.state.live_state
    return JSONResponse(state.state(), headers=PAGE_HEADERS)


ROUTERS = (router, live_router)
