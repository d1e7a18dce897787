"""A real pseudo-terminal for a process, and what a person would see on it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import struct
import termios
from collections.abc import AsyncIterator, Callable

_CSI = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")
PATIENCE_SECONDS = 60.0


class Screen:
    """The lines of a terminal that understands carriage return, new line, colours, and erasing a line."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self.raw = ""
        self._column = 0

    def feed(self, text: str) -> None:
        """Takes what a process wrote. Fails for control characters that it does not know."""
        self.raw += text
        at = 0
        while at < len(text):
            found = _CSI.match(text, at)
            if found is not None:
                self._command(found[1], found[2])
                at = found.end()
                continue
            self._put(text[at])
            at += 1

    def _command(self, given: str, kind: str) -> None:
        if kind == "K" and given == "2":
            self.lines[-1] = ""
        elif kind != "m":
            raise AssertionError(f"unknown command: CSI {given}{kind}")

    def _put(self, character: str) -> None:
        if character == "\n":
            self.lines.append("")
            self._column = 0
        elif character == "\r":
            self._column = 0
        else:
            assert character.isprintable() or character == "\t", f"unknown character: {character!r}"
            line = self.lines[-1].ljust(self._column)
            self.lines[-1] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1


class TerminalProcess:
    """A process whose standard output and error are one terminal."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self.process, self.screen = process, Screen()
        self._master = master
        self._rest = b""

    def read(self) -> None:
        """Takes in what was written so far."""
        with contextlib.suppress(BlockingIOError, OSError):
            while piece := os.read(self._master, 65_536):
                self._take(piece)

    def _take(self, piece: bytes) -> None:
        whole = self._rest + piece
        end = whole.rfind(b"\x1b") if b"\x1b" in whole[-8:] else len(whole)
        self._rest = whole[end:]
        text = whole[:end].decode("utf-8", "surrogateescape")
        self.screen.feed(text)

    async def until(self, condition: Callable[[Screen], bool]) -> None:
        """Reads until the screen fulfils the condition."""
        for _ in range(int(PATIENCE_SECONDS / 0.02)):
            self.read()
            if condition(self.screen):
                return
            assert self.process.returncode is None, self.screen.raw
            await asyncio.sleep(0.02)
        raise AssertionError("\n".join(self.screen.lines))

    async def ended(self) -> int:
        """Waits for the end, reading what comes: the exit code."""
        while self.process.returncode is None:
            self.read()
            await asyncio.sleep(0.02)
        self.read()
        return self.process.returncode

    def type(self, keys: bytes) -> None:
        """Presses keys: b"\\x03" is Ctrl-C."""
        os.write(self._master, keys)


@contextlib.asynccontextmanager
async def on_terminal(
    *command: str, env: dict[str, str], columns: int = 200, cwd: str | None = None
) -> AsyncIterator[TerminalProcess]:
    """The command on a terminal of its own, which it controls; killed at the end if still there."""
    master, slave = os.openpty()
    os.set_blocking(master, False)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    process = await asyncio.create_subprocess_exec(
        *command, env=env, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, preexec_fn=take_terminal
    )
    os.close(slave)
    try:
        yield TerminalProcess(process, master)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(master)
