"""Loading what a command needs, when it is needed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

INTERRUPTED = 130
"""Exit code of what Ctrl-C ended."""


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """For the second that loading takes, in which nothing is open: Ctrl-C ends the process on the spot.

    A KeyboardInterrupt would not do: raised within an `exec`, as libraries make classes with, it makes CPython die
    of SIGINT in the end whatever is caught meanwhile, and raised in a callback it is lost.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
