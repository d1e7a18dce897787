"""Routes of the allocation of the budget."""

from __future__ import annotations

from fastapi import Depends

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.allocation import Allocation, AllocationPatch

router = api_router("/allocation", tag="allocation")


@router.get("", summary="What the budget brings")
async def get_allocation(daemon: Daemon) -> Allocation:
    """Expected detections under the present belief: as scheduled, uniform, at the best split, and of other budgets."""
    return Allocation.model_validate(await daemon.control.allocation.over_budgets())


@router.put("", dependencies=[Depends(json_body)], summary="Change budget, objective or allocator")
async def set_allocation(daemon: Daemon, patch: AllocationPatch) -> Allocation:
    """Takes effect at once and stays over a restart. Others learn from the stored polls first.

    A shadow never sees polls it would have made itself: what it has not learned for that reason counts against it.
    """
    view = await daemon.control.allocation.set(
        allocator=patch.allocator,
        objective=patch.objective,
        deadline=patch.deadline,
        budget=patch.budget,
        shadows=patch.shadows,
    )
    return Allocation.model_validate(view)
