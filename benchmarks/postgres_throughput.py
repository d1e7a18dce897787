"""What PostgreSQL costs beside SQLite: CPU per poll of daemon and server, commits, WAL; and what a server can take.

    python benchmarks/postgres_throughput.py --postgres URL [--part daemon|commits] [--rates 50 200] [--seconds 30]
        [--nodes 1 2 4] [--against DIR] [--turns 2]

`daemon`: the real daemon (`pollerd run`) polls a stub origin, a process of its own on loopback, as in `light_load.py`:
all answers are 304, or one in `--changes` is a page that changed. `commits`: `Store.commit` of ready batches, nothing
is fetched, as fast as the server takes them; `--writers` databases side by side, each of which has one writer, load the
server until it is saturated. CPU is read from /proc: of the daemon's process, and of all processes of the server, that
is backends, checkpointer and writers; it has to run on this machine, and to serve nobody else. WAL is what the server's
position in it moved by. With `--against DIR` the code in that folder is measured, too, in turns.

`--one-database`: the writers share one database, each with sites of its own.

`--nodes 1 2 4`: in the daemon's part also so many nodes on one database, which share the budget of each rate; CPU and
commits are those of all nodes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import asyncpg
from light_load import HERE, TICK, counted, origin, set_budget, started, wait_until

SETTLING_SECONDS = 8.0
SITES_PER_RATE = 4.0
_PARTITIONS = 64


class Server:
    """A PostgreSQL server on this machine; makes and drops databases, and reads what it used."""

    def __init__(self, url: str) -> None:
        self._url = url.replace("+asyncpg", "")

    def run(self, statement: str) -> Any:
        """Runs a statement on the database of the URL; returns the first value."""

        async def work() -> Any:
            connection = await asyncpg.connect(self._url)
            try:
                return await connection.fetchval(statement)
            finally:
                await connection.close()

        return asyncio.run(work())

    @contextlib.contextmanager
    def database(self, name: str) -> Iterator[str]:
        """Yields the URL of an empty database of that name."""
        self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self.run(f'CREATE DATABASE "{name}"')
        try:
            yield urlsplit(self._url)._replace(path=f"/{name}").geturl()
        finally:
            self.run(f'DROP DATABASE "{name}" WITH (FORCE)')

    def wal_bytes(self) -> int:
        """Returns the position in the WAL."""
        return int(self.run("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))

    def cpu(self) -> float:
        """Returns the CPU time (s) of all processes of the server so far, also of those that ended."""
        text = self.run("SELECT pg_read_file('postmaster.pid')").split("\n", 1)[0]
        return cpu_of_tree(int(text))


def cpu_of_tree(pid: int) -> float:
    """Returns the CPU time (s) of a process, of its children, and of children that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    used = sum(map(int, fields[11:15])) / TICK
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()
            used += (int(stat[11]) + int(stat[12])) / TICK
    return used


class Used(NamedTuple):
    """Counters at one moment."""

    at: float
    polls: float
    commits: float
    daemon: float
    server: float
    wal: int


class Figures(NamedTuple):
    """One measurement."""

    polls: float
    commits: float
    daemon_ms: float
    server_ms: float
    wal: float

    @classmethod
    def between(cls, a: Used, b: Used) -> Figures:
        """Returns what lies between two moments, a second and a poll."""
        passed, polls = b.at - a.at, max(b.polls - a.polls, 1)
        return cls(
            polls / passed,
            (b.commits - a.commits) / passed,
            1e3 * (b.daemon - a.daemon) / polls,
            1e3 * (b.server - a.server) / polls,
            (b.wal - a.wal) / polls,
        )

    def __str__(self) -> str:
        return (
            f"{self.polls:8.1f} polls/s  {self.commits:6.2f} commits/s  CPU a poll: daemon {self.daemon_ms:6.3f} ms"
            f"  server {self.server_ms:6.3f} ms  WAL {self.wal:6.0f} bytes a poll"
        )


Rows = dict[tuple[str, str], list[Figures]]
"""Measurements by code and engine."""


