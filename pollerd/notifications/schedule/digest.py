"""Digests: what a rule finds is told together, at full hours or at a time of day.

A day's digest goes out at the first instant of the local day whose local time is at least the one set: where clocks
skip that time, at the end of the gap; where it comes twice, at the first. Hours are those of the zone's clocks: in
Kolkata they begin at half past of UTC.
"""

from __future__ import annotations

import math
from collections.abc import Container
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

from pollerd.model import DAYS
from pollerd.scheduling.times.local_time import clock_of, first_instant, has_day, local_time, offset_change, zone_of

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_HOUR = timedelta(hours=1)
_AHEAD_DAYS = 22
"""How far a day is looked for: each weekday comes every week, but for days that a calendar skips."""
_AHEAD_HOURS = 100


class Digest(Struct, frozen=True, gc=False):
    """How often a rule's notices are told together."""

    every: Literal["hour", "day"]
    at: str = "08:00"
    """Time of day; for `every: day`."""
    days: tuple[str, ...] = DAYS
    """Days of the week; for `every: day`."""
    zone: str = "UTC"
    """IANA name."""


class DigestTime(NamedTuple):
    """When a digest goes out (epoch s), and which it is: one for each rule and local date, or hour."""

    at: float
    key: str


def next_digest(rule_id: int, digest: Digest, now: float, told: Container[str] = ()) -> DigestTime:
    """Returns the first digest after `now`, so that what is found at that very instant goes into the next.

    told: keys of digests that went out already. They are passed over: a day has one digest, even if the clock was put
    back, or the rule has another zone now. Raises InvalidValueError for a zone or time that is none.
    """
    zone = zone_of(digest.zone, "digest.zone")
    if digest.every == "hour":
        return _next_hour(rule_id, zone, now, told)
    return _next_day(rule_id, digest, zone, now, told)


def _next_day(rule_id: int, digest: Digest, zone: ZoneInfo, now: float, told: Container[str]) -> DigestTime:
    today = local_time(zone, math.floor(now)).date()
    for ahead in range(_AHEAD_DAYS):
        day = today + timedelta(days=ahead)
        at = _instant_of(zone, day, digest.at) if DAYS[day.weekday()] in digest.days else None
        if at is not None and at > now:
            key = f"{rule_id}:day:{day.isoformat()}"
            if key not in told:
                return DigestTime(at, key)
    return DigestTime(now, f"{rule_id}:day:{today.isoformat()}")  # weeks were told ahead of now: the clock was wrong


@lru_cache(maxsize=1024)
def _instant_of(zone: ZoneInfo, day: date, clock: str) -> float | None:
    """Returns when a time of a local day comes first (epoch s); None: the calendar skipped that day."""
    return first_instant(zone, day, clock_of(clock, "digest.at")) if has_day(zone, day) else None


def _next_hour(rule_id: int, zone: tzinfo, now: float, told: Container[str]) -> DigestTime:
    at: float = math.floor(now)  # a datetime rounds: the last half microsecond of an hour would be the next one's
    for _ in range(_AHEAD_HOURS):
        at = _full_hour(zone, at)
        key = f"{rule_id}:hour:{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%MZ}"
        if key not in told:
            return DigestTime(at, key)
    return DigestTime(now, f"{rule_id}:hour:{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%MZ}")


def _full_hour(zone: tzinfo, after: float) -> float:
    """Returns the first instant after `after` at which the zone's clocks reach a full hour, or skip one."""
    local = local_time(zone, after).replace(tzinfo=None)
    wanted = local.replace(minute=0, second=0, microsecond=0) + _HOUR
    straight = round(after + (wanted - local).total_seconds(), 3)
    if local_time(zone, straight).replace(tzinfo=None) == wanted:
        return straight
    changed = offset_change(zone, int(after), int(straight) + 1)
    shown = local_time(zone, changed).replace(tzinfo=None)
    reached = changed > after and (shown >= wanted or shown.minute == 0)
    return changed if reached else _full_hour(zone, max(changed, after))
