"""When notices are due: digests and quiet hours, over the gaps and folds of real zones. Expected instants by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.errors import InvalidValueError
from pollerd.notifications.schedule import Digest, Due, due_at, ends_some_time, next_digest
from pollerd.site_settings import DAYS, DayWindow, Windows

ZONES = (
    *("UTC", "Europe/Berlin", "America/Santiago", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Beirut"),
    "Pacific/Apia",
)


def at(text: str) -> float:
    """Epoch seconds of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def daily(clock: str, zone: str, days: tuple[str, ...] = DAYS) -> Digest:
    return Digest("day", clock, days, zone)


def test_at_once() -> None:
    assert due_at(1, 5.5) == Due(5.5, "")


@pytest.mark.parametrize(
    ("zone", "clock", "now", "due", "date"),
    [
        ("Europe/Berlin", "08:00", "2026-11-25T06:59:59", "2026-11-25T07:00", "2026-11-25"),
        ("Europe/Berlin", "08:00", "2026-11-25T07:00", "2026-11-26T07:00", "2026-11-26"),  # the very instant: the next
        # The gap of 2026-03-29: 02:30 does not exist, so its end.
        ("Europe/Berlin", "02:30", "2026-03-28T12:00", "2026-03-29T01:00", "2026-03-29"),
        # The fold of 2026-10-25: 02:30 comes twice: the first, and not again.
        ("Europe/Berlin", "02:30", "2026-10-24T12:00", "2026-10-25T00:30", "2026-10-25"),
        ("Europe/Berlin", "02:30", "2026-10-25T00:30", "2026-10-26T01:30", "2026-10-26"),
        # Days of 23 and of 25 hours.
        ("Europe/Berlin", "08:00", "2026-03-28T07:00", "2026-03-29T06:00", "2026-03-29"),
        ("Europe/Berlin", "08:00", "2026-10-24T06:00", "2026-10-25T07:00", "2026-10-25"),
        # Midnights that do not exist.
        ("America/Santiago", "00:00", "2026-09-05T12:00", "2026-09-06T04:00", "2026-09-06"),
        ("Africa/Cairo", "00:00", "2026-04-23T12:00", "2026-04-23T22:00", "2026-04-24"),
        ("Asia/Beirut", "00:00", "2026-03-28T12:00", "2026-03-28T22:00", "2026-03-29"),
        # Santiago's 23:30 of 2026-04-04 comes twice.
        ("America/Santiago", "23:30", "2026-04-04T12:00", "2026-04-05T02:30", "2026-04-04"),
        ("America/Santiago", "23:30", "2026-04-05T02:31", "2026-04-06T03:30", "2026-04-05"),
        # Lord Howe's clocks move by half an hour: 02:10 of 2026-10-04 does not exist, 01:40 of 2026-04-05 comes twice.
        ("Australia/Lord_Howe", "02:10", "2026-10-03T12:00", "2026-10-03T15:30", "2026-10-04"),
        ("Australia/Lord_Howe", "01:40", "2026-04-04T12:00", "2026-04-04T14:40", "2026-04-05"),
        ("Asia/Kolkata", "08:00", "2026-03-28T12:00", "2026-03-29T02:30", "2026-03-29"),
        ("Pacific/Apia", "08:00", "2011-12-29T20:00", "2011-12-30T18:00", "2011-12-31"),  # 2011-12-30 was skipped
    ],
)
def test_a_digest_of_every_day(zone: str, clock: str, now: str, due: str, date: str) -> None:
    assert due_at(7, at(now), daily(clock, zone)) == Due(at(due), f"7:day:{date}")


def test_a_digest_of_some_days() -> None:
    weekly = daily("08:00", "Europe/Berlin", ("mon",))
    assert due_at(1, at("2026-11-25T00:00"), weekly) == Due(at("2026-11-30T07:00"), "1:day:2026-11-30")


