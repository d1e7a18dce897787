"""Normalisation of a body: choice of the media, decoding of the text, and the parser."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.detection import feed
from pollerd.detection.feed import feed_ttl
from pollerd.detection.html import visible_text
from pollerd.detection.media import canonical, classify
from pollerd.model import Media


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


def normalise(body: bytes, content_type: str | None) -> Normalised:
    """Parses a body by its stated type and its content; what cannot be parsed so is treated as text or bytes.

    Raises nothing, for any bytes and any `Content-Type` (None: not stated).
    """
    media, text = classify(body, content_type)
    for candidate in media:
        found = _read(candidate, text, body)
        if found is not None:
            return found
    return Normalised(Media.BINARY, body)


def _read(media: Media, text: bytes, body: bytes) -> Normalised | None:
    match media:
        case Media.HTML:
            return Normalised(media, visible_text(text))
        case Media.TEXT:
            return Normalised(media, text.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        case Media.BINARY:
            return Normalised(media, body)
        case Media.JSON:
            content = canonical(text)
            return None if content is None else Normalised(media, content)
        case Media.FEED:
            entries = feed.xml_entries(text) if text.lstrip()[:1] == b"<" else feed.json_entries(text)
            return None if entries is None else Normalised(media, feed.content(entries), entries, feed_ttl(text))
