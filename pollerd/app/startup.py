"""Begins what needs the database, as often as it takes: a server that is away, refuses or is full is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

from fastapi import FastAPI

from pollerd.api import ApiServer
from pollerd.daemon import StorageHealth
from pollerd.errors import DatabaseUnavailableError

_FIRST_SECONDS, _MOST_SECONDS = 0.5, 5.0
_DRAIN_SECONDS = 1

T = TypeVar("T")


async def begun(
    attempt: Callable[[], Awaitable[T]],
    health: StorageHealth,
    database: str,
    serve: Callable[[], contextlib.AbstractAsyncContextManager[None]],
) -> T | None:
    """What `attempt` makes, once the database lets it; None where SIGINT or SIGTERM came first.

    Meanwhile `health` says why not, and `serve` answers who asks. `database`: what to call it in the log. Only
    DatabaseUnavailableError is waited for: no waiting mends the rest.
    """
    with _stop_requested() as stop:
        trying = asyncio.create_task(_repeated(attempt, health, database, serve), name="start")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({trying, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return trying.result() if trying.done() else None
        finally:
            for task in (trying, stopped):
                task.cancel()
            await asyncio.gather(trying, stopped, return_exceptions=True)


async def _repeated(
    attempt: Callable[[], Awaitable[T]],
    health: StorageHealth,
    database: str,
    serve: Callable[[], contextlib.AbstractAsyncContextManager[None]],
) -> T:
    pause = _FIRST_SECONDS
    async with contextlib.AsyncExitStack() as meanwhile:
        while True:
            try:
                made = await attempt()
            except DatabaseUnavailableError as error:
                health.failed("start", str(error), database=database, start="waits for it; --no-wait ends instead")
                if pause == _FIRST_SECONDS:
                    await meanwhile.enter_async_context(serve())
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MOST_SECONDS)
            else:
                health.works("start")
                return made


@contextlib.asynccontextmanager
async def served(app: FastAPI, listener: socket.socket) -> AsyncIterator[None]:
    """Answers at a copy of the socket: the server closes its own, and who calls in between waits in the queue."""
    server = ApiServer(app, _DRAIN_SECONDS)
    serving = asyncio.create_task(server.serve(sockets=[listener.dup()]), name="waiting-api")
    try:
        yield
    finally:
        server.should_exit = True
        await serving


@contextlib.contextmanager
def _stop_requested() -> Iterator[asyncio.Event]:
    """Set by the signals that end the daemon, from its first moment on."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
