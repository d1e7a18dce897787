"""Words from strangers, made storable: servers send any bytes, databases take UTF-8 without NUL."""

from __future__ import annotations


def storable(text: str | None) -> str | None:
    """The text with what no database takes (lone surrogates, NUL) replaced."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def storable_word(text: str) -> str:
    """The same for a text that is never absent."""
    return storable(text) or ""


def encode_header(text: str | None) -> bytes | None:
    """A header value as bytes; whatever bytes the server sent come back from `decode_header` unharmed."""
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def decode_header(data: bytes | None) -> str | None:
    """The header value that `encode_header` kept."""
    return None if data is None else data.decode("utf-8", "surrogateescape")
