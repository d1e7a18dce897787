"""What hostile pages and patterns cost under a selection: time, and memory of the process that reads them.

    python -m benchmarks.hostile_selections

Each page of `tests/hostile/pages_for_selections.py` is read as the daemon reads it: in the event loop where it does so
(then the time is what the loop is blocked for), else by a process of its own under the limits of time and memory. That
process is a new one for each page; its memory is that at its peak, less that of one which has read a small page.
"""

from __future__ import annotations

import asyncio
import resource
import time

from pollerd.daemon.workers import WorkerPool
from pollerd.detection.selection.comparing import detect_selections, heavy_for_selections
from pollerd.detection.selection.selection import canonical
from pollerd.model import Baseline, Outcome, OutcomeKind
from tests.hostile.pages_for_selections import PAGES, HostilePage

URL = "http://127.0.0.1/"


def read(outcome: Outcome, settings: str) -> tuple[str, float, int]:
    """Reads a page. Returns what came of it, CPU seconds, and the process's peak of memory, KiB."""
    began = time.process_time()
    try:
        said = detect_selections(outcome, URL, settings, Baseline(), (), None).kind.value
    except Exception as error:  # noqa: BLE001 (a row of the table: what comes of a hostile page)
        said = f"{type(error).__name__}: {error}"
    return said[:90], time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def beside(page: HostilePage) -> tuple[str, float, int | None]:
    """Reads a page beside the loop. Returns what came of it, CPU seconds, and the peak of memory, KiB.

    Of a process that was killed the memory is None, and the seconds are those that passed.
    """
    pool = WorkerPool(workers=1)
    try:
        _, _, before = await pool.do(read, answer(b"<p>x</p>", "text/html"), canonical({"default": {"steps": []}}))
        body, began = answer(page.make(), page.media), time.perf_counter()
        try:
            said, seconds, peak = await pool.do(read, body, page.settings)
        except Exception as error:  # noqa: BLE001 (likewise)
            return f"{type(error).__name__}, the process was ended", time.perf_counter() - began, None
        return said, seconds, peak - before
    finally:
        pool.close()


def answer(body: bytes, media: str) -> Outcome:
    """Returns an answer with the body."""
    return Outcome(OutcomeKind.BODY, 0.0, 0.0, 200, len(body), body, media)


async def main() -> None:
    print("| page and selection | bytes | where | what comes of it | CPU s | MB |\n" + "|" + " --- |" * 6)
    for name, page in PAGES.items():
        body = page.make()
        if heavy_for_selections(answer(body, page.media), page.settings, Baseline(), ()):
            said, seconds, kib = await beside(page)
            memory = "-" if kib is None else f"{kib / 1024:.0f}"
            where = "in a worker"
        else:
            said, seconds, _ = read(answer(body, page.media), page.settings)
            memory, where = "-", "in the loop"
        print(f"| {name} | {len(body):,} | {where} | {said} | {seconds:.3f} | {memory} |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
