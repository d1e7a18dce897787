"""Instants of local times in IANA time zones. Reads the zones of the system or of `tzdata`.

A local time stands for the first instant of its day at which clocks show at least it: where clocks skip it, the end of
the gap; where it comes twice, the first.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING

from pollerd.errors import InvalidValueError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)\Z")


def is_clock(text: str) -> bool:
    """Returns whether the text is a time of day from 00:00 to 23:59."""
    return _CLOCK.match(text) is not None


def clock_of(text: str, field: str) -> time:
    """Returns the time of day of a text as 08:00. Raises InvalidValueError."""
    found = _CLOCK.match(text)
    if found is None:
        raise InvalidValueError(field, "a time as 08:00", text[:32])
    return time(int(found[1]), int(found[2]))


def first_instant(zone: tzinfo, day: date, clock: time) -> float:
    """Returns the first instant of the local day at which its clocks show at least this time, epoch s."""
    local = datetime.combine(day, clock)
    late = local.replace(tzinfo=zone).timestamp()
    if local_time(zone, late).replace(tzinfo=None) == local:
        return late
    early = local.replace(tzinfo=zone, fold=1).timestamp()
    return offset_change(zone, round(early), round(late))


def has_day(zone: tzinfo, day: date) -> bool:
    """Returns whether the zone's calendar has the day: Samoa skipped 2011-12-30."""
    return local_time(zone, first_instant(zone, day, time())).date() == day


def local_time(zone: tzinfo, at: float) -> datetime:
    """Returns what clocks show at `at` (epoch s)."""
    return datetime.fromtimestamp(at, zone)


def offset_change(zone: tzinfo, before: int, after: int) -> float:
    """Returns the second between the two (epoch s) from which another offset from UTC holds."""
    offset = _offset(zone, before)
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(zone, middle) == offset:
            before = middle
        else:
            after = middle
    return float(after)


def _offset(zone: tzinfo, at: int) -> timedelta | None:
    return datetime.fromtimestamp(at, UTC).astimezone(zone).utcoffset()


def zone_of(name: str, field: str) -> ZoneInfo:
    """Returns the zone. Raises InvalidValueError that names those nearest to it."""
    try:
        return _zone_of(name)
    except (LookupError, ValueError, OSError) as error:
        from difflib import get_close_matches

        known = _zone_names()
        near = [known[one] for one in get_close_matches(name.lower()[:64], known, 3)]
        more = f"; nearest: {', '.join(near)}" if near else ""
        raise InvalidValueError(field, f"the name of a time zone, as Europe/Berlin{more}", name[:64]) from error


@lru_cache(maxsize=1024)
def _zone_of(name: str) -> ZoneInfo:
    """Reads a zone, a kilobyte, once."""
    from zoneinfo import ZoneInfo  # not at every start

    return ZoneInfo(name)


@lru_cache(maxsize=1)
def _zone_names() -> dict[str, str]:
    """Returns the names of all zones, by themselves in small letters."""
    from importlib.resources import files  # `zoneinfo.available_timezones` opens 600 files

    names = files("tzdata").joinpath("zones").read_text(encoding="ascii")
    return {name.lower(): name for name in names.split()}
