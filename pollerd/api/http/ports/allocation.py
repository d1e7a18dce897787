"""The allocation, plans of the budget, and the collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pollerd.planning.budget_plan import BudgetPlan


class AllocationPort(Protocol):
    """Shows and changes the allocation. The views have the attributes named in `schemas.allocation`."""

    def view(self) -> object:
        """Returns the present allocation, without the yield of other budgets."""

    async def over_budgets(self) -> object:
        """Returns the present allocation, and the yield of other budgets."""

    async def set(
        self,
        *,
        allocator: str | None = None,
        objective: str | None = None,
        deadline: float | None = None,
        budget: float | None = None,
        shadows: Sequence[str] | None = None,
    ) -> object:
        """Changes the allocation. Raises InvalidValueError."""


class PlanPort(Protocol):
    """Plans the budget."""

    async def plan(self, share: float, within: float, tag: str | None = None) -> BudgetPlan:
        """Returns the budget needed to learn of a share of the changes in time. Raises InvalidValueError."""


class CollectionPort(Protocol):
    """Shows the focused crawler's collection."""

    async def view(self) -> object | None:
        """Returns the attributes of `collection.Collection`; None if no topic was ever set."""
