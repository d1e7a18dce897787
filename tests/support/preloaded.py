"""Starts `pollerd` by forking a process that has imported it: that takes milliseconds, importing more than a second.

What runs is a process of its own in every other way: arguments, environment, folder, streams, signals, end. The server,
`python -m tests.support.preloaded LISTENER LIFE`, forks for each connection to the socket LISTENER until LIFE ends.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

_MODULES = (
    *("alembic.command", "argon2", "pollerd.cli.accounts", "pollerd.cli.tokens"),
    *("pollerd.cli.changes", "pollerd.cli.commands", "pollerd.cli.config", "pollerd.cli.db", "pollerd.cli.run"),
    *("pollerd.cli.serving", "pollerd.cli.transfer", "pollerd.cli.sites"),
    *("pollerd.storage.postgres", "pollerd.storage.sqlite"),
)


class Preloaded:
    """A process that runs `pollerd ARGUMENTS`."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._end = asyncio.create_task(self._ended(connection))

    @classmethod
    async def started(
        cls, arguments: Sequence[str], environment: dict[str, str], cwd: Path | None, streams: tuple[int, int, int]
    ) -> Preloaded:
        """Starts it with these streams as its input, output and errors."""
        request = json.dumps({"arguments": arguments, "environment": environment, "cwd": str(cwd or Path.cwd())})
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(str(_server()))
            socket.send_fds(connection, [len(request.encode()).to_bytes(4, "big")], streams)
            connection.sendall(request.encode())
            connection.setblocking(False)
            answer = await asyncio.get_running_loop().sock_recv(connection, 4)
            assert answer, "the server of preloaded processes is gone"
            stack.pop_all()
            return cls(int.from_bytes(answer, "big"), connection)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Waits for its end: the exit code, or minus the signal that ended it."""
        return await asyncio.shield(self._end)

    async def _ended(self, connection: socket.socket) -> int:
        with connection:
            answer = await asyncio.get_running_loop().sock_recv(connection, 16)
        self.returncode = int(answer)
        return self.returncode


@functools.cache
def _server() -> Path:
    """Starts the server of this process, which ends with it: where it listens."""
    folder = Path(tempfile.mkdtemp(prefix="pollerd-tests-"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen(64)
        life, ours = os.pipe()
        command = [sys.executable, "-m", "tests.support.preloaded", str(listener.fileno()), str(life)]
        inherited = (listener.fileno(), life)
        root = Path(__file__).parents[2]
        server = subprocess.Popen(
            command, pass_fds=inherited, cwd=root, stdin=subprocess.DEVNULL, start_new_session=True
        )
    os.close(life)

    def end() -> None:
        os.close(ours)
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return folder / "socket"


def _serve(listener: socket.socket, life: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while life not in select.select([listener.fileno(), life], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            os.close(life)
            _run(connection)
        connection.close()


def _run(connection: socket.socket) -> None:
    """Forks once more: the child becomes `pollerd`, the parent says its id and its end."""
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    request = json.loads(connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(request["arguments"], request["environment"], request["cwd"], streams)
    for stream in streams:
        os.close(stream)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(pid.to_bytes(4, "big"))
        _, status = os.waitpid(pid, 0)
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(arguments: list[str], environment: dict[str, str], cwd: str, streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(cwd)
    sys.argv[1:] = arguments
    runpy.run_module("pollerd", run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    for name in _MODULES:
        import_module(name)
    gc.freeze()  # else each child copies all memory when it looks for cycles
    _serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
