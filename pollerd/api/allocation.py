"""The allocation of the budget, and its plan.

Routes of the allocation of the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from pollerd.allocation import registry
from pollerd.allocation.registered import OBJECTIVES
from pollerd.api.common import Given
from pollerd.api.http import Daemon, Words, api_router, json_body
from pollerd.api.inputs import Budget, Deadline
from pollerd.errors import InvalidValueError
from pollerd.planning import PlanLimit
from pollerd.quantities import seconds, share
from pollerd.ranges import PLAN
from pollerd.scheduling.capacity import PollLimit

# The allocation of the budget: its yield and its settings.

AllocatorName = Annotated[str, Field(json_schema_extra={"enum": list(registry.names())})]
Objective = Annotated[str, Field(json_schema_extra={"enum": list(OBJECTIVES)})]


class Decile(BaseModel):
    """Polls whose predicted probability of a change lay in one tenth of 0 to 1."""

    model_config = ConfigDict(from_attributes=True)

    polls: int
    predicted: float | None = Field(description="the mean of what was predicted")
    found: float | None = Field(description="the share that found a change")


class Calibration(BaseModel):
    """How well changes were foretold since the allocator took over, or the daemon started."""

    model_config = ConfigDict(from_attributes=True)

    polls: int
    expected_error: float | None = Field(description="mean distance of found from predicted, weighted by polls")
    deciles: tuple[Decile, ...] = Field(description="ten, by predicted probability: below 0.1 first")


class BenefitPoint(BaseModel):
    """What the best split of a budget would bring."""

    model_config = ConfigDict(from_attributes=True)

    budget: float = Field(description="polls per second")
    expected_detections_per_hour: float


class ComparedFigures(BaseModel):
    """One figure for three ways to spend the budget."""

    model_config = ConfigDict(from_attributes=True)

    as_scheduled: float | None
    uniform: float | None
    best: float | None


class TimelinessSchema(BaseModel):
    """How soon changes are found under the present belief, over all changes, by the weights of their sites."""

    model_config = ConfigDict(from_attributes=True)

    delay: ComparedFigures = Field(
        description="mean seconds from a change to its detection; null where a site that changes is never polled"
    )
    in_time: ComparedFigures = Field(description="share that is found within the sites' deadlines")


class Shadow(BaseModel):
    """An allocator in shadow. It never sees polls it would have made itself, and is judged by another's belief."""

    model_config = ConfigDict(from_attributes=True)

    allocator: str
    state: Literal["learning", "following", "dropped"]
    expected_detections_per_hour: float | None = Field(
        description="of the frequencies it would poll at, under the present belief of the allocator in charge; null: "
        "not worked out yet, or the one in charge believes nothing of rates"
    )
    reason: str | None = Field(description="why it was dropped")


class SignalYields(BaseModel):
    """What signals brought in the last hour."""

    model_config = ConfigDict(from_attributes=True)

    sources: int
    polls: int = Field(description="of pages with signal sources")
    found: int = Field(description="of these, polls that found a change")
    polls_after_signal: int = Field(description="of these, polls before which a signal came")
    found_after_signal: int
    budget_saved: float | None = Field(
        description="1 - budget / the budget that would find as much without signals, by what is believed of the "
        "rates; for the objective changes; null: not known"
    )


class Allocation(BaseModel):
    """What the budget brings under the present belief."""

    model_config = ConfigDict(from_attributes=True)

    allocator: str
    objective: str
    deadline: float = Field(
        description="seconds within which a change should be found under the objective deadline, of sites without "
        "their own"
    )
    budget: float = Field(description="polls per second")
    utilization: float
    spendable: float = Field(description="what of the budget intervals, min_yields and politeness let be spent")
    binding: PollLimit = Field(description="what keeps most sites from being polled more often")
    binding_in_words: str
    price: float | None = Field(description="value of one more poll per second (theta)")
    expected_detections_per_hour_as_scheduled: float | None = Field(
        description="like the next two within the same min_intervals, min_yields and politeness"
    )
    expected_detections_per_hour_uniform: float | None
    expected_detections_per_hour_best: float | None
    sites: int
    late_sites: int
    noisy_sites: int
    proofs_waiting: int = Field(description="sites whose change waits for a second poll that proves it")
    maximum_intervals_feasible: bool
    calibration: Calibration
    one_more_poll_per_second_finds_per_hour: float | None = Field(
        description="more expected detections per hour at the best split with a budget of one poll per second more"
    )
    benefit_curve: tuple[BenefitPoint, ...] = Field(
        description="expected detections over budgets of 0.1 to 10 times the present one, in expectation over what is "
        "believed of the rates, within min_intervals, and within what politeness lets be spent"
    )
    shadows: tuple[Shadow, ...]
    signals: SignalYields | None = Field(description="null: there is no signal source")
    timeliness: TimelinessSchema | None = Field(description="null under objectives other than delay and deadline")
    missing_nodes: tuple[str, ...] | None = Field(
        description="of several nodes: those whose sites are left out, as they gave no answer; null: the database does "
        "not say now who is there"
    )


