"""Turns at the worker processes: by host, whatever the number of pages and their cost."""

from __future__ import annotations

import asyncio

import pytest

from pollerd.daemon.workers import FairTurns


class Workshop:
    """Hosts that use one of `processes` one after another, each for a time of its own, in virtual time."""

    def __init__(self, processes: int) -> None:
        self.turns, self.order = FairTurns(processes), list[str]()

    async def use(self, host: str, seconds: float, expected: float = 0.0) -> None:
        await self.turns.take(host, expected)
        self.order.append(host)
        await asyncio.sleep(0)
        self.turns.give_back(host, seconds)


async def test_processes_are_shared_by_time_and_not_by_number() -> None:
    shop = Workshop(1)
    heavy = [shop.use("heavy", 3.0) for _ in range(4)]
    light = [shop.use(f"light-{n}", 0.1) for n in range(2) for _ in range(20)]
    await asyncio.gather(*heavy, *light)
    assert shop.order.index("heavy") == 0
    assert "heavy" not in shop.order[1:41]


async def test_work_that_is_expected_to_take_long_waits_for_the_rest() -> None:
    shop = Workshop(1)
    large = [shop.use(f"large-{n}", 3.0, 2.0) for n in range(3)]
    await asyncio.gather(*large, *(shop.use(f"small-{n}", 0.1, 0.1) for n in range(3)))
    assert shop.order == ["large-0", "small-0", "small-1", "small-2", "large-1", "large-2"]


async def test_a_host_with_a_process_waits_for_those_without() -> None:
    shop = Workshop(2)
    await asyncio.gather(*(shop.use("many", 1.0) for _ in range(4)), shop.use("one", 1.0))
    assert shop.order[:3] == ["many", "many", "one"]


async def test_a_host_that_was_away_saves_nothing_up() -> None:
    shop = Workshop(1)
    for _ in range(5):
        await shop.use("busy", 1.0)
    await asyncio.gather(*(shop.use("back", 1.0) for _ in range(4)), *(shop.use("busy", 1.0) for _ in range(4)))
    assert shop.order[5:].index("busy") <= 2


async def test_a_turn_that_is_called_off_is_another_s() -> None:
    turns = FairTurns(1)
    await turns.take("first")
    waiting = asyncio.create_task(turns.take("second"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    turns.give_back("first", 1.0)
    await asyncio.wait_for(turns.take("third"), 5.0)


async def test_a_turn_that_comes_as_it_is_called_off_is_another_s() -> None:
    turns = FairTurns(1)
    await turns.take("first")
    waiting = asyncio.create_task(turns.take("second"))
    await asyncio.sleep(0)
    turns.give_back("first", 1.0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(turns.take("third"), 5.0)
