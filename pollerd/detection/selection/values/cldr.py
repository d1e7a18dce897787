"""Conventions of locales from CLDR (by Babel): spellings of digits and signs, separators of numbers, names in dates.

Babel's parser is not used: not strict, it takes "1.5" in German for 15. Babel is loaded at the first call: 9 ms and
1 MB, with the first locale 35 ms and 6 MB; each more locale 8 ms, 1 MB.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from pollerd.errors import nearest
from pollerd.texts import _

if TYPE_CHECKING:
    from babel.core import Locale


# One spelling for digits, spaces, apostrophes and minus signs.
#
# Not NFKC as a whole: that makes "79,99¹" 79.991 and "12 m²" two numbers. Only decimal digits (category Nd), full-width
# and small forms of ASCII and of currency signs are replaced.

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


# Separators of a written number, decided by settings or locale, by the number itself, by the document's language.

MAX_DIGITS = 30
EITHER = ".,"
ALWAYS_DECIMAL = "٫·"
ALWAYS_GROUP = "٬" + NARROW_SPACE
GROUP_OR_NOTHING = "' "
SEPARATORS = EITHER + ALWAYS_DECIMAL + ALWAYS_GROUP + GROUP_OR_NOTHING
_SPLIT = re.compile(f"([{SEPARATORS}])")


class Separators(msgspec.Struct, frozen=True):
    """Characters that part the fraction, and those that group the whole digits; `indian`: also as 1,23,456."""

    decimals: str
    groups: str
    indian: bool = True


def amount(body: str, stated: Separators | None, hints: Iterable[Separators]) -> Decimal | str:
    """Returns what a written number is, or why it is none.

    `body`: digits with single separators between, perhaps one in front. `stated`: settings or locale; the number must
    be written so. Without, a number that can only mean one thing means that; of the others the first hint that fits
    decides.
    """
    pieces = _SPLIT.split(body)
    parts, marks = pieces[::2], pieces[1::2]
    if sum(map(len, parts)) > MAX_DIGITS:
        return _("{excerpt} has more than {max_digits} digits", excerpt=excerpt(body), max_digits=MAX_DIGITS)
    if stated is not None:
        number = _by(parts, marks, stated)
        return (
            _("{excerpt} is not written as locale or separators say", excerpt=excerpt(body))
            if number is None
            else number
        )
    if _is_ambiguous(parts, marks):
        fitting = (number for hint in hints if (number := _by(parts, marks, hint)) is not None)
        return next(fitting, _readings(parts, marks))
    number = _by(parts, marks, _evident(marks))
    return (
        _("{excerpt} is no number: its digits are grouped oddly", excerpt=excerpt(body)) if number is None else number
    )


def _is_ambiguous(parts: list[str], marks: list[str]) -> bool:
    """One separator with exactly three digits behind it; or spaces, which also stand between two numbers."""
    if " " in marks:
        return True
    if len(marks) != 1 or marks[0] not in EITHER + "'":
        return False
    whole, rest = parts
    return len(rest) == 3 and 1 <= len(whole) <= 3 and not whole.startswith("0")


def _readings(parts: list[str], marks: list[str]) -> str:
    body = excerpt("".join(part + mark for part, mark in zip(parts, [*marks, ""], strict=True)))
    if " " in marks:
        return _("{body} can be one number or several; set locale, or group", body=body)
    if marks == ["'"]:
        return _(
            "{body} can be {whole}{rest} or something else; set locale, or group",
            body=body,
            whole=parts[0],
            rest=parts[1],
        )
    fraction = parts[1].rstrip("0")
    small = f"{parts[0]}.{fraction}" if fraction else parts[0]
    return _(
        "{body} can be {small} or {whole}{rest}; set locale, or decimal",
        body=body,
        small=small,
        whole=parts[0],
        rest=parts[1],
    )


def _evident(marks: list[str]) -> Separators:
    """The separators that a number shows which can only mean one thing."""
    groups = EITHER + ALWAYS_GROUP + "'"
    if not marks:
        return Separators("", groups)
    last, others = marks[-1], set(marks[:-1])
    alone = len(marks) == 1 and last in EITHER
    is_decimal = alone or last in ALWAYS_DECIMAL or (last in EITHER and bool(others) and last not in others)
    return Separators(last if is_decimal else "", groups.replace(last, "") if is_decimal else groups)


def _by(parts: list[str], marks: list[str], separators: Separators) -> Decimal | None:
    """The number if it is written with these separators."""
    fraction = ""
    if marks and marks[-1] in separators.decimals:
        parts, fraction, marks = parts[:-1], parts[-1], marks[:-1]
    if marks and not (len(set(marks)) == 1 and marks[0] in separators.groups and _is_grouped(parts, separators.indian)):
        return None
    if not parts[0] and not fraction:
        return None
    return Decimal(f"{''.join(parts) or '0'}.{fraction}" if fraction else "".join(parts))


def _is_grouped(parts: list[str], indian: bool) -> bool:
    """Threes (1,234,567), or as in India twos before the last three (12,34,567)."""
    if not 1 <= len(parts[0]) <= 3 or len(parts[-1]) != 3:
        return False
    between = {len(part) for part in parts[1:-1]}
    return between <= {3} or (indian and between == {2} and len(parts[0]) <= 2)


# Locales by their tags.

_LONGEST_TAG = 40


@lru_cache(maxsize=256)
def locale_of(tag: str) -> Locale | None:
    """Returns the locale of a tag such as "de-DE" or "zh_TW"; None if CLDR has none."""
    from babel.core import Locale, UnknownLocaleError

    if not tag.isascii() or len(tag) > _LONGEST_TAG:
        return None
    try:
        return Locale.parse(tag.strip().replace("-", "_"))
    except (ValueError, UnknownLocaleError, TypeError):  # a TypeError of Babel's for an empty tag
        return None


def nearest_locales(tag: str) -> str:
    """Returns names of locales that look like the tag, joined by commas; empty if none does."""
    from babel import localedata

    return nearest(tag, [name.replace("_", "-") for name in localedata.locale_identifiers()])


@lru_cache(maxsize=256)
def separators_of(tag: str) -> Separators | None:
    """Returns the separators of a locale, or of the language alone for a region that CLDR does not know; else None.

    Those of its own digits and those of Latin digits count both.
    """
    locale = locale_of(tag) or locale_of(tag.replace("_", "-").partition("-")[0])
    if locale is None:
        return None
    symbols = [locale.number_symbols.get(system, {}) for system in (locale.default_numbering_system, "latn")]
    decimals = _characters(symbols, "decimal", "currencyDecimal")
    groups = "".join(sign for sign in _characters(symbols, "group", "currencyGroup") if sign not in decimals)
    if " " in groups or "\u202f" in groups:
        groups += " \u202f"
    pattern = locale.decimal_formats[None].pattern
    return Separators(decimals, groups, indian="#,##,##" in pattern)


def _characters(symbols: list[Mapping[str, str]], *names: str) -> str:
    signs = (plain(of.get(name) or "") for of in symbols for name in names)
    return "".join(dict.fromkeys(sign for sign in signs if len(sign) == 1 and sign in SEPARATORS))


@lru_cache(maxsize=64)
def own_currency_signs(tag: str) -> Mapping[str, str]:
    """Returns the signs that a locale writes for currencies, each with its code: "$" is CAD in en-CA."""
    locale = locale_of(tag)
    if locale is None:
        return {}
    signs = ((plain(sign), code) for code, sign in locale.currency_symbols.items() if sign != code)
    return {sign: code for sign, code in signs if sign}


def month_names(tag: str) -> dict[str, int]:
    """Returns the months' names of a locale, wide and abbreviated, in lower case without a final dot."""
    return dict(_names(locale_of(tag), "months"))


def weekday_names(tag: str) -> dict[str, int]:
    """Returns the days' names of a locale, as `month_names`."""
    return dict(_names(locale_of(tag), "days"))


def half_day_names(tag: str) -> dict[str, int]:
    """Returns the names of the halves of the day: 0 before noon, 1 after."""
    locale = locale_of(tag)
    periods: Any = {} if locale is None else locale.day_periods
    widths = [names for context in periods.values() for names in context.values()]
    return {
        plain(names[key]).casefold().rstrip("."): half
        for names in widths
        for half, key in enumerate(("am", "pm"))
        if key in names
    }


def date_patterns(tag: str) -> list[str]:
    """Returns the patterns by which a locale writes dates, shortest first."""
    locale = locale_of(tag)
    return [] if locale is None else [str(locale.date_formats[width].pattern) for width in _WIDTHS]


_WIDTHS = ("short", "medium", "long", "full")


def _names(locale: Locale | None, which: str) -> Iterator[tuple[str, int]]:
    contexts: Any = {} if locale is None else getattr(locale, which)
    for context in contexts.values():
        for width, names in context.items():
            if width != "narrow":
                yield from ((plain(name).casefold().rstrip("."), number) for number, name in names.items())
