"""Documents that list pages: sitemaps (sitemaps.org), feeds and lists of URLs, with the pages' dates of last change."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from pollerd.detection.feed import json_entries, xml_entries
from pollerd.detection.media import is_utf8, strip_mark, to_utf8
from pollerd.errors import InvalidValueError
from pollerd.lists.links import page_links
from pollerd.lists.readings import url_matcher
from pollerd.urls import join_url

MAX_ENTRIES = 50_000
MAX_BYTES = 50 * 1024 * 1024
"""Both as in the protocol of sitemaps.org; the rest is not read."""
MAX_NAMED = 50
"""Maximum number of sitemaps read from one robots.txt."""
# Lines end in LF, CRLF or CR; a byte order mark stands where files were joined.
_NAMED = re.compile(rb"(?:\A|[\r\n])(?:\xef\xbb\xbf|[ \t])*sitemap[ \t]*:[ \t]*([^\s#]\S{0,2047})", re.IGNORECASE)
_DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?\Z")
_HOSTILE = re.compile("<!ENTITY", re.IGNORECASE)
_GZIP = b"\x1f\x8b"
_MAX_PACKED = 3
"""Layers of gzip that are unpacked."""
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[(?P<data>.*?)(?:\]\]>|\Z)"
    r"|<(?P<end>/?)(?P<prefix>[A-Za-z_][\w.-]*:)?(?P<name>[A-Za-z_][\w.-]*)(?:\s[^<>]*|/)?>",
    re.DOTALL,
)
_ENTRIES = frozenset({"url", "sitemap"})
_ROOTS = frozenset({"urlset", "sitemapindex"})
_FIELDS = frozenset({"loc", "lastmod"})
_LISTS = re.compile(r"<(?:[\w.-]+:)?(?:url|sitemap)[\s>]", re.IGNORECASE)
_REFERENCE = re.compile(
    r"&(?:#(?P<decimal>\d{1,7})|#[xX](?P<hexadecimal>[0-9A-Fa-f]{1,6})|(?P<name>amp|lt|gt|quot|apos));"
)
_NAMES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


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


def read_sitemap(body: bytes, content_type: str | None = None, *, common_date: bool = False) -> Sitemap | None:
    """Parses a sitemap in any form (XML, an index of others, lines of URLs; gzipped or not); None if it is none.

    At most 50,000 entries of 50 MiB. XML is not parsed but searched for its entries, so that a fault costs one of them
    at most: a bare `&`, an undeclared prefix, a tag that is not closed, something in front. Of other elements nothing
    is taken (`image:loc`). Documents that define entities are rejected. If all entries have the same date it is that of
    the sitemap, not of the pages, and is omitted. A page's date is evidence of its age at that time, as far as the site
    is trusted. common_date: keep such a date, too. Raises nothing.
    """
    unpacked = _unpacked(body)
    if unpacked is None:
        return None
    plain, complete = unpacked
    text = _decoded(plain, content_type).lstrip("\ufeff \t\r\n")
    if _LISTS.search(text) is None:
        return _lines(text, complete)
    if _HOSTILE.search(text):
        return None
    by_kind: dict[str, list[Listed]] = {"url": [], "sitemap": []}
    entries = EntrySearch(text)
    for number, (kind, listed) in enumerate(entries):
        if number == MAX_ENTRIES:
            complete = False
            break
        by_kind[kind].append(listed)
    pages, sitemaps = by_kind["url"], by_kind["sitemap"]
    complete = complete and entries.whole
    if not pages and not sitemaps:
        return None
    if common_date:
        return Sitemap(tuple(pages), tuple(sitemaps), complete)
    return Sitemap(_dated(pages), _dated(sitemaps), complete)


def robots_sitemaps(robots: bytes, url: str) -> tuple[str, ...]:
    """Returns the sitemaps in the robots.txt at the normalised `url`, normalised, distinct, at most 50.

    They apply to all robots, in any group (RFC 9309, section 2.2.4). Takes linear time, unlike parsing the rules.
    """
    urls = dict[str, None]()
    if strip_mark(robots)[1] not in (None, "utf-8"):
        robots = to_utf8(robots, None)
    for named in islice(_NAMED.finditer(robots), MAX_NAMED):
        with suppress(InvalidValueError):
            urls[join_url(url, named[1].decode("utf-8", "surrogateescape"))] = None
    return tuple(urls)


def _unpacked(body: bytes) -> tuple[bytes, bool] | None:
    """Returns the first bytes of the document, and whether they are all of it."""
    complete = True
    for _ in range(_MAX_PACKED):
        if not body.startswith(_GZIP):
            break
        try:
            unpacking = zlib.decompressobj(wbits=31)
            body = unpacking.decompress(body, MAX_BYTES)
        except zlib.error:
            return None
        complete = complete and unpacking.eof and not unpacking.unused_data.startswith(_GZIP)
    return body[:MAX_BYTES], complete and len(body) <= MAX_BYTES


def _decoded(plain: bytes, content_type: str | None) -> str:
    """Returns the text: UTF-8 if it is, whatever is said, UTF-16 also without a mark, else as it is said."""
    if plain[:1] == b"\0" and plain[1:2] != b"\0":
        return plain.decode("utf-16-be", "replace")
    if plain[1:2] == b"\0" and plain[:1] != b"\0":
        return plain.decode("utf-16-le", "replace")
    return (plain if is_utf8(plain) else to_utf8(plain, content_type)).decode("utf-8", "replace")


def _lines(text: str, complete: bool) -> Sitemap | None:
    lines = [line for raw in text.splitlines() if (line := raw.strip("\ufeff \t")) and not line.startswith("#")]
    urls = [line.split(maxsplit=1)[0] for line in lines]
    if not urls or not all(url.lower().startswith(("http://", "https://")) for url in urls):
        return None
    return Sitemap(tuple(map(Listed, urls[:MAX_ENTRIES])), complete=complete and len(urls) <= MAX_ENTRIES)


class EntrySearch:
    """The entries of a sitemap's text, ("url" or "sitemap", entry) each, in linear time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.whole = False
        """At the end: whether the last root was closed, and all entries before."""
        self._entry = ""
        self._depth = 0
        """How many elements that are none of its own are open in the entry."""
        self._field = ""
        self._parts: list[str] = []
        self._fields: dict[str, str] = {}

    def __iter__(self) -> Iterator[tuple[str, Listed]]:
        own: str | None = None
        """The prefix of the sitemap's elements, once it is known."""
        end = unclosed = 0
        for tag in _TAG.finditer(self._text):
            if self._field:
                self._parts += [_resolved_references(self._text[end : tag.start()]), tag["data"] or ""]
            end, closes = tag.end(), bool(tag["end"])
            if tag["name"] is None:  # a comment, or text that was just taken
                continue
            name = tag["name"].lower()
            prefix, empty = tag["prefix"] or "", tag[0].endswith("/>")
            if own is None and name in _ENTRIES | _ROOTS:
                own = prefix
            if prefix == own and name in _ENTRIES | _ROOTS:
                unclosed += bool(self._entry) and not (closes and name in _ENTRIES)
                self._take_field()
                yield from self._ended()
                self._entry = name if name in _ENTRIES and not (closes or empty) else ""
                self.whole = closes and not unclosed if name in _ROOTS else self.whole
            elif self._entry:
                self._inside(name if prefix == own else "", closes=closes, empty=empty)
        yield from self._ended()

    def _inside(self, name: str, *, closes: bool, empty: bool) -> None:
        """Takes a tag within an entry; `name`: empty if it has another prefix."""
        self._take_field()
        if name in _FIELDS and not self._depth:
            self._field = "" if closes or empty else name
        elif not empty:
            self._depth = max(0, self._depth + (-1 if closes else 1))

    def _take_field(self) -> None:
        if self._field:
            self._fields.setdefault(self._field, "".join(self._parts).strip())
        self._field, self._parts = "", []

    def _ended(self) -> Iterator[tuple[str, Listed]]:
        """Yields the entry, if it has a URL, and forgets it."""
        if self._entry and (url := self._fields.get("loc")):
            yield self._entry, Listed(url, moment(self._fields.get("lastmod", "")))
        self._entry, self._field, self._depth, self._fields = "", "", 0, {}


