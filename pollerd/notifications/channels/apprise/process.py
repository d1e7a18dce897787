"""The daemon's side of a process for Apprise: starts it, answers its look-ups through the guard, and kills it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from pollerd.fetching import DIALLING_FAULTS, BlockedAddressError, Guard, allowed_addresses

_CHILD = Path(__file__).with_name("child.py")
_ENVIRONMENT = {"NETRC": os.devnull, "HOME": "/nonexistent", "LANG": "C.UTF-8"}
_LINE_BYTES = 64 * 1024


class LostProcessError(Exception):
    """The process ended or said what nobody understands."""


class AppriseProcess:
    """One process; it sends one message at a time."""

    def __init__(self, guard: Guard, program: Path = _CHILD) -> None:
        self._guard, self._program = guard, program
        self._process: asyncio.subprocess.Process | None = None
        self.denial = ""
        """Why the guard refused an address of the last message; empty: it refused none."""

    async def send(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what became of a message. Raises `LostProcessError`; after any exception it must be killed."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-B", str(self._program)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
                limit=_LINE_BYTES,
            )
            await self._listen(self._process)
        self.denial = ""
        await self._say(self._process, given)
        return await self._listen(self._process)

    async def kill(self) -> None:
        """Ends the process at once."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            await process.wait()
            with contextlib.suppress(ValueError, OSError):  # what is left unread, so that its pipes close
                await process.stdout.read()

    async def _listen(self, process: asyncio.subprocess.Process) -> dict[str, Any]:
        """Answers look-ups until another line comes, and returns that."""
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
                said = orjson.loads(line)
            except (ValueError, OSError) as error:  # too long, no JSON, or the end
                raise LostProcessError("the process for Apprise ended") from error
            if not isinstance(said, dict):
                raise LostProcessError("the process for Apprise said what nobody understands")
            if "resolve" not in said:
                return said
            await self._say(process, await self._resolved(str(said["resolve"]), said.get("port")))

    async def _say(self, process: asyncio.subprocess.Process, line: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(orjson.dumps(line) + b"\n")
        try:
            await process.stdin.drain()
        except OSError as error:
            raise LostProcessError("the process for Apprise ended") from error

    async def _resolved(self, host: str, port: object) -> dict[str, Any]:
        number = port if isinstance(port, int) and 0 <= port < 65_536 else 0
        try:
            found = await allowed_addresses(self._guard, host, number)
        except BlockedAddressError as error:
            self.denial = str(error)
            return {"refused": self.denial}
        except DIALLING_FAULTS:
            return {"addresses": []}
        return {"addresses": [(entry[0], entry[4]) for entry in found]}
