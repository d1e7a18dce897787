"""What a budget would have to be, and what today's brings. Durations s, budgets in polls per second, shares 0 to 1."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class PlanLimit(StrEnum):
    """What keeps changes from being learned of in time, whatever the budget."""

    HOST_INTERVAL = "host_interval"
    MIN_INTERVAL = "min_interval"
    MIN_YIELD = "min_yield"
    TTL = "ttl"
    NEVER_POLLED = "never_polled"
    LARGEST_BUDGET = "largest_budget"
    """A larger budget than may be set would do it."""


class HeldBack(Struct, frozen=True, gc=False):
    """The sites that one limit keeps from being polled often enough."""

    limit: PlanLimit
    sites: int
    hosts: int
    """Hosts of these sites."""
    seconds: float | None
    """Typical shortest time between two polls of them; for hosts between two requests. None: there is none."""
    share: float
    """Share of all changes that is learned of too late because of it."""


class MeasuredDelays(Struct, frozen=True, gc=False):
    """Delays of changes whose date the page named."""

    changes: int
    delay_median: float
    delay_p90: float


class TagPlan(Struct, frozen=True, gc=False):
    """What today's budget brings for the sites with a tag."""

    tag: str
    sites: int
    changes_per_day: float | None
    share: float | None
    """Share of their changes that is learned of in time; None: no change is expected."""
    delay_median: float | None
    delay_p90: float | None
    """None: so many changes are never learned of, or none is expected."""
    measured: MeasuredDelays | None


class BudgetPlan(Struct, frozen=True, gc=False):
    """The answer to: what budget is needed to learn of a share of all changes within some time?"""

    objective: str
    """The objective in force: the plan is for its split of the budget."""
    allocator: str
    tag: str | None
    """Only changes of sites with this tag count; None: all."""
    share: float
    """Share of the changes that is asked for."""
    within: float
    budget: float | None
    """The budget needed; None: no budget does it, or there is nothing to poll."""
    most: float | None
    """Share that is learned of in time if polls cost nothing; None: no change is expected."""
    limits: tuple[HeldBack, ...]
    """Why no budget does it, the most changes first; empty if one does."""
    current_budget: float
    current_share: float | None
    """Share that is learned of in time with today's budget; None: no change is expected."""
    delay_median: float | None
    delay_p90: float | None
    """Delays from change to detection with today's budget; None: so many changes are never learned of."""
    measured: MeasuredDelays | None
    """None: no page named a date."""
    sites: int
    changes_per_day: float | None
    """None: the allocator does not estimate rates; then all sites count as if they changed alike."""
    seldom_polled: int
    """Sites that were polled fewer than 20 times: their rates are not known well."""
    sampled: bool
    """Whether the plan is worked out from a sample of very many sites."""
    by_tag: tuple[TagPlan, ...]
    """The tags with most sites, at most 50."""
    deadline: float | None = None
    """Seconds, of sites without their own; None under other objectives than `deadline`."""
