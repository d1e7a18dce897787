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
import resource
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import TypeVar

import structlog

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""Timeout of one piece of work; the slowest pages known take 2 s."""
SELECTION_SECONDS = 10.0
"""Timeout of reading one page by selections."""
SELECTION_MEMORY_BYTES = 2 * 1024**3
"""Address space of a process that reads pages by selections."""
_CRASHES = 3
"""How often a piece of work is tried whose process crashed: other work may have crashed it."""
_WORKERS_MAX = 4


class WorkerPool:
    """Runs work in processes, started on first use; they end with `close` or with the daemon."""

    def __init__(
        self,
        workers: int | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        memory_bytes: int | None = None,
        name: str = "",
    ) -> None:
        """`workers`: maximum number of processes; by default one less than there are processors, 1 to 4.

        patience_seconds: timeout of one piece of work, from its start. memory_bytes: address space of a process; None:
        no limit. name: of the pool, for the log.
        """
        self._workers = workers or min(max((os.cpu_count() or 1) - 1, 1), _WORKERS_MAX)
        self._patience, self._memory, self._name = patience_seconds, memory_bytes, name
        self._free = asyncio.Semaphore(self._workers)
        self._pool: ProcessPoolExecutor | None = None
        self._log = structlog.get_logger("pollerd.workers")

    async def do(self, work: Callable[..., T], *arguments: object) -> T:
        """Returns the result of `work`, a module-level function; sending the arguments costs about a millisecond per
        MiB.

        Raises what it raises; TimeoutError after `patience_seconds`; BrokenExecutor if its process crashed three times.
        """
        for _ in range(_CRASHES - 1):
            with contextlib.suppress(BrokenExecutor):  # other work may have crashed the process
                return await self._elsewhere(work, *arguments)
        return await self._elsewhere(work, *arguments)

    def close(self) -> None:
        """Ends the processes, even at work."""
        pool, self._pool = self._pool, None
        if pool is not None:
            _kill(pool)
            pool.shutdown(cancel_futures=True)

    async def _elsewhere(self, work: Callable[..., T], *arguments: object) -> T:
        async with self._free:  # time spent waiting for a process is not the work's
            return await self._timed(work, *arguments)

    async def _timed(self, work: Callable[..., T], *arguments: object) -> T:
        pool = self._running()
        try:
            async with asyncio.timeout(self._patience):
                # In a thread: the first call starts the processes and writes to their pipes.
                return await asyncio.wrap_future(await asyncio.to_thread(pool.submit, work, *arguments))
        except (BrokenExecutor, TimeoutError) as error:
            self._log.warning("workers_ended", pool=self._name, reason=f"{type(error).__name__}: {error}")
            if self._pool is pool:
                self.close()
            raise

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self._workers, mp_context=context, initializer=_begin, initargs=(self._memory,)
            )
        return self._pool


def _kill(pool: ProcessPoolExecutor) -> None:
    # The executor itself only waits, until Python 3.14.
    for process in list((pool._processes or {}).values()):  # noqa: SLF001
        process.kill()


def _begin(memory_bytes: int | None) -> None:
    """Prepares a worker: it ignores signals, which the daemon handles, and ends with the daemon."""
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="watch-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    with contextlib.suppress(OSError):
        if parent is not None:
            parent.join()
    os._exit(0)
