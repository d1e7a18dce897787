"""CPU, time and memory of a rendered poll beside a fetched one, of the same page, by turns.

    python benchmarks/render_cost.py [--browser PATH] [--polls 40] [--no-sandbox]

The page is 15 KB of HTML with two style sheets, six scripts of 30 KB that build a list, two answers in JSON and 20
images, served by a process of its own. CPU is that of this process, Playwright's driver and Chromium together: all
processes below this one, those that have ended included.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import shutil
import time
from pathlib import Path
from statistics import median

from aiohttp import web

from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind
from pollerd.rendering.renderer import Renderer
from pollerd.rendering.settings import RenderingSettings

_TICKS = os.sysconf("SC_CLK_TCK")
_SCRIPT = "/*" + "x" * 30_000 + "*/ for (let n = 0; n < 200; n++) {const li = document.createElement('li');"
_SCRIPT += "li.textContent = 'item ' + n; document.querySelector('ul').append(li)}"
_HTML = (
    "<!doctype html><link rel=stylesheet href=/1.css><link rel=stylesheet href=/2.css><ul></ul>"
    + "<p>"
    + "words of a page " * 900
    + "".join(f"<img src=/{n}.png>" for n in range(20))
    + "".join(f"<script src=/{n}.js></script>" for n in range(6))
    + "<script>for (const n of [1, 2]) fetch(`/${n}.json`).then(r => r.json())</script>"
)


def serve(ready: multiprocessing.connection.Connection) -> None:
    """Serves the page until the process is ended."""

    async def answer(request: web.Request) -> web.Response:
        name = request.path
        if name.endswith(".js"):
            return web.Response(text=_SCRIPT, content_type="text/javascript")
        if name.endswith(".css"):
            return web.Response(text="li {color: teal}" * 500, content_type="text/css")
        if name.endswith(".json"):
            return web.json_response(list(range(1_000)))
        return web.Response(text=_HTML, content_type="text/html")

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


def tree(root: int, leave_out: int) -> dict[int, list[str]]:
    """/proc/PID/stat, from the state on, of all processes below `root` and of itself, by PID."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
    found = {root}
    while more := {pid for pid, stat in stats.items() if int(stat[1]) in found} - found - {leave_out}:
        found |= more
    return {pid: stats[pid] for pid in found if pid in stats}


def cpu_seconds(leave_out: int) -> float:
    """CPU of this process and of all below it."""
    ticks = sum(int(ticks) for stat in tree(os.getpid(), leave_out).values() for ticks in stat[11:15])
    return ticks / _TICKS


def resident_megabytes(leave_out: int) -> float:
    """Resident memory of this process and those below it; what processes share is divided among them (PSS)."""
    kilobytes = 0
    for pid in tree(os.getpid(), leave_out):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1e3


async def measure(options: argparse.Namespace, url: str, server: int) -> None:
    """Prints both costs and their ratio."""
    settings = RenderingSettings(browser=options.browser, browser_no_sandbox=options.no_sandbox)
    fetching = FetchSettings(allow_private=True)
    rendered, fetched, durations = 0.0, 0.0, []
    rounds = max(1, options.polls // 10)
    before = resident_megabytes(server)
    async with Fetcher(fetching) as fetcher, Renderer(settings, fetching) as renderer:
        assert (await renderer.render(Request(url))).kind is OutcomeKind.BODY
        for _ in range(rounds):
            began = cpu_seconds(server)
            for _ in range(10):
                outcome = await renderer.render(Request(url))
                assert outcome.kind is OutcomeKind.BODY, outcome
                durations.append(outcome.duration)
            rendered += cpu_seconds(server) - began
            began = time.process_time()
            for _ in range(500):
                await fetcher.fetch(Request(url))
            fetched += time.process_time() - began
        polls = asyncio.gather(*(renderer.render(Request(url)) for _ in range(settings.browser_pages)))
        most = 0.0
        while not polls.done():
            most = max(most, resident_megabytes(server) - before)
            await asyncio.sleep(0.05)
    each, plain = rendered / (rounds * 10), fetched / (rounds * 500)
    print(f"the page       {outcome.requests} requests, {outcome.loaded_bytes} bytes through the proxy")
    print(f"rendered poll  {each * 1e3:8.1f} ms CPU  {median(durations):6.2f} s")
    print(f"fetched poll   {plain * 1e3:8.2f} ms CPU")
    print(f"ratio          {each / plain:8.0f}")
    print(f"memory         {most:8.0f} MB more, {settings.browser_pages} pages at once")


def main() -> None:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", default=shutil.which("chromium"))
    parser.add_argument("--polls", type=int, default=40)
    parser.add_argument("--no-sandbox", action="store_true")
    options = parser.parse_args()
    ready, told = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(told,), daemon=True)
    server.start()
    assert server.pid is not None
    asyncio.run(measure(options, f"http://127.0.0.1:{ready.recv()}/", server.pid))
    server.terminate()


if __name__ == "__main__":
    main()
