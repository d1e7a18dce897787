"""Commits ready batches of polls for a while, nothing fetched; a part of `postgres_throughput.py`.

    python benchmarks/commit_load.py URL BATCH SECONDS [--changes N] [--writer NAME]

With `--writer` it is one of several writers of one database, each of which has sites of its own.

Writes "ready" once sites are there and the first batches are committed. For each line "go" it commits for SECONDS, and
writes what that took: polls, commits, CPU (s, of this process, for commits and contexts) and seconds, as JSON. Any
other line ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time

from storage_cost import page, record

from pollerd.site_settings import SiteSpec
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, HostUpdate

BATCHES_OF_SITES = 20


async def main(url: str, size: int, seconds: float, changes: int, writer: str) -> None:
    """Makes the sites, then commits."""
    store, rng = await Store.open(url, several_writers=bool(writer), writer=writer), random.Random(1)
    try:
        numbers = range(size * BATCHES_OF_SITES)
        specs = [SiteSpec(f"http://host{writer}{n}.example/page/{n}") for n in numbers]
        hosts = [f"host{writer}{n}.example:80" for n in numbers]
        added = (await store.sites.add(specs, hosts, 0.0, respect_deleted=False)).added
        sites = [site_id for site_id, _, _ in added]
        rows, _ = await store.sites.schedule.of(sites)
        host_of = dict(zip(rows.site_id.tolist(), rows.host_id.tolist(), strict=True))
        commits = 0

        async def commit() -> float:
            nonlocal commits
            chosen = sites[commits % BATCHES_OF_SITES * size :][:size]
            begun = time.process_time()
            contexts = await store.sites.contexts(chosen)
            making = time.process_time()
            at = time.time()
            found = [page(rng) if changes and rng.random() * changes < 1 else None for _ in chosen]
            records = [record(contexts[s], at, one, rng) for s, one in zip(chosen, found, strict=True)]
            batch = Batch(records, [HostUpdate(host_of[s], at) for s in chosen], "whittle")
            made = time.process_time()
            await store.commit(batch)
            commits += 1
            return making - begun + time.process_time() - made

        for _ in range(BATCHES_OF_SITES):
            await commit()
        print("ready", flush=True)
        while (await asyncio.to_thread(sys.stdin.readline)).strip() == "go":
            before, begun, cpu = commits, time.monotonic(), 0.0
            while time.monotonic() - begun < seconds:
                cpu += await commit()
            done = commits - before
            print(
                json.dumps({"polls": done * size, "commits": done, "cpu": cpu, "seconds": time.monotonic() - begun}),
                flush=True,
            )
    finally:
        await store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("url")
    parser.add_argument("batch", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--changes", type=int, default=0)
    parser.add_argument("--writer", default="")
    given = parser.parse_args()
    asyncio.run(main(given.url, given.batch, given.seconds, given.changes, given.writer))
