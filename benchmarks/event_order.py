"""What the lock costs that numbers events in the order of commits, with several processes that write at once.

    python benchmarks/event_order.py --postgres URL [--rounds 12] [--writers 1,2,4] [--batch 10] [--changes 3]

Each process commits batches of polls as fast as it can, some of which found a change (without contents, so that little
hides the lock). Three ways, in turn for a second each, by the same processes, as the machine is not always equally
busy: `none`: numbers are drawn as they come; `lock`: the lock, without NOTIFY; `lock+notify`: as the product does. Says
commits per second, CPU per commit of the writing processes and of the server's sessions (from /proc: the server must
run on this machine), and median and 99th percentile of the time that a commit takes. The database must be one that may
be thrown away.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from typing import Any
from unittest import mock

import numpy as np
from storage_cost import cpu_of

from pollerd.model import Media, OutcomeKind, Poll, SiteState
from pollerd.site_settings import SiteSpec
from pollerd.storage.locks import WriterLocks
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, ChangeDraft, PollRecord, SiteContext

WAYS = ("none", "lock", "lock+notify")
SITES = 400
SECONDS = 1.0
PATIENT = StorageSettings(busy_timeout_seconds=60.0)


@dataclass
class Spent:
    """What one process spent in one way: seconds of CPU of its own and of its session, and of each commit."""

    cpu: float = 0.0
    server: float = 0.0
    times: list[float] = field(default_factory=list)


def record(context: SiteContext, at: float, *, changed: bool) -> PollRecord:
    kind = OutcomeKind.CHANGED if changed else OutcomeKind.UNCHANGED
    poll = Poll(context.site_id, at, 10.0, kind, 200, 0.05, 15_000, changed)
    change = ChangeDraft(Media.HTML, "3 lines differ", at - 10) if changed else None
    return PollRecord(poll, context, SiteState.ACTIVE, last_seen_at=at, change=change, learned=bytes(96))


async def opened(url: str, way: str, number: int) -> Store:
    """Returns a store that leaves out what is not measured."""
    with mock.patch.object(WriterLocks, "several", way == "lock+notify"):  # while statements are made
        store = await Store.open(url, settings=PATIENT, several_writers=True, writer=f"{way} {number}")
    if way == "none":
        mock.patch.object(store._sql.locks, "number_events").start()  # noqa: SLF001
    await store.runs.start("benchmark", 1.0)
    return store


async def site_ids(store: Store) -> list[int]:
    return [one async for piece, _ in store.sites.schedule.all() for one in piece.site_id.tolist()]


async def write(url: str, number: int, of: int, options: argparse.Namespace, gate: Barrier) -> dict[str, Spent]:
    """Commits in each way in turn; returns what was spent, by way."""
    stores = {way: await opened(url, way, number) for way in WAYS}
    mine = (await site_ids(stores["none"]))[number::of]
    contexts = await stores["none"].sites.contexts(mine)
    pids = {}
    for way, store in stores.items():
        pids[way] = await store.database.write(lambda c: c.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
    spent, n = {way: Spent() for way in WAYS}, 0
    for turn in range(options.rounds + 1):
        if turn == 1:  # the first was to warm up
            spent = {way: Spent() for way in WAYS}
        for way, store in stores.items():
            await asyncio.to_thread(gate.wait)
            end = time.perf_counter() + SECONDS
            spent[way].cpu -= time.process_time()
            spent[way].server -= cpu_of([pids[way]])
            while (started := time.perf_counter()) < end:
                n += 1
                chosen = [mine[(n * options.batch + k) % len(mine)] for k in range(options.batch)]
                records = [record(contexts[s], float(n), changed=k < options.changes) for k, s in enumerate(chosen)]
                await store.commit(Batch(records, allocator="whittle"))
                spent[way].times.append(time.perf_counter() - started)
            spent[way].cpu += time.process_time()
            spent[way].server += cpu_of([pids[way]])
    for store in stores.values():
        await store.close()
    return spent


def process(results: Any, *arguments: Any) -> None:
    results.put(asyncio.run(write(*arguments)))


async def prepare(url: str) -> None:
    store = await Store.open(url)
    if not await site_ids(store):
        specs = [SiteSpec(f"http://host{n}.example/") for n in range(SITES)]
        await store.sites.add(specs, [f"host{n}.example:80" for n in range(SITES)], 1.0, respect_deleted=True)
    await store.close()


def measure(url: str, writers: int, options: argparse.Namespace) -> None:
    context = multiprocessing.get_context("spawn")
    gate, results = context.Barrier(writers), context.Queue()
    arguments = [(results, url, n, writers, options, gate) for n in range(writers)]
    running = [context.Process(target=process, args=each) for each in arguments]
    for one in running:
        one.start()
    found: list[dict[str, Spent]] = [results.get() for _ in running]
    for one in running:
        one.join()
    for way in WAYS:
        times = np.array([t for each in found for t in each[way].times]) * 1e3
        cpu = sum(each[way].cpu for each in found) * 1e3 / len(times)
        server = sum(each[way].server for each in found) * 1e3 / len(times)
        middle, late = np.percentile(times, [50, 99])
        rate = len(times) / options.rounds / SECONDS
        print(f"| {writers} | {way} | {rate:.0f} | {cpu:.2f} | {server:.2f} | {middle:.1f} | {late:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--writers", default="1,2,4")
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--changes", type=int, default=3)
    options = parser.parse_args()
    asyncio.run(prepare(options.postgres))
    print("| writers | way | commits/s | process, ms CPU | server, ms CPU | median, ms | 99 %, ms |")
    for writers in map(int, options.writers.split(",")):
        measure(options.postgres, writers, options)


if __name__ == "__main__":
    main()
