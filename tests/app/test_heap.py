"""Free room in the heap goes back to the system."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
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
    await asyncio.wait_for(given.wait(), 60)
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


def test_the_daemon_does_not_load_what_refuses_models_of_pydantic_1() -> None:
    """FastAPI looks for it at each route and answer, and must do without it for as long as the daemon runs."""
    code = (
        "import sys; from pollerd.app import gc_tuning; gc_tuning.before_loading()\n"
        "import pollerd.app.serve\n"
        "from fastapi.encoders import jsonable_encoder\n"
        "jsonable_encoder(type('Other', (), {})())\n"
        "print([name for name in sys.modules if name.startswith('pydantic.v1.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
