"""Cost of a lightly loaded daemon: CPU, wake-ups and memory at a given rate of polls, all answered 304.

The daemon is the real one (`pollerd run`, SQLite, metrics, politeness on), the origin a separate process on loopback. A
list of up to 50,000 sites is first polled once at a higher budget, which is then set to the measured one: otherwise
half of the measured polls would be first polls. The database has its schema before the start, as at every start but the
first. CPU and context switches are read from /proc. With `--against DIR` the code in that folder is measured, too, in
turns.

    python benchmarks/light_load.py [--rates 0.5 5 50 500 5000] [--sites 100] [--seconds 30] [--against DIR] [--turns 2]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import NamedTuple

HERE = Path(__file__).resolve().parent.parent
TICK = os.sysconf("SC_CLK_TCK")
HOSTS_MOST = 50_000
POLLED_THROUGH_MOST = 50_000
FIRST_PASS_RATE = 100.0
SITES_PER_RATE = 2.0
"""Least number of sites per poll per second: a site is in flight until its poll is committed."""
SETTLING_SECONDS = 12.0
"""Time after which the first pass is committed, and figures over the last seconds belong to the new budget."""
_PAGE = (
    b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "1"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n'
    b"Content-Length: 12\r\n\r\n<p>hello</p>"
)
_SAME = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
_WORDS = [f"word{n}" for n in range(3000)]
_NONE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class _Origin(asyncio.Protocol):
    """Answers GET requests one after the other; `changes`: one page in so many is another; 0: none is."""

    def __init__(self, changes: int) -> None:
        self._changes = changes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport of a new connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answers a request, which arrives whole."""
        if data.startswith(b"GET /robots.txt "):
            self._transport.write(_NONE)
        elif self._changes and random.random() * self._changes < 1:
            self._transport.write(_changed_page())
        else:
            self._transport.write(_SAME if b"If-None-Match" in data else _PAGE)


def _changed_page() -> bytes:
    """Returns a page of about 4 KB, half of whose words are new."""
    words = " ".join(["word"] * 400 + random.choices(_WORDS, k=400))
    body = f"<p>{words}</p>".encode()
    tag, length = random.random(), len(body)
    head = f'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "{tag}"\r\nContent-Length: {length}\r\n\r\n'
    return head.encode() + body


def _serve(listener: socket.socket, changes: int) -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_server(partial(_Origin, changes), sock=listener, backlog=4096)
        await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())


@contextlib.contextmanager
def origin(changes: int = 0) -> Iterator[int]:
    """Runs a server on every 127.x.y.z; yields its port. changes: one answer in so many is a new page; 0: none is."""
    listener = socket.create_server(("0.0.0.0", 0), backlog=4096)
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(listener, changes))
    process.start()
    try:
        yield listener.getsockname()[1]
    finally:
        process.kill()
        process.join()
        listener.close()


class Sample(NamedTuple):
    """Counters of the process at one moment."""

    at: float
    cpu: float
    switches: int
    polls: float


class Row(NamedTuple):
    """One measurement."""

    polls: float
    core: float
    ms_a_poll: float
    wakeups: float
    pss_mb: float


def counted(port: int, metric: str) -> float:
    """Returns the sum of a metric over its labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        lines = [line for line in reply.read().decode().splitlines() if line.startswith(metric)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def _sample(pid: int, port: int) -> Sample:
    polls = counted(port, "pollerd_polls_total{")
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    switches = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        switches += int(status.split("voluntary_ctxt_switches:")[1].split()[0])
    return Sample(time.monotonic(), (int(fields[11]) + int(fields[12])) / TICK, switches, polls)


def _pss_mb(pid: int) -> float:
    """Returns the PSS of the process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    texts = [Path(f"/proc/{p}/smaps_rollup").read_text() for p in [str(pid), *children]]
    return sum(int(text.split("\nPss:")[1].split()[0]) for text in texts) / 1024