class AllocationPatch(Given):
    """What is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"budget": 20.0}]})

    allocator: AllocatorName | None = None
    objective: Objective | None = None
    deadline: Deadline | None = None
    budget: Budget | None = None
    shadows: list[AllocatorName] | None = Field(
        None,
        description="at most three other allocators to run in shadow, in place of those there are",
        json_schema_extra={"maxItems": 3, "uniqueItems": True},
    )


class MeasuredDelay(BaseModel):
    """How long after the date that pages named changes were found, of the last 20,000 changes."""

    model_config = ConfigDict(from_attributes=True)

    changes: int = Field(description="changes whose page named a date")
    delay_median: float = Field(description="seconds")
    delay_p90: float = Field(description="seconds")


class PlannedLimit(BaseModel):
    """What keeps sites from being polled often enough, whatever the budget."""

    model_config = ConfigDict(from_attributes=True)

    limit: PlanLimit
    sites: int
    hosts: int = Field(description="hosts of these sites")
    seconds: float | None = Field(
        description="typical shortest time between two polls of one of them; for host_interval between two requests"
    )
    share: float = Field(description="share of all changes that is learned of too late because of it")


class TagDelays(BaseModel):
    """What today's budget brings for the sites with a tag."""

    model_config = ConfigDict(from_attributes=True)

    tag: str
    sites: int
    changes_per_day: float | None
    share: float | None = Field(description="share of their changes that is learned of in time")
    delay_median: float | None = Field(description="seconds; null: so many changes are never learned of")
    delay_p90: float | None = Field(description="seconds; null: so many changes are never learned of")
    measured: MeasuredDelay | None


class Plan(BaseModel):
    """The budget needed to learn of a share of all changes in time, and what today's budget brings."""

    model_config = ConfigDict(from_attributes=True)

    objective: str = Field(description="the one in force: the plan is for its split of the budget")
    allocator: str
    tag: str | None = Field(description="only changes of sites with this tag count")
    share: float = Field(description="the share that was asked for")
    within: float = Field(description="the seconds that were asked for")
    budget: float | None = Field(description="polls per second that are needed; null: no budget does it")
    most: float | None = Field(description="share that is learned of in time if polls cost nothing")
    limits: tuple[PlannedLimit, ...] = Field(description="why no budget does it, most changes first")
    current_budget: float = Field(description="polls per second")
    current_share: float | None = Field(description="share that is learned of in time with today's budget")
    delay_median: float | None = Field(description="seconds from a change to its detection, with today's budget")
    delay_p90: float | None = Field(description="null: a tenth of the changes or more are never learned of")
    measured: MeasuredDelay | None = Field(description="null: no page named a date")
    sites: int = Field(description="whose changes count: neither paused nor gone nor closed now nor blocked")
    changes_per_day: float | None = Field(
        description="expected; null: the allocator does not estimate rates, and all sites count alike"
    )
    seldom_polled: int = Field(description="of these sites, polled fewer than 20 times: not known well yet")
    sampled: bool = Field(description="whether it is worked out from a sample of very many sites")
    by_tag: tuple[TagDelays, ...] = Field(description="the tags with most sites, at most 50, whatever was asked for")
    deadline: float | None = Field(
        description="seconds, of sites without their own; null under other objectives than deadline"
    )


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
    str, Query(description="how soon after them: seconds, or as in 30m", max_length=100, json_schema_extra=_WITHIN)
]
PlanTag = Annotated[Words | None, Query(description="of sites with this tag; left out: of all", max_length=100)]


@plan_router.get("", summary="What budget is needed to learn of changes in time")
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


ROUTERS = (router, plan_router)
