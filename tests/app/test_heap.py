"""Free room in the heap goes back to the system."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from pollerd.app import gc_tuning


async def test_free_memory_is_given_back_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given = asyncio.Event()
    calls: list[int] = []

    def give() -> None:
        calls.append(threading.get_ident())
        if len(calls) == 2:
            loop.call_soon_threadsafe(given.set)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(gc_tuning, "COLLECT_SECONDS", 0.001)
    monkeypatch.setattr(gc_tuning, "give_back", give)
    tidying = asyncio.create_task(gc_tuning.collect_regularly())
    await asyncio.wait_for(given.wait(), 10)
    tidying.cancel()
    assert threading.get_ident() not in calls


def test_the_collector_rests_while_all_is_loaded() -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        gc_tuning.begin()
        assert not gc.isenabled()
        gc_tuning.freeze_heap()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() != (700, 10, 10)
    finally:
        gc.enable()
        gc.unfreeze()
        gc.set_threshold(*before)
