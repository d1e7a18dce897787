"""Cost of a large frontier for the focused crawler: choosing, committing answers, revaluing; time, loop and memory.

Fills an SQLite database with many pages (see `frontier_web`), drops it from the cache, opens it as the daemon does, and
repeats rounds of choosing pages, answering them with 150 links each, and revaluing pages.

    python benchmarks/frontier.py [--pages 1000000] [--rounds 100] [--wanted 5] [--links 150] [--folder FOLDER]

`--folder` keeps the database there and reuses it: later rounds continue from the state that earlier ones left.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
from frontier_web import fill, hosts_of
from msgspec.structs import replace
from numpy.typing import NDArray
from scale import resident_kb

from pollerd.crawler.controllers import FrontierRows, FrontierValue, RequestSettings
from pollerd.crawler.state import frontier_rows
from pollerd.model import Baseline, OutcomeKind, PageState, Poll, SiteState
from pollerd.storage import encoding
from pollerd.storage.page_values import CrawlUpdate, OutLinkDraft, PageRecord, PageRow, Trial
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, PollRecord, SiteContext

WEIGHT = 0.1
PER_HOST, PAGES_PER_HOST = 2, 1_000
NEW_SHARE, NEAR_SHARE = 0.5, 0.3
"""Shares of an answer's links: to new pages, and to pages discovered about the same time."""
TICK = 0.001


class Times:
    """Wall-clock and CPU times of calls, and how long the event loop was blocked meanwhile, ms."""

    def __init__(self) -> None:
        self._taken: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)

    @contextlib.asynccontextmanager
    async def of(self, what: str) -> AsyncIterator[None]:
        """Times the enclosed block."""
        held = [0.0]
        watch = asyncio.create_task(_watch(held))
        await asyncio.sleep(2 * TICK)
        began, cpu = time.perf_counter(), time.process_time()
        yield
        took = time.perf_counter() - began, time.process_time() - cpu
        await asyncio.sleep(2 * TICK)
        watch.cancel()
        self._taken[what].append((took[0] * 1e3, took[1] * 1e3, held[0] * 1e3))

    def show(self) -> None:
        """Prints a line for each kind of call."""
        print(f"{'ms':34} {'first':>8} {'median':>8} {'most':>8} {'CPU, median':>12} {'loop held, median, most':>24}")
        for what, taken in self._taken.items():
            wall, cpu, held = (np.array(column) for column in zip(*taken, strict=True))
            line = f"{wall[0]:8.1f} {np.median(wall):8.1f} {wall.max():8.1f} {np.median(cpu):12.1f}"
            print(f"{what:34} {line} {np.median(held):16.1f} {held.max():7.1f}")


