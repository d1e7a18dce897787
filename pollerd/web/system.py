"""The machine itself: allocators, calibration, settings, log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response

from pollerd.allocation import registry
from pollerd.allocation.registered import OBJECTIVES
from pollerd.api.allocation import AllocationPatch
from pollerd.errors import InvalidValueError
from pollerd.texts import N_, _
from pollerd.web import plots
from pollerd.web.http import Posted, PostedForm
from pollerd.web.page import Shown, drawing, page_router

router = page_router(prefix="/system")
_LEVELS = {"debug": N_("debug"), "info": N_("info"), "warning": N_("warning"), "error": N_("error")}


@router.get("")
async def show_system(page: Shown, level: Annotated[str, Query(max_length=10)] = "info") -> Response:
    """All of it."""
    if level not in _LEVELS:
        raise InvalidValueError("level", _("one of {names}", names=", ".join(_LEVELS)), level)
    view: Any = await page.ports.control.allocation.over_budgets()
    points = [
        plots.DecilePoint(decile.polls, decile.predicted, decile.found)
        for decile in view.calibration.deciles
        if decile.polls and decile.predicted is not None and decile.found is not None
    ]
    database = await page.ports.control.health.not_ready()
    cluster = None if database else await page.ports.control.cluster.view()
    return page.show(
        "system.html",
        cluster=cluster,
        allocation=view,
        allocators=registry.names(),
        objectives=OBJECTIVES,
        points=points,
        calibration=drawing(plots.calibration_plot(points)),
        calibration_sentence=plots.sentence(points),
        database=database,
        steps_dismissed=database is None
        and page.may_write
        and await page.ports.store.changes.has_dismissed_steps(page.reader),
        settings=page.web.settings,
        lines=page.web.log_lines(level),
        level=level,
        levels=list(_LEVELS.items()),
    )


@router.post("/allocation")
async def set_allocation(page: Shown, form: Posted) -> Response:
    """Changes budget, allocator or objective."""
    patch_values: dict[str, Any] = {name: form.text(name) for name in ("allocator", "objective") if form.text(name)}
    if form.text("budget"):
        patch_values["budget"] = form.optional_number("budget")
    if form.text("deadline"):
        patch_values["deadline"] = form.text("deadline")
    patch = AllocationPatch.model_validate(patch_values)
    await page.ports.control.allocation.set(
        allocator=patch.allocator,
        objective=patch.objective,
        deadline=patch.deadline,
        budget=patch.budget,
        shadows=None,
    )
    return page.go(_back(form))


def _back(form: PostedForm) -> str:
    return form.text("back") if form.text("back") in ("/", "/budget", "/system") else "/system"


ROUTERS = (router,)
