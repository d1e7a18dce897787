"""Clocks that jump by an hour either way, a machine suspended for eight: no burst, no due time in the past."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np
import pytest
from aiohttp import web

from pollerd.daemon.process import SteadyClock, since_boot
from pollerd.model import OutcomeKind
from pollerd.scheduling.settings import SchedulingSettings
from tests.daemon.conftest import Running, Start
from tests.daemon.windows import assert_windows
from tests.support.origin import Origin, Page, until

HOUR = 3_600.0


class Time:
    """A machine's clocks, moved by hand on top of the real ones."""

    def __init__(self, *, running: bool = True) -> None:
        self._began = since_boot()
        self._running = running
        self.steady_shift = 0.0
        self.wall_shift = 0.0

    def steady(self) -> float:
        return (since_boot() - self._began if self._running else 0.0) + self.steady_shift

    def wall(self) -> float:
        return 1e9 + self.steady() + self.wall_shift

    def set(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.wall_shift += seconds

    def pass_by(self, seconds: float) -> None:
        """Time passes, or the machine is suspended: to this clock the same."""
        self.steady_shift += seconds


def test_a_clock_set_back_is_caught_up_with_and_never_runs_backwards() -> None:
    machine, told = Time(running=False), list[float]()
    clock = SteadyClock(machine.steady, machine.wall, on_set=told.append)
    machine.set(-HOUR)
    seen = [clock()]
    for _ in range(10 * 3_600 + 60):
        machine.pass_by(1.0)
        seen.append(clock())
    steps = np.diff(seen)
    assert seen[0] == 1e9
    assert steps.min() >= 0.9 - 1e-6
    assert steps.max() <= 1.0 + 1e-6
    assert abs(clock() - machine.wall()) <= 2.0
    assert not told


def test_a_clock_set_ahead_is_followed_and_told() -> None:
    machine, told = Time(running=False), list[float]()
    clock = SteadyClock(machine.steady, machine.wall, on_set=told.append)
    machine.set(1.5)
    assert clock() == 1e9, "so little is no setting"
    machine.set(HOUR)
    assert clock() == clock() == machine.wall()
    assert told == [HOUR + 1.5]


def test_a_suspend_is_time_that_passed() -> None:
    machine, told = Time(running=False), list[float]()
    clock = SteadyClock(machine.steady, machine.wall, on_set=told.append)
    machine.pass_by(8 * HOUR)
    assert clock() == machine.wall()
    assert not told


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Time:
    """The clocks of the daemon's machine."""
    machine = Time()
    monkeypatch.setattr("tests.daemon.conftest.steady_clock", lambda on_set: clock_of(machine, on_set))
    return machine


def clock_of(machine: Time, on_set: Callable[[float], None]) -> SteadyClock:
    CLOCKS[:] = [SteadyClock(machine.steady, machine.wall, on_set=on_set)]
    return CLOCKS[0]


CLOCKS: list[SteadyClock] = []
SITES = 12
PATIENT = SchedulingSettings(min_interval_seconds=600.0, min_saving_seconds=0, host_interval_seconds=0.2)


async def polled_once(running: Running, origin: Origin) -> list[int]:
    """As many sites as there are, on hosts of their own, each polled for the first time."""
    origin.pages["/a"] = Page()
    ids = await running.add(*(origin.url("/a", host=n) for n in range(SITES)))
    await until(lambda: running.metric("pollerd_polls_total", outcome="first") == SITES)
    return ids


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
async def test_a_clock_that_is_set_brings_no_poll_forward(
    origin: Origin, start: Start, machine: Time, seconds: float
) -> None:
    async with start(scheduling=PATIENT) as running:
        ids = await polled_once(running, origin)
        before = CLOCKS[0]()
        machine.set(seconds)
        await asyncio.sleep(1.5)
        assert len(origin.hits()) == SITES
        now = CLOCKS[0]()
        assert now - before == pytest.approx(max(seconds, 0.0), abs=60.0)
        due = [live.next_poll_at for live in running.control.sites.live(ids).values()]
        assert all(at is not None and now < at <= now + 600.0 for at in due)


async def test_a_clock_that_is_set_back_keeps_no_site_waiting(origin: Origin, start: Start, machine: Time) -> None:
    async with start(
        scheduling=SchedulingSettings(min_interval_seconds=0.0, min_saving_seconds=0, host_interval_seconds=0.2)
    ) as running:
        ids = await polled_once(running, origin)
        machine.set(-HOUR)
        seen = len(origin.hits())
        await until(lambda: len(origin.hits()) >= seen + 2 * SITES)
        for site_id in ids:
            gaps = np.diff([poll.at for poll in await running.polls(site_id)])
            assert gaps.min() > 0, "in order"


async def test_a_pause_asked_for_is_kept_when_the_clock_is_set_ahead(
    origin: Origin, start: Start, machine: Time
) -> None:
    origin.pages["/busy"] = Page(status=429, headers={"Retry-After": "1800"})
    async with start() as running:
        (site_id,) = await running.add(origin.url("/busy"))
        await running.polled(site_id, 1)
        machine.set(HOUR)
        await asyncio.sleep(1.0)
        assert len(origin.hits("/busy")) == 1


async def test_a_poll_under_way_while_the_clock_is_set_has_the_new_time(
    origin: Origin, start: Start, machine: Time
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()
    slow = Page()

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.set()
        await answer.wait()
        slow.handler = None
        return await origin.answer(request)

    slow.handler = handler
    origin.pages["/slow"] = slow
    async with start() as running:
        (site_id,) = await running.add(origin.url("/slow"))
        await asyncio.wait_for(asked.wait(), 60)
        machine.set(HOUR)
        CLOCKS[0]()
        answer.set()
        polls = await running.polled(site_id, 3)
        assert polls[0].at > 1e9 + HOUR
        assert all(poll.elapsed is None or 0 < poll.elapsed < 60 for poll in polls)


async def test_a_suspend_of_eight_hours_is_no_burst(origin: Origin, start: Start, machine: Time) -> None:
    """All sites are due at once then; they are polled at the pace of the budget, each once."""
    budget = 8.0
    async with start(scheduling=PATIENT, budget=budget) as running:
        ids = await polled_once(running, origin)
        began, moment = time.monotonic(), CLOCKS[0]()
        machine.pass_by(8 * HOUR)
        for site_id in ids:
            await running.polled(site_id, 2, 60)
        again = [poll for site_id in ids for poll in (await running.polls(site_id))[1:]]
        assert len(again) == SITES
        assert {poll.outcome for poll in again} == {OutcomeKind.UNCHANGED}
        assert all(8 * HOUR <= (poll.elapsed or 0.0) <= 9 * HOUR for poll in again)
        assert_windows(sorted(poll.at for poll in again), budget, slack=1.0)
        assert min(poll.at for poll in again) >= moment + 8 * HOUR - (time.monotonic() - began)