async def _watch(held: list[float]) -> None:
    """Stores the longest time that the loop was blocked, s, in `held`."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(TICK)
        held[0] = max(held[0], time.perf_counter() - began - TICK)


class Robot:
    """The daemon's storage calls for its focused crawler, with simulated answers."""

    def __init__(self, store: Store, rng: np.random.Generator, links: int, times: Times) -> None:
        self._store, self._rng, self._links, self._times = store, rng, links, times
        self._frontier_value = FrontierValue(RequestSettings())
        self._step, self._swept, self._pages = 0, 0, 0

    def appraise(self, rows: FrontierRows) -> NDArray[np.float64]:
        """Returns the values of pages, as the crawler computes them."""
        return self._frontier_value.value(rows.states())

    async def _value(self, rows: list[PageRow]) -> None:
        """Revalues stale pages of the frontier, as the crawler does."""
        for start in range(0, len(rows), 500):
            some = [row for row in rows[start : start + 500] if row.value is not None]
            if some:
                values = self.appraise(frontier_rows(some)).tolist()
                await self._store.frontier.write_values(list(zip(some, values, strict=True)))

    async def choose(self, wanted: int) -> list[Trial]:
        """Returns the next pages and computes their values."""
        async with self._times.of(f"choosing {wanted}"):
            trials = await self._store.frontier.promote(wanted, PER_HOST, PAGES_PER_HOST, WEIGHT, float(self._step))
            for trial in trials:
                self.appraise(frontier_rows([trial.around]))
        return trials

    async def explore(self) -> list[Trial]:
        """Chooses one page of a random host."""
        place = float(self._rng.random())
        async with self._times.of("choosing some host's"):
            return await self._store.frontier.promote(1, PER_HOST, PAGES_PER_HOST, WEIGHT, float(self._step), at=place)

    async def answer(self, trials: list[Trial]) -> None:
        """Processes answers of pages on trial: looks up their links, learns, and commits."""
        drafts = {trial.page_id: await self._out_links(trial) for trial in trials}
        async with self._times.of(f"taking in {len(trials)}, {self._links} links each"):
            contexts = await self._store.sites.contexts([trial.site_id for trial in trials])
            urls = sorted({draft.url for found in drafts.values() for draft in found})
            await self._store.frontier.known(urls)
            records = []
            for trial in trials:
                self._step += 1
                relevance = float(self._rng.random()) * 0.5
                self._frontier_value.learn(frontier_rows([trial.around]).states()[0], relevance, np.empty((0, 10)), 0.0)
                records.append(self._record(trial, contexts[trial.site_id], relevance, drafts[trial.page_id]))
            findings = CrawlUpdate(self._step, learned=self._frontier_value.pack())
            committed = await self._store.commit(Batch(records, findings=findings))
            await self._value(await self._store.frontier.link_context.around(committed.stale_pages))

    async def sweep(self) -> None:
        """Revalues some pages, as after each commit."""
        async with self._times.of("valuing some of the fringe anew"):
            rows, self._swept = await self._store.frontier.sweep(self._swept)
            await self._value(rows)

    async def around(self, trials: list[Trial]) -> None:
        """Reads the rows that are needed to revalue pages on trial."""
        async with self._times.of(f"valuing {len(trials)} on trial anew"):
            await self._store.frontier.link_context.around([trial.page_id for trial in trials])

    async def _out_links(self, trial: Trial) -> tuple[OutLinkDraft, ...]:
        """Returns half new links, the rest to siblings and random pages."""
        number = self._links
        new, near = int(NEW_SHARE * number), int(NEAR_SHARE * number)
        folder = trial.url.rpartition("/")[0]
        urls = [f"{folder}/new-{self._step}-{trial.page_id}-{n}" for n in range(new)]
        urls += await known_urls(self._store, trial.page_id, near)
        while len(urls) < number:
            urls += await known_urls(self._store, int(self._rng.integers(1, self._pages)), 5)
        anchors = self._rng.beta(1, 6, len(urls)).tolist()
        return tuple(map(OutLinkDraft, dict.fromkeys(urls[:number]), anchors))

    async def count(self) -> None:
        """Counts the pages."""
        status = await self._store.collection.status()
        assert status is not None
        self._pages = sum(status.pages.values())

    @staticmethod
    def _record(
        trial: Trial, context: SiteContext, relevance: float, out_links: tuple[OutLinkDraft, ...]
    ) -> PollRecord:
        collected = relevance > 0.35
        page = PageRecord(
            trial.page_id,
            PageState.COLLECTED if collected else PageState.REJECTED,
            trial.depth,
            "" if collected else "irrelevant",
            relevance,
            out_links,
            relevance if collected else None,
            ended=not collected,
            on_trial=True,
        )
        poll = Poll(trial.site_id, 10.0, None, OutcomeKind.UNCHANGED, 200, 0.1, 50_000, changed=False)
        return PollRecord(poll, replace(context, baseline=Baseline()), SiteState.ACTIVE, page=page)


async def known_urls(store: Store, page_id: int, number: int) -> list[str]:
    """Returns URLs of some pages that were discovered about the same time as this one."""
    found = await store.collection.list_pages(limit=number, cursor=encoding.encode("k", page_id))
    return [page.url for page in found.items]


async def measure(path: Path, given: argparse.Namespace) -> None:
    """Opens the database and runs the rounds."""
    forget(path)
    times = Times()
    bare = resident_kb("self") / 1024
    async with times.of("opening"):
        store = await Store.open(f"sqlite:///{path}")
    async with times.of("taking the collection over"):
        await store.frontier.begin("benchmark", 2.0)
    opened = resident_kb("self") / 1024
    robot = Robot(store, np.random.default_rng(given.seed), given.links, times)
    async with times.of("counting all pages"):
        await robot.count()
    for turn in range(given.rounds):
        trials = await robot.choose(given.wanted)
        await robot.around(trials)
        await robot.answer(trials)
        await robot.sweep()
        if turn % 4 == 0:
            trials = await robot.explore()
            await robot.answer(trials)
        if turn % 10 == 0:
            trials = await robot.choose(10 * given.wanted)
            await robot.answer(trials)
    await store.close()
    times.show()
    print(f"memory: {bare:.0f} MB before, {opened:.0f} MB opened, {resident_kb('self') / 1024:.0f} MB at the end")


def forget(path: Path) -> None:
    """Drops the file from the system's cache: the first calls read from disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def filled(folder: Path, given: argparse.Namespace) -> Path:
    """Returns the database, filled by a separate process, so that its memory is not measured."""
    path = folder / f"fringe-{given.pages}.db"
    if not path.exists():
        began = time.monotonic()
        process = multiprocessing.get_context("spawn").Process(target=fill, args=(path, given.pages, given.seed))
        process.start()
        process.join()
        print(f"filled in {time.monotonic() - began:.0f} s")
    print(f"{given.pages:,} pages, {hosts_of(given.pages):,} hosts; {path.stat().st_size / 1e6:,.0f} MB on disk")
    return path


def main() -> None:
    """Runs the benchmark and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--wanted", type=int, default=5, help="pages chosen at a time; every tenth time ten times that")
    parser.add_argument("--links", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.folder is not None:
        asyncio.run(measure(filled(given.folder, given), given))
        return
    with tempfile.TemporaryDirectory(prefix="pollerd-fringe-") as folder:
        asyncio.run(measure(filled(Path(folder), given), given))


if __name__ == "__main__":
    main()
