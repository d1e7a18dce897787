"""Dates: what is evident, what needs a format, and clocks that skip or repeat an hour."""

from __future__ import annotations

import pytest

from pollerd.detection.selection.values.definition import compile_value_format
from pollerd.detection.selection.values.form import Reading
from pollerd.detection.selection.values.read import read_value


def read(text: str, machine: bool = False, **definition: object) -> Reading:
    return read_value([text], compile_value_format("values.x", {"kind": "date", **definition}), machine=machine)


@pytest.mark.parametrize(
    ("text", "value", "moment"),
    [
        ("2026-03-02", "2026-03-02", 1_772_409_600.0),
        ("since 2026-03-02T10:30:00+01:00", "2026-03-02T09:30:00Z", 1_772_443_800.0),
        ("20260302T103000Z", "2026-03-02T10:30:00Z", 1_772_447_400.0),
        ("2026-W10-1", "2026-03-02", 1_772_409_600.0),
        ("2026-061", "2026-03-02", 1_772_409_600.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z", 784_111_777.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z", 784_111_777.0),
        ("Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z", 784_111_777.0),
        ("6 Nov 1994 03:49:37 -0500", "1994-11-06T08:49:37Z", 784_111_777.0),
        ("2026年3月2日", "2026-03-02", 1_772_409_600.0),
    ],
)
def test_evident_dates(text: str, value: str, moment: float) -> None:
    reading = read(text)
    assert (reading.problem, reading.text, reading.moment) == ("", value, moment)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "02/03/2026",
            "02.03.2026",
            "3 hours ago",
            "yesterday",
            "now",
            "12",
            "10:30",
            "March",
            "31 Feb",
            "31 Feb 2026",
        ),
        *("2026-02-31", "2026-13-01", "2026-03-02 10:30 CET", "2026-03-02 10:30 PM", "2026-03-02 25:00", "2026-366"),
        *("0001-01-01", "9999-12-31", "2026-03-02T10:30+99:00", "2026-03-02 and 2026-03-03"),
    ],
)
def test_what_is_no_date(text: str) -> None:
    reading = read(text)
    assert reading.problem
    assert (reading.text, reading.moment) == ("", None)


def test_format_or_locale_says_which_is_the_day() -> None:
    assert read("02/03/2026", locale="en-US").text == "2026-02-03"
    assert read("02/03/2026", locale="en-GB").text == "2026-03-02"
    assert read("02.03.2026", format="dd.MM.yyyy").text == "2026-03-02"
    assert read("am 2. März 2026", locale="de").text == "2026-03-02"
    assert read("2 MARS 2026", format="d MMMM yyyy", locale="fr").text == "2026-03-02"
    assert read("02.03.2026 um 12:05 am", format="dd.MM.yyyy 'um' h:mm a").text == "2026-03-02T00:05:00Z"
    assert read("2026-03-02", format="dd.MM.yyyy").problem
    assert read("2026-03-02", format="dd.MM.yyyy", machine=True).text == "2026-03-02"
    assert read("31 Feb 2026", locale="en-GB").problem


@pytest.mark.parametrize(
    ("text", "zone", "value", "utc_hour"),
    [
        ("2026-03-29 02:30", "Europe/Berlin", "2026-03-29T03:30:00+02:00", 1.5),  # does not exist
        ("2026-10-25 02:30", "Europe/Berlin", "2026-10-25T02:30:00+02:00", 0.5),  # exists twice
        ("2026-07-01 00:00", "Asia/Kolkata", "2026-07-01T00:00:00+05:30", 18.5),
        ("2026-09-06", "America/Santiago", "2026-09-06", 4.0),  # has no midnight
    ],
)
def test_zones(text: str, zone: str, value: str, utc_hour: float) -> None:
    reading = read(text, zone=zone)
    assert (reading.text, (reading.moment or 0.0) % 86_400 / 3600) == (value, utc_hour)


def test_one_instant_written_in_two_zones_is_one_value() -> None:
    both = "2026-03-02T10:30:00+01:00 2026-03-02T09:30:00Z"
    assert read(both, zone="Europe/Berlin").text == "2026-03-02T10:30:00+01:00"
    assert read("2026-03-02 2026-03-01", which="min").text == "2026-03-01"
