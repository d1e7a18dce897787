"""Orders of lists of sites with their cursors, conditions on sites, and the text by which sites are searched.

A cursor is a place in an order, and a direction.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Any, Self

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    column,
    exists,
    func,
    inspect,
    literal,
    or_,
    select,
    table,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from pollerd.errors import InvalidValueError, refusal
from pollerd.storage.schema import site, site_state, site_text, site_times
from pollerd.storage.statements import Statements, run, run_each
from pollerd.texts import _, n_

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
    def of(cls, text: str) -> Self:
        """Reads "rate" or "-rate". Raises `InvalidValueError`."""
        try:
            return cls(SiteSort(text.removeprefix("-")), text.startswith("-"))
        except ValueError:
            allowed = _("one of {in_words}; with - before it descending", in_words=_IN_WORDS)
            raise InvalidValueError("sort", allowed, text[:100]) from None

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
    def of(cls, cursor: str, order: SiteOrder | None) -> SitePlace:
        """Reads a cursor. Raises `InvalidValueError` for one of another list, and if `order` differs from its order."""
        try:
            place = _read(base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), b"-_", validate=True))
        except (ValueError, binascii.Error, msgspec.MsgspecError, InvalidValueError):
            place = None
        if place is None or place.cursor() != cursor:
            raise InvalidValueError("cursor", _("a next_cursor or previous_cursor of this list"), cursor[:100])
        if order not in (None, place.order):
            raise refusal(
                "sort",
                _("the cursor is of another order: leave sort out, or give {order}", order=place.order),
                str(order),
            )
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


# A condition on sites, in the two forms in which lists need it.

Columns = ReadOnlyColumnCollection[str, Any]


@dataclass(frozen=True, slots=True)
class SiteCondition:
    """A condition on sites."""

    ids: Select[Any]
    """Ids of the sites that meet it, found by an index of its own."""
    holds: Callable[[ColumnElement[int]], ColumnElement[bool]]
    """Whether the site with the id in this column meets it."""


def looked_up(
    table: FromClause, key: str, site_id: ColumnElement[int], fits: Callable[[Columns], ColumnElement[bool]]
) -> ColumnElement[bool]:
    """Returns whether the table has a row of the site with the id in this column that fits, by its key alone.

    Databases like to join instead, or to take the filter's own index, by counts of rows that are wrong after an import:
    a page may then take a minute. OFFSET keeps them from it.
    """
    its = select(table).where(table.c[key] == site_id).correlate_except(table).offset(0).subquery("its_row")
    return exists(select(literal(1)).where(fits(its.c)))


# The text by which lists of sites are searched: parts of URL and title, without regard to case.
#
# Databases index it by its trigrams (migration 0020). Without that index only beginnings of URLs and titles are found.

MAX_WORDS = 16
_TRIGRAM = table("site_trigram", column("rowid"), column("site_trigram"))
"""The index of SQLite; its hidden column of the same name is what it is searched by."""
_SERVER_INDEX = "ix_site_text_trigram"
_MAX_TRIGRAMS = 24
"""More would not narrow down what is found before it is compared."""
_INSERT = "INSERT INTO site_trigram (rowid, words) VALUES (?, ?)"
_LAST = chr(0x10FFFF)
_SCHEMES = ("", "http://", "https://")
# By other names: a list may be read from the same tables.
_SITE, _TEXT = site.alias("its_site"), site_text.alias("its_text")


def text_row(site_id: int, url: str, title: str, page_title: str = "") -> tuple[int, str, str, str]:
    """Returns the row of `site_text` of a site; title: the user's, page_title: the page's own."""
    named = title or page_title
    # Both are searched, but no word of the page's own title twice.
    words = "\n".join(filter(None, (url, title, page_title if page_title != title else "")))
    return site_id, named.casefold(), words.casefold(), page_title


def retitle(connection: Connection, sql: Statements, page_titles: Mapping[int, str | None]) -> None:
    """Writes anew by what sites are searched, sorted and named; a site that is named as before costs no write.

    page_titles: what each page calls itself, by site id; None: as it is stored.
    """
    if not page_titles:
        return
    rows: list[tuple[Any, ...]] = []
    for site_id, url, title, *stored in run(connection, sql.texts, sql.id_list(page_titles)):
        page_title = page_titles[site_id]
        _site_id, *columns = text_row(site_id, url, title or "", stored[-1] if page_title is None else page_title)
        if columns != stored:
            rows.append((*columns, site_id))
    run_each(connection, sql.update_text, rows)


class WordIndex:
    """The index of words by their trigrams, where the database has it."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._exists: bool | None = None

    def exists(self, connection: Connection) -> bool:
        """Returns whether the database has it, which the first call finds out."""
        if self._exists is None:
            inspector = inspect(connection)
            if self._sql.is_sqlite:
                self._exists = inspector.has_table(_TRIGRAM.name)
            else:
                self._exists = any(index["name"] == _SERVER_INDEX for index in inspector.get_indexes(site_text.name))
        return self._exists

    def insert(self, connection: Connection, rows: Sequence[tuple[int, str, str, str]]) -> None:
        """Inserts rows of `site_text` of new sites, and indexes them."""
        run_each(connection, self._sql.insert_text, rows)
        if rows and self._sql.is_sqlite and self.exists(connection):
            connection.exec_driver_sql(_INSERT, [*map(itemgetter(0, 2), rows)])


