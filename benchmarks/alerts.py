"""Alerts about noisy real pages: is every alert true, is every change told, and how many messages does it take?

    python benchmarks/alerts.py --traces DIR [--noise none|all] [--seconds 3600]

The daemon polls all pages of the replay server (`recall.py` says which, and how each poll is judged). One rule sends
every change to a webhook on loopback, with the usual grouping and pace. At the end the sites are paused, the outbox
drains, and what came in is compared with the changes on record, which are compared with what was served.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

from peer_runs.contents import States, pages, whole
from peer_runs.pollerd_run import Running, daemon
from peer_runs.processes import until
from peer_runs.replay import Replay, Setting, served
from peer_runs.servers import serving
from recall import judged, list_of, recorded, show, watchable

DRAIN_SECONDS = 300.0


class Received(ThreadingHTTPServer):
    """A webhook's receiver: how often each change was told, in how many messages, and how many lists were cut."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.changes: Counter[int] = Counter()
        self.messages = self.cut = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}/hook"

    def take_in(self, body: bytes) -> None:
        """Counts one message."""
        told = json.loads(body)
        events = told["data"]["events"] if told["type"] == "group" else [told]
        self.changes.update(event["data"]["change"]["id"] for event in events)
        self.messages += 1
        self.cut += bool(told["data"].get("cut"))


class _Handler(BaseHTTPRequestHandler):
    server: Received

    def do_POST(self) -> None:
        self.server.take_in(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def pause_all(running: Running) -> None:
    """Stops the polling of all sites."""
    asked = Request(f"{running.root}/api/v1/sites/pause", b'{"all": true}', {"Content-Type": "application/json"})
    urlopen(asked, timeout=30).close()


def drained(running: Running, hook: Received) -> bool:
    """Waits until nothing waits any more; returns whether that was so in time."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < deadline:
        queue = running.get("/channels")["items"][0]["queue"]
        if not queue["waiting"] and not queue["sending"]:
            return True
        time.sleep(1.0)
    return False


def change_ids(running: Running) -> set[int]:
    """Returns the ids of all changes on record."""
    found: set[int] = set()
    path = "/changes?matters=all&limit=1000"
    cursor = ""
    while True:
        page = running.get(path + cursor)
        found.update(one["id"] for one in page["items"])
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def watch(options: argparse.Namespace, server: Replay, folder: Path, hook: Received) -> set[int]:
    """Runs pollerd with a rule on all pages; returns the ids of the changes that it recorded."""
    file = folder / "sites.jsonl"
    file.write_text(list_of(watchable(server, None), select=False))
    more = ["--allocator", "uniform", "--allow-private-channels"]
    with daemon(options.pollerd, options.budget, folder, more=more) as running:
        running.client("channels", "add", "hook", "--kind", "webhook", "--set", f"url={hook.url}")
        running.client("rules", "add", "all", "--channel", "hook")
        server.begin()
        running.client("sites", "import", str(file))
        until(server.requests, "no request")
        time.sleep(options.seconds)
        pause_all(running)
        time.sleep(5.0)
        print(f"The outbox was empty in time: {drained(running, hook)}.")
        return change_ids(running)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="folder of the replay server")
    parser.add_argument("--pollerd", default=str(Path(sys.executable).with_name("pollerd")), help="its command")
    parser.add_argument("--noise", default="all", choices=("none", "all"))
    parser.add_argument("--seconds", type=float, default=3_600.0, help="of the run (default 3600)")
    parser.add_argument("--speed", type=float, default=3_000.0, help="seconds of the pages in one (default 3000)")
    parser.add_argument("--budget", type=float, default=20.0, help="polls per second (default 20)")
    parser.add_argument("--out", type=Path, help="keeps logs and the database in a folder")
    options = parser.parse_args()
    states = States(pages(options.traces), whole)
    with tempfile.TemporaryDirectory() as temporary, serving(Received()) as hook:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with served(options.traces, Setting(options.speed, options.noise), folder) as server:
            listed = watchable(server, None)
            changes = watch(options, server, folder, hook)
            polls, requests = recorded(folder / "pollerd.db", listed), server.requests()
    told = set(hook.changes)
    print(
        f"{len(changes)} changes on record, {len(told & changes)} of them told, {len(told - changes)} told without "
        f"record, {sum(number > 1 for number in hook.changes.values())} told more than once; {hook.messages} messages, "
        f"{hook.cut} with a cut list.\n"
    )
    show(judged(polls, requests, listed, states), sorted({page.media for page in listed}))


if __name__ == "__main__":
    main()
