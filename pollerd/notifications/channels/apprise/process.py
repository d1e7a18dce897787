"""The daemon's side of a process for Apprise: starts it, looks up names and opens connections for it, and kills it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import structlog

from pollerd.fetching import (
    DIALLING_FAULTS,
    Address,
    BlockedAddressError,
    Guard,
    allowed_addresses,
    connect,
    why_not_dialled,
)
from pollerd.notifications.channels.apprise.fence import missing
from pollerd.notifications.channels.channel import DEADLINE_SECONDS

_CHILD = Path(__file__).with_name("child.py")
_ENVIRONMENT = {"NETRC": os.devnull, "HOME": "/nonexistent", "LANG": "C.UTF-8"}
_LINE_BYTES = 64 * 1024


class LostProcessError(Exception):
    """The process ended, could not be fenced, or said what nobody understands."""


class AppriseProcess:
    """One process; it sends one message at a time."""

    def __init__(self, guard: Guard, program: Path = _CHILD) -> None:
        self._guard, self._program = guard, program
        self._process: asyncio.subprocess.Process | None = None
        self.denial = ""
        """Why the guard refused an address of the last message; empty: it refused none."""
        self._socket: socket.socket | None = None
        self._unread = b""
        self._looked_up: dict[str, Address] = {}
        """Addresses that the process may ask to be connected to: those that it looked up for this message."""

    async def send(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what became of a message. Raises `LostProcessError`; after any exception it must be killed."""
        if self._process is None or self._process.returncode is not None:
            await self.kill()
            await self._start()
        self._looked_up.clear()
        self.denial = ""
        await self._say(given)
        return await self._listen()

    async def kill(self) -> None:
        """Ends the process at once."""
        process, self._process = self._process, None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _start(self) -> None:
        """Starts the process and waits until it can send. Raises `LostProcessError`."""
        self._unread = b""
        self._socket, other = socket.socketpair()
        self._socket.setblocking(False)
        with other:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-B", str(self._program)),
                stdin=other.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
            )
        said = await self._listen()
        if (reason := missing()) is not None:
            structlog.get_logger("pollerd.channels").warning("apprise_not_fenced", reason=reason)
        if "fault" in said:
            raise LostProcessError(f"the process for Apprise cannot be fenced: {said['fault']}")

    async def _listen(self) -> dict[str, Any]:
        """Answers look-ups and opens connections until another line comes, and returns that."""
        while True:
            try:
                said = orjson.loads(await self._line())
            except (ValueError, OSError) as error:  # too long, no JSON, or the end
                raise LostProcessError("the process for Apprise ended") from error
            if not isinstance(said, dict):
                raise LostProcessError("the process for Apprise said what nobody understands")
            if "resolve" in said:
                await self._say(await self._resolved(str(said["resolve"]), _port(said)))
            elif "connect" in said:
                await self._connect(str(said["connect"]), _port(said), said.get("timeout"))
            else:
                return said

    async def _line(self) -> bytes:
        """Returns the next line. Raises ValueError for one that is too long, and OSError."""
        assert self._socket is not None
        while b"\n" not in self._unread:
            if len(self._unread) > _LINE_BYTES:
                raise ValueError("the line is too long")
            more = await asyncio.get_running_loop().sock_recv(self._socket, _LINE_BYTES)
            if not more:
                raise ConnectionResetError(errno.ECONNRESET, "the process ended")
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    async def _say(self, line: Mapping[str, Any]) -> None:
        assert self._socket is not None
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, orjson.dumps(line) + b"\n")
        except OSError as error:
            raise LostProcessError("the process for Apprise ended") from error

    async def _resolved(self, host: str, port: int) -> dict[str, Any]:
        try:
            found = await allowed_addresses(self._guard, host, port)
        except BlockedAddressError as error:
            self.denial = str(error)
            return {"refused": self.denial}
        except DIALLING_FAULTS:
            return {"addresses": []}
        self._looked_up.update((str(entry[4][0]), entry) for entry in found)
        return {"addresses": [(entry[0], entry[4]) for entry in found]}

    async def _connect(self, host: str, port: int, patience: object) -> None:
        """Opens a connection through the guard and passes its descriptor; answers why not, where it cannot.

        patience: the seconds that the process waits, as it says; anything else is no limit of its own.
        """
        entry = self._looked_up.get(host)
        if entry is None:
            await self._say({"refused": f"connection to {host!r}, which was not looked up for this message"})
            return
        seconds = patience if isinstance(patience, int | float) and patience > 0 else DEADLINE_SECONDS
        target = (*entry[:4], (host, port, *entry[4][2:]))
        try:
            async with asyncio.timeout(min(seconds, DEADLINE_SECONDS)):
                opened = await connect([target], self._guard)
        except DIALLING_FAULTS as error:
            number = getattr(error, "errno", None) or (
                errno.ETIMEDOUT if isinstance(error, TimeoutError) else errno.ECONNREFUSED
            )
            await self._say({"failed": number, "reason": why_not_dialled(error)[1]})
            return
        with opened:
            self._pass(opened)

    def _pass(self, opened: socket.socket) -> None:
        """Passes a descriptor, which needs an empty buffer: the process waits for this one answer."""
        assert self._socket is not None
        try:
            socket.send_fds(self._socket, [b"{}\n"], [opened.fileno()])
        except OSError as error:
            raise LostProcessError("the process for Apprise does not read what it asked for") from error


def _port(said: Mapping[str, Any]) -> int:
    port = said.get("port")
    return port if isinstance(port, int) and 0 <= port < 65_536 else 0
