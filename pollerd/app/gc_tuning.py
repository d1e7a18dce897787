"""Memory and threads of the process: frees unused memory, limits garbage collection and numpy's threads."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import sys
from importlib import import_module

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""glibc's constants, malloc.h."""
_ARENAS = 2
"""One for the loop, one for all other threads, few of which are active at a time: each arena keeps free memory."""
_LARGE_BLOCK_BYTES = 1 << 20
COLLECT_SECONDS = 60.0
"""Between two times that free room is given back."""


def before_loading() -> None:
    """Prepares the loading of numpy, structlog and FastAPI; must run before that. Keeps what the environment sets.

    Threads do not speed up small arrays, and OpenBLAS threads wait by spinning: half a percent of a core in a daemon
    with little to do every few seconds. structlog loads rich for a renderer that is not used here: 3 MB. FastAPI loads
    pydantic.v1 only to refuse its models, of which there are none, and does without if it is missing: 1.5 MB.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.modules.setdefault("pydantic.v1", None)  # type: ignore[arg-type]  # looked for at each route and answer
    if "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]  # its import fails as if it were not installed
        try:
            import_module("structlog")
        finally:
            del sys.modules["rich"]


def begin() -> None:
    """Disables the collector before anything is loaded: all those objects stay alive, so scanning them is useless."""
    gc.disable()
    _keep_large_blocks_apart()


def _keep_large_blocks_apart() -> None:
    """Has memory of large arrays returned to the system as soon as they are freed, with glibc.

    By default it raises its threshold for that with every large block freed, up to 32 MB, and then allocates the
    temporary columns of all sites from one heap that only grows: 90 MB of 500 at 10^6 sites.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)


def freeze_heap() -> None:
    """Excludes the objects that exist after the start from garbage collection.

    The young generation is kept small: each collection blocks the loop, in whatever thread it runs.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
    give_back()


def give_back() -> None:
    """Returns free memory between used blocks to the system, if the C library (glibc) supports it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def collect_regularly() -> None:
    """Trims the heap regularly until cancelled. By default glibc keeps such memory forever: some 10 MB more an hour."""
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        await asyncio.to_thread(give_back)
