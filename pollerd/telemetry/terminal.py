"""A terminal that shows log lines and, below them, one status line that is drawn anew: they never run together."""

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
"""A piece of the status line, and whether it tells of trouble."""


def redraws(stream: TextIO) -> bool:
    """Whether the stream is a terminal on which a line can be drawn anew."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


class StatusTerminal:
    """Stands in for a terminal's stream: whole lines that are written go above the status line.

    A text file as far as printing and logging need one. Threads may write to it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._status = ""
        self._midline = False
        self.encoding, self.errors = stream.encoding, stream.errors

    def write(self, text: str) -> int:
        """Writes the text; the status line makes room, and comes back once a line has ended."""
        with self._lock:
            if text:
                cleared = _CLEAR if self._status and not self._midline else ""
                self._midline = not text.endswith("\n")
                after = "" if self._midline else self._status
                self._stream.write(f"{cleared}{text}{after}")
                self._stream.flush()
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes each of them."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Nothing is held back but by the stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Whether the terminal is still there."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The descriptor of the terminal."""
        return self._stream.fileno()

    def show(self, parts: Iterable[Part]) -> None:
        """Draws the status line anew, cut to the terminal's width; without parts it goes away."""
        with self._lock:
            drawn, self._status = self._status, _fitted(parts, self._width())
            if self._midline or drawn == self._status:
                return
            with contextlib.suppress(OSError):  # the terminal has gone: whoever hung up is told by a signal
                self._stream.write(_CLEAR + self._status)
                self._stream.flush()

    @contextlib.contextmanager
    def as_stream(self) -> Iterator[StatusTerminal]:
        """Takes the place of `sys.stderr` for a while; in the end the status line is gone."""
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
    """The parts in a row, in less than `width` cells; what a stranger wrote is no command."""
    room, out = width - 1, []
    for text, trouble in parts:
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
        if len(shown) > room:
            shown = shown[: max(room - 1, 0)] + "…" if room > 0 else ""
        room -= len(shown)
        out.append(f"{_BOLD_RED}{shown}{_PLAIN}" if trouble and shown else shown)
    return "".join(out)
