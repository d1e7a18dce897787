"""Polling windows: days and hours in a time zone in which a site may be polled, and a timetable of those open now.

A window begins at the first instant of a local day whose local time is at least `from`: where clocks skip that time,
at the end of the gap; where it comes twice, at the first. It ends in the same way, and its end is outside of it. One
whose `to` is not after its `from` ends on the next day, and belongs to the day on which it begins. The zones are those
of the system or of `tzdata`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError, refusal, unknown_name, with_nearest
from pollerd.site_settings import DAYS, DayWindow, Windows
from pollerd.texts import N_, _

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pollerd.scheduling.sites import SiteTable


# Instants of local times in IANA time zones, by the same rule of skipped and repeated times.

_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)\Z")


def is_clock(text: str) -> bool:
    """Returns whether the text is a time of day from 00:00 to 23:59."""
    return _CLOCK.match(text) is not None


def clock_of(text: str, field: str) -> time:
    """Returns the time of day of a text as 08:00. Raises InvalidValueError."""
    match = _CLOCK.match(text)
    if match is None:
        raise InvalidValueError(field, _("a time such as 08:00"), text[:32])
    return time(int(match[1]), int(match[2]))


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
        allowed = _("the name of a time zone, such as Europe/Berlin")
        raise InvalidValueError(field, with_nearest(allowed, name, _zone_names(), most=3), name[:64]) from error


@lru_cache(maxsize=1024)
def _zone_of(name: str) -> ZoneInfo:
    """Reads a zone, a kilobyte, once."""
    from zoneinfo import ZoneInfo  # not at every start

    return ZoneInfo(name)


@lru_cache(maxsize=1)
def _zone_names() -> list[str]:
    """Returns the names of all zones."""
    from importlib.resources import files  # `zoneinfo.available_timezones` opens 600 files

    return files("tzdata").joinpath("zones").read_text(encoding="ascii").split()


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
        self._hours = tuple(_hours(window) for window in windows.open)

    def is_open(self, at: float) -> bool:
        """Whether `at` lies in a window."""
        return any(begin <= at < end for begin, end in self._around(at, 1))

    def next_open(self, at: float) -> float:
        """Returns `at` where it is open, else when the next window begins; inf: never."""
        return min((max(begin, at) for begin, end in self._around(at, _AHEAD_DAYS) if end > at), default=math.inf)

    def next_close(self, at: float) -> float:
        """Returns `at` where it is closed, else when it closes next; inf: never. Windows that touch are one."""
        _opens, closes = self._span(at)
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


def windows_of(document: object, field: str = "windows", *, hours: str = "open") -> Windows | None:
    """Returns checked windows from a JSON document; None: none. hours: name of the list of windows in it.

    `{"zone": "Europe/Berlin", "open": [{"days": ["mon", "fri"], "from": "08:00", "to": "18:00"}]}`; without `days`:
    every day; `to` may be "24:00". Raises InvalidValueError, naming the place.
    """
    if document is None or isinstance(document, Windows):
        return document
    fields = _fields(document, field, ("zone", hours))
    zone = fields["zone"]
    if not isinstance(zone, str):
        raise InvalidValueError(f"{field}.zone", _("the name of a time zone, such as Europe/Berlin"), _kind(zone))
    zone_of(zone, f"{field}.zone")
    some = fields[hours]
    if not isinstance(some, list) or not 0 < len(some) <= MAX_WINDOWS:
        raise InvalidValueError(
            f"{field}.{hours}", _("a list of 1 to {max_windows} windows", max_windows=MAX_WINDOWS), _kind(some)
        )
    return Windows(zone, tuple(_window(window, f"{field}.{hours}[{place}]") for place, window in enumerate(some)))


def _window(document: object, field: str) -> DayWindow:
    fields = _fields(document, field, ("from", "to"), ("days",))
    days = fields.get("days")
    if days is None:
        days = list(DAYS)
    if not isinstance(days, list) or not days or not all(isinstance(day, str) for day in days):
        raise InvalidValueError(f"{field}.days", _("a list of days among {days}", days=", ".join(DAYS)), _kind(days))
    for place, day in enumerate(days):
        if day not in DAYS:
            raise InvalidValueError(f"{field}.days[{place}]", _("one of {days}", days=", ".join(DAYS)), day[:32])
    for name in ("from", "to"):
        clock = fields[name]
        if not isinstance(clock, str) or not (is_clock(clock) or (name, clock) == ("to", _MIDNIGHT)):
            allowed = _("a time such as 08:00") + (_(", up to 24:00") if name == "to" else "")
            raise InvalidValueError(f"{field}.{name}", allowed, str(clock)[:32])
    return DayWindow(tuple(day for day in DAYS if day in days), fields["from"], fields["to"])


def _fields(document: object, field: str, needed: tuple[str, ...], more: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Returns an object that has all fields needed and none but these. Raises InvalidValueError."""
    if not isinstance(document, Mapping):
        raise InvalidValueError(field, _("an object of {value}", value=", ".join((*needed, *more))), _kind(document))
    for name in document.keys() - {*needed, *more}:
        raise unknown_name(f"{field}.{str(name)[:32]}", N_("field"), str(name)[:32], (*needed, *more))
    for name in needed:
        if name not in document:
            raise refusal(f"{field}.{name}", _("is needed"))
    return document


