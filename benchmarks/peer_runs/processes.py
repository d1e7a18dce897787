"""Processes: their CPU time, ports, waiting for them."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")
_STOPPING_SECONDS = 30.0


def free_port() -> int:
    """Returns a port of this machine that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def tree_cpu_seconds(pid: int, folder: Path = Path("/proc")) -> float:
    """Returns the CPU seconds, user and system, of a process and all below it, with children that have ended."""
    children, used = defaultdict(list), {}
    for file in folder.glob("[0-9]*/stat"):
        try:
            number, parent, ticks = process_line(file.read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile, and its parent has its time
        children[parent].append(number)
        used[number] = ticks
    total, todo = 0, [pid]
    while todo:
        number = todo.pop()
        total += used.get(number, 0)
        todo += children[number]
    return total / os.sysconf("SC_CLK_TCK")


def process_line(line: str) -> tuple[int, int, int]:
    """Returns number, parent and clock ticks (own, and of children that ended) from a line of /proc/PID/stat."""
    number, _, rest = line.partition(" (")
    fields = rest.rpartition(") ")[2].split()  # a name may hold blanks and parentheses
    return int(number), int(fields[1]), sum(map(int, fields[11:15]))


def until(tried: Callable[[], Value | None], what: str, seconds: float = 60.0) -> Value:
    """Calls until it returns something true; ends the script with `what` after some seconds."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            got = tried()
        except OSError:
            got = None
        if got:
            return got
        time.sleep(0.2)
    raise SystemExit(f"{what}: not within {seconds:.0f} s")


@contextmanager
def started(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Runs a program for the block, its output in a file, then asks it to end."""
    settings = {**os.environ, **(env or {})}
    with (
        log.open("w") as out,
        subprocess.Popen(command, env=settings, stdout=out, stderr=subprocess.STDOUT, text=True) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOPPING_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
