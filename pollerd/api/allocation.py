"""The allocation of the budget, and its plan.

Routes of the allocation of the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Query
from pydantic import ConfigDict, Field

from pollerd.allocation import registry
from pollerd.allocation.registered import OBJECTIVES
from pollerd.api.common import Given
from pollerd.api.http import Daemon, Words, api_router, json_body
from pollerd.api.inputs import Budget, Deadline
from pollerd.daemon.views import AllocationView
from pollerd.errors import InvalidValueError
from pollerd.planning import BudgetPlan
from pollerd.quantities import seconds, share
from pollerd.ranges import PLAN

# The allocation of the budget: its yield and its settings.

AllocatorName = Annotated[str, Field(json_schema_extra={"enum": list(registry.names())})]
Objective = Annotated[str, Field(json_schema_extra={"enum": list(OBJECTIVES)})]


class AllocationPatch(Given):
    """Missing fields stay."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"budget": 20.0}]})

    allocator: AllocatorName | None = None
    objective: Objective | None = None
    deadline: Deadline | None = None
    budget: Budget | None = None
    shadows: list[AllocatorName] | None = Field(
        None,
        description="at most three other allocators to run in shadow, instead of the current ones",
        json_schema_extra={"maxItems": 3, "uniqueItems": True},
    )


router = api_router("/allocation", tag="allocation")


@router.get("", summary="What the budget brings")
async def get_allocation(daemon: Daemon) -> AllocationView:
    """Expected detections by the current estimates: as scheduled, if polled equally, best possible, and of other
    budgets.
    """
    return await daemon.control.allocation.over_budgets()


@router.put("", dependencies=[Depends(json_body)], summary="Change budget, objective or allocator")
async def set_allocation(daemon: Daemon, patch: AllocationPatch) -> AllocationView:
    """Takes effect at once and stays over a restart. Others learn from the stored polls first.

    A shadow never sees polls it would have made itself: what it has not learned for that reason counts against it.
    """
    return await daemon.control.allocation.set(
        allocator=patch.allocator,
        objective=patch.objective,
        deadline=patch.deadline,
        budget=patch.budget,
        shadows=patch.shadows,
    )


# Route of the plan of the budget.

plan_router = api_router("/plan", tag="allocation")

_SHARE = {"pattern": r"^(0?\.[0-9]{0,20}[1-9][0-9]{0,20}|[1-9][0-9]?(\.[0-9]{1,20})?%)$"}
_WITHIN = {"pattern": r"^([1-9][0-9]{0,8}(\.[0-9]{1,9})?|[1-9][0-9]{0,3}(\.[0-9]{1,3})?(s|m|min|h|d))$"}
"""What is certainly in range."""
Share = Annotated[
    str,
    Query(description="share of the changes to learn of: 0.9 or 90%", max_length=100, json_schema_extra=_SHARE),
]
Within = Annotated[
    str,
    Query(description="how soon after them: seconds, or for example 30m", max_length=100, json_schema_extra=_WITHIN),
]
PlanTag = Annotated[Words | None, Query(description="of sites with this tag; default: of all", max_length=100)]


@plan_router.get("", summary="What budget is needed to learn of changes in time")
async def get_plan(daemon: Daemon, share: Share = "0.9", within: Within = "1800", tag: PlanTag = None) -> BudgetPlan:
    """The budget by which this share of the changes is learned of in time, and what today's brings, also by tag.

    By the present beliefs, for the objective and the allocator in force. If no budget does it, `limits` say why.
    """
    return await daemon.control.planner.plan(_read("share", share), _read("within", within), tag)


_READERS: dict[str, Callable[[str], float]] = {"share": share, "within": seconds}


def _read(field: str, text: str) -> float:
    """Returns the number that a parameter says. Raises InvalidValueError."""
    try:
        value = _READERS[field](text)
    except ValueError as error:
        raise InvalidValueError(field, PLAN[field].allowed, text) from error
    PLAN[field].check(value)
    return value


ROUTERS = (router, plan_router)
