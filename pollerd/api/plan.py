"""Route of the plan of the budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Query

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import Words
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.allocation import Plan
from pollerd.errors import InvalidValueError
from pollerd.quantities import seconds, share
from pollerd.ranges import PLAN

router = api_router("/plan", tag="allocation")

_SHARE = {"pattern": r"^(0?\.[0-9]{0,20}[1-9][0-9]{0,20}|[1-9][0-9]?(\.[0-9]{1,20})?%)$"}
_WITHIN = {"pattern": r"^([1-9][0-9]{0,8}(\.[0-9]{1,9})?|[1-9][0-9]{0,3}(\.[0-9]{1,3})?(s|m|min|h|d))$"}
"""What is certainly in range."""
Share = Annotated[
    str,
    Query(description="share of the changes to learn of: 0.9 or 90%", max_length=100, json_schema_extra=_SHARE),
]
Within = Annotated[
    str, Query(description="how soon after them: seconds, or as in 30m", max_length=100, json_schema_extra=_WITHIN)
]
PlanTag = Annotated[Words | None, Query(description="of sites with this tag; left out: of all", max_length=100)]


@router.get("", summary="What budget is needed to learn of changes in time")
async def get_plan(daemon: Daemon, share: Share = "0.9", within: Within = "1800", tag: PlanTag = None) -> Plan:
    """The budget by which this share of the changes is learned of in time, and what today's brings, also by tag.

    By the present beliefs, for the objective and the allocator in force. If no budget does it, `limits` say why.
    """
    found = await daemon.control.planner.plan(_read("share", share), _read("within", within), tag)
    return Plan.model_validate(found)


_READERS: dict[str, Callable[[str], float]] = {"share": share, "within": seconds}


def _read(field: str, text: str) -> float:
    """Returns the number that a parameter says. Raises InvalidValueError."""
    try:
        value = _READERS[field](text)
    except ValueError as error:
        raise InvalidValueError(field, PLAN[field].allowed, text) from error
    PLAN[field].check(value)
    return value
