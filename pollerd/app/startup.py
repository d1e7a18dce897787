"""Starts the parts that need the database, with retries while it is unreachable, refuses or is full."""

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
from pollerd.telemetry.ended_tasks import end_tasks

_FIRST_SECONDS, _MOST_SECONDS = 0.5, 5.0
_DRAIN_SECONDS = 1

T = TypeVar("T")


async def begun(
    attempt: Callable[[], Awaitable[T]],
    health: StorageHealth,
    database: str,
    serve: Callable[[], contextlib.AbstractAsyncContextManager[None]],
) -> T | None:
    """Returns the result of `attempt` once the database is available; None if SIGINT or SIGTERM came first.

    Meanwhile `health` has the reason, and `serve` answers requests. `database`: its name in the log. Only
    DatabaseUnavailableError is retried: waiting does not help for others.
    """
    with _stop_requested() as stop:
        trying = asyncio.create_task(_repeated(attempt, health, database, serve), name="start")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({trying, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return trying.result() if trying.done() else None
        finally:
            await end_tasks(trying, stopped)


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
    """Serves on a copy of the socket: the server closes its own, and callers in between wait in the queue."""
    server = ApiServer(app, _DRAIN_SECONDS)
    serving = asyncio.create_task(server.serve(sockets=[listener.dup()]), name="waiting-api")
    try:
        yield
    finally:
        server.should_exit = True
        await serving


@contextlib.contextmanager
def _stop_requested() -> Iterator[asyncio.Event]:
    """Yields an event set by the signals that stop the daemon, from its start on."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
