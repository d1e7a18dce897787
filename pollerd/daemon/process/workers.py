"""Runs heavy work in worker processes.

Parsers and regular expressions hold the GIL until they finish, even in a thread: a page of 5 MB for a quarter of a
second at a time, a feed of 150 KB for a tenth. Only another process leaves the loop free. A page that crashes a parser
also crashes only the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import TypeVar

import structlog

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""Timeout of one piece of work; the slowest pages known take 2 s."""
_WORKERS_MAX = 4


class WorkerPool:
    """Runs work in processes, started on first use; they end with `close` or with the daemon."""

    def __init__(self, workers: int | None = None) -> None:
        """`workers`: maximum number of processes; by default one less than there are processors, 1 to 4."""
        self._workers = workers or min(max((os.cpu_count() or 1) - 1, 1), _WORKERS_MAX)
        self._pool: ProcessPoolExecutor | None = None
        self._log = structlog.get_logger("pollerd.workers")

    async def do(self, work: Callable[..., T], *arguments: object) -> T:
        """Returns the result of `work`, a module-level function; sending the arguments costs about a millisecond per
        MiB.

        Raises what it raises; TimeoutError after a minute; BrokenExecutor if it crashed its process twice.
        """
        try:
            return await self._elsewhere(work, *arguments)
        except BrokenExecutor:  # other work may have crashed the process
            return await self._elsewhere(work, *arguments)

    def close(self) -> None:
        """Ends the processes, even at work."""
        pool, self._pool = self._pool, None
        if pool is not None:
            _kill_workers()
            pool.shutdown(cancel_futures=True)

    async def _elsewhere(self, work: Callable[..., T], *arguments: object) -> T:
        pool = self._running()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                # In a thread: the first call starts the processes and writes to their pipes.
                return await asyncio.wrap_future(await asyncio.to_thread(pool.submit, work, *arguments))
        except (BrokenExecutor, TimeoutError) as error:
            self._log.warning("workers_ended", reason=f"{type(error).__name__}: {error}")
            if self._pool is pool:
                self.close()
            raise

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._workers, mp_context=context, initializer=_begin)
        return self._pool


def _kill_workers() -> None:
    # The executor itself only waits. We have no other children of this kind.
    for child in multiprocessing.active_children():
        child.kill()


def _begin() -> None:
    """Prepares a worker: it ignores signals, which the daemon handles, and ends with the daemon."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="watch-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    with contextlib.suppress(OSError):
        if parent is not None:
            parent.join()
    os._exit(0)
