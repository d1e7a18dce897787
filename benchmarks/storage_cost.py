"""CPU seconds per 1,000 polls of storage: reading site contexts, committing polls.

    python benchmarks/storage_cost.py [--commits 20] [--batch 500] [--postgres URL]

Unchanged polls, then polls that each find a changed page with 12 KB of text. All threads of this process count; for
PostgreSQL on the same machine, the backends that serve the database are counted separately, read from /proc (without
the server's background work for all databases).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg
from msgspec.structs import replace

from pollerd.model import Baseline, Media, OutcomeKind, Poll, SiteState, Validators
from pollerd.site_settings import SiteSpec
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, ChangeDraft, HostUpdate, PollRecord, SiteContext

TICK = os.sysconf("SC_CLK_TCK")
WORDS = [f"word{n}" for n in range(3000)]


def page(rng: random.Random) -> bytes:
    """Returns about 12 KB of words, like visible text."""
    return " ".join(rng.choices(WORDS, k=1600)).encode()


def record(context: SiteContext, at: float, content: bytes | None, rng: random.Random) -> PollRecord:
    baseline = context.baseline
    if content is not None:
        baseline = Baseline(rng.randbytes(16), rng.randbytes(16), Media.HTML)
    kind = OutcomeKind.UNCHANGED if content is None else OutcomeKind.CHANGED
    poll = Poll(context.site_id, at, 10.0, kind, 200, 0.05, 15_000, content is not None)
    return PollRecord(
        poll,
        replace(context, validators=Validators(f'"{at}"', "Sat, 21 Nov 2026 12:00:00 GMT"), baseline=baseline),
        SiteState.ACTIVE,
        last_seen_at=at,
        content=content,
        change=None if content is None else ChangeDraft(Media.HTML, "3 lines differ", at - 10),
        learned=bytes(96),
    )


async def backends(url: str) -> list[int]:
    """Returns the process ids of the server's sessions on this database; none for SQLite."""
    if url.startswith("sqlite"):
        return []
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        rows = await connection.fetch(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()
    return [row["pid"] for row in rows]


def cpu_of(pids: Sequence[int]) -> float:
    """Returns user and system time of the processes so far (s)."""
    stats = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / TICK


async def measure(url: str, commits: int, batch: int) -> None:
    store = await Store.open(url)
    specs = [SiteSpec(f"http://host{n}.example/page/{n}") for n in range(batch * 4)]
    await store.sites.add(specs, [f"host{n}.example:80" for n in range(len(specs))], 0.0, respect_deleted=False)
    sites = [site_id async for rows, _ in store.sites.schedule.all() for site_id in rows.site_id.tolist()]
    rng = random.Random(1)
    name = url.split(":", 1)[0].split("+", 1)[0]
    for label, changed in (("unchanged", False), ("changed", True)):
        reading = writing = wall = 0.0
        await store.sites.contexts(sites[:1])
        serving = await backends(url)
        server = cpu_of(serving)
        for n in range(commits):
            chosen = sites[n % 4 * batch :][:batch]
            started = time.process_time()
            contexts = await store.sites.contexts(chosen)
            reading += time.process_time() - started
            contents = [page(rng) if changed else None for _ in chosen]
            records = [record(contexts[s], 10.0 + n, c, rng) for s, c in zip(chosen, contents, strict=True)]
            polled = Batch(records, [HostUpdate(s, 10.0 + n) for s in chosen], "whittle", bytes(2000))
            started, clock = time.process_time(), time.perf_counter()
            await store.commit(polled)
            writing += time.process_time() - started
            wall += time.perf_counter() - clock
        per = commits * batch / 1000
        print(
            f"{name:<11}{label:<10} CPU-s per 1,000 polls: read {reading / per:.4f}  commit {writing / per:.4f}"
            f"  server {(cpu_of(serving) - server) / per:.4f}   a commit of {batch} takes"
            f" {wall / commits * 1000:.0f} ms"
        )
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--batch", type=int, default=500, help="polls in a commit")
    parser.add_argument("--postgres", metavar="URL", help="an empty database to measure as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(f"sqlite:///{folder}/poll.db", arguments.commits, arguments.batch))
    if arguments.postgres:
        asyncio.run(measure(arguments.postgres, arguments.commits, arguments.batch))


if __name__ == "__main__":
    main()
