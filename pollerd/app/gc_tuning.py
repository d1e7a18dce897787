"""The process' memory and threads: free room goes back to the system, the collector looks at little, numpy has one."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import sys
from importlib import import_module

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""glibc's numbers for them, malloc.h."""
_ARENAS = 2
"""One for the loop, one for all other threads, of which few do anything at a time: each arena keeps room of its own."""
_LARGE_BLOCK_BYTES = 1 << 20
COLLECT_SECONDS = 60.0
"""Between two times that free room is given back."""


def before_loading() -> None:
    """Before numpy and structlog are loaded, which read it then; what is set in the environment stays.

    Of small arrays threads make nothing faster, and OpenBLAS' wait for work by spinning: half a percent of a core in a
    daemon that asks for little every few seconds. structlog loads rich for a renderer that is not used here: 3 MB.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]  # importing it fails, as where it is not installed
        try:
            import_module("structlog")
        finally:
            del sys.modules["rich"]


def begin() -> None:
    """Before anything is loaded: all that comes stays, so the collector need not look at it again and again."""
    gc.disable()
    _keep_large_blocks_apart()


def _keep_large_blocks_apart() -> None:
    """Memory of large arrays goes back to the system as soon as they are freed, where the C library is glibc.

    By itself it raises its bar for that with every large block freed, up to 32 MB, and then cuts the columns of all
    sites, which come and go with every look at them, from one heap that only grows: 90 MB of 500 at 10^6 sites.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)


def freeze_heap() -> None:
    """After the start: the collector looks at what comes from now on.

    Its young generation is kept small: each look at it holds up the loop, whichever thread it is that looks.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
    give_back()


def give_back() -> None:
    """Free room between what is in use goes back to the system, where the C library (glibc) can be asked for it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def collect_regularly() -> None:
    """Until cancelled. By itself glibc keeps such room for ever, and finds ever more of it: some 10 MB an hour."""
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        await asyncio.to_thread(give_back)
