"""Stored forms of values: compressed contents, cursors of lists, feed windows, numbers and texts."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import structlog
import zstandard
from msgspec import MsgspecError, Struct, json
from numpy.typing import NDArray
from sqlalchemy import Column, Select

from pollerd.detection.summary import common_affix_length
from pollerd.errors import InvalidValueError, refusal
from pollerd.model import FeedWindow
from pollerd.storage.values import ListPage
from pollerd.texts import _

# Contents: whole zstd frames with their size, or a difference against another content of the site.
#
# Of a content with one changed region only that region is stored, with the lengths of the prefix and suffix shared with
# the base. The base is stored whole, and is kept as long as a content depends on it.

_LEANING_MOST_BYTES = 4096
_LEANING_SHARE = 8
"""Largest difference, as a divisor of the content's size; a whole one is compressed to a third of its text, or less."""
_ENDS = struct.Struct(">II")


Key = TypeVar("Key", bound=Hashable)
PackedRow = tuple[int, bytes, int | None, bytes | None]
"""A stored content: its id and body, and those of its base."""


class Base(Struct, frozen=True, gc=False):
    """A content stored whole, which can be the base of others."""

    id: int
    content: bytes


class Kept(Struct, frozen=True, gc=False):
    """A content as read, and its base (itself if stored whole)."""

    content: bytes
    base: Base


class Packed(Struct, frozen=True, gc=False):
    """A content to be written. `base_id`: its base; None: it is whole."""

    body: bytes
    base_id: int | None = None


def pack(text: bytes, level: int = 1) -> bytes:
    """Returns the compressed text."""
    return zstandard.ZstdCompressor(level=level).compress(text)


def pack_all(contents: Iterable[tuple[Key, bytes, Base | None]], level: int) -> dict[Key, Packed]:
    """Returns contents by key, delta-encoded against the given base if they differ little, else compressed whole."""
    compressor = zstandard.ZstdCompressor(level=level)
    packed = {}
    for key, content, base in contents:
        leaning = None if base is None else _leaning(content, base)
        packed[key] = leaning or Packed(compressor.compress(content))
    return packed


def unpack(body: bytes) -> bytes:
    """Returns the text that `pack` compressed."""
    return zstandard.ZstdDecompressor().decompress(body)


def unpack_all(rows: Iterable[PackedRow]) -> dict[int, Kept]:
    """Returns contents by id; shares one context, whose creation costs twice as much as a page."""
    decompressor = zstandard.ZstdDecompressor()
    kept = {}
    for content_id, body, base_id, base_body in rows:
        if base_id is None:
            content = decompressor.decompress(body)
            kept[content_id] = Kept(content, Base(content_id, content))
        else:
            base = decompressor.decompress(base_body or b"")
            kept[content_id] = Kept(_restored(body, base), Base(base_id, base))
    return kept


def _restored(body: bytes, base: bytes) -> bytes:
    head, tail = _ENDS.unpack_from(body)
    return base[:head] + body[_ENDS.size :] + base[len(base) - tail :]


