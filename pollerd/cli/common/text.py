"""Text that strangers wrote, for a terminal."""

from __future__ import annotations


def clean(text: str) -> str:
    """One line, with nothing in it that a terminal takes for a command."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def clean_line(text: str) -> str:
    """As `clean`, for a line of a page: tabs are its author's, and harmless."""
    return "\t".join(map(clean, text.split("\t")))