@pytest.mark.parametrize(
    ("zone", "now", "due"),
    [
        ("UTC", "2026-11-25T06:10", "2026-11-25T07:00"),
        ("UTC", "2026-11-25T07:00", "2026-11-25T08:00"),
        ("Asia/Kolkata", "2026-11-25T06:10", "2026-11-25T06:30"),
        ("Europe/Berlin", "2026-03-29T00:30", "2026-03-29T01:00"),
        ("Europe/Berlin", "2026-10-25T00:30", "2026-10-25T01:00"),  # the fold: 02:00 to 03:00 comes twice,
        ("Europe/Berlin", "2026-10-25T01:00", "2026-10-25T02:00"),  # so does its hour
        ("Australia/Lord_Howe", "2026-10-03T15:10", "2026-10-03T15:30"),  # 02:00 is skipped: the gap's end, 02:30
        ("Australia/Lord_Howe", "2026-10-03T15:30", "2026-10-03T16:00"),
        ("Australia/Lord_Howe", "2026-04-04T14:45", "2026-04-04T15:30"),  # 01:30 again, then 02:00
        ("Africa/Cairo", "2026-04-23T21:30", "2026-04-23T22:00"),
    ],
)
def test_a_digest_of_every_hour(zone: str, now: str, due: str) -> None:
    assert due_at(2, at(now), Digest("hour", zone=zone)) == Due(at(due), f"2:hour:{due}Z")


def test_a_moment_just_before_the_hour() -> None:
    hour = at("2026-11-25T06:00")
    assert due_at(1, hour - 2.4e-7, Digest("hour")).at == hour
    assert due_at(1, hour - 2.4e-7, daily("06:00", "UTC")).at == hour


def test_what_was_told_is_not_told_again() -> None:
    digest = daily("08:00", "Europe/Berlin")
    told = {"1:day:2026-11-25"}
    back = at("2026-11-25T05:30")  # the clock was put back by two hours after the digest of 08:00
    assert due_at(1, back, digest, told=told) == Due(at("2026-11-26T07:00"), "1:day:2026-11-26")
    west = daily("08:00", "America/Santiago")  # another zone, in which it is not yet eight
    assert due_at(1, at("2026-11-25T08:00"), west, told=told) == Due(at("2026-11-26T11:00"), "1:day:2026-11-26")
    hour = Digest("hour")
    assert due_at(1, at("2026-11-25T05:30"), hour, told={"1:hour:2026-11-25T06:00Z"}).at == at("2026-11-25T07:00")


@settings(deadline=None, max_examples=150)
@given(
    zones=st.lists(st.sampled_from(ZONES), min_size=1, max_size=3),
    clock=st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59)),
    start=st.sampled_from(["2026-03-27", "2026-04-03", "2026-04-22", "2026-09-04", "2026-10-02", "2026-10-23"]),
    steps=st.lists(st.integers(-7_200, 40 * 3_600), min_size=1, max_size=40),
    hourly=st.booleans(),
)
def test_each_digest_is_told_once_and_none_is_lost(
    zones: list[str], clock: str, start: str, steps: list[int], hourly: bool
) -> None:
    """A clock that sleeps for hours or is put back, and a rule whose zone is edited."""
    now, waiting, told, told_keys, count = at(start), list[Due](), set[str](), list[str](), 0
    for number, step in enumerate(steps):
        now += step
        for key in sorted({due.digest for due in waiting if due.at <= now}):
            told_keys.append(key)
            told.add(key)
            count += sum(due.digest == key for due in waiting)
            waiting = [due for due in waiting if due.digest != key]
        zone = zones[number % len(zones)]
        digest = Digest("hour", zone=zone) if hourly else daily(clock, zone)
        due = due_at(1, now, digest, told=told)
        assert now < due.at <= now + 4 * 86_400
        waiting.append(due)
    assert len(told_keys) == len(set(told_keys)), "once each"
    assert count + len(waiting) == len(steps), "none is lost"


CHANGES_OF_CLOCKS = ("2026-03-29", "2026-04-05", "2026-04-24", "2026-09-06", "2026-10-04", "2026-10-25", "2026-06-01")


@settings(deadline=None, max_examples=25)
@given(
    zone=st.sampled_from(ZONES),
    day=st.sampled_from(CHANGES_OF_CLOCKS),
    clock=st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59)),
    back=st.integers(0, 26 * 60),
)
def test_a_daily_digest_is_the_first_minute_that_shows_its_time(zone: str, day: str, clock: str, back: int) -> None:
    """Held against looking at the zone's clock minute by minute."""
    now = at(f"{day}T12:00") - back * 60
    due = due_at(1, now, daily(clock, zone))
    info = ZoneInfo(zone)
    minutes = [(now + 60 * n, datetime.fromtimestamp(now + 60 * n, info)) for n in range(-30 * 60, 60 * 60)]
    firsts: dict[str, float] = {}
    for instant, shown in minutes:
        if f"{shown:%H:%M}" >= clock:
            firsts.setdefault(f"{shown:%Y-%m-%d}", instant)
    firsts.pop(f"{minutes[0][1]:%Y-%m-%d}")  # its beginning was not looked at
    expected = min((instant, date) for date, instant in firsts.items() if instant > now)
    assert due == Due(expected[0], f"1:day:{expected[1]}")


