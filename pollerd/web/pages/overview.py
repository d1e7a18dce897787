"""The overview: what the budget finds, what it would find, who is in trouble."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query, Response

from pollerd.api.http.context import ApiPorts
from pollerd.model import SiteState
from pollerd.web.http.markup import drawing
from pollerd.web.http.page import Shown
from pollerd.web.http.route import page_router
from pollerd.web.pages.found import found_spans
from pollerd.web.pages.planner import SHARES, SPANS
from pollerd.web.plots.benefit import BenefitPlot, benefit_plot
from pollerd.web.words.sentences import Moment, Sentence

router = page_router()
_TROUBLED = 8
_LAST = 10
_CURVE_SECONDS = 0.1
_NODES_SECONDS = 1.0
"""The same where other nodes are asked: without them the figures are of one node's sites."""
_under_way: set[asyncio.Future[Any]] = set()
"""Curves that are being worked out: their results serve the next readers."""
_TROUBLES = (SiteState.BACKING_OFF, SiteState.BLOCKED, SiteState.GONE)
Step = Annotated[int | None, Query(ge=0, le=1000)]


@router.get("/")
async def overview(page: Shown, step: Step = None) -> Response:
    """What people keep open all day."""
    ports = page.ports
    allocation = await _allocation(ports)
    counts = ports.control.health.status().by_state
    changes = await ports.store.history.list_changes(limit=_LAST)
    return page.show(
        "overview.html",
        allocation=allocation,
        benefit=_benefit(allocation, step),
        found=await found_spans(ports, page.now),
        trouble=await _trouble(ports, counts),
        trouble_count=sum(counts.get(state, 0) for state in _TROUBLES),
        changes=changes.items,
        plan_shares=SHARES,
        plan_spans=SPANS,
    )


def _benefit(allocation: Any, step: int | None) -> dict[str, Any] | None:
    curve = [(point.budget, point.expected_detections_per_hour) for point in allocation.benefit_curve]
    scheduled = allocation.expected_detections_per_hour_as_scheduled
    uniform = allocation.expected_detections_per_hour_uniform
    plot: BenefitPlot | None = (
        None if scheduled is None else benefit_plot(curve, allocation.budget, scheduled, uniform, step)
    )
    if plot is None:
        return None
    return {
        "svg": drawing(plot.svg),
        "rows": plot.rows,
        "step": plot.step,
        "sentence": plot.sentence,
        "budget": plot.budget,
    }


async def _allocation(ports: ApiPorts) -> Any:
    """Returns the allocation with the curve over budgets; without it where that takes longer than readers wait."""
    work = asyncio.ensure_future(ports.control.allocation.over_budgets())
    _under_way.add(work)
    work.add_done_callback(_under_way.discard)
    seconds = _CURVE_SECONDS if ports.store.shared is None else _NODES_SECONDS
    done, _ = await asyncio.wait([work], timeout=seconds)
    return await work if done else ports.control.allocation.view()


async def _trouble(ports: ApiPorts, counts: Mapping[SiteState, int]) -> list[dict[str, Any]]:
    """Returns the first sites that fail, with the reasons."""
    found: list[dict[str, Any]] = []
    for state in _TROUBLES:
        if counts.get(state, 0) and len(found) < _TROUBLED:
            page = await ports.store.sites.page(state=state, limit=_TROUBLED - len(found))
            found += [
                {"id": s.id, "url": s.spec.url, "title": s.spec.title, "state": state.value, "reason": _reason(s)}
                for s in page.items
            ]
    return found


def _reason(site: Any) -> Sentence:
    said = site.last_detail or str(site.last_outcome or "").replace("_", " ") or "no answer"
    if site.state is SiteState.BACKING_OFF and site.next_poll_at is not None:
        return (f"{said}; {site.failures:,} in a row, next try ", Moment(site.next_poll_at))
    return (said,)
