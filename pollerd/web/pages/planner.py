"""The planner: what budget is needed to learn of changes in time."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from pollerd.api.http.parameters import Words
from pollerd.planning.sentences import sentences
from pollerd.quantities import duration
from pollerd.ranges import PLAN
from pollerd.web.http.forms import number_of, seconds_of
from pollerd.web.http.page import Shown
from pollerd.web.http.route import page_router

router = page_router(prefix="/plan")
SHARES = [(str(share), f"{share} %") for share in (50, 75, 90, 95, 99)]
SPANS = [(duration(one), text) for one, text in (
    (60.0, "1 minute"), (300.0, "5 minutes"), (1_800.0, "30 minutes"), (3_600.0, "1 hour"), (21_600.0, "6 hours"),
    (86_400.0, "1 day"), (604_800.0, "1 week"),
)]  # fmt: skip
Text = Annotated[Words, Query(max_length=100)]


@router.get("")
async def show_plan(page: Shown, share: Text = "90", within: Text = "30m", tag: Text = "") -> Response:
    """The answer in sentences, and by tag."""
    wanted, soon = number_of("share", share) / 100.0, seconds_of("within", within)
    PLAN["share"].check(wanted)
    PLAN["within"].check(soon)
    plan = await page.ports.control.planner.plan(wanted, soon, tag or None)
    return page.show(
        "plan.html",
        plan=plan,
        said=sentences(plan),
        share=share,
        within=within,
        tag=tag,
        shares=_with(SHARES, share, f"{share} %"),
        spans=_with(SPANS, within, within),
    )


def _with(known: list[tuple[str, str]], value: str, text: str) -> list[tuple[str, str]]:
    return known if value in dict(known) else [*known, (value, text)]
