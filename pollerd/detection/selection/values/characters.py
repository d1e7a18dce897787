"""One spelling for digits, spaces, apostrophes and minus signs.

Not NFKC as a whole: that makes "79,99¹" 79.991 and "12 m²" two numbers. Only decimal digits (category Nd), full-width
and small forms of ASCII and of currency signs are replaced.
"""

from __future__ import annotations

import unicodedata

NARROW_SPACE = "\u202f"
"""Stands for the thin spaces, which group digits and do nothing else."""
_THIN = frozenset("\u2006\u2008\u2009\u200a\u202f")
_APOSTROPHES = frozenset("'\u2018\u2019\u02bc\uff07")
_MINUSES = frozenset("-\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d")
_LINE_ENDS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029")
_ASCII_LINES = {ord(character): "\n" for character in _LINE_ENDS if character.isascii()}
_SHOWN = 40


def plain(text: str) -> str:
    """Returns the text with ASCII digits, "'", "-", plain and narrow spaces; tabs and line ends are line feeds.

    Invisible format characters (direction marks, zero-width spaces) are removed. Linear in the text.
    """
    if text.isascii():
        return text.translate(_ASCII_LINES)
    return text.translate({ord(character): _replacement(character) for character in set(text)})


def _replacement(character: str) -> str:
    for members, replacement in ((_LINE_ENDS, "\n"), (_APOSTROPHES, "'"), (_MINUSES, "-"), (_THIN, NARROW_SPACE)):
        if character in members:
            return replacement
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category in ("Zs", "Cf"):
        return " " if category == "Zs" else ""
    if "\ufe50" <= character <= "\ufe6b" or "\uff01" <= character <= "\uff5e" or "\uffe0" <= character <= "\uffe6":
        return unicodedata.normalize("NFKC", character)
    return character


def is_cased(character: str) -> bool:
    """Returns whether a character belongs to a word of a script with capitals, or is an underscore.

    Digits beside it belong to a name (A4, 1_000); beside letters of other scripts they are numbers, as in 共12件.
    """
    return character == "_" or character.lower() != character.upper()


def excerpt(text: str) -> str:
    """Returns at most 40 printable characters of the text, quoted."""
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return '"' + "".join(character if character.isprintable() else "�" for character in shown) + '"'
