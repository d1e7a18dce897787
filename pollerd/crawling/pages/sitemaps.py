"""Parses sitemaps: the pages that a site lists, with their dates of last change."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from itertools import islice
from xml.etree.ElementTree import Element, ParseError, iterparse

from msgspec import Struct

from pollerd.errors import InvalidValueError
from pollerd.urls import join_url

MOST_ENTRIES = 50_000
MOST_BYTES = 50 * 1024 * 1024
"""Both as in the protocol of sitemaps.org; the rest is not read."""
MOST_NAMED = 50
"""Maximum number of sitemaps read from one robots.txt."""
_NAMED = re.compile(rb"^[ \t]*sitemap[ \t]*:[ \t]*([^\s#]\S{0,2047})", re.IGNORECASE | re.MULTILINE)
_DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?\Z")
_HOSTILE = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_GZIP = b"\x1f\x8b"
_DEEPEST = 16


class Listed(Struct, frozen=True, gc=False):
    """An entry: the URL as written, and the date of its page's last change (UTC epoch s), None if unknown."""

    url: str
    modified: float | None = None


class Sitemap(Struct, frozen=True, gc=False):
    """Entries of a sitemap: pages, and further sitemaps."""

    pages: tuple[Listed, ...] = ()
    sitemaps: tuple[Listed, ...] = ()
    complete: bool = True
    """False: cut off, malformed behind the last entry, or beyond the limits; it lists more than is known here."""


def read_sitemap(body: bytes, *, common_date: bool = False) -> Sitemap | None:
    """Parses a sitemap in any form (XML, an index of others, lines of URLs; gzipped or not); None if it is none.

    At most 50,000 entries of 50 MiB. Documents with a DTD are rejected: sitemaps need none, and entities could expand
    them greatly. If all entries have the same date it is that of the sitemap, not of the pages, and is omitted. A
    page's date is evidence of its age at that time, as far as the site is trusted. common_date: keep such a date, too.
    Raises nothing.
    """
    unpacked = _unpacked(body)
    if unpacked is None or _HOSTILE.search(unpacked[0]):
        return None
    plain, complete = unpacked
    text = plain.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if not text.startswith("<"):
        return _lines(text, complete)
    pages, sitemaps = list[Listed](), list[Listed]()
    try:
        for kind, listed in _entries(text):
            if len(pages) + len(sitemaps) >= MOST_ENTRIES:
                complete = False
                break
            (pages if kind == "url" else sitemaps).append(listed)
    except ParseError:
        # Entries before the error still count.
        complete = False
    if not pages and not sitemaps:
        return None
    if common_date:
        return Sitemap(tuple(pages), tuple(sitemaps), complete)
    return Sitemap(_dated(pages), _dated(sitemaps), complete)


def robots_sitemaps(robots: bytes, url: str) -> tuple[str, ...]:
    """Returns the sitemaps in the robots.txt at the normalised `url`, normalised, distinct, at most 50.

    They apply to all robots, in any group (RFC 9309, section 2.2.4). Takes linear time, unlike parsing the rules.
    """
    found = dict[str, None]()
    for named in islice(_NAMED.finditer(robots), MOST_NAMED):
        with suppress(InvalidValueError):
            found[join_url(url, named[1].decode("utf-8", "surrogateescape"))] = None
    return tuple(found)


def _unpacked(body: bytes) -> tuple[bytes, bool] | None:
    """Returns the first bytes of the document, and whether they are all of it."""
    if not body.startswith(_GZIP):
        return body[:MOST_BYTES], len(body) <= MOST_BYTES
    try:
        unpacking = zlib.decompressobj(wbits=31)
        plain = unpacking.decompress(body, MOST_BYTES)
    except zlib.error:
        return None
    return plain, unpacking.eof and not unpacking.unused_data.startswith(_GZIP)


def _lines(text: str, complete: bool) -> Sitemap | None:
    urls = [line for raw in text.splitlines() if (line := raw.strip())]
    if not urls or not all(url.lower().startswith(("http://", "https://")) for url in urls):
        return None
    return Sitemap(tuple(map(Listed, urls[:MOST_ENTRIES])), complete=complete and len(urls) <= MOST_ENTRIES)


def _entries(text: str) -> Iterator[tuple[str, Listed]]:
    """Yields ("url" or "sitemap", entry); frees each element after it."""
    depth = 0
    for event, element in iterparse(StringIO(text), ("start", "end")):
        depth += 1 if event == "start" else -1
        if depth > _DEEPEST:
            raise ParseError("nested too deeply")
        kind = _name(element)
        if event == "end" and kind in ("url", "sitemap"):
            if (listed := _listed(element)) is not None:
                yield kind, listed
            element.clear()


def _listed(element: Element) -> Listed | None:
    elements = {_name(child): (child.text or "").strip() for child in element}
    url = elements.get("loc")
    return Listed(url, moment(elements.get("lastmod", ""))) if url else None


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _dated(entries: list[Listed]) -> tuple[Listed, ...]:
    dates = {entry.modified for entry in entries}
    if len(entries) > 1 and len(dates) == 1 and None not in dates:
        return tuple(Listed(entry.url) for entry in entries)
    return tuple(entries)


def moment(text: str) -> float | None:
    """Parses a W3C date (`2026-11-22T01:02:03Z`, `2026-11-22`, `2026-11`, `2026`) to UTC epoch seconds, or None.

    Missing parts mean the beginning of the day, month or year; a missing zone means UTC.
    """
    if _DATE.match(text):
        text += "-01" * (2 - text.count("-"))
    try:
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
