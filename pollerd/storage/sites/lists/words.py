"""The text by which lists of sites are searched: parts of URL and title, without regard to case.

Databases index it by its trigrams (migration 0020). Without that index only beginnings of URLs and titles are found.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, column, func, inspect, or_, select, table

from pollerd.errors import InvalidValueError
from pollerd.model import SiteSpec
from pollerd.storage.db.rows import run_each
from pollerd.storage.db.schema.sites import site, site_text
from pollerd.storage.db.statements import Statements
from pollerd.storage.sites.lists.condition import Columns, SiteCondition, looked_up

MOST_WORDS = 16
_TRIGRAM = table("site_trigram", column("rowid"), column("site_trigram"))
"""The index of SQLite; its hidden column of the same name is what it is searched by."""
_SERVER_INDEX = "ix_site_text_trigram"
_MOST_TRIGRAMS = 24
"""More would not narrow down what is found before it is compared."""
_INSERT = "INSERT INTO site_trigram (rowid, words) VALUES (?, ?)"
_LAST = chr(0x10FFFF)
_SCHEMES = ("", "http://", "https://")
# By other names: a list may be read from the same tables.
_SITE, _TEXT = site.alias("its_site"), site_text.alias("its_text")


def text_row(site_id: int, spec: SiteSpec) -> tuple[int, str, str]:
    """Returns the row of `site_text` of a site."""
    title = spec.title.casefold()
    return site_id, title, f"{spec.url.casefold()}\n{title}"


def text_update(site_id: int, spec: SiteSpec) -> tuple[str, str, int]:
    """Returns the row of `update_text` of a site."""
    _, title, words = text_row(site_id, spec)
    return title, words, site_id


class WordIndex:
    """The index of words by their trigrams, where the database has it."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._exists: bool | None = None

    def exists(self, connection: Connection) -> bool:
        """Returns whether the database has it, which the first call finds out."""
        if self._exists is None:
            found = inspect(connection)
            if self._sql.is_sqlite:
                self._exists = found.has_table(_TRIGRAM.name)
            else:
                self._exists = any(one["name"] == _SERVER_INDEX for one in found.get_indexes(site_text.name))
        return self._exists

    def insert(self, connection: Connection, rows: Sequence[tuple[int, str, str]]) -> None:
        """Inserts rows of `site_text` of new sites, and indexes them."""
        run_each(connection, self._sql.insert_text, rows)
        if rows and self._sql.is_sqlite and self.exists(connection):
            connection.exec_driver_sql(_INSERT, [(site_id, words) for site_id, _, words in rows])


def words_condition(q: str, *, is_sqlite: bool, indexed: bool) -> SiteCondition | None:
    """Returns the condition that every word of `q` is part of a site's URL or title; None if it has no words.

    Without an index (indexed: false): that one of the two begins with `q`, a URL perhaps without http:// or https://.
    Raises `InvalidValueError` for more than 16 words.
    """
    words = list(dict.fromkeys(q.casefold().split()))
    if len(words) > MOST_WORDS:
        raise InvalidValueError("q", f"at most {MOST_WORDS} words", f"{len(words)} words")
    if not words:
        return None
    if not indexed:
        return _beginning(q.strip(), is_sqlite)
    match = _trigrams(words) if is_sqlite else ""
    found = and_(*(_contains(site_text.c.words, word, is_sqlite) for word in words))
    ids = select(site_text.c.site_id).where(found)
    if match:
        hits = _TRIGRAM.c.site_trigram.op("MATCH")(match)
        # CROSS JOIN: the index comes first, whatever SQLite would estimate.
        ids = select(site_text.c.site_id).select_from(_TRIGRAM).where(hits)
        ids = ids.join(site_text, site_text.c.site_id == _TRIGRAM.c.rowid).where(found)

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
    found = dict.fromkeys(word[i : i + 3] for word in words for i in range(len(word) - 2))
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in list(found)[:_MOST_TRIGRAMS])


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
