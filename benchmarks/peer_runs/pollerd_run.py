"""pollerd with a budget; what its event stream says is what it reports."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from peer_runs.changedetection_run import Instance
from peer_runs.processes import free_port, started, tree_cpu_seconds, until
from peer_runs.replay import Replay
from peer_runs.reports import Report, Run

_AFTER_SECONDS = 3.0
_MOVED_SECONDS = 40.0


class Running(NamedTuple):
    """A running daemon. program: its command. root: its address. pid: its process."""

    program: str
    root: str
    pid: int

    def get(self, path: str) -> Any:
        """Calls its API."""
        with urllib.request.urlopen(f"{self.root}/api/v1{path}", timeout=30) as answer:
            return json.load(answer)

    def client(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of its client."""
        command = [self.program, *words, "--url", self.root]
        return subprocess.run(command, capture_output=True, text=True, check=True)


@contextmanager
def daemon(
    program: str, budget: float, folder: Path, name: str = "pollerd", more: Sequence[str] = ()
) -> Iterator[Running]:
    """Runs it without sites. more: further words of its command.

    Shortest intervals are off and pages are polled however unlikely a change is, because time is compressed and the
    requests are to be used up; all else is as it comes.
    """
    port = free_port()
    command = [program, "run", "--budget", f"{budget:.4f}", "--allow-private"]
    command += ["--host-interval", "0", "--min-interval", "0", "--min-yield", "0"]
    command += ["--database", f"sqlite+aiosqlite:///{folder / f'{name}.db'}", "--listen", f"127.0.0.1:{port}", *more]
    with started(command, folder / f"{name}.log") as process:
        running = Running(program, f"http://127.0.0.1:{port}", process.pid)
        until(lambda: bool(running.get("/allocation")), f"pollerd does not answer; see {folder / f'{name}.log'}")
        yield running


def reports_in(lines: Iterable[bytes], now: Any = time.time) -> Iterator[Report]:
    """Yields a report for each change of an event stream; the page is the last part of its URL."""
    for line in lines:
        if line.startswith(b"data:"):
            change = json.loads(line.removeprefix(b"data:"))
            polled = datetime.fromisoformat(change["detected_at"]).timestamp()
            yield Report(change["url"].rpartition("/")[2], now(), polled)


class Listener(threading.Thread):
    """Reads the event stream of a daemon until that ends."""

    def __init__(self, root: str) -> None:
        super().__init__(daemon=True)
        self.reports: list[Report] = []
        self._stream = urllib.request.urlopen(f"{root}/api/v1/events", timeout=120)

    def run(self) -> None:
        with suppress(OSError, HTTPException):  # the daemon has ended
            for report in reports_in(self._stream):
                self.reports.append(report)


def run(
    program: str, server: Replay, *, budget: float, seconds: float, folder: Path, objective: str | None = None
) -> Run:
    """Runs it for the seconds after its first request. budget: polls per second. objective: None for its default."""
    file = folder / "sites.txt"
    file.write_text("".join(f"{page.url}\n" for page in server.pages()))
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    name, more = ("pollerd", []) if objective is None else (f"pollerd for {objective}", ["--objective", objective])
    with daemon(program, budget, folder, name.replace(" ", "-"), more) as running:
        listener = Listener(running.root)
        listener.start()
        before = tree_cpu_seconds(running.pid)
        server.begin()
        running.client("sites", "import", str(file))
        first = until(lambda: min((request.at for request in server.requests()), default=0.0), "no request")
        time.sleep(max(0.0, first + seconds - time.time()))
        used = tree_cpu_seconds(running.pid) - before
        time.sleep(_AFTER_SECONDS)
        reports = list(listener.reports)
    return Run(name, version, reports, first, used, {"budget": round(budget, 3)})


def moved_in(program: str, server: Replay, source: Instance, folder: Path) -> dict[str, Any]:
    """Moves the watches of a running changedetection.io into an empty pollerd, and sees which pages that asks for."""
    key, report = folder / "key", folder / "moved.txt"
    key.write_text(source.key)
    pages = {page.url: page.id for page in server.pages()}
    with daemon(program, 20.0, folder, "moved") as running:
        began = time.time()
        words = ["--from", "changedetection", "--source-url", source.root, "--source-key-file", str(key)]
        running.client("sites", "import", *words, "--report", str(report))
        sites = running.get("/sites?limit=1000")["items"]
        time.sleep(min(_MOVED_SECONDS, 5 + len(pages) / 10))
        polled = running.get("/sites?limit=1000")["items"]
    fetched = {site["url"] for site in polled if site["polls"]}
    return {
        "watches": len(pages),
        "sites": len(sites),
        "same URLs": {site["url"] for site in sites} == pages.keys(),
        "polled": len(fetched & pages.keys()),
        "seconds": round(time.time() - began, 1),
        "report": report.read_text().splitlines()[:12],
    }
