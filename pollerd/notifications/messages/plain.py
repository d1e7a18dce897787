"""Text of pages as plain lines: without what breaks lines, hides, or turns the direction of writing."""

from __future__ import annotations

import re

_BREAKS = re.compile("[\\s\\x00-\\x1f\\x7f-\\x9f\u2028\u2029]")
_HIDDEN = re.compile(
    "[\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u3164"
    "\\ufdd0-\\ufdef\\ufeff\\uffa0\\ufff9-\\ufffb\\ufffe\\uffff\\U000e0000-\\U000e0fff]"
)
"""Characters without width and marks of direction, but for the joiners that scripts and emoji need (U+200C, U+200D)."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_LOOKED_AT = 4
"""How many times the length to be shown is looked at: the rest may be hidden characters."""


def one_line(text: str, most: int) -> str:
    """Returns a text on one line with single spaces, at most `most` characters."""
    return _cut(text, " ".join(_cleaned(text, most).split()), most)


def plain_line(text: str, most: int) -> str:
    """Returns a text on one line that keeps its spaces, at most `most` characters. Takes time linear in `most`."""
    return _cut(text, _cleaned(text, most).rstrip(), most)


def _cleaned(text: str, most: int) -> str:
    looked_at = text[: _LOOKED_AT * most]
    if looked_at.isprintable():
        return looked_at
    return _SURROGATES.sub("\ufffd", _HIDDEN.sub("", _BREAKS.sub(" ", looked_at)))


def _cut(text: str, line: str, most: int) -> str:
    more = len(line) > most or (line and len(text) > _LOOKED_AT * most)
    return line[: most - 1].rstrip() + "…" if more else line
