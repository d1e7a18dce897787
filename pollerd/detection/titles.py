"""The title that a page or feed gives itself."""

from __future__ import annotations

import re
from functools import cache
from html import unescape

import orjson

from pollerd.detection.media import classify
from pollerd.model import Media, Outcome

LONGEST_TITLE = 200
"""Characters of a title that are kept."""
_READ_BYTES = 256 * 1024
"""A title further down is not looked for."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_BEFORE_TITLE = r"<(?:(title)(?:\s[^<>]*)?>|(?:body|svg)\b)"
"""The titles of drawings come later, in the body."""
_AFTER_TITLE = r"</title\b"
_OF_FEED = r"\A(?:(?!<(?:item|entry)\b)[\s\S]){0,9999}?<title\b[^>]*>\s*(?:<!\[CDATA\[)?([^<\]]+)"


def own_title(outcome: Outcome, media: Media | None) -> str:
    """Returns what a page or feed calls itself: one printable line of at most 200 characters; empty: nothing.

    media: what its body was read as; None: as it seems. Of a page only the first 256 KiB are read. Raises nothing.
    """
    body, content_type = outcome.body or b"", outcome.content_type
    media = media or classify(body[:_READ_BYTES], content_type)[0][0]
    if media is Media.HTML:
        head = body if len(body) <= _READ_BYTES else body[: body.rfind(b">", 0, _READ_BYTES) + 1]
        text = classify(head, content_type)[1].decode("utf-8", "replace")
        start = _compiled(_BEFORE_TITLE).search(text)
        if start is None or not start[1]:
            return ""
        end = _compiled(_AFTER_TITLE).search(text, start.end())
        return "" if end is None else one_printable_line(unescape(text[start.end() : end.start()]))
    return feed_title(classify(body, content_type)[1]) if media is Media.FEED else ""


def feed_title(text: bytes) -> str:
    """Returns the title of a feed, which comes before its entries. text: the document as UTF-8."""
    if text.lstrip()[:1] != b"<":
        document = orjson.loads(text)
        title = document.get("title") if isinstance(document, dict) else None
        return one_printable_line(title) if isinstance(title, str) else ""
    stated = _compiled(_OF_FEED).search(text.decode("utf-8", "replace"))
    return "" if stated is None else one_printable_line(unescape(stated[1]))


def one_printable_line(text: str) -> str:
    """Returns a text on one line of at most 200 characters, with spaces for what cannot be printed."""
    line = "".join(sign if sign.isprintable() else " " for sign in " ".join(text.split()))
    return line.strip()[:LONGEST_TITLE]
