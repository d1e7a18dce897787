"""The times of a rule as users write them: digests, quiet hours, muted until."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from pollerd.detection.selection.document import list_of, shown
from pollerd.detection.selection.values.nearest import with_nearest
from pollerd.errors import InvalidValueError
from pollerd.model import DAYS, Windows
from pollerd.notifications.rules.keys import check_keys
from pollerd.notifications.schedule.digest import Digest
from pollerd.notifications.schedule.due import ends_some_time
from pollerd.scheduling.times.local_time import clock_of, zone_of
from pollerd.scheduling.windows import windows_of
from pollerd.timestamps import parse_moment

_HOURLY, _DAILY = ("every", "zone"), ("every", "at", "days", "zone")
_NONE = "none"


def digest_of(field: str, given: object) -> Digest | None:
    """Returns the digest of `{"every": "hour"}` or `{"every": "day", "at": "08:00", "zone": "Europe/Berlin"}`.

    "none" is none. Raises InvalidValueError.
    """
    if given is None or given == _NONE:
        return None
    allowed = '"none", {"every": "hour"} or {"every": "day", "at": "08:00", "zone": "Europe/Berlin"}'
    if not isinstance(given, Mapping):
        raise InvalidValueError(field, allowed, shown(given))
    every = given.get("every")
    if every not in ("hour", "day"):
        raise InvalidValueError(f"{field}.every", "hour or day", shown(every))
    check_keys(field, given, _HOURLY if every == "hour" else _DAILY)
    if every == "hour":
        return Digest("hour", zone=_zone(f"{field}.zone", given.get("zone", "UTC")))
    for needed in ("at", "zone"):
        if needed not in given:
            raise InvalidValueError(f"{field}.{needed}", "given for a digest of every day", None)
    if not isinstance(given["at"], str):
        raise InvalidValueError(f"{field}.at", "a time as 08:00", shown(given["at"]))
    clock_of(given["at"], f"{field}.at")
    days = _days(f"{field}.days", given.get("days"))
    return Digest("day", given["at"], days, _zone(f"{field}.zone", given["zone"]))


def quiet_of(field: str, given: object) -> Windows | None:
    """Returns quiet hours, `{"zone": "Europe/Berlin", "hours": [{"from": "22:00", "to": "07:00"}]}`.

    Raises InvalidValueError, also for hours that never end.
    """
    if isinstance(given, Mapping):
        check_keys(field, given, ("zone", "hours"))
    found = windows_of(given, field, hours="hours")
    if found is not None and not ends_some_time(found):
        raise InvalidValueError(f"{field}.hours", "hours that leave some time of the week", "the whole week")
    return found


def moment_of(field: str, given: object) -> float | None:
    """Returns epoch seconds, to the millisecond, of RFC 3339 with an offset, a TOML date-time, or epoch seconds.

    Raises InvalidValueError.
    """
    if given is None:
        return None
    if isinstance(given, datetime) and given.tzinfo is not None:
        return round(given.timestamp(), 3)
    if isinstance(given, str):
        return round(parse_moment(field, given), 3)
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise InvalidValueError(field, "a moment as in 2026-01-31T12:00:00Z, or epoch seconds", shown(given))
    return round(float(given), 3)


def _zone(field: str, given: object) -> str:
    if not isinstance(given, str):
        raise InvalidValueError(field, "the name of a time zone, as Europe/Berlin", shown(given))
    zone_of(given, field)
    return given


def _days(field: str, given: object) -> tuple[str, ...]:
    if given is None:
        return DAYS
    days = list_of(field, given, len(DAYS), f"days among {', '.join(DAYS)}")
    for place, day in enumerate(days):
        if day not in DAYS:
            raise InvalidValueError(
                f"{field}[{place}]", with_nearest(f"one of {', '.join(DAYS)}", str(day), DAYS), shown(day)
            )
    return tuple(day for day in DAYS if day in days)
