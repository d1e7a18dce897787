"""An event loop whose clock stands still while it works and jumps to the next timer when it would wait.

For tests of what only waits for time: a minute passes at once, and no stall of the machine is part of it.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar
from unittest import mock

P = ParamSpec("P")
T = TypeVar("T")

_BEGINNING_SECONDS = 1_000.0
"""Not 0: as on a real clock, there is a time before the beginning."""


class _Selector(selectors.DefaultSelector):
    """Never waits: has `advance` told how long it would have."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found:
            return found
        if timeout is None:
            # What a socket or a thread brings takes real time, which this clock cannot tell from none.
            raise RuntimeError("in virtual time all wait for something that no timer brings")
        self._advance(max(timeout, 0.0))
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Seconds of its clock pass only in waiting, or by `advance`."""

    def __init__(self) -> None:
        self._now = _BEGINNING_SECONDS
        super().__init__(_Selector(self.advance))
        # Timers closer than this to now are due: far from 0 a smaller step would be lost in rounding.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Monotonic seconds."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Lets so much time pass, as work that takes so long in the loop's thread does."""
        self._now += seconds


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Runs an async test in a loop with virtual time, by which `time.monotonic` and `time.sleep` go, too."""

    @functools.wraps(test)
    def run(*arguments: P.args, **options: P.kwargs) -> T:
        loop = VirtualTimeLoop()
        with (
            mock.patch("time.monotonic", loop.time),
            mock.patch("time.sleep", loop.advance),
            asyncio.Runner(loop_factory=lambda: loop) as runner,
        ):
            return runner.run(test(*arguments, **options))

    return run
