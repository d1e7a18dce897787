"""Windows: days and hours in a time zone in which a site may be polled. Reads the zones of the system or of `tzdata`.

A window begins at the first instant of a local day whose local time is at least `from`: where clocks skip that time,
at the end of the gap; where it comes twice, at the first. It ends in the same way, and its end is outside of it. One
whose `to` is not after its `from` ends on the next day, and belongs to the day on which it begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import time, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from pollerd.errors import InvalidValueError
from pollerd.model import DAYS, DayWindow, Windows
from pollerd.scheduling.times.local_time import clock_of, first_instant, has_day, is_clock, local_time, zone_of

MAX_WINDOWS = 64
_MIDNIGHT = "24:00"
_AHEAD_DAYS = 22
"""How far windows are looked for: each comes every week, but for days on which the clock skips it."""
_WEEK_SECONDS = 8 * 86_400.0


class _Hours(NamedTuple):
    """A window as numbers: weekdays (Monday 0), begin and end, and whether it ends on the next day."""

    days: frozenset[int]
    begins: time
    ends: time
    over_midnight: bool


class OpeningTimes:
    """The instants that windows stand for; times in epoch s."""

    def __init__(self, windows: Windows) -> None:
        """Raises InvalidValueError for a zone or a time that is none."""
        self._zone = zone_of(windows.zone, "windows.zone")
        self._hours = tuple(_hours(one) for one in windows.open)

    def is_open(self, at: float) -> bool:
        """Whether `at` lies in a window."""
        return any(begin <= at < end for begin, end in self._around(at, 1))

    def next_open(self, at: float) -> float:
        """Returns `at` where it is open, else when the next window begins; inf: never."""
        return min((max(begin, at) for begin, end in self._around(at, _AHEAD_DAYS) if end > at), default=math.inf)

    def next_close(self, at: float) -> float:
        """Returns `at` where it is closed, else when it closes next; inf: never. Windows that touch are one."""
        _, closes = self._span(at)
        return closes if closes - at < _WEEK_SECONDS else math.inf

    def opened_at(self, at: float) -> float:
        """Returns when the windows that `at` lies in began, at most a week ago; `at` where it is closed."""
        return self._span(at)[0]

    def spans(self, at: float, back: int = 8) -> list[tuple[float, float]]:
        """Returns begin and end of the windows around `at`, those that touch as one.

        Begins `back` days before, ends three weeks after.
        """
        spans: list[tuple[float, float]] = []
        for begin, end in sorted(self._around(at, _AHEAD_DAYS, back)):
            if spans and begin <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(spans[-1][1], end)
            else:
                spans.append((begin, end))
        return spans

    def _span(self, at: float) -> tuple[float, float]:
        """Returns begin and end of the windows around `at`, those that touch as one; (at, at) where it is closed."""
        return next(((begin, end) for begin, end in self.spans(at) if begin <= at < end), (at, at))

    def _around(self, at: float, days: int, back: int = 2) -> Iterator[tuple[float, float]]:
        """Yields the windows, (begin, end), that begin on the local days from `back` before `at` to `days` after it."""
        today = local_time(self._zone, at).date()
        for offset in range(-back, days + 1):
            day = today + timedelta(days=offset)
            if not has_day(self._zone, day):
                continue  # the calendar skipped it
            for hours in self._hours:
                if day.weekday() in hours.days:
                    last = day + timedelta(days=hours.over_midnight)
                    begin = first_instant(self._zone, day, hours.begins)
                    end = first_instant(self._zone, last, hours.ends)
                    if begin < end:
                        yield begin, end


@lru_cache(maxsize=256)
def opening_times(windows: Windows) -> OpeningTimes:
    """Returns the instants of windows, shared by all sites that have them."""
    return OpeningTimes(windows)


def windows_of(given: object, field: str = "windows", *, hours: str = "open") -> Windows | None:
    """Returns checked windows from a JSON document; None: none. hours: name of the list of windows in it.

    `{"zone": "Europe/Berlin", "open": [{"days": ["mon", "fri"], "from": "08:00", "to": "18:00"}]}`; without `days`:
    every day; `to` may be "24:00". Raises InvalidValueError, naming the place.
    """
    if given is None or isinstance(given, Windows):
        return given
    fields = _fields(given, field, ("zone", hours))
    zone = fields["zone"]
    if not isinstance(zone, str):
        raise InvalidValueError(f"{field}.zone", "the name of a time zone, as Europe/Berlin", _kind(zone))
    zone_of(zone, f"{field}.zone")
    some = fields[hours]
    if not isinstance(some, list) or not 0 < len(some) <= MAX_WINDOWS:
        raise InvalidValueError(f"{field}.{hours}", f"a list of 1 to {MAX_WINDOWS} windows", _kind(some))
    return Windows(zone, tuple(_window(one, f"{field}.{hours}[{place}]") for place, one in enumerate(some)))


def _window(given: object, field: str) -> DayWindow:
    fields = _fields(given, field, ("from", "to"), ("days",))
    days = fields.get("days")
    if days is None:
        days = list(DAYS)
    if not isinstance(days, list) or not days or not all(isinstance(day, str) for day in days):
        raise InvalidValueError(f"{field}.days", f"a list of days among {', '.join(DAYS)}", _kind(days))
    for place, day in enumerate(days):
        if day not in DAYS:
            raise InvalidValueError(f"{field}.days[{place}]", f"one of {', '.join(DAYS)}", day[:32])
    for name in ("from", "to"):
        clock = fields[name]
        if not isinstance(clock, str) or not (is_clock(clock) or (name, clock) == ("to", _MIDNIGHT)):
            allowed = "a time as 08:00" + (", up to 24:00" if name == "to" else "")
            raise InvalidValueError(f"{field}.{name}", allowed, str(clock)[:32])
    return DayWindow(tuple(day for day in DAYS if day in days), fields["from"], fields["to"])


def _fields(given: object, field: str, needed: tuple[str, ...], more: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Returns an object that has all fields needed and none but these. Raises InvalidValueError."""
    if not isinstance(given, Mapping):
        raise InvalidValueError(field, f"an object of {', '.join((*needed, *more))}", _kind(given))
    for name in given.keys() - {*needed, *more}:
        raise InvalidValueError(f"{field}.{str(name)[:32]}", f"left out; known are {', '.join((*needed, *more))}", name)
    for name in needed:
        if name not in given:
            raise InvalidValueError(f"{field}.{name}", "given", None)
    return given


def _hours(window: DayWindow) -> _Hours:
    begins, ends = (
        clock_of(window.begins, "windows"),
        clock_of("00:00" if window.ends == _MIDNIGHT else window.ends, "windows"),
    )
    days = frozenset(map(DAYS.index, window.days))
    return _Hours(days, begins, ends, window.ends == _MIDNIGHT or ends <= begins)


def _kind(given: object) -> str:
    return f"{len(given)} of them" if isinstance(given, list) else type(given).__name__
