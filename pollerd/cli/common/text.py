"""Makes untrusted text safe for a terminal."""

from __future__ import annotations


def clean(text: str) -> str:
    """Returns one line without control characters for the terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def clean_line(text: str) -> str:
    """Like `clean`, for a line of a page: keeps tabs, which are harmless."""
    return "\t".join(map(clean, text.split("\t")))
