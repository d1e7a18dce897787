"""`pollerd` as a process of its own: started, signalled, killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE_SECONDS = 120.0


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


async def command(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Ended:
    """Runs `pollerd ARGUMENTS` to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pollerd",
        *arguments,
        env=environment(**(env or {})),
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
        raise AssertionError(f"pollerd {arguments} did not end: {err.decode()}") from None
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


class DaemonProcess:
    """`pollerd run` under way; its log goes to a file."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
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


@contextlib.asynccontextmanager
async def daemon_process(
    database: str, log: Path, *arguments: str, flags: Sequence[str] = (), **variables: str
) -> AsyncIterator[DaemonProcess]:
    """`pollerd run ARGUMENTS` on loopback without politeness between requests; killed at the end if still there."""
    usual = ["--listen", "127.0.0.1:0", "--allow-private", "--host-interval", "0", "--min-interval", "0"]
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pollerd",
            "run",
            *arguments,
            "--database",
            database,
            *usual,
            *flags,
            env=environment(**variables),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield DaemonProcess(process, log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
