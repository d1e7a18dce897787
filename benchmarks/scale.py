"""Import, start, memory, choices and API latencies with very many sites, measured from outside the daemon.

The daemon is the real one (`pollerd run`, SQLite or PostgreSQL). CPU and memory are read from /proc, ticks and
event-loop lag from /metrics. One run: a start with the list; then a start with an empty database and the list imported
over REST, while calls are timed; then a restart; then polling at the full budget of a loopback origin, while calls are
timed.

    python benchmarks/scale.py [--sites 100000] [--budget 200] [--seconds 60] [--database URL] [--list-only]

With `--folder` the list and the SQLite files are kept there, and a later run reuses them: `--phases list` first, then
`--phases polling` as often as wanted. `--lock FILE` is held while polling is measured, so that measurements on one
machine do not overlap.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import asyncpg
from aiohttp import web

TICK = os.sysconf("SC_CLK_TCK")
PAGES_A_HOST = 10
IMPORT_LINES = 50_000
PATIENCE_SECONDS = 3600.0


@dataclass
class Figures:
    """Figures of one phase, row by row of the table."""

    rows: list[tuple[str, str]] = field(default_factory=list)

    def add(self, what: str, value: str) -> None:
        self.rows.append((what, value))
        print(f"  {what}: {value}", file=sys.stderr, flush=True)


def resident_kb(pid: int | str) -> int:
    """Returns the resident memory of a process, 0 if it has ended."""
    with contextlib.suppress(FileNotFoundError):
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) if found else 0
    return 0


class Process:
    """A daemon under test."""

    def __init__(self, process: asyncio.subprocess.Process, base: str) -> None:
        self._process, self.base = process, base

    def cpu(self) -> float:
        """Returns user and system seconds so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory(self) -> str:
        """Returns the current and the peak resident memory in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        now, most = (re.search(rf"{name}:\s+(\d+)", status) for name in ("VmRSS", "VmHWM"))
        assert now is not None
        assert most is not None
        return f"{int(now[1]) / 1024:.0f} MB, at most {int(most[1]) / 1024:.0f} MB"

    def resident_mb(self) -> float:
        """Returns the resident memory of the daemon and its helpers."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return sum(resident_kb(pid) for pid in [str(self._process.pid), *children]) / 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    async def stop(self) -> None:
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            await self._process.wait()


class Api:
    """Timed calls to the daemon."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session, self._base = session, base

    async def get(self, path: str) -> str:
        async with self._session.get(self._base + path) as response:
            return await response.text()

    async def ready(self) -> bool:
        try:
            async with self._session.get(self._base + "/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def sites(self) -> int:
        found = re.findall(r"^pollerd_sites\{.*\} (\S+)", await self.get("/metrics"), re.MULTILINE)
        return int(sum(map(float, found)))

    async def metric(self, name: str) -> float:
        found = re.search(rf"^{name} (\S+)", await self.get("/metrics"), re.MULTILINE)
        return float(found[1]) if found else float("nan")

    async def post(self, path: str, data: bytes) -> None:
        async with self._session.post(self._base + path, data=data, headers={"content-type": "text/plain"}) as response:
            assert response.status == 200, await response.text()
            await response.read()


CALLS = ("/api/v1/sites?limit=100", "/api/v1/sites/1", "/api/v1/sites/1/explain", "/api/v1/allocation", "/readyz")


class Latencies:
    """Makes a few calls in turn for the duration of the block."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.seconds: list[float] = []
        self.lag: list[float] = []

    @contextlib.asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._ask())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _ask(self) -> None:
        while True:
            for call in CALLS:
                began = time.perf_counter()
                await self._api.get(call)
                self.seconds.append(time.perf_counter() - began)
                await asyncio.sleep(0.05)
            self.lag.append(await self._api.metric("pollerd_event_loop_lag_seconds"))

    def __str__(self) -> str:
        ordered = sorted(self.seconds)
        if not ordered:
            return "no call answered"
        median, high = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
        lag = max(self.lag, default=float("nan"))
        return (
            f"p50 {median * 1e3:.0f} ms, p99 {high * 1e3:.0f} ms, most {ordered[-1] * 1e3:.0f} ms of {len(ordered)}; "
            f"loop lag seen: at most {lag * 1e3:.0f} ms"
        )


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the daemon did not get there")
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def databases(work: Path, server: str | None, *, kept: bool) -> AsyncIterator[list[str]]:
    """Yields URLs of two databases: SQLite files, empty unless kept, or on a PostgreSQL server, dropped at the end."""
    names = [f"pollerd_scale_{'kept' if kept else os.getpid()}_{n}" for n in range(2)]
    if server is None:
        yield [f"sqlite+aiosqlite:///{work}/{name}.db" for name in names]
        return
    connection = await asyncpg.connect(server)
    try:
        for name in names:
            await connection.execute(f"CREATE DATABASE {name}")
        yield [f"{server.rsplit('/', 1)[0]}/{name}" for name in names]
    finally:
        for name in names:
            await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await connection.close()


