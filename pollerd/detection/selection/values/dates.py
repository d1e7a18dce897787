"""Dates and instants, read from texts: ISO 8601, RFC 9110 and 5322, and the pattern of a format or a locale.

Relative times are no values: they change at every poll. "02/03/2026" without format or locale is ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

import msgspec

from pollerd.detection.selection.values import cldr
from pollerd.detection.selection.values.cldr import excerpt, plain
from pollerd.detection.selection.values.form import Reading, ValueFormat
from pollerd.errors import InvalidValueError
from pollerd.texts import _

# Date patterns of CLDR (dd.MM.yyyy, d MMMM yyyy, HH:mm), compiled to regular expressions.

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
_NO_DIGIT_BEFORE, _NO_DIGIT_AFTER = r"(?<![0-9])(?<![0-9][./-])", r"(?![0-9])(?![./-][0-9])"
_MAYBE_CLOCK = (
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
        raise InvalidValueError("format", _("at most {longest} characters", longest=_LONGEST), written)
    regex, names = _compiled(written, locale, lenient=False)
    return DatePattern(re.compile(f"{_NO_DIGIT_BEFORE}{regex}{_NO_DIGIT_AFTER}", re.IGNORECASE), names)


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
        DatePattern(re.compile(f"{_NO_DIGIT_BEFORE}{regex}{_MAYBE_CLOCK}{_NO_DIGIT_AFTER}", re.IGNORECASE), names)
        for regex, names in compiled
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
            raise InvalidValueError(
                "format",
                _("a pattern with one {name} (character {start})", name=name, start=token.start() + 1),
                written,
            )
        seen.add(name)
        names.update(added)
        pieces.append(f"(?P<{name}>{regex})" if name != "weekday_name" else f"(?:{regex})")
    _check_parts(seen, written)
    return "".join(pieces), names


def _check_parts(seen: set[str], written: str) -> None:
    if "day" not in seen or not seen & {"month", "month_name"} or not seen & {"year", "short_year"}:
        raise InvalidValueError("format", _("a pattern with day, month and year"), written)
    for part, needed in (("minute", "hour"), ("second", "minute"), ("fraction", "second"), ("offset", "hour")):
        if part in seen and needed not in seen:
            raise InvalidValueError(
                "format", _("a pattern with {needed} next to {part}", needed=needed, part=part), written
            )
    if len(seen & {"month", "month_name"}) > 1 or len(seen & {"year", "short_year"}) > 1:
        raise InvalidValueError("format", _("a pattern with one month and one year"), written)


def _literal(piece: str, written: str, place: int) -> str:
    if piece == "'":
        raise InvalidValueError(
            "format", _("a pattern whose quotes are closed (character {place})", place=place + 1), written
        )
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
        raise InvalidValueError(
            "format", _("fields of CLDR's: {allowed} (character {place})", allowed=_ALLOWED, place=place + 1), written
        )
    if name == "half":
        names = {"am": 0, "pm": 1, "a.m": 0, "p.m": 1} | ({} if locale is None else cldr.half_day_names(locale))
        return name, _alternatives(names), names
    if locale is None:
        raise InvalidValueError(
            "format", _("numbers only without a locale (character {place})", place=place + 1), written
        )
    names = cldr.month_names(locale) if name == "month_name" else cldr.weekday_names(locale)
    return name, _alternatives(names), names if name == "month_name" else {}


def _alternatives(names: Mapping[str, int]) -> str:
    return "|".join(re.escape(name) + "\\.?" for name in sorted(names, key=len, reverse=True))


# Local times and time zones.
#
# A local time that a clock skips (spring) is read with the offset before the gap: 02:30 in Berlin on 2026-03-29 is
# 01:30 UTC. One that it shows twice (autumn) is the first. Both as RFC 5545 and PEP 495 have it.

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WIDEST_OFFSET_S = 18 * 3600
_NAMED_HOURS = {
    "Z": 0,
    "UT": 0,
    "UTC": 0,
    "GMT": 0,
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
}
"""RFC 5322 section 4.3; other abbreviations mean different things in different places."""


@lru_cache(maxsize=256)
def zone_of(name: str) -> tzinfo | None:
    """Returns the time zone of a name of the IANA database; None if there is none."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a directory ("Europe") is an OSError
        return None


