"""Determines the media of a body from its Content-Type and its content."""

from __future__ import annotations

import re
from functools import lru_cache

from pollerd.detection.charset import strip_mark, to_utf8
from pollerd.model import Media

_HEAD = 2048
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_PROLOGUE = re.compile(rb"<[?!][^>]*(?:>|\Z)")
_FEED_ROOT = re.compile(rb"\s*<(?:rss|feed|rdf:RDF|[A-Za-z_][\w.-]*:(?:feed|RDF|rss))[\s/>]")
_HTML_START = re.compile(
    rb"\s*<(?:!doctype\s+html|html|head|body|title|meta|script|style|link|div|p|h1|table|br)\b", re.IGNORECASE
)
_PAGE = re.compile(rb"\s*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json"})
_TEXT_TYPES = frozenset(
    {"application/xml", "application/javascript", "application/ecmascript", "application/yaml", "application/x-yaml"}
    | {"application/toml", "application/x-ndjson", "application/jsonl", "application/sql", "application/x-sh"}
)
_UNSTATED = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown"})


@lru_cache(maxsize=1024)
def essence(content_type: str | None) -> str:
    """Returns the media type without parameters, in lower case; empty if none is stated."""
    return (content_type or "").partition(";")[0].strip().lower()


def classify(body: bytes, content_type: str | None) -> tuple[tuple[Media, ...], bytes]:
    """Returns candidate media, best first (the last always works), and the text to parse.

    The text is UTF-8 without byte order mark, or for BINARY alone the bytes unchanged.

    Feeds and JSON are recognised by content under any textual type, because servers often send both as `text/plain`,
    `text/xml` or `text/html`; HTML is assumed only if it is stated, or no type is.
    """
    kind = essence(content_type)
    if _opaque(kind, body):
        return (Media.BINARY,), body
    text = to_utf8(body, content_type)
    return _candidates(kind, text[:_HEAD]), text


def _opaque(kind: str, body: bytes) -> bool:
    """Returns True if only BINARY can apply: nothing needs to be decoded or inspected."""
    if kind in _UNSTATED:
        head = body[:_HEAD]
        return b"\0" in head and strip_mark(head)[1] is None
    return _fallback(kind, b"") is Media.BINARY


def _candidates(kind: str, head: bytes) -> tuple[Media, ...]:
    """Returns candidate media for a text of the stated type that begins with `head`."""
    if kind in _HTML_TYPES and _PAGE.match(head):
        return (Media.HTML,)
    fallback = _fallback(kind, head)
    start = head.lstrip()[:1]
    if start in (b"{", b"["):
        # A JSON Feed is JSON that declares itself: the parser decides.
        return (Media.FEED, Media.JSON, fallback)
    if start == b"<" and _FEED_ROOT.match(_PROLOGUE.sub(b"", _COMMENT.sub(b"", head))):
        return (Media.FEED, fallback)
    if kind in _FEED_TYPES and start == b"<":
        return (Media.FEED, fallback)
    if _is_json(kind):
        return (Media.JSON, fallback)
    return (fallback,)


def _fallback(kind: str, head: bytes) -> Media:
    if kind in _HTML_TYPES:
        return Media.HTML
    if kind in _UNSTATED:
        return _looks(kind, head)
    textual = kind.startswith("text/") or kind.endswith("+xml") or kind in _TEXT_TYPES or kind in _FEED_TYPES
    return Media.TEXT if textual or _is_json(kind) else Media.BINARY


def _looks(kind: str, head: bytes) -> Media:
    if b"\0" in head:
        return Media.BINARY
    if not kind and _HTML_START.match(_COMMENT.sub(b"", head)):
        return Media.HTML
    return Media.TEXT if _begins_as_text(head) else Media.BINARY


def _begins_as_text(head: bytes) -> bool:
    # The head may end within a character: up to three of its bytes are ignored.
    for cut in range(4):
        try:
            head[: len(head) - cut].decode()
        except UnicodeDecodeError:
            continue
        return True
    return False


def _is_json(kind: str) -> bool:
    return kind in ("application/json", "text/json") or kind.endswith("+json")