@contextlib.asynccontextmanager
async def daemon(
    work: Path, name: str, budget: float, *arguments: str, database: str | None = None
) -> AsyncIterator[tuple[Process, Api]]:
    """Runs a daemon. The default database is an SQLite file of the name."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "pollerd", "run", *arguments, "--budget", str(budget), "--allow-private"),
        *("--database", database or f"sqlite+aiosqlite:///{work}/{name}.db", "--listen", f"127.0.0.1:{port}"),
    ]
    with (work / f"{name}.log").open("ab") as log:
        started = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    process = Process(started, f"http://127.0.0.1:{port}")
    async with aiohttp.ClientSession() as session:
        try:
            yield process, Api(session, process.base)
        finally:
            await process.stop()


@contextlib.asynccontextmanager
async def origin(port: int) -> AsyncIterator[None]:
    """Serves pages of which about every fifth poll finds a change; no robots.txt."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/robots.txt":
            return web.Response(status=404)
        edition = int(time.time() / 20 + hash(request.path)) // 3
        return web.Response(
            text=f"<html><body><p>{request.path} edition {edition}</p></body></html>" * 20, content_type="text/html"
        )

    app = web.Application()
    app.router.add_route("GET", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    try:
        yield
    finally:
        await runner.cleanup()


def write_list(path: Path, sites: int, port: int) -> None:
    hosts = max(sites // PAGES_A_HOST, 1)
    with path.open("w") as file:
        for i in range(sites):
            k = i % hosts
            file.write(f"http://127.{1 + k // 62_500}.{k // 250 % 250}.{k % 250 + 1}:{port}/p/{i // hosts}\n")


async def from_a_list(work: Path, database: str, sites: int, found: Figures) -> None:
    began = time.monotonic()
    async with daemon(work, "list", 0.01, str(work / "urls.txt"), database=database) as (process, api):
        await until(api.ready)
        before, counted = process.cpu(), time.monotonic()

        async def all_there() -> bool:
            return await api.sites() >= sites

        calls = Latencies(api)
        async with calls.measured():
            await until(all_there)
        found.add("list read at a start", f"{time.monotonic() - counted:.1f} s, CPU {process.cpu() - before:.1f} s")
        found.add("calls meanwhile", str(calls))
        found.add("memory after it", process.memory())
    found.add("all of it with start and end", f"{time.monotonic() - began:.1f} s")


async def over_rest(work: Path, database: str, sites: int, found: Figures) -> None:
    lines = (work / "urls.txt").read_bytes().splitlines(keepends=True)
    async with daemon(work, "rest", 0.01, database=database) as (process, api):
        await until(api.ready)
        before, began, calls = process.cpu(), time.monotonic(), Latencies(api)
        async with calls.measured():
            for start in range(0, sites, IMPORT_LINES):
                await api.post("/api/v1/sites/import", b"".join(lines[start : start + IMPORT_LINES]))
        found.add("import over REST", f"{time.monotonic() - began:.1f} s, CPU {process.cpu() - before:.1f} s")
        found.add("calls meanwhile", str(calls))
        found.add("memory after it", process.memory())


async def restarted(work: Path, database: str, budget: float, seconds: float, port: int, found: Figures) -> None:
    began = time.monotonic()
    async with origin(port), daemon(work, "list", budget, database=database) as (process, api):
        await until(api.ready)
        found.add("start to readyz", f"{time.monotonic() - began:.1f} s, CPU {process.cpu():.1f} s")
        found.add("memory at the start", process.memory())
        await asyncio.sleep(10)
        count = await api.metric("pollerd_scheduler_tick_seconds_count")
        total = await api.metric("pollerd_scheduler_tick_seconds_sum")
        before, calls = process.cpu(), Latencies(api)
        async with calls.measured():
            await asyncio.sleep(seconds)
        count = await api.metric("pollerd_scheduler_tick_seconds_count") - count
        total = await api.metric("pollerd_scheduler_tick_seconds_sum") - total
        used = await api.metric("pollerd_budget_utilization_ratio")
        found.add(f"polling at {budget:g}/s", f"{used:.2f} of it used, CPU {(process.cpu() - before) / seconds:.2f}")
        found.add("calls meanwhile", str(calls))
        found.add("a tick (choosing)", f"{total / max(count, 1) * 1e3:.1f} ms of {count:.0f}")
        found.add("memory while polling", process.memory())


@contextlib.contextmanager
def folder_of(kept: Path | None) -> Iterator[Path]:
    """Yields the folder of the list and the databases; a temporary one unless they are to be kept."""
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="scale-") as made:
            yield Path(made)
    else:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept


@contextlib.contextmanager
def held(lock: Path | None) -> Iterator[None]:
    """Waits until no other measurement holds the lock, and holds it."""
    if lock is None:
        yield
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def measure(a: argparse.Namespace) -> Figures:
    found = Figures()
    with folder_of(a.folder) as work:
        if not (work / "urls.txt").exists():
            write_list(work / "urls.txt", a.sites, a.port)
        async with databases(work, a.database, kept=a.folder is not None) as (first, second):
            if "list" in a.phases:
                await from_a_list(work, first, a.sites, found)
            if "rest" in a.phases:
                await over_rest(work, second, a.sites, found)
            if "polling" in a.phases:
                with held(a.lock):
                    await restarted(work, first, a.budget, a.seconds, a.port, found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=100_000)
    parser.add_argument("--budget", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--port", type=int, default=8798)
    parser.add_argument("--database", metavar="URL", help="postgresql://...: of a server, to make databases on")
    parser.add_argument("--list-only", action="store_true", help="no import over REST, which takes as long again")
    parser.add_argument("--phases", nargs="+", choices=("list", "rest", "polling"), default=["list", "rest", "polling"])
    parser.add_argument("--folder", type=Path, help="where list and databases are kept")
    parser.add_argument("--lock", type=Path, help="a file that is held while polling is measured")
    a = parser.parse_args()
    if a.list_only:
        a.phases = ["list", "polling"]
    found = asyncio.run(measure(a))
    print(f"| what | {a.sites:,} sites |\n| --- | --- |")
    for what, value in found.rows:
        print(f"| {what} | {value} |")


if __name__ == "__main__":
    main()