def zone_names() -> list[str]:
    """Returns the names of all time zones."""
    from zoneinfo import available_timezones

    return sorted(available_timezones())


def offset_of(written: str) -> timezone | None:
    """Returns the offset written as "Z", "GMT", "+01:00", "-0530" or "+01"; None if it is none."""
    if written in _NAMED_HOURS:
        return timezone(timedelta(hours=_NAMED_HOURS[written]))
    digits = written[1:].replace(":", "")
    if not (written[:1] in ("+", "-") and digits.isascii() and digits.isdigit() and len(digits) in (2, 4)):
        return None
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    seconds = 3600 * hours + 60 * minutes
    if minutes > 59 or seconds > _WIDEST_OFFSET_S:
        return None
    return timezone(timedelta(seconds=-seconds if written[0] == "-" else seconds))


def instant(local: datetime) -> float:
    """Returns the UTC epoch seconds of an aware time."""
    return (local - EPOCH).total_seconds() if local.tzinfo is UTC else (local.astimezone(UTC) - EPOCH).total_seconds()


# Days and instants from the parts of a written date.

OLDEST_YEAR, NEWEST_YEAR = 1600, 9998
_PIVOT = 69
"""Years of two digits are 1969 to 2068, as in POSIX: we have no clock here that could tell more."""
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
ENGLISH_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}


def reading_of(parts: Mapping[str, str], zone: tzinfo | None, shown: str, names: Mapping[str, int]) -> Reading:
    """Returns the reading of a date's parts; `shown`: for problems; `names`: of months and halves of the day.

    `parts`: of year, short_year, month, month_name, day, week, weekday, ordinal, hour, minute, second, fraction,
    half, offset those that are written. Without an hour it is a day, which begins at midnight in the zone (None: UTC).
    """
    try:
        day = _day(parts, names)
        if not OLDEST_YEAR <= day.year <= NEWEST_YEAR:
            return Reading(
                problem=_(
                    "{shown} is not between the years {oldest_year} and {newest_year}",
                    shown=shown,
                    oldest_year=OLDEST_YEAR,
                    newest_year=NEWEST_YEAR,
                )
            )
        if not parts.get("hour"):
            begin = datetime(day.year, day.month, day.day, tzinfo=zone or UTC)
            return Reading(text=day.isoformat(), moment=instant(begin))
        local = datetime(day.year, day.month, day.day) + _time(parts, names)
    except (ValueError, KeyError):
        return Reading(problem=_("{shown} is no day and time that there is", shown=shown))
    return _instant_reading(local, parts.get("offset") or "", zone, shown)


def _instant_reading(local: datetime, offset: str, zone: tzinfo | None, shown: str) -> Reading:
    written = offset_of(offset) if offset else zone or UTC
    if written is None:
        return Reading(
            problem=_(
                "{shown} names a zone that is not one place's: {offset}; write an offset", shown=shown, offset=offset
            )
        )
    moment = instant(local.replace(tzinfo=written))
    told = datetime.fromtimestamp(0, UTC) + timedelta(seconds=moment)
    text = (told if zone is None else told.astimezone(zone)).isoformat()
    return Reading(text=text.replace("+00:00", "Z") if zone is None else text, moment=moment)


def _day(parts: Mapping[str, str], names: Mapping[str, int]) -> date:
    short = parts.get("short_year")
    year = int(parts["year"]) if not short else int(short) + (1900 if int(short) >= _PIVOT else 2000)
    if parts.get("week"):
        return date.fromisocalendar(year, int(parts["week"]), int(parts["weekday"]))
    if parts.get("ordinal"):
        day = date(year, 1, 1) + timedelta(days=int(parts["ordinal"]) - 1)
        if day.year != year:
            raise ValueError(_("no such day"))
        return day
    month = int(parts["month"]) if parts.get("month") else names[parts["month_name"].casefold().rstrip(".")]
    return date(year, month, int(parts["day"]))


def _time(parts: Mapping[str, str], names: Mapping[str, int]) -> timedelta:
    """Since midnight; 24:00 is the day's end, second 60 a leap second."""
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    fraction = (parts.get("fraction") or "0")[:6].ljust(6, "0")
    if parts.get("half"):
        if not 1 <= hour <= 12:
            raise ValueError(_("no hour of half a day"))
        hour = hour % 12 + 12 * names[parts["half"].casefold().rstrip(".")]
    if hour > 24 or minute > 59 or second > 60 or (hour == 24 and (minute or second)):
        raise ValueError(_("no such time"))
    return timedelta(hours=hour, minutes=minute, seconds=second, microseconds=int(fraction))


