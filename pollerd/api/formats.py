"""Formats of lists of sites and collections: names, media types and file suffixes."""

from __future__ import annotations

import re
from enum import StrEnum


class Format(StrEnum):
    """How a list of sites is written."""

    TEXT = "text"
    CSV = "csv"
    JSON_LINES = "jsonl"
    OPML = "opml"

    @property
    def media(self) -> str:
        """Its media type."""
        return MEDIA[self]

    @property
    def suffix(self) -> str:
        """Its file suffix."""
        return "txt" if self is Format.TEXT else self.value


MEDIA = {
    Format.TEXT: "text/plain",
    Format.CSV: "text/csv",
    Format.JSON_LINES: "application/x-ndjson",
    Format.OPML: "text/x-opml",
}
SUFFIXES = {
    ".txt": Format.TEXT,
    ".csv": Format.CSV,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".opml": Format.OPML,
}
"""Format of a list by its file suffix."""


class MovedFrom(StrEnum):
    """Programs of which sites can be moved."""

    URLWATCH = "urlwatch"
    WEBCHANGES = "webchanges"
    CHANGEDETECTION = "changedetection"


class CollectionFormat(StrEnum):
    """How a collection is written."""

    CSV = "csv"
    JSON_LINES = "jsonl"
    GRAPHML = "graphml"

    @property
    def media(self) -> str:
        """Its media type."""
        return COLLECTION_MEDIA[self]


class CollectionPart(StrEnum):
    """What of it: pages with scores and parents, or the links between them."""

    PAGES = "pages"
    LINKS = "links"


COLLECTION_MEDIA = {
    CollectionFormat.CSV: "text/csv",
    CollectionFormat.JSON_LINES: "application/x-ndjson",
    CollectionFormat.GRAPHML: "application/graphml+xml",
}
COLLECTION_SUFFIXES = {
    ".csv": CollectionFormat.CSV,
    ".jsonl": CollectionFormat.JSON_LINES,
    ".ndjson": CollectionFormat.JSON_LINES,
    ".graphml": CollectionFormat.GRAPHML,
}


_FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""What a spreadsheet takes for a formula, or what already stands for such a text."""


def csv_text(text: str) -> str:
    """Returns a text as a CSV cell that no spreadsheet evaluates: page titles and tags are others' words."""
    return f"'{text}" if _FORMULA.match(text) else text


def text_of_csv(cell: str) -> str:
    """Returns the text of a cell that `csv_text` may have made."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
