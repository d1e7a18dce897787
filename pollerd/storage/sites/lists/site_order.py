"""Orders of lists of sites, and their cursors: a place in the order, and a direction."""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import msgspec
from sqlalchemy import Column

from pollerd.errors import InvalidValueError
from pollerd.storage.db.schema.sites import site, site_state, site_text, site_times

_MAX_ID = 2**63 - 1


class SiteSort(StrEnum):
    """What sites are sorted by."""

    ID = "id"
    URL = "url"
    TITLE = "title"
    LAST_CHANGE = "last_change"
    RATE = "rate"
    FAILURES = "failures"
    LAST_POLL = "last_poll"
    NEXT_POLL = "next_poll"


COLUMNS: dict[SiteSort, tuple[Column[Any], Column[int], str]] = {
    SiteSort.ID: (site.c.id, site.c.id, ""),
    SiteSort.URL: (site.c.url, site.c.id, "sqlite_autoindex_site_1"),
    SiteSort.TITLE: (site_text.c.title, site_text.c.site_id, "ix_site_text_title_site_id"),
    SiteSort.LAST_CHANGE: (
        site_state.c.last_change_at,
        site_state.c.site_id,
        "ix_site_state_last_change_at_site_id",
    ),
    SiteSort.RATE: (site_state.c.rate, site_state.c.site_id, "ix_site_state_rate_site_id"),
    SiteSort.FAILURES: (site_state.c.failures, site_state.c.site_id, "ix_site_state_failures_site_id"),
    SiteSort.LAST_POLL: (site_times.c.last_poll_at, site_times.c.site_id, "ix_site_times_last_poll_at_site_id"),
    SiteSort.NEXT_POLL: (site_times.c.next_poll_at, site_times.c.site_id, "ix_site_times_next_poll_at_site_id"),
}
"""The column that is sorted by, that of the site's id beside it, and the index of both; none: the table itself."""
_IN_WORDS = ", ".join(SiteSort)


@dataclass(frozen=True, slots=True)
class SiteOrder:
    """An order of sites; equal ones are in the order of their ids."""

    sort: SiteSort = SiteSort.ID
    descending: bool = False

    @classmethod
    def of(cls, given: str) -> Self:
        """Reads "rate" or "-rate". Raises `InvalidValueError`."""
        try:
            return cls(SiteSort(given.removeprefix("-")), given.startswith("-"))
        except ValueError:
            allowed = f"one of {_IN_WORDS}; with - before it descending"
            raise InvalidValueError("sort", allowed, given[:100]) from None

    def __str__(self) -> str:
        return f"-{self.sort}" if self.descending else str(self.sort)


BY_ID = SiteOrder()


@dataclass(frozen=True, slots=True)
class SitePlace:
    """A place in a list of sites, from which it is read on or back: a site's key and id, of which it need not be any
    more.
    """

    order: SiteOrder
    key: str | float
    site_id: int
    back: bool = False
    """Whether what comes before is read."""

    @property
    def descending(self) -> bool:
        """Whether keys fall in the direction of reading."""
        return self.order.descending != self.back

    def turned(self) -> SitePlace:
        """Returns the place from which reading the other way begins with the very site of this one."""
        step = -1 if self.descending else 1
        return SitePlace(self.order, self.key, self.site_id + step, not self.back)

    def cursor(self) -> str:
        """Returns the place as text, opaque to clients."""
        if self.order == BY_ID and not self.back:
            return _text(f"s{self.site_id}".encode())
        document = (str(self.order), "b" if self.back else "f", self.key, self.site_id)
        return _text(msgspec.json.encode(document))

    @classmethod
    def of(cls, cursor: str, given: SiteOrder | None) -> SitePlace:
        """Reads a cursor. Raises `InvalidValueError` for one of another list, and if `given` differs from its order."""
        try:
            place = _read(base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), b"-_", validate=True))
        except (ValueError, binascii.Error, msgspec.MsgspecError, InvalidValueError):
            place = None
        if place is None or place.cursor() != cursor:
            raise InvalidValueError("cursor", "a next_cursor or previous_cursor of this list", cursor[:100])
        if given not in (None, place.order):
            raise InvalidValueError("sort", f"left out or {place.order}, as the cursor's", str(given))
        return place


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _read(data: bytes) -> SitePlace | None:
    if data[:1] == b"s":
        digits = data[1:].decode()
        fits = digits.isdecimal() and len(digits) <= 19 and int(digits) <= _MAX_ID
        return SitePlace(BY_ID, int(digits), int(digits)) if fits else None
    named, way, key, site_id = msgspec.json.decode(data, type=tuple[str, str, str | float, int])
    order = SiteOrder.of(named)
    kind = str if order.sort in (SiteSort.URL, SiteSort.TITLE) else float
    usable = isinstance(key, kind) and (isinstance(key, str) or math.isfinite(key))
    if not usable or way not in ("f", "b") or not -1 <= site_id <= _MAX_ID or "\0" in str(key):
        return None
    if order.sort is SiteSort.ID:
        key = site_id
    return SitePlace(order, key, site_id, way == "b")
