"""Normalisation of a body: choice of the media, decoding of the text, and the parser."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.detection import feed
from pollerd.detection.feed import feed_ttl
from pollerd.detection.html import visible_text, why_no_text
from pollerd.detection.media import canonical, classify
from pollerd.detection.pdf import is_pdf, pdf_text
from pollerd.errors import SelectionLimitError
from pollerd.model import FIRST_READER, READER, Media


@dataclass(frozen=True, slots=True)
class Normalised:
    """A normalised body."""

    media: Media
    content: bytes
    """UTF-8 text, one item per line; for BINARY the bytes unchanged."""
    entries: tuple[feed.FeedEntry, ...] = ()
    """FEED: its entries in order."""
    ttl: float | None = None
    """FEED: announced TTL in seconds."""
    no_text: str = ""
    """HTML: why it has no text that could be compared, one line; empty: it has."""


def normalise(body: bytes, content_type: str | None, reader: int = READER) -> Normalised:
    """Parses a body by its stated type and its content; what cannot be parsed so is treated as text or bytes.

    Raises nothing, for any bytes and any `Content-Type` (None: not stated). PDF documents are read as text: only in a
    process of its own.
    """
    if reader != FIRST_READER and is_pdf(body, content_type) and (text := _text_of_pdf(body)):
        return Normalised(Media.TEXT, text)
    media, text = classify(body, content_type, reader)
    for candidate in media:
        normalised = _read(candidate, text, body, reader)
        if normalised is not None:
            return normalised
    return Normalised(Media.BINARY, body)


def _text_of_pdf(body: bytes) -> bytes:
    """Returns the text of a PDF document; empty where there is none, or it cannot be read."""
    try:
        return pdf_text(body)
    except (ValueError, SelectionLimitError):
        return b""


def _read(media: Media, text: bytes, body: bytes, reader: int) -> Normalised | None:
    match media:
        case Media.HTML:
            shown = visible_text(text, reader)
            return Normalised(media, shown, no_text="" if reader == FIRST_READER else why_no_text(text, shown))
        case Media.TEXT:
            return Normalised(media, text.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        case Media.BINARY:
            return Normalised(media, body)
        case Media.JSON:
            content = canonical(text, reader)
            return None if content is None else Normalised(media, content)
        case Media.FEED:
            read = feed.xml_feed if text.lstrip()[:1] == b"<" else feed.json_feed
            parsed = read(text, reader)
            if parsed is None:
                return None
            return Normalised(media, feed.content(parsed.entries, parsed.about, reader), parsed.entries, feed_ttl(text))
