"""Sites outside of their windows: not due, not late, and no part of what the budget can be spent on."""

from __future__ import annotations

import math
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.scheduling.capacity import HostLoad, PollLimit, reach, totals, waiting
from pollerd.scheduling.choice import Chooser, next_due
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable
from pollerd.site_settings import DAYS, DayWindow, Windows

OFFICE = Windows("UTC", (DayWindow(DAYS, "08:00", "18:00"),))
NIGHT = Windows("UTC", (DayWindow(DAYS, "20:00", "06:00"),))
DAY = datetime(2026, 11, 23, tzinfo=UTC).timestamp()
HOUR = 3600.0
NOON, EVENING = DAY + 12 * HOUR, DAY + 19 * HOUR


class First:
    """Takes eligible sites in order."""

    def select(self, elapsed: NDArray[Any], now: float, eligible: NDArray[Any], k: int) -> NDArray[Any]:
        return np.flatnonzero(eligible)[:k]

    def select_seen(self, last_seen: NDArray[Any], now: float, eligible: NDArray[Any], k: int) -> NDArray[Any]:
        return np.flatnonzero(eligible)[:k]

    def urgency_of(self, slots: NDArray[Any], elapsed: NDArray[Any], now: float) -> NDArray[Any]:
        return np.zeros(len(slots))

    def rates_of(self, slots: NDArray[Any]) -> NDArray[Any]:
        return np.zeros(len(slots))

    def readings_due(self) -> NDArray[Any]:
        return np.empty(0, np.int64)


def tables(number: int = 3) -> tuple[SiteTable, HostTable, SchedulingSettings]:
    """Sites of hosts of their own, robots.txt known, polled an hour before NOON; the second in OFFICE hours, the third
    at NIGHT."""
    settings = SchedulingSettings(min_interval_seconds=10.0)
    sites, hosts = SiteTable(), HostTable(settings)
    slots = sites.add(list(range(1, number + 1)))
    sites.host[slots] = hosts.add_many([(i, f"h{i}:80") for i in range(number)])
    hosts.robots_at[:number] = DAY
    sites.last_poll[slots] = sites.last_seen[slots] = NOON - HOUR
    sites.touch(slots)
    sites.timetable.put(slots[1:2], OFFICE)
    sites.timetable.put(slots[2:3], NIGHT)
    return sites, hosts, settings


def totalled(sites: SiteTable, hosts: HostTable, settings: SchedulingSettings) -> float:
    """What `totals` comes to."""
    found: list[HostLoad] = []

    def steps() -> Generator[None, None, None]:
        found.append((yield from totals(sites, hosts, settings)))

    for _ in steps():
        pass
    return found[0].total


def chosen(sites: SiteTable, hosts: HostTable, settings: SchedulingSettings, now: float) -> list[int]:
    hosts.robots_at[: hosts.size] = now - 1.0
    return sorted(Chooser(sites, hosts, settings).choose(First(), now, 9, 1.0, 9).polls)


def test_a_site_is_due_in_its_windows_only() -> None:
    parts = tables()
    assert chosen(*parts, NOON) == [0, 1]
    assert chosen(*parts, DAY + 18 * HOUR - 1) == [0, 1]
    assert chosen(*parts, DAY + 18 * HOUR) == [0], "the end is outside"
    assert chosen(*parts, DAY + 20 * HOUR) == [0, 2]
    assert chosen(*parts, DAY + 30 * HOUR) == [0]
    assert chosen(*parts, DAY + 32 * HOUR) == [0, 1]


def test_a_request_by_hand_waits_for_the_windows() -> None:
    sites, hosts, settings = tables()
    sites.asap[2] = True
    sites.touch([2])
    assert chosen(sites, hosts, settings, NOON) == [0, 1]
    assert sites.earliest(10.0, np.array([2])).tolist() == [DAY + 20 * HOUR]


def test_the_next_poll_is_when_the_first_opens() -> None:
    sites, hosts, settings = tables()
    sites.paused[:2] = True
    assert next_due(sites, hosts, NOON, settings.min_interval_seconds) == 8 * HOUR


def test_being_closed_is_no_lateness() -> None:
    sites, _, _ = tables()
    sites.put("max_interval", np.arange(3), 0.5 * HOUR)
    sites.timetable.turn(NOON)
    assert sites.lateness(NOON, math.inf).tolist() == [0.5 * HOUR, 0.5 * HOUR, -math.inf]
    evening = DAY + 21 * HOUR
    sites.timetable.turn(evening)
    late = sites.lateness(evening, math.inf).tolist()
    assert late[1:] == [-math.inf, HOUR], "from when it opened, an hour ago"
    assert sites.overdue(np.ones(3, np.bool_), evening, math.inf).tolist() == [0, 2]


def test_what_is_closed_takes_nothing_of_the_budget() -> None:
    sites, hosts, settings = tables()
    for now, slots in ((NOON, [0, 1]), (EVENING, [0]), (DAY + 21 * HOUR, [0, 2])):
        sites.timetable.turn(now)
        found = reach(sites, hosts, settings)
        assert found.slots.tolist() == slots
        assert totalled(sites, hosts, settings) == pytest.approx(found.total)


def test_closed_sites_are_counted_as_such() -> None:
    sites, hosts, settings = tables()
    sites.timetable.turn(EVENING)
    found = waiting(sites, hosts, settings, EVENING)
    assert (found.closed, found.sites, found.interval) == (2, 3, 1)
    assert found.binding(0.0, 100.0) is PollLimit.CLOSED


def test_sites_without_windows_have_no_column_of_them() -> None:
    sites = SiteTable()
    sites.timetable.put(sites.add([1, 2]), None)
    sites.timetable.turn(NOON)
    assert sites.is_default("hours")
    assert sites.timetable.next_turn == math.inf
    assert sites.open_now(slice(0, 2)) is np.True_


def test_windows_that_are_taken_away_or_changed_many_times_leave_nothing_behind() -> None:
    sites = SiteTable()
    slots = sites.add([1, 2])
    for minute in range(500):
        sites.timetable.put(
            slots[:1], Windows("UTC", (DayWindow(DAYS, f"{minute // 60:02}:{minute % 60:02}", "24:00"),))
        )
        sites.timetable.turn(NOON)
        assert sites.timetable.is_open(slots).all()
    assert int(sites.hours.max()) < 8
    sites.timetable.put(slots, None)
    assert sites.timetable.is_open(slots).all()


def test_a_long_list_opens_and_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pollerd.scheduling.eligibility.LONG", 2)
    parts = tables()
    sites = parts[0]
    assert chosen(*parts, NOON) == [0, 1]
    assert sites.eligibility.is_kept
    for hours, slots in ((18, [0]), (20, [0, 2]), (29, [0, 2]), (30, [0]), (32, [0, 1])):
        assert chosen(*parts, DAY + hours * HOUR) == slots
        scanned = sites.pollable(DAY + hours * HOUR, 10.0)
        assert (sites.eligibility.ready[:3] == scanned).all()
