"""The process' memory and threads: free room goes back to the system, the collector looks at little, numpy has one."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os

_M_MMAP_THRESHOLD = -3
"""glibc's number for it, malloc.h."""
_LARGE_BLOCK_BYTES = 1 << 20
_TIDY_SECONDS = 60.0


def one_thread_for_arrays() -> None:
    """Before numpy is loaded, which reads it then. What is set in the environment stays.

    Of small arrays threads make nothing faster, and OpenBLAS' wait for work by spinning: half a percent of a core in a
    daemon that asks for little every few seconds.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


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


def settle() -> None:
    """After the start: the collector looks at what comes from now on.

    Its young generation is kept small: each look at it holds up the loop, whichever thread it is that looks.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
    _give_back()


def _give_back() -> None:
    """Free room between what is in use goes back to the system, where the C library (glibc) can be asked for it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def keep_tidy() -> None:
    """Until cancelled. By itself glibc keeps such room for ever, and finds ever more of it: some 10 MB an hour."""
    while True:
        await asyncio.sleep(_TIDY_SECONDS)
        await asyncio.to_thread(_give_back)
