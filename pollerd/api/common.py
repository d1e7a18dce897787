"""Common parts of bodies: input base class, records as they are shown, pages of lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from pollerd.errors import InvalidValueError, allowed_by

T = TypeVar("T")


class Given(BaseModel):
    """Base of request bodies: refuses unknown fields, and texts for numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


def first_refusal(error: ValidationError, whole: str, allowed: str) -> InvalidValueError:
    """Returns the first of pydantic's refusals. whole: the field's name if all of it is refused."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"])) or whole
    return InvalidValueError(field, f"{allowed} ({allowed_by(first)})", str(first["input"])[:200])


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _adapter(record: type) -> TypeAdapter[Any]:
    if record not in _ADAPTERS:
        _ADAPTERS[record] = TypeAdapter(record)
    return _ADAPTERS[record]


def shown_values(record: Any, mode: Literal["python", "json"] = "python") -> dict[str, Any]:
    """Returns what REST shows of a record (see `pollerd.shown`), by the names there; in mode json as JSON has it."""
    values: dict[str, Any] = _adapter(type(record)).dump_python(record, mode=mode, by_alias=True)
    return values


def shown_json(record: Any) -> bytes:
    """Returns a record as REST shows it."""
    return _adapter(type(record)).dump_json(record, by_alias=True)


class Listing(BaseModel, Generic[T]):
    """Some items of a list; `next_cursor` requests the next ones, null: there are no more now."""

    items: list[T]
    next_cursor: str | None

    @classmethod
    def of(cls, items: Iterable[T], next_cursor: str | None) -> Listing[T]:
        """Returns a page of a list."""
        return cls(items=list(items), next_cursor=next_cursor)
