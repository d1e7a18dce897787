"""What several live nodes with one budget find, beside one daemon and beside an even split of the budget.

Pages change as Poisson processes, page k with probability 0.9/k in the time in which all together change as often as
the budget has polls in a step; their sum is budget / X changes per second. They are on hosts of this machine, four of
like rates a host, so that nodes need unlike shares of the budget. Three ways to poll them, with the same pages and
rates, each from nothing: `one` daemon; `nodes` on a PostgreSQL of the benchmark's own, which divides the budget by
itself; `even`: daemons that know nothing of one another, each with an equal part of the budget and the hosts that fall
to it by a hash.

Each poll is logged at the server. A poll finds a change with the probability 1 - e^(-rate · gap) that the page's rate
gives, whatever the dice said: the sum over all polls of the second half of the time is printed, as a share of that of
`one`.

    PYTHONPATH=. python benchmarks/live_nodes.py [--nodes 4] [--pages 600] [--budget 20] [--seconds 300] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from daemon_process import DaemonProcess

from tests.support.own_postgres import OwnServer, missing

WAYS = ("one", "nodes", "even")
PER_HOST = 4


class Pages:
    """Served pages that change at random, and the times at which they were fetched."""

    def __init__(self, rates: np.ndarray, seed: int, port: int) -> None:
        """rates: float64[n] changes per second."""
        self.rates, self._port = rates, port
        self._rng = np.random.default_rng(seed)
        self._version = np.zeros(len(rates), np.int64)
        self.fetched: list[list[float]] = [[] for _ in rates]

    def host(self, page: int) -> str:
        """The address of a page's host."""
        number = page // PER_HOST
        return f"127.1.{number // 250}.{number % 250 + 1}"

    def url(self, page: int) -> str:
        """The URL of a page."""
        return f"http://{self.host(page)}:{self._port}/p/{page}"

    async def answer(self, request: web.Request) -> web.Response:
        """Answers with the present version, 304 if it is known; it changed meanwhile as often as the dice say."""
        page, now = int(request.match_info["page"]), time.monotonic()
        gap = now - self.fetched[page][-1] if self.fetched[page] else 0.0
        self._version[page] += self._rng.poisson(self.rates[page] * gap)
        self.fetched[page].append(now)
        tag = f'"{page}-{self._version[page]}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        text = f"<p>Page {page}, version {'x' * int(self._version[page] % 97)} of {self._version[page]}</p>"
        return web.Response(text=text, content_type="text/html", headers={"ETag": tag})

    def found(self, since: float, until: float) -> tuple[float, int]:
        """Returns the expected number of changed pages that polls in this time (monotonic s) met, and the polls."""
        total, polls = 0.0, 0
        for rate, times in zip(self.rates, map(np.array, self.fetched), strict=True):
            if len(times) < 2:
                continue
            counted = (times[1:] >= since) & (times[1:] < until)
            total += float(-np.expm1(-rate * np.diff(times)[counted]).sum())
            polls += int(counted.sum())
        return total, polls


async def run(way: str, given: argparse.Namespace, server: OwnServer) -> dict[str, Any]:
    """Polls in one way; returns what was found."""
    steps = -np.log1p(-0.9 / np.arange(1, given.pages + 1))
    hosts = np.random.default_rng(given.seed).permutation(steps.reshape(-1, PER_HOST))
    rates = hosts.ravel() * given.budget / given.x / steps.sum()
    with socket.create_server(("0.0.0.0", 0), backlog=4096) as listener, tempfile.TemporaryDirectory() as folder:
        pages = Pages(rates, given.seed, listener.getsockname()[1])
        served = web.Application()
        served.add_routes([web.get("/p/{page}", pages.answer)])
        runner = web.AppRunner(served, access_log=None)
        await runner.setup()
        await web.SockSite(runner, listener).start()
        daemons = [DaemonProcess(Path(folder), f"poll-{n}") for n in range(1 if way == "one" else given.nodes)]
        database = f"postgresql+asyncpg://postgres@127.0.0.1:{server.port}/postgres"
        share = given.budget / (given.nodes if way == "even" else 1)
        for n, daemon in enumerate(daemons):
            urls, words = pages_of(pages, way, n, given.nodes), options(daemon, n, share, as_node=way == "nodes")
            daemon.start(urls, *words, database=database if way == "nodes" else None)
        try:
            for daemon in daemons:
                await daemon.ready()
            begin = time.monotonic()
            await asyncio.sleep(given.seconds)
            found, polls = pages.found(begin + given.seconds / 2, begin + given.seconds)
        finally:
            for daemon in daemons:
                daemon.end()
            await runner.cleanup()
    return {"way": way, "seed": given.seed, "found": round(found, 1), "polls": polls}


def pages_of(pages: Pages, way: str, n: int, nodes: int) -> list[str]:
    """Returns the URLs that daemon n is given: of nodes, the first one has the list for all."""
    every = range(len(pages.rates))
    if way == "even":
        return [pages.url(k) for k in every if zlib.crc32(pages.host(k).encode()) % nodes == n]
    return [pages.url(k) for k in every] if n == 0 else []


def options(daemon: DaemonProcess, n: int, budget: float, *, as_node: bool) -> list[str]:
    """Returns the options of daemon n."""
    words = ["--budget", str(budget), "--allocator", "whittle", "--min-interval", "0.2", "--no-web"]
    return [*words, "--node", f"n{n}"] if as_node else words


async def main(given: argparse.Namespace) -> None:
    """Prints a line of JSON for each way."""
    if (reason := missing()) is not None:
        raise SystemExit(reason)
    one = None
    for way in given.ways:
        server = OwnServer(given.database_port)
        if way == "nodes":
            await asyncio.to_thread(server.make, ("listen_addresses = '127.0.0.1'",))
            await asyncio.to_thread(server.start)
        try:
            row = await run(way, given, server)
        finally:
            if way == "nodes":
                await asyncio.to_thread(server.remove)
        one = row["found"] if way == "one" else one
        row["of_one"] = None if one is None else round(row["found"] / one, 3)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--pages", type=int, default=600, help="a multiple of 4")
    parser.add_argument("--budget", type=float, default=20.0, help="polls per second of all")
    parser.add_argument("--x", type=float, default=1.0, help="budget as a multiple of the changes per second")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--database-port", type=int, default=16_440)
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(main(parser.parse_args()))
