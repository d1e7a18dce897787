"""The handling of Ctrl-C while the modules of a command are loaded."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Makes Ctrl-C end the process at once during the second of loading, while nothing is open.

    A KeyboardInterrupt would not do: raised within an `exec`, which libraries use to create classes, it makes CPython
    die of SIGINT at the end even if it is caught, and raised in a callback it is lost.
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
