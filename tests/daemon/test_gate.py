"""The budget's window: paced starts whatever the loop is busy with, over changes of budget and over restarts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import AsyncIterator

import pytest

from pollerd.daemon.budget import BudgetGate
from pollerd.daemon.settings import BUDGET_MAX, BUDGET_MIN
from pollerd.errors import InvalidValueError
from tests.daemon.conftest import Start
from tests.daemon.windows import assert_windows, most_in_window, window_lengths
from tests.support.origin import Origin, Page, until
from tests.support.virtual_time import in_virtual_time

HOSTS = 100
FORGIVEN_STALL_SECONDS = 0.015
"""Longer stalls than the test itself makes are the machine's, and are not counted as the gate's waste."""


class Stalls:
    """How long the event loop stood still for reasons that are not the gate's."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def watch(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.002)
            now = time.monotonic()
            if now - last > FORGIVEN_STALL_SECONDS:
                self.seconds += now - last
            last = now


@contextlib.asynccontextmanager
async def busy_loop() -> AsyncIterator[Stalls]:
    """Work that blocks the loop for 3 to 12 ms, now and then."""

    async def block() -> None:
        for n in range(10**9):
            await asyncio.sleep(0.04)
            time.sleep(0.003 * (1 + n % 4))

    stalls = Stalls()
    tasks = [asyncio.create_task(block()), asyncio.create_task(stalls.watch())]
    try:
        yield stalls
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def starts_of(gate: BudgetGate, seconds: float, cost: float = 1.0) -> list[float]:
    """When the gate opened, for so long, with work always waiting."""
    starts: list[float] = []

    async def work() -> None:
        while True:
            await gate.acquire(cost)
            starts.append(time.monotonic())
            await asyncio.sleep(0)

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(work(), seconds)
    return starts


async def assert_kept_and_used(budget: float, seconds: float, stalls: Stalls) -> None:
    began, lost = time.monotonic(), stalls.seconds
    starts = await starts_of(BudgetGate(budget), seconds)
    spent = time.monotonic() - began - (stalls.seconds - lost)
    assert_windows(starts, budget)
    assert len(starts) >= math.floor(0.95 * budget * spent)


@in_virtual_time
async def test_windows_hold_and_the_budget_is_used() -> None:
    async with busy_loop() as stalls:
        await asyncio.gather(*(assert_kept_and_used(budget, 6.5, stalls) for budget in (0.5, 3.7, 50.0, 999.0)))


@in_virtual_time
async def test_windows_hold_and_the_budget_is_used_at_ten_thousand_a_second() -> None:
    async with busy_loop() as stalls:
        await assert_kept_and_used(10_000.0, 2.5, stalls)


@in_virtual_time
async def test_time_in_which_the_budget_is_not_spent_is_counted() -> None:
    gate = BudgetGate(10.0)
    starts = asyncio.create_task(starts_of(gate, 3.0))
    await asyncio.sleep(3.0)
    assert gate.lost_seconds() < 0.03 * 3.0, "work always waited"
    await starts
    await asyncio.sleep(2.0)
    assert gate.lost_seconds() == pytest.approx(2.0, abs=0.2), "nobody waited"
    await starts_of(gate, 1.0)
    assert gate.lost_seconds() == pytest.approx(2.0, abs=0.2)


@in_virtual_time
async def test_starts_are_evenly_paced() -> None:
    starts = await starts_of(BudgetGate(20.0), 1.5)
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    assert min(gaps) >= 1 / 20 - 0.025, "what the loop was late by may be caught up on, no more"


async def assert_kept_over_a_change(before: float, after: float, stalls: Stalls) -> None:
    gate = BudgetGate(before)
    running = asyncio.create_task(starts_of(gate, 4.5))
    await asyncio.sleep(2.3)
    gate.budget = after
    changed, lost = time.monotonic(), stalls.seconds
    starts = await running
    spent = time.monotonic() - changed - (stalls.seconds - lost)
    early, late = [s for s in starts if s < changed], [s for s in starts if s >= changed]
    assert_windows(early, before)
    assert_windows(late, after)
    for seconds in window_lengths(min(before, after)):
        assert most_in_window(starts, seconds) <= max(before, after) * seconds + 1
    assert len(late) >= math.floor(0.95 * after * spent)


