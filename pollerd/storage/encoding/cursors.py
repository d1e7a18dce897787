"""Pagination cursors, opaque to clients: the last id seen, and the order for lists that can be read in both."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self, TypeVar

from sqlalchemy import Column, Select

from pollerd.errors import InvalidValueError
from pollerd.storage.values import ListPage

_MAX_ID = 2**63 - 1


class _Stored(Protocol):
    @property
    def id(self) -> int | None: ...


T = TypeVar("T", bound=_Stored)


class Order(StrEnum):
    """Which way a list is read, by id."""

    NEWEST = "newest"
    OLDEST = "oldest"


@dataclass(frozen=True, slots=True)
class Position:
    """Start of a page in a list that can be read in both orders."""

    kind: str
    """One letter that identifies the list; cursors of other lists are refused."""
    order: Order
    last_id: int | None
    """Last id seen; None: this is the first page."""

    @classmethod
    def of(cls, kind: str, cursor: str | None, order: Order | None, *, unnamed: Order) -> Self:
        """Returns the position of `cursor`; without one, the first page of `order`, newest first if that is None.

        unnamed: the order of old cursors, which did not name theirs. Raises `InvalidValueError` for a cursor of another
        list, and for an order that differs from the cursor's.
        """
        if cursor is None:
            return cls(kind, order or Order.NEWEST, None)
        text = _opened(cursor)
        named = next((one for one in Order if text.startswith(kind + one[0])), None)
        found, prefix = (unnamed, kind) if named is None else (named, kind + named[0])
        position = cls(kind, found, _id_in(text, prefix, cursor))
        if order not in (None, found):
            raise InvalidValueError("order", f"left out or {found}, as the cursor's", order)
        return position

    def select(self, rows: Select[Any], column: Column[int], limit: int) -> Select[Any]:
        """Selects the page's rows by their id column, and one more to detect whether more follow.

        Raises `InvalidValueError` for a bad limit (1 to 1000).
        """
        newest = self.order is Order.NEWEST
        if self.last_id is not None:
            rows = rows.where(column < self.last_id if newest else column > self.last_id)
        return rows.order_by(column.desc() if newest else column).limit(check_limit(limit) + 1)

    def page(self, found: Sequence[T], limit: int) -> ListPage[T]:
        """Returns the rows found by `select` as a page, with the cursor of the next."""
        items = list(found[:limit])
        more = encode(self.kind + self.order[0], items[-1].id or 0) if len(found) > limit else None
        return ListPage(items, more)


def encode(kind: str, last_id: int) -> str:
    """Returns the cursor after `last_id` of a list of `kind` (a letter, and one for the order)."""
    return base64.urlsafe_b64encode(f"{kind}{last_id}".encode()).decode().rstrip("=")


def decode(kind: str, cursor: str | None) -> int | None:
    """Returns the id in a cursor; None for none. Raises `InvalidValueError` for a cursor of another list."""
    return None if cursor is None else _id_in(_opened(cursor), kind, cursor)


def _opened(cursor: str) -> str:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, UnicodeError) as error:
        raise _foreign(cursor) from error


def _id_in(text: str, kind: str, cursor: str) -> int:
    digits = text.removeprefix(kind)
    well_formed = text.startswith(kind) and digits.isdecimal() and len(digits) <= 19 and int(digits) <= _MAX_ID
    if not well_formed or encode(kind, int(digits)) != cursor:
        raise _foreign(cursor)
    return int(digits)


def _foreign(cursor: str) -> InvalidValueError:
    return InvalidValueError("cursor", "a next_cursor of this list", cursor)


def check_limit(limit: int, most: int = 1000) -> int:
    """Returns the limit. Raises `InvalidValueError` outside of 1 to `most`."""
    if not 1 <= limit <= most:
        raise InvalidValueError("limit", f"1 to {most}", limit)
    return limit
