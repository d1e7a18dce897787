"""A terminal with log lines and, below them, one status line that is redrawn: they never mix."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from typing import TextIO

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
