"""Parses feeds into entries: RSS, Atom and RDF by feedparser, JSON Feed by the JSON parser.

Everything else (build dates, generators, time to live, the order of entries) is ignored.
"""

from __future__ import annotations

import calendar
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import xxhash

from pollerd.detection import json
from pollerd.detection.html import visible_text
from pollerd.detection.parser_bombs import is_entity_bomb, is_tag_bomb

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON_FEED = "jsonfeed.org/version/"
_DECLARATION = re.compile(rb"^\s*<\?xml[^>]*\?>")
_UTF8 = {"content-type": "application/xml; charset=utf-8"}
# Exceptions that feedparser and its SGML parser raise on hostile input, although documented to raise none.
_ESCAPES = (ValueError, AssertionError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)


def key_of(name: bytes) -> int:
    """Returns the 64-bit hash of an entry's id, as UTF-8."""
    return xxhash.xxh3_64_intdigest(name)


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One entry of a feed."""

    id: str
    """Its identifier: the id, else the link, else the title, else the text."""
    title: str
    text: str
    """Its summary or content as visible text on one line."""
    dates: tuple[float, ...] = ()
    """Its publication and update dates, epoch seconds."""
    link: str = ""
    """The URL of its page, as written; empty if there is none."""
    full_text: str = ""
    """Its content, where `text` is only its summary, as visible text on one line; read on request."""

    @property
    def key(self) -> int:
        """64-bit hash of `id`."""
        return key_of(self.id.encode("utf-8", "replace"))


def content(entries: Sequence[FeedEntry]) -> bytes:
    """Returns one line per entry as UTF-8: id, title, newest date, text, separated by tabs; the lines are sorted.

    Omits the dates if all entries share one: that is when the feed was built, not news.
    """
    newest = [max(entry.dates, default=None) for entry in entries]
    stamped = len(newest) > 1 and len(set(newest)) == 1
    lines = [
        f"{entry.id}\t{entry.title}\t{'' if stamped or date is None else _stamp(date)}\t{entry.text}"
        for entry, date in zip(entries, newest, strict=True)
    ]
    return "\n".join(sorted(lines)).encode("utf-8", "replace")


def _stamp(date: float) -> str:
    try:
        return f"{_EPOCH + timedelta(seconds=round(date)):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        return str(date)


def xml_entries(body: bytes, *, full_text: bool = False) -> tuple[FeedEntry, ...] | None:
    """Returns the entries of an RSS, Atom or RDF feed in order, or None if it is not a readable feed.

    `full_text`: whether to read the content of entries besides their summary. `body` is UTF-8 without byte order mark.
    Nothing is fetched; a document whose own entities would expand to much more is rejected. Raises nothing.
    """
    if is_tag_bomb(body) or is_entity_bomb(body):
        return None
    import feedparser  # loaded with the first feed: a list without feeds saves 1 MB

    plain = b"<?xml version='1.0' encoding='utf-8'?>" + _DECLARATION.sub(b"", body, count=1)
    try:
        # A stream, never bytes: feedparser would first try those as a file name.
        found = feedparser.parse(
            io.BytesIO(plain), response_headers=_UTF8, resolve_relative_uris=False, sanitize_html=False
        )
        if not found.get("version") and not found["entries"]:
            return None
        return tuple(_xml_entry(entry, full_text) for entry in found["entries"])
    except _ESCAPES:
        return None


def _xml_entry(entry: Any, full_text: bool) -> FeedEntry:
    # dict.get, because feedparser's own `get` substitutes one date for another and warns about it.
    title = _line(str(entry.get("title", "")))
    contents = entry.get("content") or ()
    text = _line(str(entry.get("summary") or (contents[0].get("value", "") if contents else "")))
    dates = (dict.get(entry, "published_parsed"), dict.get(entry, "updated_parsed"))
    return FeedEntry(
        id=_word(entry.get("id") or entry.get("link") or title or text),
        title=title,
        text=text,
        dates=tuple(float(calendar.timegm(date)) for date in dates if isinstance(date, tuple)),
        link=_word(entry.get("link") or ""),
        full_text=_line(" ".join(str(one.get("value", "")) for one in contents)) if full_text else "",
    )


def json_entries(body: bytes, *, full_text: bool = False) -> tuple[FeedEntry, ...] | None:
    """Returns the items of a JSON Feed in order, or None if the body is not one. `body` is UTF-8. Raises nothing.

    `full_text`: whether to read the content of items besides their summary.
    """
    if _JSON_FEED.encode() not in body and b"jsonfeed.org\\/version" not in body:
        return None
    found = json.parsed(body)
    if not isinstance(found, dict) or _JSON_FEED not in str(found.get("version")):
        return None
    items = found.get("items")
    if not isinstance(items, list):
        return None
    return tuple(_json_entry(item, full_text) for item in items if isinstance(item, dict))


def _json_entry(item: dict[str, Any], full_text: bool) -> FeedEntry:
    title = _line(str(item.get("title") or ""))
    text = _line(str(item.get("content_html") or item.get("content_text") or item.get("summary") or ""))
    dates = (_iso(item.get("date_published")), _iso(item.get("date_modified")))
    return FeedEntry(
        id=_word(item.get("id") or item.get("url") or title or text),
        title=title,
        text=text,
        dates=tuple(date for date in dates if date is not None),
        link=_word(item.get("url") or ""),
        full_text=_line(str(item.get("content_html") or item.get("content_text") or "")) if full_text else "",
    )


def _iso(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        date = datetime.fromisoformat(value)
        return date.timestamp() if date.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _line(text: str) -> str:
    if "<" in text or "&" in text:
        text = visible_text(text.encode("utf-8", "replace")).decode()
    return _word(text)


def _word(text: object) -> str:
    return " ".join(str(text).split())
