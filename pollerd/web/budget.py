"""The budget: what it finds, what another one would find, and the planner."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Response

from pollerd.api.http import ApiPorts, Words
from pollerd.model import SiteState
from pollerd.planning import exactly, sentences
from pollerd.quantities import duration
from pollerd.ranges import BUDGET, PLAN
from pollerd.texts import N_, _
from pollerd.web.http import number_of, seconds_of
from pollerd.web.page import Page, Shown, for_both, page_router
from pollerd.web.plots import BENEFIT_WIDTH, NARROW, benefit_plot
from pollerd.web.words import figure

# What was found in the last hour and day, beside what was expected.

_SPANS = ((N_("Last hour"), 3_600.0), (N_("Last day"), 86_400.0))


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
        spans.append((_(name), FoundSpan(known.found, min(known.seconds / seconds, 1.0), *expected)))
    return spans


# The planner: what budget is needed to learn of changes in time.

planner_router = page_router(prefix="/plan")
SHARES = [(str(share), f"{share} %") for share in (50, 75, 90, 95, 99)]
SPANS = (60.0, 300.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0)
Text = Annotated[Words, Query(max_length=100)]


@planner_router.get("")
async def show_plan(page: Shown, share: Text = "90", within: Text = "30m", tag: Text = "") -> Response:
    """The answer in sentences, and by tag."""
    part, soon = number_of("share", share) / 100.0, seconds_of("within", within)
    PLAN["share"].check(part)
    PLAN["within"].check(soon)
    plan = await page.ports.control.planner.plan(part, soon, tag or None)
    return page.show(
        "plan.html",
        plan=plan,
        alone=page.ports.store.shared is None,
        said=sentences(plan),
        share=share,
        within=within,
        tag=tag,
        shares=_with(SHARES, share, f"{share} %"),
        spans=_with(_spans(), within, within),
    )


def _spans() -> list[tuple[str, str]]:
    return [(duration(seconds), exactly(seconds)) for seconds in SPANS]


def _with(known: list[tuple[str, str]], value: str, text: str) -> list[tuple[str, str]]:
    return known if value in dict(known) else [*known, (value, text)]


# What the budget in force finds.

router = page_router(prefix="/budget")
_CURVE_SECONDS = 0.1
_under_way: set[asyncio.Future[Any]] = set()
"""Curves that are being worked out: their results serve the next readers."""
Step = Annotated[int | None, Query(ge=0, le=1000)]
_PRESETS = ((N_("Gentle"), 3_600.0), (N_("Normal"), 600.0), (N_("Eager"), 60.0))
"""Names of budgets, and the mean time between two checks of a site with each, s."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A budget by its name."""

    name: str
    budget: float
    """Checks per second."""
    interval: float
    """Mean time between two checks of a site, s."""


def presets(sites: int) -> list[Preset]:
    """Returns the budgets that are offered for so many sites, ascending; those that would be the same are one."""
    offered: dict[float, Preset] = {}
    for name, interval in _PRESETS if sites else ():
        budget = min(max(float(f"{sites / interval:.2g}"), BUDGET.lowest), BUDGET.highest)
        offered[budget] = Preset(_(name), budget, sites / budget)
    return list(offered.values())


@router.get("")
async def show_budget(page: Shown, step: Step = None) -> Response:
    """What the budget finds, next to what others would."""
    ports = page.ports
    allocation = await _allocation(ports)
    sites = allocation.sites - ports.control.health.status().by_state.get(SiteState.PAUSED, 0)
    spent = min(allocation.budget, allocation.spendable)
    return page.show(
        "budget.html",
        allocation=allocation,
        alone=ports.store.shared is None,
        configured=_configured_budget(page),
        interval=sites / spent if sites > 0 and spent > 0 else None,
        presets=presets(max(sites, 0)),
        # Before, the curve would be of what is assumed of sites, not of what they are like.
        learned=2 * allocation.sites_read_twice > allocation.sites,
        benefit=_benefit(allocation, step),
        found=await found_spans(ports, page.now),
        plan_shares=SHARES,
        plan_spans=_spans(),
    )


def _configured_budget(page: Page) -> tuple[str, str] | None:
    """Returns the budget that a restart takes, polls per second, and where that is from; None: it is not known."""
    if "budget" not in page.web.settings:
        return None
    budget, source = page.web.settings["budget"]
    places = {"default": _("the default"), "flag": _("from --budget"), "environment": _("from POLLERD_BUDGET")}
    return figure(float(budget)), places.get(source, f"from {source.removeprefix('file ')}")


def _benefit(allocation: Any, step: int | None) -> dict[str, Any] | None:
    curve = [(point.budget, point.expected_detections_per_hour) for point in allocation.benefit_curve]
    scheduled = allocation.expected_detections_per_hour_as_scheduled
    uniform = allocation.expected_detections_per_hour_uniform
    if scheduled is None:
        return None
    wide, narrow = (
        benefit_plot(curve, allocation.budget, scheduled, uniform, step, width) for width in (BENEFIT_WIDTH, NARROW)
    )
    if wide is None or narrow is None:
        return None
    return {
        "svg": for_both(wide.svg, narrow.svg),
        "rows": [*zip(wide.rows, narrow.rows, strict=True)],
        "step": wide.step,
        "sentence": wide.sentence,
        "budget": wide.budget,
    }


async def _allocation(ports: ApiPorts) -> Any:
    """Returns the allocation with the curve over budgets; without it where that takes longer than readers wait."""
    work = asyncio.ensure_future(ports.control.allocation.over_budgets())
    _under_way.add(work)
    work.add_done_callback(_under_way.discard)
    done, _unfinished = await asyncio.wait([work], timeout=_CURVE_SECONDS)
    return await work if done else ports.control.allocation.view()


ROUTERS = (router, planner_router)
