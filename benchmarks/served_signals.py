"""Changes found and their delay with and without signals: a real daemon polls served pages that change at random.

Pages change as Poisson processes, page k with probability 0.9/k^BETA in the time in which all together change as often
as the budget has polls in a step; their sum is budget / X changes per second. A page that changes between two fetches
in a row counts as noise to the daemon: with BETA 1 the fastest pages do. Each run gives the daemon the same pages,
rates and seed, and one list: none, `honest` (each change dated at once), `lazy` (60 of 100 changes dated), `lying` (all
pages dated now, always), `late` (each change dated `--late` seconds after it), `feed` (the 50 newest entries, honest).
The list is a site of its own and costs the budget what its polls cost. What was found is counted at the server: a
change is found when its page is fetched after it. Changes of the second half count; one that is never fetched counts
with its delay until the end.

    python benchmarks/served_signals.py [--lists none honest] [--pages 2000] [--budget 50] [--x 1] [--seconds 180]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import socket
import tempfile
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from daemon_process import DaemonProcess

LISTS = ("none", "honest", "lazy", "lying", "late", "feed")
LAZY_SHARE = 0.6
FEED_ENTRIES = 50
RANKS = (0, 3, 10, 20, 50, 10**9)
"""Where groups of pages begin, the fastest first, of which the delays are printed apart."""


class Pages:
    """Served pages that change, and the times at which they did and were fetched."""

    def __init__(self, listed: str, rates: np.ndarray, seconds: float, late: float, seed: int) -> None:
        """rates: float64[n] changes per second."""
        rng = np.random.default_rng(seed)
        self._listed, self._late = listed, late
        self.changed = [np.sort(rng.uniform(0, seconds, rng.poisson(rate * seconds))) for rate in rates]
        """Times of the changes of each page, s after the begin."""
        self._dated = [rng.random(len(times)) < LAZY_SHARE for times in self.changed]
        self.fetched: list[list[float]] = [[] for _ in rates]
        self.list_fetches = 0
        self.begun = time.time()

    def begin(self) -> None:
        """Makes this moment the begin; what was fetched before is forgotten."""
        self.begun = time.time()
        for fetches in self.fetched:
            fetches.clear()

    def now(self) -> float:
        """Returns the seconds since the begin."""
        return time.time() - self.begun

    async def page(self, request: web.Request) -> web.Response:
        """Answers with the page's present version, 304 if it is known."""
        place, now = int(request.match_info["place"]), self.now()
        self.fetched[place].append(now)
        version = int(np.searchsorted(self.changed[place], now, side="right"))
        return _answer(request, f"<p>Page {place}, version {version} of {hash((place, version))}</p>", "text/html")

    async def sitemap(self, request: web.Request) -> web.Response:
        """Answers with the list: a sitemap, or a feed."""
        self.list_fetches += 1
        now, root = self.now(), f"http://{request.host}"
        dates = [self._last(place, now) for place in range(len(self.changed))]
        if self._listed == "feed":
            newest = sorted(range(len(dates)), key=lambda place: -dates[place])[:FEED_ENTRIES]
            items = [
                {"id": f"{n} {dates[n]}", "url": f"{root}/p/{n}", "date_modified": self._day(dates[n])} for n in newest
            ]
            body = json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "pages", "items": items})
            return _answer(request, body, "application/feed+json")
        rows = (
            f"<url><loc>{root}/p/{n}</loc><lastmod>{self._day(date)}</lastmod></url>" for n, date in enumerate(dates)
        )
        return _answer(request, f"<urlset>{''.join(rows)}</urlset>", "application/xml")

    def _last(self, place: int, now: float) -> float:
        """Returns the time of the last change that the list knows, s after the begin; before any: -1."""
        if self._listed == "lying":
            return now
        times = self.changed[place]
        if self._listed == "lazy":
            times = times[self._dated[place]]
        known = times[times <= now - (self._late if self._listed == "late" else 0.0)]
        return float(known[-1]) if len(known) else -1.0

    def _day(self, seconds: float) -> str:
        return datetime.fromtimestamp(self.begun + seconds, UTC).isoformat()

    def delays(self, since: float, until: float, ranks: slice) -> list[float]:
        """Returns the delays, s, of the changes from `since` on of the pages of some ranks, from 0 on."""
        delays = list[float]()
        for times, fetches in zip(self.changed[ranks], self.fetched[ranks], strict=True):
            polled = np.array(fetches)
            for at in times[(times >= since) & (times <= until)].tolist():
                later = polled[polled > at]
                delays.append(float(later[0] - at) if len(later) else until - at)
        return delays

    def result(self, since: float, until: float) -> dict[str, Any]:
        """Returns the number of changes from `since` on, the share found, and mean delays in s, of all and by rank."""
        found = 0
        delays = self.delays(since, until, slice(None))
        by_rank = {
            f"{first + 1}-{min(last, len(self.changed))}": round(float(np.mean(some)), 2)
            for first, last in itertools.pairwise(RANKS)
            if (some := self.delays(since, until, slice(first, last)))
        }
        for times, fetches in zip(self.changed, self.fetched, strict=True):
            polled = np.array(fetches)
            seen = np.searchsorted(times, polled[polled <= until], side="right")
            news = np.flatnonzero(np.diff(seen, prepend=0) > 0)
            found += int(np.count_nonzero(polled[news] >= since))
        return {
            "changes": len(delays),
            "found": found / max(len(delays), 1),
            "delay": float(np.mean(delays or [0.0])),
            "by rank": by_rank,
        }


