"""The numbers of settings: their ranges, and how they may be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from pollerd.api.http import limits
from pollerd.quantities import per_second, seconds, share

_DURATION = r"^[1-9][0-9]{0,3}(\.[0-9]{1,3})?(s|m|min|h|d)?$"
_PACE = (
    r"^([1-9][0-9]{0,3}(/s)?|[1-9][0-9]{0,4}/min|(3[6-9]|[4-9][0-9]|[1-9][0-9]{2,6})/h"
    r"|(86[4-9]|8[7-9][0-9]|9[0-9]{2}|[1-9][0-9]{3,7})/d)$"
)
_SHARE = r"^(0(\.[0-9]{1,9})?|[1-9]?[0-9](\.[0-9]{1,9})?%)$"
_POSITIVE_SECONDS = {"minimum": limits.MIN_SECONDS, "maximum": limits.MAX_SECONDS, "description": "seconds"}
_BUDGET = {"minimum": 0.01, "maximum": 10_000, "description": "polls per second"}


def _written(
    read: Callable[[str], float], number: dict[str, Any], pattern: str
) -> tuple[BeforeValidator, WithJsonSchema]:
    """A number, or the same as a text that `read` understands; the pattern holds what is surely in range."""
    text = {"type": "string", "pattern": pattern}
    return (
        BeforeValidator(lambda value: read(value) if isinstance(value, str) else value),
        WithJsonSchema({"anyOf": [{"type": "number", **number}, text]}),
    )


Weight = Annotated[float, Field(json_schema_extra={"minimum": 0, "maximum": limits.MAX_WEIGHT})]
Cost = Annotated[float, Field(json_schema_extra={"minimum": limits.MIN_COST, "maximum": limits.MAX_COST})]
MinInterval = Annotated[float, *_written(seconds, {**_POSITIVE_SECONDS, "minimum": 0}, _DURATION)]
Seconds = Annotated[float, *_written(seconds, _POSITIVE_SECONDS, _DURATION)]
MinYield = Annotated[
    float,
    *_written(share, {"minimum": 0, "exclusiveMaximum": 1}, _SHARE),
    Field(description="a site is not polled while a change is believed less likely; 0: whatever is believed"),
]
Budget = Annotated[float, *_written(per_second, _BUDGET, _PACE)]