def _leaning(content: bytes, base: Base) -> Packed | None:
    """Returns the delta-encoded content; None if too much differs."""
    head = common_affix_length(base.content, content, 1)
    room = min(len(base.content), len(content)) - head
    # The suffix must not overlap the prefix.
    tail = min(common_affix_length(base.content, content, -1), room)
    middle = content[head : len(content) - tail]
    if len(middle) > min(_LEANING_MOST_BYTES, len(content) // _LEANING_SHARE):
        return None
    return Packed(_ENDS.pack(head, tail) + middle, base.id)


# Pagination cursors, opaque to clients: the last id seen, and the order for lists that can be read in both.

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
        named = next((candidate for candidate in Order if text.startswith(kind + candidate[0])), None)
        chosen, prefix = (unnamed, kind) if named is None else (named, kind + named[0])
        position = cls(kind, chosen, _id_in(text, prefix, cursor))
        if order not in (None, chosen):
            raise refusal(
                "order", _("the cursor is of another order: leave order out, or give {chosen}", chosen=chosen), order
            )
        return position

    def select(self, rows: Select[Any], column: Column[int], limit: int) -> Select[Any]:
        """Selects the page's rows by their id column, and one more to detect whether more follow.

        Raises `InvalidValueError` for a bad limit (1 to 1000).
        """
        newest = self.order is Order.NEWEST
        if self.last_id is not None:
            rows = rows.where(column < self.last_id if newest else column > self.last_id)
        return rows.order_by(column.desc() if newest else column).limit(check_limit(limit) + 1)

    def page(self, rows: Sequence[T], limit: int) -> ListPage[T]:
        """Returns the rows found by `select` as a page, with the cursor of the next."""
        items = list(rows[:limit])
        more = encode(self.kind + self.order[0], items[-1].id or 0) if len(rows) > limit else None
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
    return InvalidValueError("cursor", _("a next_cursor of this list"), cursor)


def check_limit(limit: int, most: int = 1000) -> int:
    """Returns the limit. Raises `InvalidValueError` outside of 1 to `most`."""
    if not 1 <= limit <= most:
        raise InvalidValueError("limit", _("1 to {most}", most=most), limit)
    return limit


# The window of a feed: JSON, and the number of items in its own column, which a start reads of all sites.


def window_columns(window: FeedWindow | None) -> tuple[float | None, str | None]:
    """Returns the columns `items_shown` and `feed_window` of a site."""
    return (None, None) if window is None else (window.shown, json.encode(window).decode())


def stored_window(text: str | None, site_id: int) -> FeedWindow | None:
    """Returns the window in a site's column; None if there is none, or it was damaged, which is logged.

    The next poll that reads the feed stores it anew. Raises TypeError if the column holds no text.
    """
    if text is None:
        return None
    try:
        return json.decode(text, type=FeedWindow)
    except MsgspecError as error:
        log = structlog.get_logger("pollerd.storage")
        log.warning("feed_window_unusable", site_id=site_id, reason=str(error), effect="unknown until the next poll")
        return None


# Numeric columns are read leniently: SQLite may hold text in them after a manual edit.


def number(value: Any, instead: Any = None) -> Any:
    """Returns the value if it is a number, else the replacement."""
    return value if isinstance(value, int | float) else instead


@dataclass(frozen=True, slots=True)
class Field:
    """A column and how to read it: `kind` its dtype, `instead` the replacement for an unreadable value."""

    name: str
    kind: type[np.generic]
    allowed: str = "a number"
    instead: float = float("nan")
    codes: dict[Any, int] | None = None
    """Code of each value, if the column is not numeric."""

    def column(self, values: Sequence[Any], site_ids: Sequence[int], faults: dict[int, str]) -> NDArray[Any]:
        """Returns the values as an array [k]; adds what is wrong with unreadable ones to `faults`, by site id."""
        read: Callable[[Any], Any] = self.codes.__getitem__ if self.codes else lambda value: value
        try:
            if values and values.count(values[0]) == len(values):  # most columns of most lists
                return np.full(len(values), np.array(read(values[0]), self.kind))
            return np.array([read(v) for v in values] if self.codes else values, self.kind)
        except (LookupError, TypeError, ValueError, OverflowError):
            return self._one_by_one(values, site_ids, faults, read)

    def _one_by_one(
        self, values: Sequence[Any], site_ids: Sequence[int], faults: dict[int, str], read: Callable[[Any], Any]
    ) -> NDArray[Any]:
        out = np.empty(len(values), self.kind)
        for i, (site_id, value) in enumerate(zip(site_ids, values, strict=True)):
            try:
                out[i] = read(value)
            except (LookupError, TypeError, ValueError, OverflowError):
                out[i] = self.instead
                faults[site_id] = _(
                    "{name}: must be {allowed}; given: {value!r}", name=self.name, allowed=self.allowed, value=value
                )
        return out


# Untrusted text is made storable: servers send any bytes, databases accept UTF-8 without NUL.


def storable(text: str | None) -> str | None:
    """Returns the text with unstorable characters (lone surrogates, NUL) replaced."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def storable_word(text: str) -> str:
    """As `storable`, for text that is never None."""
    return storable(text) or ""


def encode_header(text: str | None) -> bytes | None:
    """Returns a header value as bytes; `decode_header` restores exactly what the server sent."""
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def decode_header(data: bytes | None) -> str | None:
    """Returns the header value that `encode_header` encoded."""
    return None if data is None else data.decode("utf-8", "surrogateescape")


def split_names(text: str) -> tuple[str, ...]:
    """Returns the names of a text that holds them by commas."""
    return tuple(text.split(",")) if text else ()