def _answer(request: web.Request, body: str, media: str) -> web.Response:
    tag = f'"{hash(body)}"'
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers={"ETag": tag})
    return web.Response(text=body, content_type=media, headers={"ETag": tag})


async def run(listed: str, given: argparse.Namespace) -> dict[str, Any]:
    """Runs one daemon with one list; returns what was found."""
    steps = -np.log1p(-0.9 / np.arange(1, given.pages + 1) ** given.beta)
    pages = Pages(listed, steps * given.budget / given.x / steps.sum(), given.seconds, given.late, given.seed)
    served = web.Application()
    served.add_routes([web.get("/p/{place}", pages.page), web.get("/list", pages.sitemap)])
    runner = web.AppRunner(served, access_log=None)
    await runner.setup()
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener, tempfile.TemporaryDirectory() as folder:
        await web.SockSite(runner, listener).start()
        root = f"http://127.0.0.1:{listener.getsockname()[1]}"
        daemon = DaemonProcess(Path(folder))
        api = f"{daemon.root}/api/v1"
        options = ("--budget", str(given.budget), "--allocator", given.allocator, "--min-interval", "0.5")
        daemon.start([f"{root}/p/{n}" for n in range(given.pages)], *options)
        try:
            await daemon.ready()
            pages.begin()
            if listed != "none":
                kind = "feed" if listed == "feed" else "sitemap"
                site = await _call(f"{api}/sites", {"url": f"{root}/list"})
                await _call(f"{api}/signal-sources", {"kind": kind, "site_id": site["id"]})
            await asyncio.sleep(given.seconds)
            sources = await _call(f"{api}/signal-sources")
            told = (await _call(f"{api}/allocation"))["signals"]
        finally:
            await asyncio.to_thread(daemon.end)
            await runner.cleanup()
    polls = sum(map(len, pages.fetched))
    found = pages.result(given.seconds / 2, given.seconds)
    learned = [one["quality"] and one["quality"]["in_words"] for one in sources["items"]]
    signals = sum(one["signals"] for one in sources["items"])
    row = {"list": listed, **found, "polls": polls, "list_polls": pages.list_fetches, "signals": signals}
    return {**row, "polls_of_pages_told_of": told, "learned": learned}


async def _call(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})

    def send() -> Any:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.loads(reply.read())

    return await asyncio.to_thread(send)


def main() -> None:
    """Prints a line of JSON for each list."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--lists", nargs="+", choices=LISTS, default=list(LISTS))
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--budget", type=float, default=50.0, help="polls per second")
    parser.add_argument("--x", type=float, default=1.0, help="budget as a multiple of the changes per second")
    parser.add_argument("--beta", type=float, default=1.0, help="exponent of the rank in the pages' rates")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--late", type=float, default=30.0, help="of the list `late`, s")
    parser.add_argument("--allocator", default="whittle")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for listed in given.lists:
        print(json.dumps(asyncio.run(run(listed, given))), flush=True)


if __name__ == "__main__":
    main()
