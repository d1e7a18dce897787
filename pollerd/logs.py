"""Structured logs on standard error, their last lines in memory, and a terminal with a status line below them.

A log has one line per event, as key=value or JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from pollerd.errors import InvalidValueError
from pollerd.texts import _

# The last lines of the log, kept in memory for the web pages.

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


FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


RECENT = RecentLines()
"""The last lines of this process's log."""


def set_up_logs(format_name: str = "text", level: str = "info", stream: TextIO | None = None) -> None:
    """Sends pollerd's own logs, and the warnings of its libraries, to one stream; the last lines are kept in `RECENT`.

    Raises InvalidValueError for an unknown format or level.
    """
    if format_name not in FORMATS:
        raise InvalidValueError("log_format", _("one of {names}", names=", ".join(FORMATS)), format_name)
    if level not in LEVELS:
        raise InvalidValueError("log_level", _("one of {names}", names=", ".join(LEVELS)), level)
    out = stream or sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*_shared(), *_rendering(format_name)],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared(),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(format_name)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(threshold, logging.WARNING))


def _shared() -> Sequence[Processor]:
    return [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True, key="at")]


def _rendering(format_name: str) -> Sequence[Processor]:
    if format_name == "json":
        # Without local variables, which contain passwords and tokens.
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        render: Processor = structlog.processors.JSONRenderer()
        return [structlog.processors.ExceptionRenderer(tracebacks), RECENT.keeping(render)]
    render = structlog.processors.LogfmtRenderer(
        key_order=["at", "level", "event"], drop_missing=True, bool_as_flag=False
    )
    return [structlog.processors.format_exc_info, RECENT.keeping(render)]


# A terminal with log lines and, below them, one status line that is redrawn: they never mix.

_CLEAR = "\r\x1b[2K"
_BOLD_RED, _PLAIN = "\x1b[1;31m", "\x1b[0m"
_WIDTH_WITHOUT_TERMINAL = 80

Part = tuple[str, bool]
"""A piece of the status line, and whether it reports a problem."""


def redraws(stream: TextIO) -> bool:
    """Returns whether the stream is a terminal whose lines can be redrawn."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


class StatusTerminal:
    """Replaces a terminal's stream: complete lines are written above the status line.

    A text file as far as printing and logging need one. Thread-safe.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._status = ""
        self._midline = False
        self.encoding, self.errors = stream.encoding, stream.errors

    def write(self, text: str) -> int:
        """Writes the text; clears the status line, and redraws it after a complete line."""
        with self._lock:
            if text:
                cleared = _CLEAR if self._status and not self._midline else ""
                self._midline = not text.endswith("\n")
                after = "" if self._midline else self._status
                self._stream.write(f"{cleared}{text}{after}")
                self._stream.flush()
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes each line."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flushes the stream; nothing else is buffered."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Returns whether the terminal is still there."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Returns the file descriptor of the terminal."""
        return self._stream.fileno()

    def show(self, parts: Iterable[Part]) -> None:
        """Redraws the status line, cut to the terminal's width; removes it if there are no parts."""
        with self._lock:
            drawn, self._status = self._status, _fitted(parts, self._width())
            if self._midline or drawn == self._status:
                return
            with contextlib.suppress(OSError):  # the terminal is gone: a signal reports the hangup
                self._stream.write(_CLEAR + self._status)
                self._stream.flush()

    @contextlib.contextmanager
    def as_stream(self) -> Iterator[StatusTerminal]:
        """Replaces `sys.stderr` in the context; removes the status line at the end."""
        with contextlib.redirect_stderr(self):
            try:
                yield self
            finally:
                self.show(())

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _WIDTH_WITHOUT_TERMINAL
        except OSError:
            return _WIDTH_WITHOUT_TERMINAL


def _fitted(parts: Iterable[Part], width: int) -> str:
    """Concatenates the parts in less than `width` cells; replaces control characters in untrusted text."""
    room, out = width - 1, []
    for text, trouble in parts:
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
        if len(shown) > room:
            shown = shown[: max(room - 1, 0)] + "…" if room > 0 else ""
        room -= len(shown)
        out.append(f"{_BOLD_RED}{shown}{_PLAIN}" if trouble and shown else shown)
    return "".join(out)


# The end of background tasks: exceptions that they raise while they are cancelled reach the log.

_log = structlog.get_logger("pollerd.tasks")


async def end_tasks(*tasks: asyncio.Future[Any], expected: tuple[type[Exception], ...] = ()) -> None:
    """Cancels tasks and waits for their end; what one raises meanwhile, but for what is expected, is logged.

    What a task had raised before is its caller's, who could have read it.
    """
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in running:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, expected):
            name = task.get_name() if isinstance(task, asyncio.Task) else ""
            _log.error("task_fault", task=name, exc_info=error)
