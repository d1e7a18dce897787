"""Stability of the daemon: memory, descriptors, event-loop lag and commit time over a long run, plotted.

The daemon is the real one (`pollerd run`, SQLite, `whittle`), the origin a few thousand pages on loopback. Some are
hostile: too large, trickling, garbled, redirecting in circles, failing, closing, different at every fetch. Sampled from
outside every 5 seconds. The verdict is the slope of memory after the warm-up with its standard error, from one-minute
means (neighbouring samples are correlated, minutes hardly are). Needs matplotlib for the plot (`make soak` installs
it).

    python benchmarks/soak.py [--minutes 30] [--sites 2000] [--budget 50] [--out DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import os
import random
import re
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
from aiohttp import web
from scale import Api, Process, daemon, until, write_list

EVERY_SECONDS = 5.0
WARM_UP_SHARE = 0.3
PER_MINUTE = int(60 / EVERY_SECONDS)
COLUMNS = ("seconds", "memory_mb", "descriptors", "loop_lag_ms", "commit_ms", "polls")
HOSTILE_EVERY = 20
"""One page in this many is hostile."""

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def too_large(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(400):
        await response.write(b"x" * 65_536)
    return response


async def trickling(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(60):
        await response.write(b".")
        await asyncio.sleep(1)
    return response


async def garbled(_: web.Request) -> web.StreamResponse:
    return web.Response(body=os.urandom(2_000), headers={"content-encoding": "gzip", "content-type": "text/html"})


async def circling(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(request.path)


async def failing(_: web.Request) -> web.StreamResponse:
    return web.Response(status=random.choice((500, 503, 429, 404)), headers={"retry-after": "20"})


async def closing(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def different(_: web.Request) -> web.StreamResponse:
    return web.Response(text=f"<p>{random.random()} {time.time()}</p>" * 50, content_type="text/html")


HOSTILE: tuple[Answer, ...] = (too_large, trickling, garbled, circling, failing, closing, different)


async def answer(request: web.Request) -> web.StreamResponse:
    if request.path == "/robots.txt":
        return web.Response(text="User-agent: *\nDisallow: /private\n" * 20)
    number = sum((i + 1) * ord(c) for i, c in enumerate(request.host + request.path))
    if number % HOSTILE_EVERY == 0:
        try:
            return await HOSTILE[number // HOSTILE_EVERY % len(HOSTILE)](request)
        except ConnectionError:  # the daemon closed the connection
            return web.Response()
    edition = int(time.time() / (10 + number % 1_000))
    paragraphs = "".join(f"<p>{edition} {i} {request.path}</p>" for i in range(10 + number % 300))
    return web.Response(text=f"<html><body>{paragraphs}</body></html>", content_type="text/html")


class Sampler:
    """Reads the figures of a daemon, one row at a time."""

    def __init__(self, process: Process, api: Api) -> None:
        self._process, self._api = process, api
        self._began = time.monotonic()
        self._commits = (0.0, 0.0)

    async def row(self) -> tuple[float, ...]:
        text = await self._api.get("/metrics")
        lag = number(text, "pollerd_event_loop_lag_seconds")
        polls = sum(float(n) for n in re.findall(r"^pollerd_polls_total\{.*\} (\S+)", text, re.MULTILINE))
        total, count = number(text, "pollerd_commit_seconds_sum"), number(text, "pollerd_commit_seconds_count")
        spent, made = total - self._commits[0], count - self._commits[1]
        self._commits = (total, count)
        seconds = time.monotonic() - self._began
        commit = spent / made * 1e3 if made else float("nan")
        return seconds, self._process.resident_mb(), self._process.descriptors(), lag * 1e3, commit, polls


def number(text: str, name: str) -> float:
    found = re.search(rf"^{name}(?:_max)? (\S+)", text, re.MULTILINE)
    return float(found[1]) if found else float("nan")


async def soak(minutes: float, sites: int, budget: float, port: int, out: Path) -> list[tuple[float, ...]]:
    app = web.Application()
    app.router.add_route("GET", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    rows: list[tuple[float, ...]] = []
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, (out / "soak.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        work = Path(folder)
        write_list(work / "urls.txt", sites, port)
        async with daemon(work, "soak", budget, str(work / "urls.txt")) as (process, api):
            await until(api.ready)
            sampler = Sampler(process, api)
            while not rows or rows[-1][0] < minutes * 60:
                await asyncio.sleep(EVERY_SECONDS)
                rows.append(await sampler.row())
                table.writerow([f"{value:.3f}" for value in rows[-1]])
                file.flush()
    await runner.cleanup()
    return rows


def slope(rows: list[tuple[float, ...]], column: str) -> tuple[float, float]:
    """Returns the growth per hour after the warm-up, by least squares over one-minute means, and its standard error."""
    table = np.array(rows)[int(len(rows) * WARM_UP_SHARE) :]
    table = table[: len(table) // PER_MINUTE * PER_MINUTE].reshape(-1, PER_MINUTE, len(COLUMNS)).mean(1)
    hours, values = table[:, 0] / 3600, table[:, COLUMNS.index(column)]
    if len(hours) < 3:
        return float("nan"), float("nan")
    spread = hours - hours.mean()
    rate = float(spread @ values / (spread @ spread))
    left = values - values.mean() - rate * spread
    return rate, float(np.sqrt(left @ left / (len(hours) - 2) / (spread @ spread)))


def verdict(rows: list[tuple[float, ...]]) -> str:
    table, lines = np.array(rows), []
    for column in COLUMNS[1:-1]:
        values = table[int(len(rows) * WARM_UP_SHARE) :, COLUMNS.index(column)]
        rate, error = slope(rows, column)
        flat = "flat" if abs(rate) <= 2 * error else "moving"
        high = np.nanquantile(values, 0.99)
        lines.append(
            f"{column}: mean {np.nanmean(values):.1f}, p99 {high:.1f}, {rate:+.2f} ± {error:.2f} an hour: {flat}"
        )
    return "\n".join([*lines, f"polls: {rows[-1][-1]:.0f} in {rows[-1][0] / 60:.1f} minutes"])


def plot(rows: list[tuple[float, ...]], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    table = np.array(rows)
    figure, panels = plt.subplots(4, 1, sharex=True, figsize=(8, 8))
    for panel, column in zip(panels, COLUMNS[1:5], strict=True):
        panel.plot(table[:, 0] / 60, table[:, COLUMNS.index(column)], linewidth=0.8)
        panel.set_ylabel(column.replace("_", " "))
        panel.set_ylim(bottom=0)
    panels[-1].set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--sites", type=int, default=2_000)
    parser.add_argument("--budget", type=float, default=50.0)
    parser.add_argument("--port", type=int, default=8795)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    rows = asyncio.run(soak(a.minutes, a.sites, a.budget, a.port, a.out))
    print(verdict(rows))
    plot(rows, a.out / "soak.svg")


if __name__ == "__main__":
    main()
