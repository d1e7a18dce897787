"""How lists of sites and collections are written: names, media types and the suffixes of files."""

from __future__ import annotations

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
        """What names of such files end with."""
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
"""The format of a list by what its file's name ends with."""


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


def media_type(content_type: str) -> str:
    """The media type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()
