"""Event-loop lag of the daemon while it polls every kind of hostile server at once.

The real daemon (`pollerd run`), measured from outside the process, polls the servers of `tests/hostile`, pages that are
expensive to parse, a robots.txt of 490 KB and good pages, all on loopback. The lag is `pollerd_event_loop_lag_seconds`,
the worst of the last 15 s; memory is the daemon's resident memory. Failed sites are polled again and again.

    python -m benchmarks.hostile [--seconds 90] [--budget 20]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.fetching.sites import Handler, Seen, message, served
from tests.hostile.test_servers import CASES, after_robots

HTML, JSON, FEED = "text/html", "application/json", "application/rss+xml"
LONG_RULES = b"User-agent: *\n" + b"".join(b"Disallow: /private/%06d*x\n" % n for n in range(18_000))
GOOD_PAGES = 20
GOOD = "good"


def changing(media: str, make: Callable[[int], str]) -> Handler:
    """Returns a handler with a different text at each request."""
    numbers = itertools.count()

    async def handler(_: Seen, writer: asyncio.StreamWriter) -> None:
        body = make(next(numbers)).encode()
        writer.write(message("200 OK", f"Content-Type: {media}", body=body))
        await writer.drain()

    return handler


def feed(n: int) -> str:
    items = "".join(f"<item><guid>{n}-{i}</guid><title>entry {i}</title></item>" for i in range(3_000))
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>{items}</channel></rss>'


def laughs(n: int) -> str:
    entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    return f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY l0 "{n}">{entities}]><rss version="2.0"><x>&l9;</x></rss>'


HEAVY: dict[str, Handler] = {
    "malformed HTML of 5 MB": changing(HTML, lambda n: f"<p>{n}" + "<p><b>x</i><table><tr>" * 230_000),
    "100,000 lines that change": changing(HTML, lambda n: "".join(f"<p>line {n * i}</p>" for i in range(100_000))),
    "deep JSON": changing(JSON, lambda n: "[" * 10_000 + str(n) + "]" * 10_000),
    "wide JSON": changing(JSON, lambda n: "[" + ",".join(f'{{"a": {i * n}}}' for i in range(100_000)) + "]"),
    "3,000 new entries": changing(FEED, feed),
    "billion laughs": changing(FEED, laughs),
}


def answering_at_length(handler: Handler) -> Handler:
    async def answering(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.path == "/robots.txt":
            writer.write(message("200 OK", "Content-Type: text/plain", body=LONG_RULES))
            await writer.drain()
        else:
            await handler(seen, writer)

    return answering


async def serve(ready: Path, names: list[str]) -> None:
    good = changing(HTML, lambda n: f"<p>good {n // 5}</p>" * 50)
    handlers = {name: after_robots(case[0]) for name, case in CASES.items()}
    handlers |= {name: after_robots(handler) for name, handler in HEAVY.items()}
    handlers |= {"long robots.txt": answering_at_length(good), GOOD: after_robots(good)}
    async with contextlib.AsyncExitStack() as stack:
        urls = []
        for name, handler in handlers.items():
            site = await stack.enter_async_context(served(handler, None))
            paths = range(GOOD_PAGES if name == GOOD else 1)
            urls += [site.url(f"/{n}") for n in paths if not names or name in names or name == GOOD]
        part = ready.with_suffix(".part")
        part.write_text("\n".join(urls) + "\n")
        part.rename(ready)
        await asyncio.Event().wait()


def serving(ready: Path, names: list[str]) -> None:
    asyncio.run(serve(ready, names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--port", type=int, default=8796, help="of the daemon's API")
    parser.add_argument("--only", action="append", default=[], help="a kind of server; may be given more than once")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        server = multiprocessing.Process(target=serving, args=(work / "urls.txt", a.only), daemon=True)
        server.start()
        try:
            while not (work / "urls.txt").exists():
                time.sleep(0.1)
                assert server.is_alive(), "the servers did not start"
            watch(a, work)
        finally:
            server.kill()


def watch(a: argparse.Namespace, work: Path) -> None:
    command = [
        *(sys.executable, "-m", "pollerd", "run", str(work / "urls.txt"), "--budget", str(a.budget), "--allow-private"),
        *(
            "--host-interval",
            "0",
            "--min-interval",
            "0",
            "--min-saving",
            "0",
            "--database",
            f"sqlite+aiosqlite:///{work}/polls.db",
        ),
        *("--listen", f"127.0.0.1:{a.port}", "--log-level", "error"),
    ]
    environment = os.environ | {"POLLERD_TOTAL_TIMEOUT": "5", "POLLERD_CONNECT_TIMEOUT": "5"}
    daemon = subprocess.Popen(command, env=environment)
    lags: list[float] = []
    memory = 0.0
    try:
        end = time.monotonic() + a.seconds
        text = ""
        while time.monotonic() < end:
            time.sleep(1.0)
            assert daemon.poll() is None, "the daemon ended"
            with contextlib.suppress(OSError):
                text = scraped(a.port)
                lags.append(value(text, "pollerd_event_loop_lag_seconds"))
                memory = max(memory, resident_mb(daemon.pid))
    finally:
        daemon.terminate()
        daemon.wait(60)
    print("| polls | loop lag: worst | median of the worst of 15 s | memory, MB |\n| --- | --- | --- | --- |")
    polls = value(text, "pollerd_polls_total")
    print(f"| {polls:.0f} | {max(lags) * 1e3:.0f} ms | {sorted(lags)[len(lags) // 2] * 1e3:.0f} ms | {memory:.0f} |")


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def value(text: str, name: str) -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name)


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
