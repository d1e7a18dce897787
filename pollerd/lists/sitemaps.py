"""Documents that list pages: sitemaps (sitemaps.org), feeds and lists of URLs, with the pages' dates of last change."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from itertools import islice
from typing import Any
from xml.etree.ElementTree import Element, ParseError, iterparse

import msgspec
from msgspec import Struct

from pollerd.detection.feed import json_entries, xml_entries
from pollerd.detection.media import to_utf8
from pollerd.errors import InvalidValueError
from pollerd.lists.links import page_links
from pollerd.lists.readings import url_matcher
from pollerd.urls import join_url

MAX_ENTRIES = 50_000
MAX_BYTES = 50 * 1024 * 1024
"""Both as in the protocol of sitemaps.org; the rest is not read."""
MAX_NAMED = 50
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
            if len(pages) + len(sitemaps) >= MAX_ENTRIES:
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
    for named in islice(_NAMED.finditer(robots), MAX_NAMED):
        with suppress(InvalidValueError):
            found[join_url(url, named[1].decode("utf-8", "surrogateescape"))] = None
    return tuple(found)


def _unpacked(body: bytes) -> tuple[bytes, bool] | None:
    """Returns the first bytes of the document, and whether they are all of it."""
    if not body.startswith(_GZIP):
        return body[:MAX_BYTES], len(body) <= MAX_BYTES
    try:
        unpacking = zlib.decompressobj(wbits=31)
        plain = unpacking.decompress(body, MAX_BYTES)
    except zlib.error:
        return None
    return plain, unpacking.eof and not unpacking.unused_data.startswith(_GZIP)


def _lines(text: str, complete: bool) -> Sitemap | None:
    urls = [line for raw in text.splitlines() if (line := raw.strip())]
    if not urls or not all(url.lower().startswith(("http://", "https://")) for url in urls):
        return None
    return Sitemap(tuple(map(Listed, urls[:MAX_ENTRIES])), complete=complete and len(urls) <= MAX_ENTRIES)


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


# Feeds as lists of pages: the links of their entries.


def read_feed(body: bytes) -> tuple[Listed, ...] | None:
    """Returns the entries that have a link, each with its newest date; None if `body`, UTF-8, is not a feed.

    RSS, Atom, RDF and JSON Feed. Hostile content is rejected as in detection. Raises nothing.
    """
    entries = json_entries(body)
    if entries is None:
        entries = xml_entries(body)
    if entries is None:
        return None
    return tuple(Listed(entry.link, max(entry.dates, default=None)) for entry in entries[:MAX_ENTRIES] if entry.link)


# Listings: the pages and further sitemaps in one document of a source of sites.


_ENDED = re.compile(rb"(?:</(?:\w+:)?(?:rss|feed|rdf)\s*>|\})\s*(?:<!--.*-->\s*)?\Z", re.IGNORECASE | re.DOTALL)
_TAIL_BYTES = 4_096
_PORTS = ((":80", "http://"), (":443", "https://"))


class ListedDocument(Struct, frozen=True, gc=False):
    """What one document lists. URLs are normalised and distinct."""

    pages: tuple[str, ...] = ()
    """Pages that fit the pattern."""
    sitemaps: tuple[str, ...] = ()
    entries: int = 0
    """Number of pages with a usable URL, before the pattern."""
    unusable: int = 0
    """Number of entries whose URL cannot be used."""
    complete: bool = True
    """False: it was cut off, or is beyond the limits."""


def read_listing(
    kind: str, body: bytes, content_type: str | None, base: str, pattern: str | None
) -> ListedDocument | None:
    """Reads a document of this kind, "sitemap" or "feed", at the normalised URL `base`; None if it is none.

    Takes up to some seconds for 50 MiB. Raises `InvalidValueError` for an invalid pattern, nothing for a body.
    """
    fits = url_matcher(pattern)
    if kind == "feed":
        plain = to_utf8(body, content_type)
        entries = read_feed(plain)
        if entries is None:
            return None
        pages, unusable = _distinct_urls(base, (entry.url for entry in entries))
        complete = len(entries) < MAX_ENTRIES and _ENDED.search(plain[-_TAIL_BYTES:]) is not None
        return ListedDocument(tuple(filter(fits, pages)), (), len(pages), unusable, complete)
    sitemap = read_sitemap(body)
    if sitemap is None:
        return None
    pages, unusable = _distinct_urls(base, (entry.url for entry in sitemap.pages))
    sitemaps, unusable_sitemaps = _distinct_urls(base, (entry.url for entry in sitemap.sitemaps))
    complete = sitemap.complete and not unusable_sitemaps
    return ListedDocument(tuple(filter(fits, pages)), sitemaps, len(pages), unusable + unusable_sitemaps, complete)


def _distinct_urls(base: str, written: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """Returns the distinct normalised URLs, and how many cannot be used."""
    found, unusable = dict[str, None](), 0
    for url in written:
        try:
            found[join_url(base, url)] = None
        except InvalidValueError:
            unusable += 1
    return tuple(found), unusable


def same_host(url: str, other: str) -> bool:
    """Returns whether two normalised URLs are on one host and port; http and https on their own ports are one."""
    return _authority(url) == _authority(other)


def _authority(url: str) -> str:
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    for port, at in _PORTS:
        if scheme + "://" == at:
            authority = authority.removesuffix(port)
    return authority


# Listed changes: the URLs in a document of a signal source, with dates if it has any.

_URL_FIELDS = ("url", "loc", "link")
_DATE_FIELDS = ("date", "lastmod", "modified", "updated", "at")
_LINE = re.compile(r"(\S{1,2048}?)[,;]?(?:[ \t]+(\S{1,64}))?\Z")


class ListedChanges(msgspec.Struct, frozen=True, gc=False):
    """URLs, normalised and distinct, each with its date, UTC epoch s; None: it has none.

    foreign: number of URLs left out because they are of another host. unusable: of those that are no URLs.
    """

    pages: dict[str, float | None]
    foreign: int = 0
    unusable: int = 0
    complete: bool = False
    """Whether the document names every page that its source knows: a sitemap or list that is within the limits."""
    sitemaps: tuple[str, ...] = ()
    """Of `pages` those that are further sitemaps: the document is an index."""


def read_changes(kind: str, body: bytes, content_type: str | None, base: str, hosts: str) -> ListedChanges | None:
    """Reads a document of this kind at the normalised URL `base`; None if it is none.

    kind: "sitemap" (also an index: of its sitemaps, or gzipped), "feed", "list" (JSON or lines: a URL, and perhaps a
    date) or "links" (the links of a page). hosts: "same" leaves out URLs of other hosts, "any" keeps them. At most
    50,000 entries of 50 MiB; takes up to some seconds for those. Where a URL stands twice its newest date counts.
    Raises nothing.
    """
    found = _entries_by_kind(kind, body[:MAX_BYTES], content_type, base)
    if found is None:
        return None
    entries, complete, further = found
    changes = _resolved(entries, base, hosts, complete and len(body) <= MAX_BYTES)
    if not further:
        return changes
    sitemaps = _resolved(further, base, hosts, complete=False).pages
    return msgspec.structs.replace(changes, sitemaps=tuple(sitemaps))


def _entries_by_kind(
    kind: str, body: bytes, content_type: str | None, base: str
) -> tuple[Iterable[Listed], bool, Sequence[Listed]] | None:
    """Returns the entries, whether the document says that there are no others, and which of them are sitemaps."""
    if kind == "sitemap":
        sitemap = read_sitemap(body, common_date=True)
        if sitemap is None:
            return None
        return (*sitemap.pages, *sitemap.sitemaps), sitemap.complete, sitemap.sitemaps
    plain = to_utf8(body, content_type)
    if kind == "links":
        return [Listed(link.url) for link in page_links(plain, base).links], False, ()
    listed = read_feed(plain) if kind == "feed" else _url_list(plain)
    return None if listed is None else (listed, kind == "list" and len(listed) < MAX_ENTRIES, ())


def _url_list(plain: bytes) -> list[Listed] | None:
    """Reads a JSON array of URLs or objects, such an array in an object, or lines of URLs; None if it is neither."""
    if not plain.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"[", b"{")):
        lines = plain.decode("utf-8", "replace").lstrip("\ufeff").splitlines()
        found = [_of_line(line.strip()) for line in lines[:MAX_ENTRIES] if line.strip() and line.lstrip()[0] != "#"]
        return None if not found or None in found else [one for one in found if one is not None]
    try:
        given = msgspec.json.decode(plain)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(given, dict):
        given = next((value for value in given.values() if isinstance(value, list)), None)
    return list(_of_json(given[:MAX_ENTRIES])) if isinstance(given, list) else None


def _of_line(line: str) -> Listed | None:
    parts = _LINE.match(line)
    if parts is None or not parts[1].lower().startswith(("http://", "https://", "/")):
        return None
    return Listed(parts[1], moment(parts[2]) if parts[2] else None)


def _of_json(given: list[Any]) -> Iterator[Listed]:
    for one in given:
        if isinstance(one, str):
            yield Listed(one)
        elif isinstance(one, dict):
            url = next((one[name] for name in _URL_FIELDS if isinstance(one.get(name), str)), None)
            date = next((one[name] for name in _DATE_FIELDS if one.get(name) is not None), None)
            if url is not None:
                yield Listed(url, _date(date))


def _date(given: object) -> float | None:
    """Returns the time of a W3C date or of epoch seconds."""
    if isinstance(given, str):
        return moment(given)
    return float(given) if isinstance(given, int | float) and abs(given) < 1e11 else None


def newer(date: float | None, other: float | None) -> float | None:
    """Returns the later of two dates, epoch s; None: there is none."""
    return max((one for one in (date, other) if one is not None), default=None)


def _resolved(entries: Iterable[Listed], base: str, hosts: str, complete: bool) -> ListedChanges:
    pages, foreign, unusable = dict[str, float | None](), 0, 0
    for entry in entries:
        try:
            url = join_url(base, entry.url)
        except InvalidValueError:
            unusable += 1
            continue
        if hosts == "same" and not same_host(url, base):
            foreign += 1
        else:
            pages[url] = newer(entry.modified, pages.get(url))
    return ListedChanges(pages, foreign, unusable, complete)
