"""Days and instants out of the parts of a written date."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo

from pollerd.detection.selection.values.dates.zones import instant, offset_of
from pollerd.detection.selection.values.form import Reading

OLDEST_YEAR, NEWEST_YEAR = 1600, 9998
_PIVOT = 69
"""Years of two digits are 1969 to 2068, as in POSIX: we have no clock here that could tell more."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
ENGLISH_MONTHS = {name: number for number, name in enumerate(_MONTHS, 1)}


def reading_of(parts: Mapping[str, str], zone: tzinfo | None, shown: str, names: Mapping[str, int]) -> Reading:
    """Returns the reading of a date's parts; `shown`: for problems; `names`: of months and halves of the day.

    `parts`: of year, short_year, month, month_name, day, week, weekday, ordinal, hour, minute, second, fraction,
    half, offset those that are written. Without an hour it is a day, which begins at midnight in the zone (None: UTC).
    """
    try:
        day = _day(parts, names)
        if not OLDEST_YEAR <= day.year <= NEWEST_YEAR:
            return Reading(problem=f"{shown} is not between the years {OLDEST_YEAR} and {NEWEST_YEAR}")
        if not parts.get("hour"):
            begin = datetime(day.year, day.month, day.day, tzinfo=zone or UTC)
            return Reading(text=day.isoformat(), moment=instant(begin))
        local = datetime(day.year, day.month, day.day) + _time(parts, names)
    except (ValueError, KeyError):
        return Reading(problem=f"{shown} is no day and time that there is")
    return _instant_reading(local, parts.get("offset") or "", zone, shown)


def _instant_reading(local: datetime, offset: str, zone: tzinfo | None, shown: str) -> Reading:
    written = offset_of(offset) if offset else zone or UTC
    if written is None:
        return Reading(problem=f"{shown} names a zone that is not one place's: {offset}; write an offset")
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
            raise ValueError("no such day")
        return day
    month = int(parts["month"]) if parts.get("month") else names[parts["month_name"].casefold().rstrip(".")]
    return date(year, month, int(parts["day"]))


def _time(parts: Mapping[str, str], names: Mapping[str, int]) -> timedelta:
    """Since midnight; 24:00 is the day's end, second 60 a leap second."""
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    fraction = (parts.get("fraction") or "0")[:6].ljust(6, "0")
    if parts.get("half"):
        if not 1 <= hour <= 12:
            raise ValueError("no hour of half a day")
        hour = hour % 12 + 12 * names[parts["half"].casefold().rstrip(".")]
    if hour > 24 or minute > 59 or second > 60 or (hour == 24 and (minute or second)):
        raise ValueError("no such time")
    return timedelta(hours=hour, minutes=minute, seconds=second, microseconds=int(fraction))
