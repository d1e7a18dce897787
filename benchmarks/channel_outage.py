"""A channel that is down while changes come in and the daemon is killed: is every change told, in order, under one id?

The daemon is the real one (`pollerd run`, SQLite), the pages and the webhook's receiver are on loopback. The receiver's
port is closed for some minutes; meanwhile the daemon is killed (SIGKILL) and started again every half minute. Then the
port opens, and what came in is compared with the changes that the API lists.

    python benchmarks/channel_outage.py [--minutes 10] [--sites 40] [--budget 10]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

KILL_EVERY_SECONDS = 30.0
PATIENCE_SECONDS = 600.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def page(request: web.Request) -> web.Response:
    """A page that changes every 20 to 60 seconds."""
    if request.path == "/robots.txt":
        raise web.HTTPNotFound
    number = int(request.match_info["number"])
    edition = int(time.time() / (20 + number % 41))
    return web.Response(text=f"<p>Page {number}</p><p>edition {edition} of it</p>", content_type="text/html")


class Receiver:
    """What came in: events in order, and how many of each message's."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.sizes: list[int] = []

    async def receive(self, request: web.Request) -> web.Response:
        told = json.loads(await request.read())
        events = told["data"]["events"] if told["type"] == "group" else [told]
        self.events += [event["data"] for event in events]
        self.sizes.append(len(events))
        return web.Response()


class Daemon:
    """`pollerd run`, started again after each kill."""

    def __init__(self, folder: Path, urls: Path, budget: float) -> None:
        self._folder, self.base = folder, f"http://127.0.0.1:{free_port()}"
        self._arguments = [
            *(sys.executable, "-m", "pollerd", "run", str(urls), "--budget", str(budget), "--allow-private"),
            *("--allow-private-channels", "--host-interval", "0", "--min-interval", "1s"),
            *("--max-interval", "30s", "--min-saving", "0"),
            *("--listen", self.base.removeprefix("http://"), "--database", f"sqlite+aiosqlite:///{folder}/poll.db"),
        ]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, session: aiohttp.ClientSession) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*self._arguments, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                async with session.get(f"{self.base}/readyz") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass  # it does not listen yet
            await asyncio.sleep(0.2)
        raise TimeoutError((self._folder / "log").read_text()[-2_000:])

    async def end(self, by: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(by)
        await self._process.wait()


async def call(session: aiohttp.ClientSession, method: str, url: str, body: Any = None) -> Any:
    async with session.request(method, url, json=body) as response:
        assert response.status < 300, await response.text()
        return await response.json()


async def all_changes(session: aiohttp.ClientSession, api: str) -> dict[int, int]:
    """Returns the sites of all changes by the changes' ids."""
    found: dict[int, int] = {}
    cursor = ""
    while True:
        listed = await call(session, "GET", f"{api}/changes?order=oldest&limit=1000{cursor}")
        found |= {one["id"]: one["site_id"] for one in listed["items"]}
        if not listed["items"] or not listed["next_cursor"]:
            return found
        cursor = f"&cursor={listed['next_cursor']}"


def bound() -> socket.socket:
    """Returns a port that nobody else can take and that refuses connections until somebody listens."""
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made


async def serve(app: web.Application, port: socket.socket) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.SockSite(runner, port).start()
    return runner


async def measure(minutes: float, sites: int, budget: float, folder: Path) -> str:
    pages, hook, receiver = web.Application(), web.Application(), Receiver()
    pages.router.add_get("/robots.txt", page)
    pages.router.add_get("/{number}", page)
    hook.router.add_post("/hook", receiver.receive)
    page_port, hook_port, kills = bound(), bound(), 0
    page_runner = await serve(pages, page_port)
    urls = folder / "urls.txt"
    urls.write_text("".join(f"http://127.0.0.1:{page_port.getsockname()[1]}/{number}\n" for number in range(sites)))
    daemon = Daemon(folder, urls, budget)
    api = f"{daemon.base}/api/v1"
    async with aiohttp.ClientSession() as session:
        await daemon.start(session)
        settings = {"url": f"http://127.0.0.1:{hook_port.getsockname()[1]}/hook"}
        made = await call(session, "POST", f"{api}/channels", {"name": "hook", "kind": "webhook", "settings": settings})
        await call(session, "POST", f"{api}/rules", {"name": "all", "channels": ["hook"]})
        ends = time.monotonic() + minutes * 60
        while time.monotonic() < ends:
            await asyncio.sleep(min(KILL_EVERY_SECONDS, max(ends - time.monotonic(), 0.0)))
            await daemon.end(signal.SIGKILL)
            kills += 1
            await daemon.start(session)
        hook_runner = await serve(hook, hook_port)
        await call(session, "POST", f"{api}/sites/pause", {"all": True})
        await asyncio.sleep(5)
        await call(session, "PATCH", f"{api}/channels/{made['id']}", {"enabled": True})  # tries what waits at once
        changes = await all_changes(session, api)
        opened = time.monotonic()
        while {one["change"]["id"] for one in receiver.events} < changes.keys():
            if time.monotonic() > opened + PATIENCE_SECONDS:
                break
            await asyncio.sleep(0.5)
        took = time.monotonic() - opened
        await daemon.end(signal.SIGTERM)
        await hook_runner.cleanup()
    await page_runner.cleanup()
    return verdict(receiver, changes, kills, took)


def verdict(receiver: Receiver, changes: dict[int, int], kills: int, took: float) -> str:
    ids = defaultdict[int, set[str]](set)
    first: dict[int, list[int]] = {}
    for event in receiver.events:
        number = event["change"]["id"]
        if not ids[number]:
            first.setdefault(event["site"]["id"], []).append(number)
        ids[number].add(event["id"])
    missed = changes.keys() - ids.keys()
    several = sum(len(found) > 1 for found in ids.values())
    disordered = sum(numbers != sorted(numbers) for numbers in first.values())
    return (
        f"{kills} kills, {len(changes)} changes, {len(receiver.events)} told in {len(receiver.sizes)} messages of at "
        f"most {max(receiver.sizes, default=0)}, {took:.0f} s after the channel was back\n"
        f"never told: {len(missed)}; told under several ids: {several}; sites out of order: {disordered}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--sites", type=int, default=40)
    parser.add_argument("--budget", type=float, default=10.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="outage-") as folder:
        print(asyncio.run(measure(given.minutes, given.sites, given.budget, Path(folder))))


if __name__ == "__main__":
    main()
