"""urlwatch in a loop, as its manual has it run by cron."""

from __future__ import annotations

import re
import resource
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from peer_runs.replay import Replay
from peer_runs.reports import Page, Report, Run

_SUMMARY = re.compile(r"\d+\. ([A-Z]+)[A-Z, ]*: (.+)")
FILTERS: dict[str, list[object]] = {
    "text/html": ["html2text"],
    "application/rss+xml": [
        {"xpath": {"path": "//item/title/text()|//item/pubDate/text()", "method": "xml"}},
    ],
    "application/json": ["format-json"],
}
"""Filters by medium, as urlwatch-intro(7) and urlwatch-filters(5) show them."""
RULE: list[object] = [{"grepi": "Page served at"}]
"""What one writes after the first report of a clock in a page."""


def jobs(pages: Sequence[Page], *, ruled: bool) -> str:
    """Returns the list of jobs."""
    listed = []
    for page in pages:
        filters = FILTERS.get(page.media, []) + (RULE if ruled and page.media == "text/html" else [])
        listed.append({"name": page.id, "url": page.url, **({"filter": filters} if filters else {})})
    return str(yaml.safe_dump_all(listed, sort_keys=False))


def summary(report: str) -> Iterator[tuple[str, str]]:
    """Yields verb and job of each line of a report's summary: between its first two lines of equals signs."""
    inside = False
    for line in report.splitlines():
        if line.startswith("====="):
            if inside:
                return
            inside = True
        elif inside and (found := _SUMMARY.fullmatch(line)):
            yield found[1], found[2]


def run(python: str, server: Replay, *, rounds: int, seconds: float, folder: Path, ruled: bool = False) -> Run:
    """Runs it so many times, evenly spread over the seconds; the jobs of a run are all pages."""
    program = str(Path(python).with_name("urlwatch"))
    command = [program, *(f"--{name}={folder / f'urlwatch-{name}'}" for name in ("urls", "config", "cache", "hooks"))]
    (folder / "urlwatch-urls").write_text(jobs(server.pages(), ruled=ruled))
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    reports, errors, late = [], 0, 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    server.begin()
    began = time.time()
    for number in range(rounds):
        due = began + number * seconds / rounds
        late += time.time() > due + 0.5
        time.sleep(max(0.0, due - time.time()))
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        at = time.time()
        for verb, page in summary(done.stdout):
            if verb == "CHANGED":
                reports.append(Report(page, at))
            errors += verb == "ERROR"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    time.sleep(max(0.0, began + seconds - time.time()))
    first = min((request.at for request in server.requests()), default=began)
    return Run("urlwatch", version, reports, first, used, {"errors": errors, "rounds begun late": late})
