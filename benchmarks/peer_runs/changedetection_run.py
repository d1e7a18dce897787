"""changedetection.io with a watch a page, set up by its API; its history is what it reports."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from peers import call

from peer_runs.processes import free_port, started, tree_cpu_seconds, until
from peer_runs.replay import Replay
from peer_runs.reports import Page, Report, Run

ENV = {"ALLOW_IANA_RESTRICTED_ADDRESSES": "true", "DISABLE_VERSION_CHECK": "true"}
"""Loopback addresses may be watched; nobody outside is asked."""
FEED = {"include_filters": ["//item/title", "//item/pubDate"]}
"""Titles and dates of a feed. Its RSS reader mode for feeds took more than a second of CPU a check."""
RULE = {"ignore_text": ["Page served at"]}
"""What one writes after the first report of a clock in a page."""
_AFTER_SECONDS = 3.0
_SLOWEST_SECONDS = 6
"""Longest time from the begin of a fetch to its snapshot, less than that to the page's next one."""


class Instance(NamedTuple):
    """A running program. root: its address. key: of its API. pid: its process."""

    root: str
    key: str
    pid: int

    def call(self, path: str, body: object = None, method: str = "GET") -> Any:
        """Calls its API."""
        return call(f"{self.root}/api/v1{path}", self.key, body, method)


@contextmanager
def instance(python: str, folder: Path) -> Iterator[Instance]:
    """Runs it with an empty list of watches."""
    data = folder / "changedetection"
    data.mkdir()
    with _serving(python, data) as running:
        for uuid in running.call("/watch"):  # examples that it begins with
            running.call(f"/watch/{uuid}", method="DELETE")
        yield running


@contextmanager
def _serving(python: str, data: Path) -> Iterator[Instance]:
    port, file = free_port(), data / "changedetection.json"
    command = [str(Path(python).with_name("changedetection.io")), "-d", str(data), "-p", str(port), "-h", "127.0.0.1"]
    with started(command, data.with_name(f"changedetection-{port}.log"), ENV) as process:
        until(file.exists, "changedetection.io writes no settings")
        running = Instance(f"http://127.0.0.1:{port}", "", process.pid)

        def answering() -> Instance | None:
            text = file.read_text()
            key = json.loads(text)["settings"]["application"]["api_access_token"] if text else ""
            called = running._replace(key=key)
            return called if key and called.call("/systeminfo") else None

        yield until(answering, "changedetection.io does not answer")


def watch_of(page: Page, every_seconds: int, *, ruled: bool) -> dict[str, object]:
    """Returns the watch of a page."""
    timing = {"time_between_check": {"seconds": every_seconds}, "time_between_check_use_default": False}
    feed = FEED if page.media.endswith("rss+xml") else {}
    rule = RULE if ruled and page.media == "text/html" else {}
    return {"url": page.url, "title": page.id, **timing, **feed, **rule}


def version_of(python: str) -> str:
    """Returns the installed version."""
    code = "import importlib.metadata as m; print(m.version('changedetection.io'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def reports_of(page: str, history: Mapping[str, str], written: Callable[[str], float]) -> list[Report]:
    """Returns the reports of a page: all its snapshots but the first. written: when a snapshot's file was written.

    The history's own times are when a fetch began, in whole seconds. A snapshot that equals an older one may share
    that one's file, which then tells nothing: it counts as reported in the second of its fetch.
    """
    times = [int(second) for second in history]
    snapshots = sorted(zip(times, history.values(), strict=True))
    found = []
    for second, file in snapshots[1:]:
        at = written(file)
        found.append(Report(page, at if second - 1 <= at <= second + _SLOWEST_SECONDS else second + 0.5, float(second)))
    return found


def run(
    python: str,
    server: Replay,
    *,
    every_seconds: int,
    seconds: float,
    folder: Path,
    ruled: bool = False,
    moved: Callable[[Instance, Path], dict[str, Any]] | None = None,
) -> Run:
    """Runs it for the seconds after its first request. moved: is called with it at the end, its result is a note."""
    with instance(python, folder) as running:
        before = tree_cpu_seconds(running.pid)
        server.begin()
        made = {}
        for page in server.pages():
            made[page.id] = running.call("/watch", watch_of(page, every_seconds, ruled=ruled), "POST")["uuid"]
        first = until(lambda: min((request.at for request in server.requests()), default=0.0), "no request")
        time.sleep(max(0.0, first + seconds - time.time()))
        used = tree_cpu_seconds(running.pid) - before
        time.sleep(_AFTER_SECONDS)
        reports, failing = [], 0
        for page_id, uuid in made.items():
            failing += bool(running.call(f"/watch/{uuid}")["last_error"])
            reports += reports_of(page_id, running.call(f"/watch/{uuid}/history"), os.path.getmtime)
        notes: dict[str, Any] = {"errors": failing, "every_seconds": every_seconds}
        if moved is not None:
            notes["moving in"] = moved(running, folder)
        return Run("changedetection.io", version_of(python), reports, first, used, notes)
