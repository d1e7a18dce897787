"""Precision and recall of pollerd's changes by medium, on replayed pages: each poll against what it was served.

    python benchmarks/recall.py --traces DIR [--noise none|all] [--selected]

DIR holds a server of real page histories (`peer_runs/replay.py` and `contents.py` say what is asked of it). `--noise
all` lets it add a token, a comment and a clock to each HTML page at each request. With `--selected` each page has a
selection of its medium (`contents.SELECTIONS`), and only what that keeps counts. All pages are polled evenly, as often
as the budget allows; the pages repeat their histories. `--medium` takes pages of some media only, because a feed's
history is of days and that of a text of months, so that they want different speeds. pollerd is the command beside the
interpreter that runs this.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from peer_runs.contents import SELECTIONS, States, pages, selected, whole
from peer_runs.judge import quantile
from peer_runs.pollerd_run import daemon
from peer_runs.processes import until
from peer_runs.replay import Replay, Setting, served
from peer_runs.reports import Page, Request
from peer_runs.verdicts import Poll, Verdicts

HEAD = ("medium", "polls", "met", "found", "missed", "false", "gone", "proving polls", "precision", "recall")


def list_of(listed: list[Page], *, select: bool) -> str:
    """Returns the list of sites, as JSON lines."""
    lines = []
    for page in listed:
        kept = {"selections": {"default": {"steps": SELECTIONS[page.media]}}} if select else {}
        lines.append(json.dumps({"url": page.url, **kept}) + "\n")
    return "".join(lines)


def recorded(database: Path, listed: list[Page]) -> dict[str, list[Poll]]:
    """Returns the polls of each page, in their order."""
    ids = {page.url: page.id for page in listed}
    found: dict[str, list[Poll]] = defaultdict(list)
    connection = sqlite3.connect(database)
    try:
        rows = connection.execute("SELECT url, at, outcome FROM poll JOIN site ON site.id = site_id ORDER BY poll.id")
        for url, at, outcome in rows:
            found[ids[url]].append(Poll(ids[url], at, outcome))
    finally:
        connection.close()
    return found


def watchable(server: Replay, media: list[str] | None) -> list[Page]:
    """Returns the pages of these media; None: all pages."""
    return [page for page in server.pages() if media is None or page.media in media]


def watched(options: argparse.Namespace, server: Replay, folder: Path) -> tuple[dict[str, list[Poll]], list[Request]]:
    """Runs pollerd on all pages. Returns what it recorded and what the server logged."""
    file = folder / "sites.jsonl"
    listed = watchable(server, options.medium)
    file.write_text(list_of(listed, select=options.selected))
    with daemon(options.pollerd, options.budget, folder, more=["--allocator", "uniform"]) as running:
        server.begin()
        running.client("sites", "import", str(file))
        until(server.requests, "no request")
        time.sleep(options.seconds)
    return recorded(folder / "pollerd.db", listed), server.requests()


def judged(polls: dict[str, list[Poll]], requests: list[Request], listed: list[Page], states: States) -> list[Verdicts]:
    """Returns the verdicts of each medium that there is, in the order of their names, and those of all."""
    by_page: dict[str, list[Request]] = defaultdict(list)
    for request in sorted(requests, key=lambda each: each.at):
        by_page[request.page].append(request)
    media = sorted({page.media for page in listed})
    found = [Verdicts() for _ in range(len(media) + 1)]
    for page in listed:
        for verdicts in (found[media.index(page.media)], found[-1]):
            verdicts.add_page(polls.get(page.id, []), by_page[page.id], states)
    return found


def row(name: str, verdicts: Verdicts) -> str:
    """Returns a line of the table."""
    cells = [name, verdicts.polls, verdicts.met, verdicts.found, verdicts.missed, verdicts.false, verdicts.gone]
    cells += [verdicts.proving, f"{verdicts.precision:.3f}", f"{verdicts.recall:.3f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="folder of the replay server")
    parser.add_argument("--pollerd", default=str(Path(sys.executable).with_name("pollerd")), help="its command")
    parser.add_argument("--noise", default="none", choices=("none", "all"))
    parser.add_argument("--selected", action="store_true", help="with a selection of its medium at each page")
    parser.add_argument("--medium", action="append", choices=SELECTIONS, help="only pages of this one, or of several")
    parser.add_argument("--seconds", type=float, default=90.0, help="of the run (default 90)")
    parser.add_argument("--speed", type=float, default=20_000.0, help="seconds of the pages in one (default 20000)")
    parser.add_argument("--budget", type=float, default=60.0, help="polls per second (default 60)")
    parser.add_argument("--out", type=Path, help="keeps logs and the database in a folder")
    options = parser.parse_args()
    states = States(pages(options.traces), selected if options.selected else whole)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with served(options.traces, Setting(options.speed, options.noise), folder) as server:
            listed = watchable(server, options.medium)
            polls, requests = watched(options, server, folder)
    show(judged(polls, requests, listed, states), sorted({page.media for page in listed}))


def show(found: list[Verdicts], media: list[str]) -> None:
    """Prints the table, and what else there is to say of all polls."""
    print("| " + " | ".join(HEAD) + " |")
    print("|" + " --- |" * len(HEAD))
    for name, verdicts in zip([*media, "all"], found, strict=True):
        print(row(name, verdicts))
    everything = found[-1]
    print(
        f"\nFrom the poll that met a change to its record, {len(everything.delays)} proven changes: median "
        f"{quantile(everything.delays, 0.5):.2f} s, 90 % {quantile(everything.delays, 0.9):.2f} s, "
        f"longest {max(everything.delays, default=0):.2f} s. Still waiting at the end: {everything.waiting}. "
        f"Load average {os.getloadavg()[0]:.1f}."
    )
    print(dict(everything.outcomes), dict(everything.false_pages), dict(everything.missed_pages))


if __name__ == "__main__":
    main()
