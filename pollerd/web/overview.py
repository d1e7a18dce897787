"""The overview, and the planner.

The overview: what the budget finds, what it would find, who is in trouble.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from pollerd.api.events import LiveState
from pollerd.api.http import ApiPorts, Words
from pollerd.model import SiteState
from pollerd.planning import sentences
from pollerd.quantities import duration
from pollerd.ranges import PLAN
from pollerd.web.http import PAGE_HEADERS, number_of, seconds_of
from pollerd.web.page import Page, Shown, drawing, page_router
from pollerd.web.plots import BenefitPlot, benefit_plot
from pollerd.web.words import Moment, Sentence, figure

# What was found in the last hour and day, beside what was expected.

_SPANS = (("Last hour", 3_600.0), ("Last day", 86_400.0))


@dataclass(frozen=True, slots=True)
class FoundSpan:
    """One span. None: nothing is known of what was expected."""

    found: int
    covered: float
    """The share of the span for which it is known what was expected."""
    scheduled: float | None
    uniform: float | None
    best: float | None


async def found_spans(ports: ApiPorts, now: float) -> list[tuple[str, FoundSpan]]:
    """Returns the spans that end now (epoch s), with their names."""
    spans = []
    for name, seconds in _SPANS:
        known = await ports.store.history.yield_since(now - seconds)
        some = known.seconds > 0
        expected = (known.scheduled, known.uniform, known.best) if some else (None, None, None)
        spans.append((name, FoundSpan(known.found, min(known.seconds / seconds, 1.0), *expected)))
    return spans


# The planner: what budget is needed to learn of changes in time.

planner_router = page_router(prefix="/plan")
SHARES = [(str(share), f"{share} %") for share in (50, 75, 90, 95, 99)]
SPANS = [(duration(one), text) for one, text in (
    (60.0, "1 minute"), (300.0, "5 minutes"), (1_800.0, "30 minutes"), (3_600.0, "1 hour"), (21_600.0, "6 hours"),
    (86_400.0, "1 day"), (604_800.0, "1 week"),
)]  # fmt: skip
Text = Annotated[Words, Query(max_length=100)]


@planner_router.get("")
async def show_plan(page: Shown, share: Text = "90", within: Text = "30m", tag: Text = "") -> Response:
    """The answer in sentences, and by tag."""
    wanted, soon = number_of("share", share) / 100.0, seconds_of("within", within)
    PLAN["share"].check(wanted)
    PLAN["within"].check(soon)
    plan = await page.ports.control.planner.plan(wanted, soon, tag or None)
    return page.show(
        "plan.html",
        plan=plan,
        alone=page.ports.store.shared is None,
        said=sentences(plan),
        share=share,
        within=within,
        tag=tag,
        shares=_with(SHARES, share, f"{share} %"),
        spans=_with(SPANS, within, within),
    )


def _with(known: list[tuple[str, str]], value: str, text: str) -> list[tuple[str, str]]:
    return known if value in dict(known) else [*known, (value, text)]


router = page_router()
_TROUBLED = 8
_LAST = 10
_CURVE_SECONDS = 0.1
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
    changes = await ports.store.changes.page(limit=_LAST)
    return page.show(
        "overview.html",
        allocation=allocation,
        alone=ports.store.shared is None,
        configured=_configured_budget(page),
        benefit=_benefit(allocation, step),
        found=await found_spans(ports, page.now),
        trouble=await _trouble(ports, counts),
        trouble_count=sum(counts.get(state, 0) for state in _TROUBLES),
        changes=changes.items,
        plan_shares=SHARES,
        plan_spans=SPANS,
    )


def _configured_budget(page: Page) -> tuple[str, str] | None:
    """Returns the budget that a restart takes, polls per second, and where that is from; None: it is not known."""
    if "budget" not in page.web.settings:
        return None
    budget, source = page.web.settings["budget"]
    places = {"default": "the default", "flag": "from --budget", "environment": "from POLLERD_BUDGET"}
    return figure(float(budget)), places.get(source, f"from {source.removeprefix('file ')}")


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
    done, _ = await asyncio.wait([work], timeout=_CURVE_SECONDS)
    return await work if done else ports.control.allocation.view()


async def _trouble(ports: ApiPorts, counts: Mapping[SiteState, int]) -> list[dict[str, Any]]:
    """Returns the first sites that fail, with the reasons."""
    found: list[dict[str, Any]] = []
    for state in _TROUBLES:
        if counts.get(state, 0) and len(found) < _TROUBLED:
            page = await ports.store.sites.page(state=state, limit=_TROUBLED - len(found))
            found += [
                {"id": s.id, "url": s.spec.url, "title": s.title, "state": state.value, "reason": _reason(s)}
                for s in page.items
            ]
    return found


def _reason(site: Any) -> Sentence:
    said = site.last_detail or str(site.last_outcome or "").replace("_", " ") or "no answer"
    if site.state is SiteState.BACKING_OFF and site.next_poll_at is not None:
        return (f"{said}; {site.failures:,} in a row, next try ", Moment(site.next_poll_at))
    return (said,)


# How the daemon is, for pages that can hold no stream: they ask now and then.

live_router = page_router(prefix="/live")


@live_router.get("/state")
async def live_state(request: Request) -> JSONResponse:
    """As the event `health` has it."""
    state: LiveState = request.app.state.live_state
    return JSONResponse(state.state(), headers=PAGE_HEADERS)


ROUTERS = (router, planner_router, live_router)
