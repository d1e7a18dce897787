"""The `pollerd` command."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

from pollerd.errors import PollerdError

_INTERRUPTED = 130


def main() -> None:
    """Runs the command line; mistakes of use end with one clear line and exit code 2, Ctrl-C with 130."""
    try:
        with _ending_at_ctrl_c():
            from pollerd.cli.commands import app
        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except PollerdError as error:
        print(f"pollerd: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    except ExceptionGroup as group:
        known, unknown = group.split(PollerdError)
        if unknown is not None or known is None:
            raise
        for leaf in _leaves(known):
            print(f"pollerd: {leaf}", file=sys.stderr)  # noqa: T201
        sys.exit(2)


@contextlib.contextmanager
def _ending_at_ctrl_c() -> Iterator[None]:
    """For the second that loading takes, in which nothing is open: Ctrl-C ends the process on the spot.

    A KeyboardInterrupt would not do: raised within an `exec`, as libraries make classes with, it makes CPython die
    of SIGINT in the end whatever is caught meanwhile, and raised in a callback it is lost.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(_INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leaves(group: ExceptionGroup[PollerdError]) -> list[Exception]:
    found: list[Exception] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, ExceptionGroup) else [error])
    return found
