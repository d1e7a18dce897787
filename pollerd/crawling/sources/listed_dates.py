"""Reads what a document says of when pages changed: their URLs, with dates where it has any."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from pollerd.crawling.pages.feeds import read_feed
from pollerd.crawling.pages.links import page_links
from pollerd.crawling.pages.sitemaps import MOST_BYTES, MOST_ENTRIES, Listed, moment, read_sitemap
from pollerd.crawling.sources.listing import same_host
from pollerd.detection.charset import to_utf8
from pollerd.errors import InvalidValueError
from pollerd.urls import join_url

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
    found = _entries(kind, body[:MOST_BYTES], content_type, base)
    if found is None:
        return None
    entries, complete, further = found
    changes = _resolved(entries, base, hosts, complete and len(body) <= MOST_BYTES)
    if not further:
        return changes
    sitemaps = _resolved(further, base, hosts, complete=False).pages
    return msgspec.structs.replace(changes, sitemaps=tuple(sitemaps))


def _entries(
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
    return None if listed is None else (listed, kind == "list" and len(listed) < MOST_ENTRIES, ())


def _url_list(plain: bytes) -> list[Listed] | None:
    """Reads a JSON array of URLs or objects, such an array in an object, or lines of URLs; None if it is neither."""
    if not plain.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"[", b"{")):
        lines = plain.decode("utf-8", "replace").lstrip("\ufeff").splitlines()
        found = [_of_line(line.strip()) for line in lines[:MOST_ENTRIES] if line.strip() and line.lstrip()[0] != "#"]
        return None if not found or None in found else [one for one in found if one is not None]
    try:
        given = msgspec.json.decode(plain)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(given, dict):
        given = next((value for value in given.values() if isinstance(value, list)), None)
    return list(_of_json(given[:MOST_ENTRIES])) if isinstance(given, list) else None


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
