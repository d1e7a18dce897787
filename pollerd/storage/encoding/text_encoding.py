"""Makes untrusted text storable: servers send any bytes, databases accept UTF-8 without NUL."""

from __future__ import annotations


def storable(text: str | None) -> str | None:
    """Returns the text with unstorable characters (lone surrogates, NUL) replaced."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def storable_word(text: str) -> str:
    """As `storable`, for text that is never None."""
    return storable(text) or ""


def encode_header(text: str | None) -> bytes | None:
    """Returns a header value as bytes; `decode_header` restores exactly what the server sent."""
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def decode_header(data: bytes | None) -> str | None:
    """Returns the header value that `encode_header` encoded."""
    return None if data is None else data.decode("utf-8", "surrogateescape")


def split_names(text: str) -> tuple[str, ...]:
    """Returns the names of a text that holds them by commas."""
    return tuple(text.split(",")) if text else ()
