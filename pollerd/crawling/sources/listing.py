"""Reads one document of a source: the pages and further sitemaps that it lists."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from pollerd.crawling.pages.feeds import read_feed
from pollerd.crawling.pages.sitemaps import MOST_BYTES, MOST_ENTRIES, read_sitemap
from pollerd.crawling.sources.pattern import url_matcher
from pollerd.detection.charset import to_utf8
from pollerd.errors import InvalidValueError
from pollerd.urls import join_url

__all__ = ["MOST_BYTES", "ListedDocument", "read_listing", "same_host"]

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
        pages, unusable = _resolved(base, (entry.url for entry in entries))
        complete = len(entries) < MOST_ENTRIES and _ENDED.search(plain[-_TAIL_BYTES:]) is not None
        return ListedDocument(tuple(filter(fits, pages)), (), len(pages), unusable, complete)
    sitemap = read_sitemap(body)
    if sitemap is None:
        return None
    pages, unusable = _resolved(base, (entry.url for entry in sitemap.pages))
    sitemaps, unusable_sitemaps = _resolved(base, (entry.url for entry in sitemap.sitemaps))
    complete = sitemap.complete and not unusable_sitemaps
    return ListedDocument(tuple(filter(fits, pages)), sitemaps, len(pages), unusable + unusable_sitemaps, complete)


def _resolved(base: str, written: Iterable[str]) -> tuple[tuple[str, ...], int]:
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