def _hours(window: DayWindow) -> _Hours:
    begins, ends = (
        clock_of(window.begins, "windows"),
        clock_of("00:00" if window.ends == _MIDNIGHT else window.ends, "windows"),
    )
    days = frozenset(map(DAYS.index, window.days))
    return _Hours(days, begins, ends, window.ends == _MIDNIGHT or ends <= begins)


def _kind(document: object) -> str:
    return _("{count} of them", count=len(document)) if isinstance(document, list) else type(document).__name__


# The timetable. Sites without windows cost one comparison per choice.


class Timetable:
    """When the windows of sites open and close. Sites with equal windows share a row, numbered in `SiteTable.hours`.

    Row 0 is always open. `turn` brings it up to a time; all else is as of the last one.
    """

    def __init__(self, sites: SiteTable) -> None:
        self._sites = sites
        self._windows: dict[Windows, int] = {}
        self._times: list[OpeningTimes | None] = [None]
        self._opens_at = np.array([-math.inf])
        self._opened_at = np.array([-math.inf])
        self._turns_at = np.array([math.inf])
        self._free: list[int] = []
        self.next_turn = math.inf
        """When windows open or close next, epoch s; inf: never."""

    def put(self, slots: NDArray[np.int64], windows: Windows | None) -> None:
        """Gives the slots int64[k] these windows, in force from the next turn on; None: they are always open."""
        number = 0 if windows is None else self._number(windows)
        if number or not self._sites.is_default("hours"):
            self._sites.put("hours", slots, number)
            self._sites.touch(slots)

    def turn(self, now: float) -> None:
        """Opens and closes what does so by `now`, epoch s. Costs nothing before `next_turn`."""
        if now < self.next_turn:
            return
        closed = []
        for number in np.flatnonzero(self._turns_at <= now).tolist():
            self._look(number, now)
            if self._opens_at[number] > now:
                closed.append(number)
        self.next_turn = float(self._turns_at.min())
        for number in closed:  # those that open are awaited by the index
            self._sites.touch(np.flatnonzero(self._sites.hours[: self._sites.size] == number))

    def windows_of(self, slot: int) -> OpeningTimes | None:
        """Returns the opening times of the site in the slot; None: it is always open."""
        return self._times[int(self._sites.hours[slot])]

    def opens_at(self, part: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Returns float64[k]: when closed sites of those rows open, epoch s; -inf, or a time that is past: open."""
        hours = self._sites.hours[part]  # first: other threads may read while rows are added
        return self._opens_at.take(hours)

    def opened_at(self, part: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Returns float64[k]: since when open sites of those rows are open; -inf: always."""
        hours = self._sites.hours[part]
        return self._opened_at.take(hours)

    def is_open(self, part: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Returns bool[k]: which of those rows are open, as of the last `turn`."""
        return np.asarray(self.opens_at(part) == -math.inf)

    def _number(self, windows: Windows) -> int:
        number = self._windows.get(windows)
        if number is None:
            # who has no windows needs no zones

            times = opening_times(windows)
            number = self._windows[windows] = self._free_number()
            self._times[number] = times
            self._opens_at[number] = self._opened_at[number] = -math.inf
            self._turns_at[number] = self.next_turn = -math.inf
        return number

    def _free_number(self) -> int:
        """Returns the number of a row that no site uses; adds as many as there are where all are used."""
        if not self._free:
            used = np.unique(self._sites.hours[: self._sites.size])
            self._free = sorted(set(range(1, len(self._times))) - set(used.tolist()), reverse=True)
            self._windows = {
                window: number for window, number in self._windows.items() if number not in set(self._free)
            }
            self._turns_at[self._free] = math.inf
        if not self._free:
            rows = len(self._times)
            self._times += [None] * rows
            self._free = [*range(2 * rows - 1, rows - 1, -1)]
            self._opens_at = np.append(self._opens_at, np.full(rows, -math.inf))
            self._opened_at = np.append(self._opened_at, np.full(rows, -math.inf))
            self._turns_at = np.append(self._turns_at, np.full(rows, math.inf))
        return self._free.pop()

    def _look(self, number: int, now: float) -> None:
        times = self._times[number]
        if times is None:
            return
        opens = times.next_open(now)
        if opens > now:
            self._opens_at[number], self._turns_at[number] = opens, opens
        else:
            self._opens_at[number], self._turns_at[number] = -math.inf, times.next_close(now)
            self._opened_at[number] = times.opened_at(now)