def note(rows: Rows, key: tuple[str, str], size: float, figures: Figures) -> None:
    """Adds a measurement, and prints it."""
    rows.setdefault(key, []).append(figures)
    print(f"  {key[0]:8}{key[1]:11}{size:7g}  {figures}", flush=True)


# The daemon, with a stub origin.


def measure_daemons(server: Server, codes: dict[str, Path], rate: float, options: argparse.Namespace) -> Rows:
    """Measures daemons of all codes on all engines in turns, each on a new database."""
    rows: Rows = {}
    for _ in range(options.turns):
        for name, code in codes.items():
            for engine in options.engines:
                note(rows, (name, engine), rate, measure_daemon(code, server, engine, rate, options))
            for nodes in options.nodes:
                note(rows, (name, f"{nodes} nodes"), rate, measure_nodes(code, server, nodes, rate, options))
    return rows


def measure_daemon(code: Path, server: Server, engine: str, rate: float, options: argparse.Namespace) -> Figures:
    """Runs the daemon of that code on a new database, and measures it after one poll of each site."""
    sites = int(SITES_PER_RATE * rate)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(origin(options.changes))
        url = None if engine == "sqlite" else stack.enter_context(server.database("pollerd_throughput"))
        process, listen = started(code, folder, port, rate, sites, True, url)
        try:
            wait_until(process, lambda: counted(listen, 'pollerd_polls_total{outcome="first"}') >= sites)
            set_budget(listen, rate)
            # Measurements begin alike: pages are logged whole the first time after a checkpoint.
            server.run("CHECKPOINT")
            time.sleep(SETTLING_SECONDS)
            before = _daemon_used(process.pid, listen, server)
            time.sleep(options.seconds)
            return Figures.between(before, _daemon_used(process.pid, listen, server))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def measure_nodes(code: Path, server: Server, nodes: int, rate: float, options: argparse.Namespace) -> Figures:
    """Runs so many nodes on a new database, and measures them after one poll of each site."""
    sites = int(SITES_PER_RATE * rate)
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(origin(options.changes))
        url = stack.enter_context(server.database("pollerd_throughput"))
        running: list[tuple[subprocess.Popen[bytes], int]] = []
        stack.callback(_end, running)
        for n in range(nodes):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            running.append(started(code, folder, port, rate, sites, True, url, ("--node", f"n{n}")))
        first = 'pollerd_polls_total{outcome="first"}'
        for process, listen in running:
            wait_until(process, partial(_holds, listen, _PARTITIONS // nodes))
        wait_until(running[0][0], lambda: sum(counted(listen, first) for _, listen in running) >= sites)
        set_budget(running[0][1], rate)
        server.run("CHECKPOINT")
        time.sleep(2 * SETTLING_SECONDS)  # grants, too
        before = _nodes_used(running, server)
        time.sleep(options.seconds)
        return Figures.between(before, _nodes_used(running, server))


def _holds(listen: int, partitions: int) -> bool:
    return counted(listen, "pollerd_cluster_partitions_held") >= partitions


def _end(running: list[tuple[subprocess.Popen[bytes], int]]) -> None:
    for process, _ in running:
        process.send_signal(signal.SIGTERM)
    for process, _ in running:
        process.wait()


def _nodes_used(running: list[tuple[subprocess.Popen[bytes], int]], server: Server) -> Used:
    each = [_daemon_used(process.pid, listen, server) for process, listen in running]
    polls, commits, cpu = (sum(one[place] for one in each) for place in (1, 2, 3))
    return Used(each[-1].at, polls, commits, cpu, each[-1].server, each[-1].wal)


def _daemon_used(pid: int, listen: int, server: Server) -> Used:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    cpu = (int(fields[11]) + int(fields[12])) / TICK
    polls, commits = counted(listen, "pollerd_polls_total{"), counted(listen, "pollerd_commit_seconds_count")
    return Used(time.monotonic(), polls, commits, cpu, server.cpu(), server.wal_bytes())


# Commits without fetching.


class Writers:
    """Processes that commit at once, a database each; they wait between two measurements."""

    def __init__(self, code: Path, urls: list[str], batch: int, options: argparse.Namespace) -> None:
        load = str(HERE / "benchmarks" / "commit_load.py")
        settings = [str(batch), str(options.seconds), "--changes", str(options.changes)]
        shared = len(urls) > len(set(urls))
        writers = [["--writer", f"w{n}"] if shared else [] for n in range(len(urls))]
        variables = {**os.environ, "PYTHONPATH": str(code)}
        self._processes = [
            subprocess.Popen(
                [sys.executable, load, url, *settings, *writer],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for url, writer in zip(urls, writers, strict=True)
        ]
        self._answers()

    def measure(self, server: Server) -> Figures:
        """Has them commit; CPU and rates are those of all."""
        before = (server.cpu(), server.wal_bytes())
        self._say("go")
        found = [json.loads(answer) for answer in self._answers()]
        after = (server.cpu(), server.wal_bytes())
        polls, commits, cpu = (sum(one[name] for one in found) for name in ("polls", "commits", "cpu"))
        seconds = max(one["seconds"] for one in found)
        return Figures.between(Used(0.0, 0, 0, 0.0, *before), Used(seconds, polls, commits, cpu, *after))

    def close(self) -> None:
        """Ends them."""
        self._say("end")
        for process in self._processes:
            process.communicate()

    def _say(self, word: str) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{word}\n")
            process.stdin.flush()

    def _answers(self) -> list[str]:
        return [process.stdout.readline() for process in self._processes if process.stdout is not None]


def measure_commits(server: Server, codes: dict[str, Path], batch: int, options: argparse.Namespace) -> Rows:
    """Measures all codes and engines in turns, each on its own databases from beginning to end."""
    rows: Rows = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        writers = {}
        for name, code in codes.items():
            for engine in options.engines:
                urls = [f"sqlite:///{folder}/{name}.db"]
                if engine == "postgresql":
                    names = [f"pollerd_throughput_{name}_{n}" for n in range(options.writers)]
                    if options.one_database:
                        urls = [stack.enter_context(server.database(names[0]))] * options.writers
                    else:
                        urls = [stack.enter_context(server.database(one)) for one in names]
                writers[name, engine] = Writers(code, urls, batch, options)
                stack.callback(writers[name, engine].close)
        server.run("CHECKPOINT")
        for _ in range(options.turns):
            for key, one in writers.items():
                note(rows, key, batch, one.measure(server))
    return rows


def main() -> None:
    """Prints a line per measurement, and the median of each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", required=True, metavar="URL", help="a database of a role that may make others")
    parser.add_argument("--part", choices=("daemon", "commits"), default="daemon")
    parser.add_argument("--engines", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"])
    parser.add_argument("--rates", type=float, nargs="+", default=[50.0, 200.0], help="polls per second; daemon")
    parser.add_argument("--batches", type=int, nargs="+", default=[25, 100, 500], help="polls in a commit; commits")
    parser.add_argument("--writers", type=int, default=1, help="commits: databases that are written to at once")
    parser.add_argument("--nodes", type=int, nargs="*", default=[], help="numbers of nodes; daemon")
    parser.add_argument("--one-database", action="store_true", help="commits: the writers share one")
    parser.add_argument("--changes", type=int, default=0, help="one poll in so many finds a change; 0: none does")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--turns", type=int, default=2)
    options = parser.parse_args()
    codes = {"this": HERE} | ({"against": options.against.absolute()} if options.against else {})
    server = Server(options.postgres)
    if options.part == "daemon":
        found = [measure_daemons(server, codes, rate, options) for rate in options.rates]
    else:
        found = [measure_commits(server, codes, batch, options) for batch in options.batches]
    for size, rows in zip(options.rates if options.part == "daemon" else options.batches, found, strict=True):
        for (name, engine), figures in rows.items():
            print(f"{name:10}{engine:11}{size:7g}  {Figures(*map(median, zip(*figures, strict=True)))}", flush=True)


if __name__ == "__main__":
    main()
