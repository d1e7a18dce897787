"""The allocation of the budget: its yield and its settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pollerd import allocation
from pollerd.api.schemas.common import Given
from pollerd.api.schemas.inputs.numbers import Budget

AllocatorName = Annotated[str, Field(json_schema_extra={"enum": list(allocation.names())})]
Objective = Annotated[str, Field(json_schema_extra={"enum": ["changes", "freshness", "interest"]})]


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


class Allocation(BaseModel):
    """What the budget brings under the present belief."""

    model_config = ConfigDict(from_attributes=True)

    allocator: str
    objective: str
    budget: float = Field(description="polls per second")
    utilization: float
    spendable: float = Field(description="what of the budget intervals, min_yields and politeness let be spent")
    binding: Literal[
        "budget",
        "no_sites",
        "private",
        "first_answers",
        "host_interval",
        "min_yield",
        "ttl",
        "min_interval",
        "backoff",
        "robots",
        "blocked",
        "paused",
        "gone",
    ] = Field(description="what keeps most sites from being polled more often")
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


class AllocationPatch(Given):
    """What is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"budget": 20.0}]})

    allocator: AllocatorName | None = None
    objective: Objective | None = None
    budget: Budget | None = None
    shadows: list[AllocatorName] | None = Field(
        None,
        description="at most three other allocators to run in shadow, in place of those there are, until a restart",
        json_schema_extra={"maxItems": 3, "uniqueItems": True},
    )
