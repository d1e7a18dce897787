"""Windows in real time zones, over their gaps and folds; expected instants are those of the zones' published rules."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.errors import InvalidValueError
from pollerd.scheduling.windows import OpeningTimes, windows_of
from pollerd.site_settings import DAYS, DayWindow, Windows

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/Santiago",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Asia/Beirut",
)
OFFICE = {"zone": "Europe/Berlin", "open": [{"days": ["mon", "tue"], "from": "08:00", "to": "18:00"}]}


def at(text: str) -> float:
    """Epoch seconds of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def open_on(zone: str, begins: str, ends: str, days: tuple[str, ...] = DAYS) -> OpeningTimes:
    return OpeningTimes(Windows(zone, (DayWindow(days, begins, ends),)))


def test_office_hours() -> None:
    windows = windows_of(OFFICE)
    assert windows is not None
    times = OpeningTimes(windows)
    monday = at("2026-11-23T07:00")  # 08:00 in Berlin
    assert [times.is_open(monday + s) for s in (-1, 0, 36_000 - 1, 36_000)] == [False, True, True, False]
    assert times.next_open(monday - 1) == times.next_open(monday) == times.opened_at(monday + 5) == monday
    assert times.next_close(monday) == monday + 36_000
    assert times.next_open(at("2026-11-24T17:00")) == at("2026-11-30T07:00")
    assert times.next_close(monday - 1) == times.opened_at(monday - 1) == monday - 1


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    night = open_on("Europe/Berlin", "22:00", "06:00", ("fri",))
    friday = at("2026-11-27T21:00")
    assert night.next_open(at("2026-11-23T00:00")) == friday
    assert night.is_open(at("2026-11-28T04:59")), "Saturday morning"
    assert night.next_close(friday) == at("2026-11-28T05:00")
    assert not night.is_open(at("2026-11-27T04:00")), "Friday morning is Thursday's night"


@pytest.mark.parametrize(
    ("zone", "day", "begins", "ends", "opens", "closes"),
    [
        # The gap of 2026-03-29 in Berlin: 02:00 to 03:00 does not exist.
        ("Europe/Berlin", "2026-03-28T12:00", "02:30", "05:00", "2026-03-29T01:00", "2026-03-29T03:00"),
        ("Europe/Berlin", "2026-03-28T12:00", "01:00", "02:30", "2026-03-29T00:00", "2026-03-29T01:00"),
        # The fold of 2026-10-25: 02:00 to 03:00 comes twice, and the first counts.
        ("Europe/Berlin", "2026-10-24T12:00", "02:30", "05:00", "2026-10-25T00:30", "2026-10-25T04:00"),
        ("Europe/Berlin", "2026-10-24T12:00", "01:00", "02:30", "2026-10-24T23:00", "2026-10-25T00:30"),
        # Midnights that do not exist: the day begins at the end of the gap.
        ("America/Santiago", "2026-09-05T12:00", "00:00", "06:00", "2026-09-06T04:00", "2026-09-06T09:00"),
        ("Africa/Cairo", "2026-04-23T12:00", "00:00", "06:00", "2026-04-23T22:00", "2026-04-24T03:00"),
        ("Asia/Beirut", "2026-03-28T12:00", "00:00", "06:00", "2026-03-28T22:00", "2026-03-29T03:00"),
        # Lord Howe's clocks move by half an hour, at 02:00.
        ("Australia/Lord_Howe", "2026-10-03T12:00", "02:10", "04:00", "2026-10-03T15:30", "2026-10-03T17:00"),
        ("Asia/Kolkata", "2026-03-28T12:00", "08:00", "09:00", "2026-03-29T02:30", "2026-03-29T03:30"),
    ],
)
def test_gaps_and_folds(zone: str, day: str, begins: str, ends: str, opens: str, closes: str) -> None:
    times = open_on(zone, begins, ends)
    assert times.next_open(at(day)) == at(opens)
    assert times.next_close(at(opens)) == at(closes)


def test_eight_to_eight_is_23_or_25_hours_long_where_clocks_move() -> None:
    for day, hours in (("2026-03-28T07:00", 23), ("2026-10-24T06:00", 25), ("2026-06-01T06:00", 24)):
        once = open_on("Europe/Berlin", "08:00", "08:00", (DAYS[datetime.fromisoformat(day).weekday()],))
        assert once.next_close(at(day)) - at(day) == hours * 3600


def test_a_window_that_the_gap_swallows_comes_a_week_later() -> None:
    times = open_on("Europe/Berlin", "02:10", "02:50", ("sun",))
    assert times.next_open(at("2026-03-23T00:00")) == at("2026-04-05T00:10")


def test_a_date_that_the_calendar_skipped_opens_nothing() -> None:
    night = open_on("Pacific/Apia", "22:00", "06:00", ("fri",))  # 2011-12-30 did not exist in Samoa
    assert (
        night.next_open(at("2011-12-26T00:00")) == datetime(2012, 1, 6, 22, tzinfo=ZoneInfo("Pacific/Apia")).timestamp()
    )


