"""Times at which notices are sent: at once, after quiet hours, in a digest, and again after a failure."""

from __future__ import annotations

import math
from collections.abc import Container
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import xxhash
from msgspec import Struct

from pollerd.scheduling.windows import (
    clock_of,
    first_instant,
    has_day,
    local_time,
    offset_change,
    opening_times,
    zone_of,
)
from pollerd.site_settings import DAYS, Windows

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


# Digests: the events of a rule are sent together, at full hours or at a time of day.
#
# A day's digest goes out at the first instant of the local day whose local time is at least the one set: where clocks
# skip that time, at the end of the gap; where it comes twice, at the first. Hours are those of the zone's clocks: in
# Kolkata they begin at half past of UTC.

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
    hour = local.replace(minute=0, second=0, microsecond=0) + _HOUR
    straight = round(after + (hour - local).total_seconds(), 3)
    if local_time(zone, straight).replace(tzinfo=None) == hour:
        return straight
    changed = offset_change(zone, int(after), int(straight) + 1)
    shown = local_time(zone, changed).replace(tzinfo=None)
    reached = changed > after and (shown >= hour or shown.minute == 0)
    return changed if reached else _full_hour(zone, max(changed, after))


_DAY_S = 86_400.0
_LONGEST_S = 8 * _DAY_S
_A_DAY = 20_458
"""2026-01-05: without a change of clocks near it in any zone with people in it."""


class Due(Struct, frozen=True, gc=False):
    """When a notice may be sent (epoch s), and the key of its digest; empty: it is told alone."""

    at: float
    digest: str = ""


def due_at(
    rule_id: int, now: float, digest: Digest | None = None, quiet: Windows | None = None, told: Container[str] = ()
) -> Due:
    """Returns when a rule's notice of something that happened `now` is due.

    At once; with the next digest; or, where that lies in quiet hours, at their end, in one digest of all that they held
    back. told: as of `next_digest`. Pure: the same arguments give the same answer, also years later.
    """
    due = Due(now) if digest is None else Due(*next_digest(rule_id, digest, now, told))
    return due if quiet is None else _after_quiet_hours(rule_id, due, quiet)


def _after_quiet_hours(rule_id: int, due: Due, quiet: Windows) -> Due:
    for begin, end in _silences(quiet, int(due.at // _DAY_S)):
        if begin <= due.at < end:
            if end - due.at > _LONGEST_S:  # quiet hours without an end would hold back for ever
                return due
            local = local_time(zone_of(quiet.zone, "quiet.zone"), begin)
            return Due(end, f"{rule_id}:quiet:{local:%Y-%m-%dT%H:%M}")
    return due


@lru_cache(maxsize=256)
def _silences(quiet: Windows, day: int) -> tuple[tuple[float, float], ...]:
    """Returns the quiet hours around a day since the epoch, in UTC: the path of a change has no time to find them."""
    return tuple(opening_times(quiet).spans((day + 0.5) * _DAY_S, back=9))


def ends_some_time(quiet: Windows) -> bool:
    """Returns whether quiet hours leave some time of the week."""
    return all(end - begin <= _LONGEST_S for begin, end in _silences(quiet, _A_DAY))


# Attempts to send a message: growing waits, the last attempt three days after the first.

WAITS = (0.0, *(5.0 * 2.0**failed for failed in range(14)), 72_000.0)
"""Seconds before each attempt but the last, which comes when three days are over.

Doubled, not raised faster: a message that fails waits while others pass, and holds up those of its sites.
"""
LONGEST_S = 3 * 86_400.0
JITTER = 0.1
"""Largest share by which a wait is longer or shorter, so that what failed together does not come again together."""


def next_attempt(
    message_id: str, attempts: int, since: float, now: float, retry_after: float | None = None
) -> float | None:
    """Returns when to try again (epoch s); None: give up.

    attempts: how many have failed, at least 1. since: when the first was due. retry_after: seconds that the receiver
    asked us to wait; they replace a shorter wait, up to what is left of the three days. The jitter follows from the
    message's id and the number of attempts, so that a restart changes nothing.
    """
    last = since + LONGEST_S
    if now >= last or attempts > len(WAITS):
        return None
    wait = WAITS[attempts] * _factor(message_id, attempts) if attempts < len(WAITS) else last - now
    if retry_after is not None and not math.isnan(retry_after):
        wait = max(wait, retry_after)
    return min(now + wait, last)


def _factor(message_id: str, attempts: int) -> float:
    """Returns a number from 0.9 to 1.1."""
    share = xxhash.xxh3_64_intdigest(f"{message_id}:{attempts}".encode("utf-8", "replace")) / 2**64
    return 1 + JITTER * (2 * share - 1)