def measure(code: Path, port: int, rate: float, sites: int, seconds: float) -> Row:
    """Runs and measures the daemon of the code in that folder, after one poll of each page unless the list is long."""
    passes = sites <= POLLED_THROUGH_MOST
    with tempfile.TemporaryDirectory() as folder:
        process, listen = started(code, Path(folder), port, rate, sites, passes)
        try:
            wait_until(process, lambda: counted(listen, "pollerd_sites{") >= sites)
            if passes:
                wait_until(process, lambda: counted(listen, 'pollerd_polls_total{outcome="first"}') >= sites)
                set_budget(listen, rate)
            time.sleep(SETTLING_SECONDS)
            before = _sample(process.pid, listen)
            time.sleep(seconds)
            after, pss = _sample(process.pid, listen), _pss_mb(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
    passed, polls = after.at - before.at, after.polls - before.polls
    cpu = after.cpu - before.cpu
    return Row(
        polls / passed, cpu / passed, 1e3 * cpu / max(polls, 1), (after.switches - before.switches) / passed, pss
    )


def started(
    code: Path,
    folder: Path,
    port: int,
    rate: float,
    sites: int,
    passes: bool,
    database: str | None = None,
    more: Sequence[str] = (),
) -> tuple[subprocess.Popen[bytes], int]:
    """Starts the daemon, on SQLite unless a database is named; returns it and the port of its API. more: flags."""
    urls = folder / "urls.txt"
    hosts = min(sites, HOSTS_MOST)
    urls.write_text(
        "\n".join(f"http://127.1.{n % hosts // 250}.{n % hosts % 250 + 1}:{port}/{n}" for n in range(sites))
    )
    api = socket.create_server(("127.0.0.1", 0))
    listen = api.getsockname()[1]
    api.close()
    own = code / ".venv" / "bin" / "python"  # other code may need other libraries
    python = str(own) if own.exists() else sys.executable
    variables = {name: value for name, value in os.environ.items() if not name.startswith("POLLERD_")}
    variables["POLLERD_DATABASE"] = database or f"sqlite+aiosqlite:///{folder}/poll.db"
    budget = max(rate, FIRST_PASS_RATE) if passes else rate
    arguments = ["--budget", str(budget), "--listen", f"127.0.0.1:{listen}", "--allow-private"]
    arguments += ["--min-interval", str(min(10.0, 0.5 * sites / rate)), "--host-interval", "0"]
    configs = (code / "pollerd").rglob("config.py")
    if any(b"min_yield" in config.read_bytes() for config in configs):  # nothing changes, and all must be polled
        arguments += ["--min-yield", "0"]
    with open(folder / "log", "wb") as log:
        for command in (["db", "upgrade"], ["run", str(urls), *arguments, *more]):
            process = subprocess.Popen(
                [python, "-m", "pollerd", *command], cwd=code, env=variables, stdout=log, stderr=log
            )
            if command[0] == "db":
                process.wait()
    return process, listen


def set_budget(listen: int, rate: float) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{listen}/api/v1/allocation",
        json.dumps({"budget": rate}).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request) as reply:
        reply.read()


def wait_until(process: subprocess.Popen[bytes], true: Callable[[], bool]) -> None:
    for _ in range(12_000):
        if process.poll() is not None:
            raise RuntimeError(f"the daemon ended with {process.returncode}")
        with contextlib.suppress(OSError):
            if true():
                return
        time.sleep(0.1)
    raise RuntimeError("the sites were not listed, or not polled, in time")


def main() -> None:
    """Prints a line per measurement, and their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5, 5.0, 50.0, 500.0, 5000.0])
    parser.add_argument("--sites", type=int, default=100, help="at least; and at least two seconds' worth of polls")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--turns", type=int, default=2)
    options = parser.parse_args()
    codes = {"this": HERE} | ({"against": options.against} if options.against else {})
    with origin() as port:
        for rate in options.rates:
            rows: dict[str, list[Row]] = {name: [] for name in codes}
            for _ in range(options.turns):
                for name, code in codes.items():
                    sites = max(options.sites, int(SITES_PER_RATE * rate))
                    row = measure(code, port, rate, sites, options.seconds)
                    rows[name].append(row)
                    print(f"  {name:8} {rate:7g}/s  {_shown(row)}", flush=True)
            for name, measured in rows.items():
                row = Row(*(mean(column) for column in zip(*measured, strict=True)))
                print(f"{name:10} {rate:7g}/s  {_shown(row)}", flush=True)


def _shown(row: Row) -> str:
    return (
        f"{row.polls:8.2f} polls/s  {row.core:7.2%} of a core  {row.ms_a_poll:7.2f} ms a poll"
        f"  {row.wakeups:7.1f} wake-ups/s  {row.pss_mb:6.1f} MB"
    )


if __name__ == "__main__":
    main()