@in_virtual_time
async def test_a_change_of_budget_in_mid_flight() -> None:
    async with busy_loop() as stalls:
        changes = [(200.0, 20.0), (20.0, 200.0), (1.0, 50.0)]
        await asyncio.gather(*(assert_kept_over_a_change(old, new, stalls) for old, new in changes))


@in_virtual_time
async def test_lifting_the_budget_ends_a_long_wait() -> None:
    gate = BudgetGate(0.01)
    await gate.acquire()
    waiting = asyncio.create_task(gate.acquire())
    await asyncio.sleep(0.3)
    assert not waiting.done()
    gate.budget = 100.0
    await asyncio.wait_for(waiting, 2.0)


@in_virtual_time
async def test_a_poll_may_cost_more_or_less_than_one() -> None:
    gate = BudgetGate(10.0)
    starts = await starts_of(gate, 2.6, cost=4.0)
    assert_windows(starts, 10.0 / 4.0)
    assert len(starts) in (6, 7), "4 / 9.7 s apart, the first at once"
    cheap = await starts_of(BudgetGate(10.0), 1.5, cost=0.1)
    assert_windows(cheap, 100.0)
    assert len(cheap) >= 100


@pytest.mark.parametrize("ago", [0.0, 0.4])
@in_virtual_time
async def test_the_window_holds_across_a_restart(ago: float) -> None:
    budget = 2.0
    began = time.monotonic()
    last = began - ago
    starts = await starts_of(BudgetGate(budget, last_start=last), 2.4)
    assert starts[0] >= last + 1 / budget, "the last start of the run before counts as a start"
    assert_windows([last - 1 / budget, last, *starts], budget)


@in_virtual_time
async def test_a_restart_long_after_is_no_hindrance() -> None:
    began = time.monotonic()
    gate = BudgetGate(0.01, last_start=began - 1000.0)
    await gate.acquire()
    assert time.monotonic() - began < 50.0


@pytest.mark.parametrize("budget", [0.0, 0.009, 10_001.0, -1.0, math.nan, math.inf])
def test_budgets_that_cannot_be_kept_are_named(budget: float) -> None:
    with pytest.raises(InvalidValueError) as caught:
        BudgetGate(budget)
    assert (caught.value.field, caught.value.allowed) == ("budget", "polls per second from 0.01 to 10000")
    gate = BudgetGate(1.0)
    with pytest.raises(InvalidValueError):
        gate.budget = budget
    assert gate.budget == 1.0


@pytest.mark.parametrize("budget", [BUDGET_MIN, BUDGET_MAX])
def test_the_ends_of_the_range_belong_to_it(budget: float) -> None:
    assert BudgetGate(budget).budget == budget


async def test_polls_that_are_in_no_table_count_across_a_restart(origin: Origin, start: Start) -> None:
    """Those of a site that was deleted are gone with it, those dropped in an outage of ours never came."""
    budget = 0.4
    origin.pages |= {"/a": Page(), "/b": Page()}
    async with start(budget=budget) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await until(lambda: len(origin.hits("/a")) >= 1)
        await running.control.sites.delete(site_id)
    async with start(budget=budget) as running:
        await running.add(origin.url("/b", host=1))
        await until(lambda: len(origin.hits("/b")) >= 1)
    assert origin.hits("/b")[0].at - origin.hits("/a")[-1].at >= 1 / budget


@pytest.mark.parametrize("kill", [False, True])
async def test_the_servers_log_keeps_the_window_across_a_restart(origin: Origin, start: Start, kill: bool) -> None:
    budget = 40.0
    for n in range(3 * HOSTS):
        origin.pages[f"/{n}"] = Page(f"<p>{n}</p>")
    async with start(budget=budget, kill=kill) as running:
        await running.add(*(origin.url(f"/{n}", host=n % HOSTS) for n in range(3 * HOSTS)))
        await until(lambda: len(origin.hits()) >= 90)
        if kill:  # as a kill would, at a moment of its own choosing
            running.task.cancel()
    before = len(origin.hits())
    async with start(budget=budget) as running:
        await until(lambda: len(origin.hits()) >= before + 120)
        # robots.txt is known by now: the budget is spent, in any second in which nothing else holds the machine up
        await until(lambda: most_in_window([hit.at for hit in origin.hits()[before:]], 1.0) >= 0.8 * budget)
    assert_windows([hit.at for hit in origin.hits()], budget, slack=1)