def test_what_is_always_open_never_closes() -> None:
    for begins, ends in (("00:00", "24:00"), ("08:00", "08:00")):
        times = open_on("Europe/Berlin", begins, ends)
        assert times.is_open(at("2026-03-29T01:30"))
        assert times.next_close(at("2026-03-29T01:30")) == math.inf


clocks = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59))
windows = st.builds(
    DayWindow,
    st.sets(st.sampled_from(DAYS), min_size=1).map(lambda days: tuple(day for day in DAYS if day in days)),
    clocks,
    st.one_of(clocks, st.just("24:00")),
)


@settings(deadline=None, max_examples=60)
@given(
    zone=st.sampled_from(ZONES),
    opened=st.lists(windows, min_size=1, max_size=4),
    moment=st.integers(int(at("2026-01-01")), int(at("2027-01-01"))),
)
def test_opening_and_closing_are_what_is_open_says(zone: str, opened: list[DayWindow], moment: int) -> None:
    times = OpeningTimes(Windows(zone, tuple(opened)))
    if times.is_open(moment):
        closes = times.next_close(moment)
        assert times.next_open(moment) == moment < closes
        assert times.opened_at(moment) <= moment
        assert times.is_open(times.opened_at(moment))
        if closes < math.inf:
            assert times.is_open(closes - 1)
            assert not times.is_open(closes)
    else:
        opens = times.next_open(moment)
        assert times.next_close(moment) == moment < opens
        assert times.is_open(opens)
        assert not times.is_open(opens - 1)


@settings(deadline=None, max_examples=60)
@given(
    zone=st.sampled_from(ZONES),
    window=windows,
    minutes=st.integers(0, 365 * 24 * 60),
)
def test_away_from_changes_of_the_clock_local_time_decides(zone: str, window: DayWindow, minutes: int) -> None:
    moment = at("2026-01-01") + 60 * minutes
    local = datetime.fromtimestamp(moment, ZoneInfo(zone))
    offsets = {datetime.fromtimestamp(moment + h * 3600, ZoneInfo(zone)).utcoffset() for h in range(-50, 50)}
    if len(offsets) > 1:
        return
    clock, today = f"{local:%H:%M}", DAYS[local.weekday()]
    yesterday = DAYS[(local - timedelta(days=1)).weekday()]
    if window.begins < window.ends:
        expected = today in window.days and window.begins <= clock < window.ends
    else:
        late, early = clock >= window.begins, clock < window.ends
        expected = (late and today in window.days) or (early and yesterday in window.days)
    assert OpeningTimes(Windows(zone, (window,))).is_open(moment) == expected


@pytest.mark.parametrize(
    ("given_windows", "field", "told"),
    [
        ({**OFFICE, "zone": "Europe/Belin"}, "windows.zone", "nearest: Europe/Berlin"),
        ({**OFFICE, "zone": "../etc/passwd"}, "windows.zone", "the name of a time zone"),
        ({**OFFICE, "zone": "Europe"}, "windows.zone", "the name of a time zone"),
        ({**OFFICE, "zone": 3}, "windows.zone", "the name of a time zone"),
        ({"zone": "UTC"}, "windows.open", "is needed"),
        ({"zone": "UTC", "open": []}, "windows.open", "1 to 64"),
        ({**OFFICE, "close": []}, "windows.close", "unknown field"),
        ({"zone": "UTC", "open": [{"from": "08:00", "to": "09:00", "days": ["mo"]}]}, "windows.open[0].days[0]", "mon"),
        ({"zone": "UTC", "open": [{"from": "08:00", "to": "09:00", "days": []}]}, "windows.open[0].days", "mon"),
        ({"zone": "UTC", "open": [{"from": "8:00", "to": "09:00"}]}, "windows.open[0].from", "08:00"),
        ({"zone": "UTC", "open": [{"from": "24:00", "to": "09:00"}]}, "windows.open[0].from", "08:00"),
        ({"zone": "UTC", "open": [{"from": "08:00", "to": "24:01"}]}, "windows.open[0].to", "24:00"),
        ({"zone": "UTC", "open": [{"from": "08:00", "to": "09:00"}, 7]}, "windows.open[1]", "an object"),
        ([], "windows", "an object"),
    ],
)
def test_windows_that_cannot_be_are_refused_by_their_place(given_windows: Any, field: str, told: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        windows_of(given_windows)
    assert refused.value.field == field
    assert told in refused.value.allowed


def test_windows_without_days_are_of_every_day() -> None:
    found = windows_of({"zone": "UTC", "open": [{"from": "08:00", "to": "24:00"}]})
    assert found == Windows("UTC", (DayWindow(DAYS, "08:00", "24:00"),))
    assert windows_of(found) is found
    assert windows_of(None) is None
