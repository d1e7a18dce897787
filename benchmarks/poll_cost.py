"""CPU seconds per 1,000 polls of the whole daemon, compared with a bare aiohttp loop on the same pages in the same run.

The reference is not ours: `--bench DIR` names a folder with `origin.py` (a page tree and an nginx worker) and
`ceiling.py` (the bare loop). Daemon and bare loop run on one core, the origin on another. The daemon is the real one:
`pollerd run` with detection, SQLite, metrics, logs and politeness on. CPU is read from /proc, polls are lines of
nginx's log (without robots.txt). Three states: all answers 304, every poll a changed page, and again 304.

    python benchmarks/poll_cost.py --bench DIR [--pages 4000] [--hosts 2000] [--polls 12000] [--rate 1500]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any, NamedTuple

CLIENT_CORE, ORIGIN_CORE = 0, 1
BARE_PASSES = 4
TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Returns user and system time of the process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def load_origin(bench: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_origin", bench / "origin.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Log:
    """nginx's log, read as it grows."""

    def __init__(self, path: str) -> None:
        """Existing lines do not count."""
        self._path, self._at = path, os.stat(path).st_size

    def lines(self) -> list[list[bytes]]:
        """Returns the polls since the last call: time, status, bytes, request on its connection, host, path."""
        with open(self._path, "rb") as f:
            f.seek(self._at)
            new, newline, _ = f.read().rpartition(b"\n")
            self._at += len(new) + len(newline)
        return [line.split() for line in new.splitlines() if not line.endswith(b"/robots.txt")]

    def polls(self) -> tuple[int, int, int]:
        """Returns (polls, answers 304, polls on a new connection) since the last call."""
        lines = self.lines()
        return len(lines), sum(line[1] == b"304" for line in lines), sum(line[3] == b"1" for line in lines)


class Rewriter(threading.Thread):
    """Changes the visible text of a page after each poll of it, by the origin's log, with no more work than needed.

    Rewriting pages continuously would keep the second core, and its share of the caches, busy enough to distort the
    measurements on the first.
    """

    def __init__(self, root: Path, pages: list[str], log: Log) -> None:
        super().__init__(daemon=True)
        self._root, self._log, self._halt = root, log, threading.Event()
        self._texts = {page: (root / page.lstrip("/")).read_text() for page in pages}

    def run(self) -> None:
        os.sched_setaffinity(threading.get_native_id(), {ORIGIN_CORE})
        self._log.lines()
        for page in self._texts:
            self._rewrite(page)
        while not self._halt.wait(0.05):
            for line in self._log.lines():
                self._rewrite(line[-1].decode())

    def _rewrite(self, page: str) -> None:
        text = self._texts.get(page)
        if text is None:
            return
        file = self._root / page.lstrip("/")
        fresh = file.with_suffix(".new")  # replaced atomically: the origin must never serve half a page
        fresh.write_text(text.replace("</h1>", f" edition {os.urandom(4).hex()}</h1>", 1))
        fresh.replace(file)

    def stop(self) -> None:
        self._halt.set()
        self.join()


class Window(NamedTuple):
    """Measurements over some polls of the daemon."""

    cost: float
    """CPU seconds per 1,000 polls."""
    rate: float
    """Polls per second."""
    same: float
    """Share of answers 304."""
    connecting: float
    """Share of polls with a new connection: connecting costs half a poll."""


def window(pid: int, log: Log, polls: int) -> Window:
    """Measures the next `polls` polls."""
    time.sleep(0.3)
    log.polls()
    began, cpu, seen, same, connecting = time.monotonic(), cpu_seconds(pid), 0, 0, 0
    while seen < polls:
        time.sleep(0.2)
        more, unmodified, connected = log.polls()
        seen, same, connecting = seen + more, same + unmodified, connecting + connected
    spent = cpu_seconds(pid) - cpu
    return Window(spent * 1000 / seen, seen / (time.monotonic() - began), same / seen, connecting / seen)


def bare_loop(bench: Path, mode: str, tsv: str, polls: int) -> float:
    """Returns CPU seconds per 1,000 requests of the bare loop."""
    command = [sys.executable, str(bench / "ceiling.py"), mode, tsv]
    before = os.times()
    subprocess.run(
        command,
        check=mode == "get",
        preexec_fn=lambda: os.sched_setaffinity(0, {CLIENT_CORE}),
        stdout=subprocess.DEVNULL,
    )
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent * 1000 / polls


