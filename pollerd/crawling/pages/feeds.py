"""Feeds as lists of pages: the links of their entries."""

from __future__ import annotations

from pollerd.crawling.pages.sitemaps import MOST_ENTRIES, Listed
from pollerd.detection.feed import json_entries, xml_entries


def read_feed(body: bytes) -> tuple[Listed, ...] | None:
    """Returns the entries that have a link, each with its newest date; None if `body`, UTF-8, is not a feed.

    RSS, Atom, RDF and JSON Feed. Hostile content is rejected as in detection. Raises nothing.
    """
    entries = json_entries(body)
    if entries is None:
        entries = xml_entries(body)
    if entries is None:
        return None
    return tuple(Listed(entry.link, max(entry.dates, default=None)) for entry in entries[:MOST_ENTRIES] if entry.link)
