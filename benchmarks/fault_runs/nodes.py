"""Nodes as processes in namespaces of their own: started, stopped, killed, frozen, cut off."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from cryptography.fernet import Fernet

from fault_runs.namespaces import Namespace

API_PORT = 8_080
_KEY = Fernet.generate_key().decode()
_AHEAD = """
import runpy, time
real = time.time
time.time = lambda: real() + {}
runpy.run_module("pollerd", run_name="__main__", alter_sys=True)
"""


class Node:
    """One node; started again under the same name."""

    def __init__(self, n: int, folder: Path, *arguments: str, database_port: int, token_file: Path) -> None:
        self.namespace = Namespace(n)
        self.name = f"n{n}"
        self.base = f"http://{self.namespace.address}:{API_PORT}"
        database = f"postgresql+asyncpg://postgres@{self.namespace.database}:{database_port}/postgres"
        self._arguments = (
            *("run", *arguments, "--node", self.name),
            *("--database", database, "--listen", f"0.0.0.0:{API_PORT}", "--token-file", str(token_file)),
            *("--allowed-host", self.namespace.address, "--allow-private", "--allow-private-channels", "--no-web"),
        )
        self.code: Path | None = None
        """Where its program lies, if it is another version's."""
        self.clock_ahead = 0.0
        """How far its clock is ahead from its next start on, s."""
        self._log, self._folder = folder / f"{self.name}.log", folder
        self._process: asyncio.subprocess.Process | None = None
        self.frozen = False

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.returncode is None

    @property
    def log(self) -> str:
        """All that it said."""
        return self._log.read_text() if self._log.exists() else ""

    async def start(self) -> None:
        """Starts it; if it is not its first start, with this version's program."""
        if self._process is not None:
            self.code = None
        env = {name: value for name, value in os.environ.items() if not name.startswith("POLLERD_")}
        env["POLLERD_SECRET_KEY"] = _KEY
        if self.code is not None:
            env["PYTHONPATH"] = str(self.code)
        program = ("-c", _AHEAD.format(self.clock_ahead)) if self.clock_ahead else ("-m", "pollerd")
        command = self.namespace.command(sys.executable, *program, *self._arguments)
        with self._log.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdout=out, stderr=out, env=env, cwd=self._folder
            )

    async def end(self, number: signal.Signals) -> int:
        """Sends a signal that ends it, and waits: the exit code."""
        if self._process is None or not self.running:
            return 0
        self._process.send_signal(number)
        return await asyncio.wait_for(self._process.wait(), 60)

    def freeze(self) -> None:
        """Stops it in the middle of whatever it does."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGSTOP)
            self.frozen = True

    def thaw(self) -> None:
        """Ends `freeze`."""
        if self._process is not None and self.running and self.frozen:
            self._process.send_signal(signal.SIGCONT)
        self.frozen = False
