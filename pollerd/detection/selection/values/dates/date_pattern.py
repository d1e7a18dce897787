"""Compiles a date pattern of CLDR (dd.MM.yyyy, d MMMM yyyy, HH:mm) to a regular expression."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from pollerd.detection.selection.values import cldr
from pollerd.detection.selection.values.characters import plain
from pollerd.errors import InvalidValueError

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")
_FIELDS = {
    **dict.fromkeys(("y", "yyyy", "u", "uuuu"), ("year", "[0-9]{4}")),
    "yy": ("short_year", "[0-9]{2}"),
    **dict.fromkeys(("M", "L"), ("month", "[0-9]{1,2}")),
    **dict.fromkeys(("MM", "LL"), ("month", "[0-9]{2}")),
    "d": ("day", "[0-9]{1,2}"),
    "dd": ("day", "[0-9]{2}"),
    **dict.fromkeys(("H", "h"), ("hour", "[0-9]{1,2}")),
    **dict.fromkeys(("HH", "hh"), ("hour", "[0-9]{2}")),
    "m": ("minute", "[0-9]{1,2}"),
    "mm": ("minute", "[0-9]{2}"),
    "s": ("second", "[0-9]{1,2}"),
    "ss": ("second", "[0-9]{2}"),
    **{"S" * length: ("fraction", f"[0-9]{{{length}}}") for length in range(1, 10)},
    **dict.fromkeys(("X", "XX", "XXX", "x", "xx", "xxx", "Z", "ZZZZZ"), ("offset", "Z|[+-][0-9]{2}(?::?[0-9]{2})?")),
    "z": ("offset", "Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2}"),
}
_MONTHS, _WEEKDAYS, _HALVES = ("MMM", "MMMM", "LLL", "LLLL"), ("E", "EE", "EEE", "EEEE", "ccc", "cccc"), ("a",)
_ALLOWED = "y yy yyyy M MM MMM MMMM d dd E EEEE H HH h hh mm ss S a X XXX z, and words in '…'"
_FREE, _END = r"(?<![0-9])(?<![0-9][./-])", r"(?![0-9])(?![./-][0-9])"
_CLOCK = (
    "(?:,?[ \u202f]?(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?"
    "(?![0-9:])(?![ \u202f]?[aApP]\\.?[mM]))?"
)
_LONGEST = 100


class DatePattern(msgspec.Struct, frozen=True):
    """A way to write a date: groups are the parts of `reading_of`; `names`: of months and halves of the day."""

    regex: re.Pattern[str]
    names: Mapping[str, int]


@lru_cache(maxsize=256)
def pattern_of(written: str, locale: str | None) -> DatePattern:
    """Compiles a pattern; names of months and days are those of the locale.

    Raises InvalidValueError, field "format", for a pattern that cannot be, or that lacks day, month or year.
    """
    if len(written) > _LONGEST:
        raise InvalidValueError("format", f"at most {_LONGEST} characters", written)
    regex, names = _compiled(written, locale, lenient=False)
    return DatePattern(re.compile(f"{_FREE}{regex}{_END}", re.IGNORECASE), names)


@lru_cache(maxsize=64)
def patterns_of_locale(locale: str) -> tuple[DatePattern, ...]:
    """Compiles the patterns by which a locale writes dates, with years of two and four digits, and an optional time.

    Patterns of other calendars (with an era) are left out.
    """
    patterns = {
        variant: None
        for written in cldr.date_patterns(locale)
        if "G" not in written
        for variant in (written, re.sub("y+", "yyyy", written))
    }
    compiled = (_compiled(written, locale, lenient=True) for written in patterns)
    return tuple(
        DatePattern(re.compile(f"{_FREE}{regex}{_CLOCK}{_END}", re.IGNORECASE), names) for regex, names in compiled
    )


def _compiled(written: str, locale: str | None, *, lenient: bool) -> tuple[str, dict[str, int]]:
    pieces: list[str] = []
    names: dict[str, int] = {}
    seen: set[str] = set()
    for token in _TOKEN.finditer(written):
        piece = token[0]
        if lenient and piece in ("dd", "MM"):
            piece = piece[0]
        if token[1] is None:
            pieces.append(_literal(piece, written, token.start()))
            continue
        name, regex, added = _field(piece, locale, written, token.start())
        if name in seen:
            raise InvalidValueError("format", f"a pattern with one {name} (character {token.start() + 1})", written)
        seen.add(name)
        names.update(added)
        pieces.append(f"(?P<{name}>{regex})" if name != "weekday_name" else f"(?:{regex})")
    _check_parts(seen, written)
    return "".join(pieces), names


def _check_parts(seen: set[str], written: str) -> None:
    if "day" not in seen or not seen & {"month", "month_name"} or not seen & {"year", "short_year"}:
        raise InvalidValueError("format", "a pattern with day, month and year", written)
    for part, needed in (("minute", "hour"), ("second", "minute"), ("fraction", "second"), ("offset", "hour")):
        if part in seen and needed not in seen:
            raise InvalidValueError("format", f"a pattern with {needed} beside {part}", written)
    if len(seen & {"month", "month_name"}) > 1 or len(seen & {"year", "short_year"}) > 1:
        raise InvalidValueError("format", "a pattern with one month and one year", written)


def _literal(piece: str, written: str, place: int) -> str:
    if piece == "'":
        raise InvalidValueError("format", f"a pattern whose quotes are closed (character {place + 1})", written)
    text = piece[1:-1].replace("''", "'") or "'" if piece.startswith("'") else piece
    return "".join(
        "[ \u202f\n]+" if part.isspace() else re.escape(part) for part in re.split("([ \u202f\n]+)", plain(text))
    )


def _field(piece: str, locale: str | None, written: str, place: int) -> tuple[str, str, dict[str, int]]:
    if piece in _FIELDS:
        return (*_FIELDS[piece], {})
    kinds = ((_MONTHS, "month_name"), (_WEEKDAYS, "weekday_name"), (_HALVES, "half"))
    name = next((name for pieces, name in kinds if piece in pieces), None)
    if name is None:
        raise InvalidValueError("format", f"fields of CLDR's: {_ALLOWED} (character {place + 1})", written)
    if name == "half":
        found = {"am": 0, "pm": 1, "a.m": 0, "p.m": 1} | ({} if locale is None else cldr.half_day_names(locale))
        return name, _alternatives(found), found
    if locale is None:
        raise InvalidValueError("format", f"numbers only without a locale (character {place + 1})", written)
    found = cldr.month_names(locale) if name == "month_name" else cldr.weekday_names(locale)
    return name, _alternatives(found), found if name == "month_name" else {}


def _alternatives(names: Mapping[str, int]) -> str:
    return "|".join(re.escape(name) + "\\.?" for name in sorted(names, key=len, reverse=True))
