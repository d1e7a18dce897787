"""The guard of all tests against what blocks the event loop: on asyncio's loop and on uvloop."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from blockbuster import BlockingError

import pollerd


def connect() -> None:
    with socket.socket() as one:
        one.connect(("127.0.0.1", 9))


def look_at_rows() -> None:
    sqlite3.connect(":memory:").execute("SELECT 1")


BLOCKING: dict[str, Callable[[], object]] = {
    "sleep": lambda: time.sleep(0.001),
    "name": lambda: socket.getaddrinfo("127.0.0.1", 80),
    "connect": connect,
    "file": lambda: Path(__file__).read_bytes(),
    "SQLite": look_at_rows,
}


def of_the_product(call: Callable[[], object]) -> Callable[[], object]:
    """The same, called by a function whose file is pollerd's."""
    code = compile("def called(call): return call()", str(Path(pollerd.__file__).parent / "called.py"), "exec")
    module = types.ModuleType("called")
    exec(code, module.__dict__)
    return lambda: module.called(call)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("name", BLOCKING)
def test_what_blocks_the_loop_fails(name: str, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def blocks() -> None:
        of_the_product(BLOCKING[name])()

    with asyncio.Runner(loop_factory=loop) as runner, pytest.raises(BlockingError):
        runner.run(blocks())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_in_a_thread_all_may_block(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def waits() -> None:
        await asyncio.to_thread(of_the_product(BLOCKING["sleep"]))

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(waits())


async def test_a_test_may_block() -> None:
    BLOCKING["sleep"]()
