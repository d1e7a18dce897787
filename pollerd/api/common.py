"""Common parts of bodies: input base class, times, pages of lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError

from pollerd.errors import InvalidValueError
from pollerd.timestamps import parse_moment, rfc3339

T = TypeVar("T")
Moment = Annotated[
    float,
    PlainSerializer(rfc3339, return_type=str, when_used="json-unless-none"),
    Field(description="RFC 3339, UTC", json_schema_extra={"format": "date-time"}),
]


class Given(BaseModel):
    """Base of request bodies: refuses unknown fields, and texts for numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


def first_refusal(error: ValidationError, whole: str, allowed: str) -> InvalidValueError:
    """Returns the first of pydantic's refusals. whole: the field's name if all of it is refused."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"])) or whole
    return InvalidValueError(field, f"{allowed} ({first['msg']})", str(first["input"])[:200])


class Listing(BaseModel, Generic[T]):
    """Some items of a list; `next_cursor` requests the next ones, null: there are no more now."""

    items: list[T]
    next_cursor: str | None

    @classmethod
    def of(cls, items: Iterable[T], next_cursor: str | None) -> Listing[T]:
        """Returns a page of a list."""
        return cls(items=list(items), next_cursor=next_cursor)


# Times in the API: RFC 3339 in UTC outside, epoch seconds inside (see `pollerd.timestamps`).

__all__ = ["parse_moment", "rfc3339"]
