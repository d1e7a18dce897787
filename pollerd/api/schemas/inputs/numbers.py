"""Numbers of settings: ranges and notations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from pollerd.quantities import per_second, seconds, share
from pollerd.ranges import BUDGET, SOURCE, Range
from pollerd.site_settings import SITE_SETTINGS, Kind, Setting

_DURATION = r"^[1-9][0-9]{0,3}(\.[0-9]{1,3})?(s|m|min|h|d)?$"
_PACE = (
    r"^([1-9][0-9]{0,3}(/s)?|[1-9][0-9]{0,4}/min|(3[6-9]|[4-9][0-9]|[1-9][0-9]{2,6})/h"
    r"|(86[4-9]|8[7-9][0-9]|9[0-9]{2}|[1-9][0-9]{3,7})/d)$"
)
_SHARE = r"^(0(\.[0-9]{1,9})?|[1-9]?[0-9](\.[0-9]{1,9})?%)$"


def _bounds(allowed: Range) -> dict[str, Any]:
    """Returns the range in OpenAPI's terms."""
    return {
        "exclusiveMinimum" if allowed.above else "minimum": allowed.lowest,
        "exclusiveMaximum" if allowed.below else "maximum": allowed.highest,
        **({"description": allowed.unit} if allowed.unit else {}),
    }


def _written(read: Callable[[str], float], allowed: Range, pattern: str) -> tuple[BeforeValidator, WithJsonSchema]:
    """Accepts a number, or a text that `read` parses; the pattern covers only texts that are certainly in range."""
    text = {"type": "string", "pattern": pattern}
    return (
        BeforeValidator(lambda value: read(value) if isinstance(value, str) else value),
        WithJsonSchema({"anyOf": [{"type": "number", **_bounds(allowed)}, text]}),
    )


def number_notes(setting: Setting) -> tuple[Any, ...]:
    """Returns what `Annotated` says of a setting that is a number: its range, its notation, its description."""
    assert setting.range is not None, f"{setting.name} is a number without a range"
    described = (Field(description=setting.help),) if setting.help else ()
    match setting.kind:
        case Kind.SECONDS:
            return *_written(seconds, setting.range, _DURATION), *described
        case Kind.SHARE:
            return *_written(share, setting.range, _SHARE), *described
    return Field(json_schema_extra=_bounds(setting.range)), *described


Weight = Annotated[float, *number_notes(SITE_SETTINGS["weight"])]
Deadline = Annotated[float, *number_notes(SITE_SETTINGS["deadline"])]
ListLimit = Annotated[int, Field(json_schema_extra=_bounds(SOURCE["limit"]))]
ReadInterval = Annotated[float, *_written(seconds, SOURCE["interval"], r"^[1-9][0-9]{0,2}(min|h)$")]
ShrinkShare = Annotated[float, Field(json_schema_extra=_bounds(SOURCE["max_shrink"]))]
Budget = Annotated[float, *_written(per_second, BUDGET, _PACE)]
