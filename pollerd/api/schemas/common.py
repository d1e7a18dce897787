"""What bodies of all subjects are made of: what callers send, moments, pages of lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from pollerd.api.http.timestamps import rfc3339

T = TypeVar("T")
Moment = Annotated[
    float,
    PlainSerializer(rfc3339, return_type=str, when_used="json-unless-none"),
    Field(description="RFC 3339, UTC", json_schema_extra={"format": "date-time"}),
]


class Given(BaseModel):
    """What a caller sends: no field but the known, no text for a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Listing(BaseModel, Generic[T]):
    """Some items of a list; `next_cursor` asks for the next ones, null: there are no more now."""

    items: list[T]
    next_cursor: str | None

    @classmethod
    def of(cls, items: Iterable[T], next_cursor: str | None) -> Listing[T]:
        """A page of a list."""
        return cls(items=list(items), next_cursor=next_cursor)
