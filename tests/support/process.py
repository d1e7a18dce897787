"""`pollerd` as a process of its own: started, signalled, killed.

It is forked from one that has imported pollerd, where `new_interpreter` is not asked for and nothing is set that Python
or a library reads when it starts.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.support.preloaded import Preloaded

PATIENCE_SECONDS = 120.0
_USUAL = (
    *("--listen", "127.0.0.1:0"),
    *("--host-interval", "0", "--min-interval", "0", "--min-saving", "0"),
)
_PRIVATE = "--allow-private"


@dataclass(frozen=True)
class Ended:
    """What a finished command left."""

    code: int
    out: str
    err: str


def environment(**variables: str) -> dict[str, str]:
    """Ours without pollerd's variables, and these."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("POLLERD_")}
    return {**ours, **variables}


async def command(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None, new_interpreter: bool = False
) -> Ended:
    """Runs `pollerd ARGUMENTS` to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull, "rb") as nothing:
        streams = (nothing, out, err)
        process = await _started(arguments, env or {}, cwd, streams, new_interpreter=new_interpreter)
        try:
            code = await asyncio.wait_for(process.wait(), PATIENCE_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"pollerd {arguments} did not end: {_text(err)}") from None
        return Ended(code, _text(out), _text(err))


async def _started(
    arguments: Sequence[str],
    variables: dict[str, str],
    cwd: Path | None,
    streams: tuple[IO[bytes], IO[bytes], IO[bytes]],
    *,
    new_interpreter: bool,
) -> asyncio.subprocess.Process | Preloaded:
    if not new_interpreter and all(name.startswith("POLLERD_") for name in variables):
        numbers = (streams[0].fileno(), streams[1].fileno(), streams[2].fileno())
        return await Preloaded.started(arguments, environment(**variables), cwd, numbers)
    command = [sys.executable, "-m", "pollerd", *arguments]
    stdin, stdout, stderr = streams
    variables = environment(**variables)
    return await asyncio.create_subprocess_exec(
        *command, env=variables, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr
    )


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


class DaemonProcess:
    """`pollerd run` under way; its log goes to a file."""

    def __init__(self, process: asyncio.subprocess.Process | Preloaded, log: Path) -> None:
        self._process, self._log = process, log

    @property
    def log(self) -> str:
        """What it said so far."""
        return self._log.read_text()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    async def said(self, words: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Waits until the words stand in its log."""
        for _ in range(int(seconds / 0.02)):
            if words in self.log:
                return
            assert self.running, f"it ended: {self.log}"
            await asyncio.sleep(0.02)
        raise AssertionError(f"it never said {words!r}: {self.log}")

    def send(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self._process.send_signal(number)

    async def ended(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Waits for its end: the exit code."""
        return await asyncio.wait_for(self._process.wait(), seconds)

    async def kill(self) -> None:
        """kill -9, and gone."""
        self.send(signal.SIGKILL)
        assert await self.ended() == -signal.SIGKILL


def daemon_process(
    database: str, log: Path, *arguments: str, flags: Sequence[str] = (), **variables: str
) -> AbstractAsyncContextManager[DaemonProcess]:
    """`pollerd run ARGUMENTS` on loopback without politeness between requests; killed at the end if still there."""
    words = [*arguments, "--database", database, *_USUAL, _PRIVATE, *flags]
    return _daemon(words, variables, log, new_interpreter=False)


def guarded_daemon_process(database: str, log: Path) -> AbstractAsyncContextManager[DaemonProcess]:
    """The same, which may not poll private addresses."""
    return _daemon(["--database", database, *_USUAL], {}, log, new_interpreter=False)


def daemon_in_new_interpreter(database: str, log: Path, *arguments: str) -> AbstractAsyncContextManager[DaemonProcess]:
    """The same, started as a user starts it."""
    return _daemon([*arguments, "--database", database, *_USUAL, _PRIVATE], {}, log, new_interpreter=True)


@asynccontextmanager
async def _daemon(
    arguments: Sequence[str], variables: dict[str, str], log: Path, *, new_interpreter: bool
) -> AsyncIterator[DaemonProcess]:
    with log.open("ab") as out, open(os.devnull, "rb") as nothing:
        streams = (nothing, out, out)
        process = await _started(["run", *arguments], variables, None, streams, new_interpreter=new_interpreter)
    try:
        yield DaemonProcess(process, log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
