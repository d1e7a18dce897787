"""The last lines of the log, kept in memory to be shown."""

from __future__ import annotations

from collections import deque

from structlog.typing import EventDict, Processor, WrappedLogger

LINES = 200
NOT_KEPT = "not_kept"
"""Key of lines for the log alone: whoever may read pages must not see them."""
_ORDER = ("debug", "info", "warning", "error", "critical")


class RecentLines:
    """Keeps the last `LINES` lines, each with its level."""

    def __init__(self) -> None:
        self._lines: deque[tuple[str, str]] = deque(maxlen=LINES)

    def at_least(self, level: str) -> list[str]:
        """Returns the lines of a level or above, oldest first."""
        lowest = _ORDER.index(level)
        return [line for of, line in self._lines if of not in _ORDER or _ORDER.index(of) >= lowest]

    def keeping(self, render: Processor) -> Processor:
        """Returns a processor that renders a line as `render` does, and keeps it unless it has the key `NOT_KEPT`."""

        def keep(logger: WrappedLogger, name: str, event: EventDict) -> str:
            level, kept = str(event.get("level", "")), not event.pop(NOT_KEPT, False)
            line = str(render(logger, name, event))
            if kept:
                self._lines.append((level, line))
            return line

        return keep
