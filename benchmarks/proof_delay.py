"""How long the proof of a change takes, by the interval between requests to a host.

    python benchmarks/proof_delay.py [--interval 1 --interval 5 --interval 20] [--budget 20]

pollerd polls pages on loopback: 40 that are alone on their hosts, and 40 on four hosts of ten. Each changes once, so
that its change has to be proven by a second poll. Prints the time from the start of the poll that found the change to
that of the poll that recorded it, by interval. The daemon runs for 12 intervals and 60 seconds at each.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from peer_runs.judge import quantile
from peer_runs.pollerd_run import daemon
from peer_runs.servers import serving

ALONE, HOSTS, TOGETHER = 40, 4, 10


class Changing(ThreadingHTTPServer):
    """Serves pages, each of which changes at its moment."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("0.0.0.0", 0), _Handler)
        self.changes_at: dict[str, float] = {}


class _Handler(BaseHTTPRequestHandler):
    server: Changing

    def do_GET(self) -> None:
        at = self.server.changes_at.get(self.path)
        text = "new" if at is not None and time.time() >= at else "old"
        body = f"<html><body><h1>News</h1><p>{text}</p></body></html>".encode() if at is not None else b""
        self.send_response(404 if at is None else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


def pages(port: int) -> dict[str, str]:
    """Returns the URLs of the pages, by path; those that share a host begin with /t."""
    alone = {f"/a{i}": f"http://127.3.0.{i + 1}:{port}/a{i}" for i in range(ALONE)}
    numbers = range(HOSTS * TOGETHER)
    return alone | {f"/t{i}": f"http://127.3.1.{i % HOSTS + 1}:{port}/t{i}" for i in numbers}


def delays(database: Path) -> tuple[dict[bool, list[float]], int]:
    """Returns the delays of pages that share a host and of those that do not, and the number of changes."""
    found: dict[bool, list[float]] = defaultdict(list)
    asked: dict[str, float] = {}
    connection = sqlite3.connect(database)
    try:
        rows = connection.execute("SELECT url, at, outcome FROM poll JOIN site ON site.id = site_id ORDER BY poll.id")
        for url, at, outcome in rows:
            if outcome == "proving":
                asked.setdefault(url, at)
            elif outcome == "changed" and url in asked:
                found["/t" in url].append(at - asked.pop(url))
        number: int = connection.execute("SELECT count(*) FROM change").fetchone()[0]
    finally:
        connection.close()
    return found, number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interval", type=float, action="append", help="seconds (default 1, 5 and 20)")
    parser.add_argument("--budget", type=float, default=20.0, help="polls per second (default %(default)s)")
    parser.add_argument("--pollerd", default=str(Path(sys.executable).with_name("pollerd")), help="its command")
    options = parser.parse_args()
    print("| interval | pages of a host | changes proven | median | 90 % | longest |\n|" + " --- |" * 6)
    for interval in options.interval or [1.0, 5.0, 20.0]:
        with serving(Changing()) as server, tempfile.TemporaryDirectory() as temporary:
            folder, seconds = Path(temporary), 60 + 12 * interval
            urls = pages(server.server_address[1])
            rng, now = random.Random(1), time.time()
            # After each page was seen, and early enough that those of ten on a host have their turn again.
            first, last = 20 + 2.5 * interval, seconds - 15 - 4 * interval
            server.changes_at = {path: now + rng.uniform(first, last) for path in urls}
            list_file = folder / "sites.txt"
            list_file.write_text("\n".join(urls.values()) + "\n")
            with daemon(options.pollerd, options.budget, folder, more=["--host-interval", str(interval)]) as running:
                running.client("sites", "import", str(list_file))
                time.sleep(seconds)
            found, number = delays(folder / "pollerd.db")
        for together in (False, True):
            each = found[together]
            shown = " | ".join(f"{value:.2f} s" for value in (quantile(each, 0.5), quantile(each, 0.9), max(each)))
            print(f"| {interval:g} s | {TOGETHER if together else 1} | {len(each)} | {shown} |", flush=True)
        print(f"<!-- {number} changes recorded -->", file=sys.stderr)


if __name__ == "__main__":
    main()
