"""The tests' event loop with virtual time: timers fire in their order and on time, and no real time passes."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.virtual_time import in_virtual_time

YEAR_SECONDS = 365 * 86_400.0


async def noted(seconds: float, log: list[tuple[float, float]]) -> None:
    began = time.monotonic()
    await asyncio.sleep(seconds)
    log.append((seconds, time.monotonic() - began))


@in_virtual_time
async def test_timers_fire_in_their_order_and_on_time() -> None:
    log: list[tuple[float, float]] = []
    await asyncio.gather(*(noted(seconds, log) for seconds in (YEAR_SECONDS, 0.5, 3.0, 0.0)))
    assert [seconds for seconds, _ in log] == [0.0, 0.5, 3.0, YEAR_SECONDS]
    assert [passed for _, passed in log] == pytest.approx([0.0, 0.5, 3.0, YEAR_SECONDS])


@in_virtual_time
async def test_what_blocks_holds_up_the_others() -> None:
    log: list[tuple[float, float]] = []
    waiting = asyncio.create_task(noted(1.0, log))
    await asyncio.sleep(0)
    time.sleep(5.0)
    await waiting
    [(seconds, passed)] = log
    assert [seconds, passed] == pytest.approx([1.0, 5.0])


@in_virtual_time
async def test_a_timeout_ends_what_nobody_ends() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), YEAR_SECONDS)


def test_waiting_for_nothing_is_an_error_and_the_clock_is_given_back() -> None:
    clock = time.monotonic

    @in_virtual_time
    async def stuck() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="no timer brings"):
        stuck()
    assert time.monotonic is clock