MAX_DATES = 1_000
_OFFSET = "(?: ?(?P<offset>[+-][0-9]{2}(?::?[0-9]{2})?(?![0-9:])|[A-Z]{1,5}(?![A-Za-z0-9])))?"
_CLOCK = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?" + _OFFSET
_TWELVE = "(?! ?[aApP]\\.?[mM])"
_FREE, _END = r"(?<![0-9A-Za-z])(?<![0-9][./-])", r"(?![0-9])(?![./:-][0-9])"
_NAMES = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_EVIDENT = [
    f"(?P<year>[0-9]{{4}})-(?:(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})|W(?P<week>[0-9]{{2}})-(?P<weekday>[1-7])"
    f"|(?P<ordinal>[0-9]{{3}}))(?:(?:[Tt]| |, )(?=[0-9]{{2}}:){_CLOCK})?",
    "(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})T(?P<hour>[0-9]{2})(?P<minute>[0-9]{2})(?P<second>[0-9]{2})?"
    + _OFFSET,
    f"(?P<day>[0-9]{{1,2}})(?P<dash>[ -])(?P<month_name>{_NAMES})(?P=dash)"
    f"(?:(?P<year>[0-9]{{4}})|(?P<short_year>[0-9]{{2}}))(?: {_CLOCK})?",
    f"(?P<month_name>{_NAMES}) {{1,2}}(?P<day>[0-9]{{1,2}}) (?P<hour>[0-9]{{2}}):(?P<minute>[0-9]{{2}})"
    ":(?P<second>[0-9]{2}) (?P<year>[0-9]{4})",
    "(?P<year>[0-9]{4}) ?[年년] ?(?P<month>[0-9]{1,2}) ?[月월] ?(?P<day>[0-9]{1,2}) ?[日일]",
]
_EVIDENT_PATTERNS = tuple(
    DatePattern(re.compile(f"{_FREE}{written}{_TWELVE}{_END}"), ENGLISH_MONTHS) for written in _EVIDENT
)
_UNCLEAR = re.compile(
    r"(?<![0-9])[0-9]{1,4}([./-])[0-9]{1,2}\1[0-9]{2,4}(?![0-9])|(?<![0-9])[0-9]{1,2}\. ?[0-9]{1,2}\."
)


def date_readings(texts: Sequence[str], form: ValueFormat, machine: bool) -> Iterator[Reading]:
    """Yields a reading for each date in the plain texts, in their order; `machine`: as for `read_value`."""
    patterns: tuple[DatePattern, ...] = ()
    if form.format is not None:
        patterns = (pattern_of(form.format, form.locale),)
    elif form.locale is not None:
        patterns = patterns_of_locale(form.locale)
    if form.format is None or machine:
        patterns = (*_EVIDENT_PATTERNS, *patterns)
    zone = None if form.zone is None else zone_of(form.zone)
    number = 0
    for text in texts:
        for match, pattern in _found(text, patterns):
            number += 1
            if number > MAX_DATES:
                yield Reading(problem=_("more than {max_dates:,} dates", max_dates=MAX_DATES))
                return
            shown = excerpt(match[0])
            parts = {name: part for name, part in match.groupdict().items() if part}
            yield reading_of(parts, zone, shown, pattern.names)
    if not number and form.format is None:
        yield from _unclear(texts)


def _found(text: str, patterns: Sequence[DatePattern]) -> Iterator[tuple[re.Match[str], DatePattern]]:
    """The matches that do not overlap: the first, of those at one place the longest."""
    matches = [(match, pattern) for pattern in patterns for match in pattern.regex.finditer(text)]
    matches.sort(key=lambda pair: (pair[0].start(), -pair[0].end()))
    free = 0
    for match, pattern in matches:
        if match.start() >= free:
            free = match.end()
            yield match, pattern


def _unclear(texts: Sequence[str]) -> Iterator[Reading]:
    for text in texts:
        match = _UNCLEAR.search(text)
        if match is not None:
            yield Reading(
                problem=_(
                    "{excerpt}: which is the day, and which the month? Set format, or locale", excerpt=excerpt(match[0])
                )
            )
            return
