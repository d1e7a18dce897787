"""The budget's window by the time of writing: whatever connecting takes, and however late the loop turns."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pytest
import uvloop

from pollerd.daemon.budget import BudgetGate
from pollerd.daemon.write_pacer import WRITTEN_SHARE, WritePacer
from tests.daemon.windows import assert_windows
from tests.support.virtual_time import in_virtual_time

Blocking = Callable[[], Awaitable[None]]


async def done(written: bool | Awaitable[bool]) -> bool:
    return written if isinstance(written, bool) else await written


class Log:
    """Requests as they reached the other end of a pair of sockets, by its own clock."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def write(self) -> bool:
        self.at.append(time.monotonic())
        return True


@contextlib.asynccontextmanager
async def lag(seed: int, longest: float) -> AsyncIterator[None]:
    """Blocks the loop now and then for up to `longest` s."""
    rng = np.random.default_rng(seed)

    async def block() -> None:
        while True:
            await asyncio.sleep(float(rng.uniform(0.0, 0.2)))
            time.sleep(float(rng.uniform(0.0, longest)))

    task = asyncio.create_task(block())
    try:
        yield
    finally:
        task.cancel()


async def polls(pacer: WritePacer, log: Log, seconds: float, connecting: Callable[[], float], cost: float = 1.0) -> int:
    """Dispatches through a gate, connects for so long, and has it written; returns how many were dispatched."""
    gate = BudgetGate(pacer.budget)
    tasks = set()

    async def poll(seconds: float) -> None:
        await asyncio.sleep(seconds)
        assert await done(pacer.send(cost, log.write))

    started, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        await pacer.keeps_up.wait()
        await gate.acquire(cost)
        started += 1
        task = asyncio.create_task(poll(connecting()))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return started


@pytest.mark.parametrize(("budget", "cost"), [(5.0, 1.0), (30.0, 1.0), (200.0, 1.0), (50.0, 2.5), (3.0, 0.1)])
@in_virtual_time
async def test_what_connecting_takes_bunches_nothing(budget: float, cost: float) -> None:
    rng, log = np.random.default_rng(), Log()
    pacer = WritePacer(budget)
    began = time.monotonic()
    async with lag(1, 0.03):
        started = await polls(pacer, log, 4.0, lambda: float(rng.choice([0.0, 0.001, 0.3])), cost)
    assert_windows(log.at, budget / cost)
    assert len(log.at) == started
    assert started >= 0.85 * budget / cost * (time.monotonic() - began - 0.5) - 1


@in_virtual_time
async def test_many_connected_at_once_are_written_one_by_one_and_the_gate_waits_for_them() -> None:
    pacer, log = WritePacer(40.0), Log()
    written = [asyncio.ensure_future(done(pacer.send(1.0, log.write))) for _ in range(60)]
    assert not pacer.keeps_up.is_set()
    assert all(await asyncio.gather(*written))
    assert pacer.keeps_up.is_set()
    assert_windows(log.at, 40.0)


@pytest.mark.parametrize("seed", range(3))
@in_virtual_time
async def test_a_late_turn_is_not_caught_up_on_beyond_the_bound(seed: int) -> None:
    pacer, log = WritePacer(100.0), Log()
    async with lag(seed, 0.4):
        await polls(pacer, log, 4.0, lambda: 0.0)
    assert_windows(log.at, 100.0)


def test_what_a_long_turn_holds_up_counts_from_its_end() -> None:
    """By the clock of the receiving end: uvloop sends at the end of a turn what was written in it."""
    received: list[float] = []

    class Receiver(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            received.extend([time.monotonic()] * len(data))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Receiver, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
        pacer = WritePacer(20.0)

        def write() -> bool:
            transport.write(b"x")
            return True

        for n in range(60):
            await done(pacer.send(1.0, write))
            if n % 10 == 0:
                time.sleep(0.12)  # in the turn of the write itself, so that it goes out so much later
        transport.close()
        server.close()

    uvloop.run(main())
    assert len(received) == 60
    assert_windows(received, 20.0)


@in_virtual_time
async def test_a_connection_that_was_closed_meanwhile_spends_nothing() -> None:
    pacer, log = WritePacer(2.0), Log()
    assert pacer.send(1.0, log.write) is True
    gone, there = pacer.send(1.0, lambda: False), pacer.send(1.0, log.write)
    assert await done(gone) is False
    assert await done(there) is True
    assert log.at[1] - log.at[0] < 2 / 2.0


async def test_a_write_that_raises_spends_nothing_and_holds_up_nobody() -> None:
    pacer, log = WritePacer(5.0), Log()

    def broken() -> bool:
        raise OSError("reset")

    with pytest.raises(OSError, match="reset"):
        await done(pacer.send(1.0, broken))
    assert pacer.send(1.0, log.write) is True
    waiting = pacer.send(1.0, broken)
    after = pacer.send(1.0, log.write)
    with pytest.raises(OSError, match="reset"):
        await done(waiting)
    assert await done(after)


async def test_who_gives_up_waiting_is_not_written() -> None:
    pacer, log = WritePacer(4.0), Log()
    pacer.send(1.0, log.write)
    given_up, after = pacer.send(1.0, log.write), pacer.send(1.0, log.write)
    assert isinstance(given_up, asyncio.Future)
    given_up.cancel()
    assert await done(after)
    assert len(log.at) == 2


async def test_a_higher_budget_ends_a_long_wait() -> None:
    pacer, log = WritePacer(0.01), Log()
    pacer.send(1.0, log.write)
    waiting = pacer.send(1.0, log.write)
    pacer.budget = 100.0
    assert await asyncio.wait_for(done(waiting), 10.0)


async def test_a_wait_that_has_begun_keeps_what_has_passed_of_it_when_the_budget_rises() -> None:
    """Half of a wait at the old budget, then half of one at the new; and less budget lengthens what is left."""
    clock = [1000.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: clock[0])
        pacer = WritePacer(1.0 / WRITTEN_SHARE, last_write=1000.0)
        clock[0] = 1000.5
        pacer.budget = 10.0 / WRITTEN_SHARE
        clock[0] = 1000.549
        assert not isinstance(pacer.send(1.0, lambda: True), bool), "0.05 s are left"
        clock[0] = 1000.551
        other = WritePacer(1.0 / WRITTEN_SHARE, last_write=1000.0)
        clock[0] = 1000.5
        other.budget = 10.0 / WRITTEN_SHARE
        clock[0] = 1000.551
        assert other.send(1.0, lambda: True) is True


async def test_the_last_write_of_the_run_before_counts() -> None:
    log, last = Log(), time.monotonic()
    pacer = WritePacer(4.0, last_write=last)
    assert await done(pacer.send(1.0, log.write))
    assert log.at[0] - last >= 1 / (4.0 * WRITTEN_SHARE)
