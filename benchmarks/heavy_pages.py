"""Which share of their polls small and large honest pages keep beside pages that are heavy to read.

The real daemon polls 40 small pages and 20 of 120 kB, each every 30 s, and besides them six pages of 5.5 MB of new
text and twelve feeds of 1 MB of new entries at each poll, all on loopback. The share is that of the polls that the
interval allows, from 45 s after the first poll on. Compare with `--without`, which leaves the heavy pages out.

    PYTHONPATH=. python benchmarks/heavy_pages.py [--seconds 270] [--without]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from hostile import FEED, HTML, changing, resident_mb

from tests.fetching.sites import served
from tests.hostile.test_servers import after_robots

INTERVAL, BEGIN = 30.0, 45.0
SITES = {"small": 40, "honest": 20, "text": 6, "feed": 12}


def body(kind: str, n: int) -> str:
    if kind == "small":
        return f"<p>good {n // 5}</p>" * 50
    if kind == "honest":
        return f"<p>{n // 5}" + "".join(f"<p>an honest line of text number {i} of many\n" for i in range(2_700))
    if kind == "text":
        return "".join(f"<p>{n * 7919 + i:x} line of the text {i * n} new\n" for i in range(150_000))
    words = "words and " * 8 + str(n)
    item = "<item><guid>{}-{}</guid><title>{}</title><description>{}</description></item>"
    items = (item.format(n, i, i, words) for i in range(6_000))
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>{"".join(items)}</channel></rss>'


async def serve(ready: Path, kinds: list[str]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        urls = []
        for kind in kinds:
            for place in range(SITES[kind]):
                # Large bodies are made before: it is the daemon that is measured, and not this server.
                made = [body(kind, 1_000 * place + n) for n in range(6)] if kind in ("text", "feed") else None
                handler = changing(
                    FEED if kind == "feed" else HTML,
                    lambda n, kind=kind, made=made: body(kind, n) if made is None else made[n % len(made)],  # type: ignore[misc]
                )
                site = await stack.enter_async_context(served(after_robots(handler), None))
                urls.append(site.url(f"/{kind}"))
        part = ready.with_suffix(".part")
        part.write_text("\n".join(urls) + "\n")
        part.rename(ready)
        await asyncio.Event().wait()


def serving(ready: Path, kinds: list[str]) -> None:
    asyncio.run(serve(ready, kinds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=270.0)
    parser.add_argument("--without", action="store_true", help="without the heavy pages")
    a = parser.parse_args()
    kinds = ["small", "honest"] if a.without else list(SITES)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        server = multiprocessing.Process(target=serving, args=(work / "urls.txt", kinds), daemon=True)
        server.start()
        try:
            while not (work / "urls.txt").exists():
                time.sleep(0.1)
                assert server.is_alive(), "the servers did not start"
            memory = watch(a.seconds, work)
        finally:
            server.kill()
        show(work / "polls.db", memory)


def watch(seconds: float, work: Path) -> float:
    """Lets the daemon poll; returns its largest resident memory, MB."""
    command = [
        *(
            sys.executable,
            "-m",
            "pollerd",
            "run",
            str(work / "urls.txt"),
            "--budget",
            "20",
            "--allow-private",
            "--no-web",
        ),
        *("--host-interval", "0", "--min-interval", str(INTERVAL), "--max-interval", str(INTERVAL)),
        *("--min-saving", "0"),
        *("--database", f"sqlite+aiosqlite:///{work}/polls.db", "--listen", "127.0.0.1:0", "--log-level", "error"),
    ]
    daemon, memory = subprocess.Popen(command), 0.0
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(1.0)
            assert daemon.poll() is None, "the daemon ended"
            memory = max(memory, resident_mb(daemon.pid))
    finally:
        daemon.terminate()
        daemon.wait(90)
    return memory


def show(database: Path, memory: float) -> None:
    """Prints the share of each kind of page."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT url, at FROM poll JOIN site ON site.id = site_id ORDER BY at").fetchall()
    first, last = rows[0][1], rows[-1][1]
    polls = Counter(url.rpartition("/")[2] for url, at in rows if at >= first + BEGIN)
    print(f"| pages | share of the polls that the interval allows |\n| --- | --- |\n| memory | {memory:.0f} MB |")
    for kind, number in polls.items():
        print(f"| {kind} | {number / (SITES[kind] * (last - first - BEGIN) / INTERVAL):.2f} |")


if __name__ == "__main__":
    main()