def start_up_cost(bench: Path, tsv: Path) -> float:
    one = tsv.with_suffix(".one.tsv")
    one.write_text(tsv.read_text().splitlines()[0] + "\n")
    return bare_loop(bench, "get", str(one), 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--polls", type=int, default=12_000)
    parser.add_argument("--rate", type=float, default=1500)
    parser.add_argument("--port", type=int, default=8790)
    parser.add_argument("--allocator", default="whittle")
    parser.add_argument("--profile", help="py-spy: write a flame graph (or raw stacks) of each window to this prefix")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="poll-cost-"))
    try:
        measure(arguments, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def measure(a: argparse.Namespace, work: Path) -> None:
    bench = a.bench.resolve()
    origin_module = load_origin(bench)
    pages = origin_module.make_pages(str(work / "pages"), a.pages)
    origin: Any = origin_module.Origin(str(work / "pages"), str(work / "run"), a.port, ORIGIN_CORE)
    base = str(work / "urls")
    origin_module.write_urls(pages, a.pages, a.hosts, a.port, base)
    origin.start()
    try:
        compare(a, work, bench, origin, pages, base)
    finally:
        origin.stop()


def compare(a: argparse.Namespace, work: Path, bench: Path, origin: Any, pages: list[Any], base: str) -> None:
    # Before and after the daemon: the machine's speed varies meanwhile.
    bare_get, bare_same = [bare(bench, "get", base, work, a.pages)], [bare(bench, "cond", base, work, a.pages)]
    daemon = start_daemon(a, work, base)
    rewriter = Rewriter(work / "pages", [p[0] for p in pages], Log(origin.log))
    try:
        log = Log(origin.log)
        seen = 0
        while seen < a.pages * 2:
            time.sleep(0.3)
            seen += log.polls()[0]
            assert daemon.poll() is None, (work / "daemon.log").read_text()[-2000:]
        same = profiled(a, "304", daemon.pid, log)
        rewriter.start()
        time.sleep(2 * a.pages / min(a.rate, same.rate))
        changed = profiled(a, "changed", daemon.pid, log)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
    # The rewriter is still running: a busy second core reduces the work per CPU second of the first.
    bare_get.append(bare(bench, "get", base, work, a.pages))
    rewriter.stop()
    bare_same.append(bare(bench, "cond", base, work, a.pages))
    report([("304", same, mean(bare_same)), ("every poll a changed page", changed, mean(bare_get))])


def bare(bench: Path, mode: str, base: str, work: Path, pages: int) -> float:
    """Returns CPU seconds per 1,000 requests of the bare loop over all pages, without start-up; the median of three."""
    rewrite_etags(base, work)
    fixed = start_up_cost(bench, Path(base + ".tsv")) * 1000 / (pages * BARE_PASSES)
    costs = sorted(bare_loop(bench, mode, base + ".tsv", pages * BARE_PASSES) for _ in range(3))
    return costs[1] - fixed


def rewrite_etags(base: str, work: Path) -> None:
    rows = []
    for line in Path(base + ".txt").read_text().split():
        stat = (work / "pages" / line.split("/", 3)[3]).stat()
        rows.append(f'{line}\t"{int(stat.st_mtime):x}-{stat.st_size:x}"\n')
    Path(base + ".tsv").write_text("".join(rows * BARE_PASSES))


def profiled(a: argparse.Namespace, name: str, pid: int, log: Log) -> Window:
    if a.profile:
        seconds = str(int(a.polls / a.rate))
        profiler = [str(Path(sys.executable).with_name("py-spy")), "record", "-p", str(pid), "-d", seconds]
        subprocess.run([*profiler, "-f", "raw", "-r", "200", "-o", f"{a.profile}-{name}.txt"], check=True)
    return window(pid, log, a.polls)


def start_daemon(a: argparse.Namespace, work: Path, base: str) -> subprocess.Popen[bytes]:
    command = [
        *(sys.executable, "-m", "pollerd", "run", base + ".txt", "--budget", str(a.rate), "--allow-private"),
        *("--host-interval", "0", "--min-interval", "0", "--min-saving", "0", "--allocator", a.allocator),
        *("--database", f"sqlite+aiosqlite:///{work}/poll.db", "--listen", "127.0.0.1:8799"),
    ]
    with (work / "daemon.log").open("wb") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, preexec_fn=lambda: os.sched_setaffinity(0, {CLIENT_CORE})
        )


def report(rows: list[tuple[str, Window, float]]) -> None:
    print("| what | CPU s / 1,000 polls | bare loop | ratio | polls/s | share of 304 | of new connections |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, (cost, rate, same, new), bare_cost in rows:
        ratio = cost / bare_cost
        print(f"| {name} | {cost:.3f} | {bare_cost:.3f} | {ratio:.2f} | {rate:.0f} | {same:.2f} | {new:.2f} |")


if __name__ == "__main__":
    main()