def _resolved_references(text: str) -> str:
    return _REFERENCE.sub(_character, text) if "&" in text else text


def _character(reference: re.Match[str]) -> str:
    if reference["name"]:
        return _NAMES[reference["name"]]
    number = int(reference["decimal"]) if reference["decimal"] else int(reference["hexadecimal"], 16)
    return chr(number) if number < 0x110000 else reference[0]


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
    sitemap = read_sitemap(body, content_type)
    if sitemap is None:
        return None
    pages, unusable = _distinct_urls(base, (entry.url for entry in sitemap.pages))
    sitemaps, unusable_sitemaps = _distinct_urls(base, (entry.url for entry in sitemap.sitemaps))
    complete = sitemap.complete and not unusable_sitemaps
    return ListedDocument(tuple(filter(fits, pages)), sitemaps, len(pages), unusable + unusable_sitemaps, complete)


def _distinct_urls(base: str, written: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """Returns the distinct normalised URLs, and how many cannot be used."""
    urls, unusable = dict[str, None](), 0
    for url in written:
        try:
            urls[join_url(base, url)] = None
        except InvalidValueError:
            unusable += 1
    return tuple(urls), unusable


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
    by_kind = _entries_by_kind(kind, body[:MAX_BYTES], content_type, base)
    if by_kind is None:
        return None
    entries, complete, further = by_kind
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
        sitemap = read_sitemap(body, content_type, common_date=True)
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
        entries = [_of_line(line.strip()) for line in lines[:MAX_ENTRIES] if line.strip() and line.lstrip()[0] != "#"]
        return None if not entries or None in entries else [entry for entry in entries if entry is not None]
    try:
        document = msgspec.json.decode(plain)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(document, dict):
        document = next((value for value in document.values() if isinstance(value, list)), None)
    return list(_of_json(document[:MAX_ENTRIES])) if isinstance(document, list) else None


def _of_line(line: str) -> Listed | None:
    parts = _LINE.match(line)
    if parts is None or not parts[1].lower().startswith(("http://", "https://", "/")):
        return None
    return Listed(parts[1], moment(parts[2]) if parts[2] else None)


def _of_json(values: list[Any]) -> Iterator[Listed]:
    for value in values:
        if isinstance(value, str):
            yield Listed(value)
        elif isinstance(value, dict):
            url = next((value[name] for name in _URL_FIELDS if isinstance(value.get(name), str)), None)
            date = next((value[name] for name in _DATE_FIELDS if value.get(name) is not None), None)
            if url is not None:
                yield Listed(url, _date(date))


def _date(value: object) -> float | None:
    """Returns the time of a W3C date or of epoch seconds."""
    if isinstance(value, str):
        return moment(value)
    return float(value) if isinstance(value, int | float) and abs(value) < 1e11 else None


def newer(date: float | None, other: float | None) -> float | None:
    """Returns the later of two dates, epoch s; None: there is none."""
    return max((known for known in (date, other) if known is not None), default=None)


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
