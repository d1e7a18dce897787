"""Local times and time zones.

A local time that a clock skips (spring) is read with the offset before the gap: 02:30 in Berlin on 2026-03-29 is
01:30 UTC. One that it shows twice (autumn) is the first. Both as RFC 5545 and PEP 495 have it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

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
