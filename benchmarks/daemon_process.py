"""Daemons as processes of their own, as benchmarks start them: no pauses between polls, settings of the caller only."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
_ASKED_EVERY_SECONDS, _PATIENCE_SECONDS = 0.2, 120.0


class DaemonProcess:
    """One daemon; its list, its log and, if no other database is named, its database are in the folder."""

    def __init__(self, folder: Path, name: str = "poll") -> None:
        """name: of its files, for several in one folder."""
        self._log, self._list = folder / f"{name}.log", folder / f"{name}.txt"
        self._database = f"sqlite+aiosqlite:///{folder}/{name}.db"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._listen = f"127.0.0.1:{free.getsockname()[1]}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> str:
        """The URL at which it answers."""
        return f"http://{self._listen}"

    def start(self, urls: Sequence[str], *options: str, database: str | None = None) -> None:
        """Starts it with a list of sites, if there are any, and with further options of `pollerd run`."""
        self._list.write_text("\n".join(urls))
        words = [sys.executable, "-m", "pollerd", "run", *((str(self._list),) if urls else ()), "--allow-private"]
        words += ["--listen", self._listen, "--database", database or self._database]
        words += ["--host-interval", "0", "--min-yield", "0", *options]
        variables = {name: value for name, value in os.environ.items() if not name.startswith("POLLERD_")}
        with self._log.open("wb") as log:
            env = variables | {"PYTHONPATH": str(HERE)}
            self._process = subprocess.Popen(words, cwd=HERE, env=env, stdout=log, stderr=log)

    async def ready(self) -> None:
        """Waits until it polls. Raises SystemExit with the end of its log if it does not within two minutes."""
        for _ in range(round(_PATIENCE_SECONDS / _ASKED_EVERY_SECONDS)):
            if self._process is None or self._process.poll() is not None:
                break
            try:
                return await asyncio.to_thread(self._ask)
            except OSError:
                await asyncio.sleep(_ASKED_EVERY_SECONDS)
        raise SystemExit(self._log.read_text()[-3000:])

    def _ask(self) -> None:
        with urllib.request.urlopen(f"{self.root}/readyz", timeout=5):
            """It is ready."""

    def end(self) -> None:
        """Stops it, if it was started."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