def words_condition(q: str, *, is_sqlite: bool, indexed: bool) -> SiteCondition | None:
    """Returns the condition that every word of `q` is part of a site's URL or title; None if it has no words.

    Without an index (indexed: false): that one of the two begins with `q`, a URL perhaps without http:// or https://.
    Raises `InvalidValueError` for more than 16 words.
    """
    words = list(dict.fromkeys(q.casefold().split()))
    if len(words) > MAX_WORDS:
        raise InvalidValueError(
            "q", _("at most {max_words} words", max_words=MAX_WORDS), n_("{count} word", "{count} words", len(words))
        )
    if not words:
        return None
    if not indexed:
        return _beginning(q.strip(), is_sqlite)
    match = _trigrams(words) if is_sqlite else ""
    condition = and_(*(_contains(site_text.c.words, word, is_sqlite) for word in words))
    ids = select(site_text.c.site_id).where(condition)
    if match:
        hits = _TRIGRAM.c.site_trigram.op("MATCH")(match)
        # CROSS JOIN: the index comes first, whatever SQLite would estimate.
        ids = select(site_text.c.site_id).select_from(_TRIGRAM).where(hits)
        ids = ids.join(site_text, site_text.c.site_id == _TRIGRAM.c.rowid).where(condition)

    def has_all(c: Columns) -> ColumnElement[bool]:
        return and_(*(_contains(c.words, word, is_sqlite) for word in words))

    return SiteCondition(ids, lambda site_id: looked_up(_TEXT, "site_id", site_id, has_all))


def _contains(words: ColumnElement[str], word: str, is_sqlite: bool) -> ColumnElement[bool]:
    return func.instr(words, word) > 0 if is_sqlite else words.contains(word, autoescape=True)


def _trigrams(words: Sequence[str]) -> str:
    """Returns the query of all trigrams of the words, for FTS5; empty: none of them has three letters."""
    # Nearly every URL has those of the scheme.
    rare = [word.removeprefix("http://").removeprefix("https://") for word in words]
    words = rare if any(len(word) > 2 for word in rare) else words
    trigrams = dict.fromkeys(word[i : i + 3] for word in words for i in range(len(word) - 2))
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in list(trigrams)[:_MAX_TRIGRAMS])


def _beginning(q: str, is_sqlite: bool) -> SiteCondition:
    def at(c: Columns) -> ColumnElement[bool]:
        return or_(*(_begins(c.url, f"{scheme}{q}", is_sqlite) for scheme in _SCHEMES))

    def titled(c: Columns) -> ColumnElement[bool]:
        return _begins(c.title, q.casefold(), is_sqlite)

    ids = select(site.c.id).where(at(site.c)).union(select(site_text.c.site_id).where(titled(site_text.c))).subquery()

    def holds(site_id: ColumnElement[int]) -> ColumnElement[bool]:
        return or_(looked_up(_SITE, "id", site_id, at), looked_up(_TEXT, "site_id", site_id, titled))

    return SiteCondition(select(ids.c[0]), holds)


def _begins(text: ColumnElement[str], start: str, is_sqlite: bool) -> ColumnElement[bool]:
    if is_sqlite:
        return and_(text >= start, text < start + _LAST)
    return text.startswith(start, autoescape=True)