@settings(deadline=None, max_examples=25)
@given(zone=st.sampled_from(ZONES), day=st.sampled_from(CHANGES_OF_CLOCKS), ahead=st.floats(-50_000, 50_000))
def test_an_hourly_digest_is_the_first_second_at_which_clocks_begin_an_hour(zone: str, day: str, ahead: float) -> None:
    now = at(f"{day}T00:00") + ahead
    due = due_at(1, now, Digest("hour", zone=zone)).at
    info = ZoneInfo(zone)

    def begins_an_hour(instant: float) -> bool:
        before, shown = (datetime.fromtimestamp(one, info).replace(tzinfo=None) for one in (instant - 1, instant))
        hours = before.replace(minute=0, second=0) != shown.replace(minute=0, second=0)
        return shown.minute == shown.second == 0 or (hours and shown > before)

    assert now < due <= now + 5_400
    assert begins_an_hour(due)
    assert not any(begins_an_hour(second) for second in range(int(now) + 1, int(due)))


NIGHT = Windows("Europe/Berlin", (DayWindow(DAYS, "22:00", "07:00"),))


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-11-25T20:59:59", Due(at("2026-11-25T20:59:59"))),
        ("2026-11-25T21:00", Due(at("2026-11-26T06:00"), "1:quiet:2026-11-25T22:00")),
        ("2026-11-26T05:59", Due(at("2026-11-26T06:00"), "1:quiet:2026-11-25T22:00")),
        ("2026-11-26T06:00", Due(at("2026-11-26T06:00"))),  # the end is outside
        ("2026-03-28T22:00", Due(at("2026-03-29T05:00"), "1:quiet:2026-03-28T22:00")),  # a night of eight hours
        ("2026-10-24T21:00", Due(at("2026-10-25T06:00"), "1:quiet:2026-10-24T22:00")),  # and one of ten
    ],
)
def test_quiet_hours_hold_back_until_they_end(now: str, due: Due) -> None:
    assert due_at(1, at(now), quiet=NIGHT) == due


def test_digests_that_fall_into_quiet_hours_become_one_after_them() -> None:
    hours = [due_at(1, at(f"2026-11-26T0{hour}:10"), Digest("hour"), NIGHT) for hour in range(5)]
    assert set(hours) == {Due(at("2026-11-26T06:00"), "1:quiet:2026-11-25T22:00")}
    assert due_at(1, at("2026-11-26T05:10"), Digest("hour"), NIGHT).digest == "1:hour:2026-11-26T06:00Z"
    early = due_at(1, at("2026-11-25T12:00"), daily("06:00", "Europe/Berlin"), NIGHT)
    assert early == Due(at("2026-11-26T06:00"), "1:quiet:2026-11-25T22:00")


def test_windows_that_touch_are_one_silence() -> None:
    weekend = Windows("UTC", (DayWindow(("sat", "sun"), "00:00", "24:00"),))
    for now in ("2026-11-28T10:00", "2026-11-29T23:00"):
        assert due_at(3, at(now), quiet=weekend) == Due(at("2026-11-30T00:00"), "3:quiet:2026-11-28T00:00")


def test_quiet_hours_that_never_end_hold_nothing_back() -> None:
    always = Windows("UTC", (DayWindow(DAYS, "00:00", "24:00"),))
    assert not ends_some_time(always)
    assert ends_some_time(NIGHT)
    assert due_at(1, 1.8e9, quiet=always) == Due(1.8e9)


def test_digests_of_many_days_ahead_were_a_wrong_clock() -> None:
    now = at("2026-11-25T00:00")
    told = {f"1:day:2026-{month:02}-{day:02}" for month in (11, 12) for day in range(1, 32)}
    assert next_digest(1, daily("08:00", "UTC"), now, told).at == now, "told now, not in weeks"


def test_an_unknown_zone_or_time_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="nearest: Europe/Berlin"):
        due_at(1, 0.0, daily("08:00", "Europe/Belin"))
    with pytest.raises(InvalidValueError, match=r"digest\.at"):
        due_at(1, 0.0, daily("8:00", "UTC"))
