"""One clock for the whole daemon: wall time that never runs backwards."""

from __future__ import annotations

import time

_SUSPEND_SECONDS = 2.0


class SteadyClock:
    """UTC epoch seconds that advance with the monotonic clock.

    A wall clock set back does not move it (no site would come due for as long). A wall clock that runs ahead by more
    than two seconds - a suspended machine, a late time sync - is followed at once.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        """Now, UTC epoch seconds."""
        monotonic = time.monotonic()
        wall = time.time()
        if wall - monotonic > self._offset + _SUSPEND_SECONDS:
            self._offset = wall - monotonic
        return monotonic + self._offset
