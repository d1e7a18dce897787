"""Feeds as lists of pages: where their entries lead."""

from __future__ import annotations

from pollerd.crawling.pages.sitemaps import MOST_ENTRIES, Listed
from pollerd.detection.feed import json_entries, xml_entries


def read_feed(body: bytes) -> tuple[Listed, ...] | None:
    """The entries that lead somewhere, each with its newest date; None where `body`, UTF-8, is no feed.

    RSS, Atom, RDF and JSON Feed. What is hostile in them is refused as in detection. Raises nothing.
    """
    entries = json_entries(body)
    if entries is None:
        entries = xml_entries(body)
    if entries is None:
        return None
    return tuple(Listed(entry.link, max(entry.dates, default=None)) for entry in entries[:MOST_ENTRIES] if entry.link)
