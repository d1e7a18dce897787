"""CPU seconds per 1,000 polls that storage takes: memories read, polls committed, 500 a commit.

    python benchmarks/storage_cost.py [--commits 20] [--postgres URL]

Unchanged polls, then polls that each find a changed page with 12 KB of text. SQLite counts this process, all of its
threads; PostgreSQL counts this process only, the server's share is its own.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time

from msgspec.structs import replace

from pollerd.model import Baseline, Media, OutcomeKind, Poll, SiteSpec, SiteState, Validators
from pollerd.storage import Batch, ChangeDraft, HostUpdate, PollRecord, SiteMemory, Store

BATCH = 500
WORDS = [f"word{n}" for n in range(3000)]


def page(rng: random.Random) -> bytes:
    """About 12 KB of words, as visible text is."""
    return " ".join(rng.choices(WORDS, k=1600)).encode()


def record(memory: SiteMemory, at: float, content: bytes | None, rng: random.Random) -> PollRecord:
    baseline = memory.baseline
    if content is not None:
        baseline = Baseline(rng.randbytes(16), rng.randbytes(16), Media.HTML)
    kind = OutcomeKind.UNCHANGED if content is None else OutcomeKind.CHANGED
    poll = Poll(memory.site_id, at, 10.0, kind, 200, 0.05, 15_000, content is not None)
    return PollRecord(
        poll,
        replace(memory, validators=Validators(f'"{at}"', "Sat, 21 Nov 2026 12:00:00 GMT"), baseline=baseline),
        SiteState.ACTIVE,
        last_seen_at=at,
        content=content,
        change=None if content is None else ChangeDraft(Media.HTML, "3 lines differ", at - 10),
        learned=bytes(96),
    )


async def measure(url: str, commits: int) -> None:
    store = await Store.open(url)
    specs = [SiteSpec(f"http://host{n}.example/page/{n}") for n in range(BATCH * 4)]
    await store.add_sites(specs, [f"host{n}.example:80" for n in range(len(specs))], 0.0, respect_deleted=False)
    sites = [site_id async for rows, _ in store.schedule() for site_id in rows.site_id.tolist()]
    rng = random.Random(1)
    name = url.split(":", 1)[0].split("+", 1)[0]
    for label, changed in (("unchanged", False), ("changed", True)):
        reading = writing = wall = 0.0
        for n in range(commits):
            chosen = sites[n % 4 * BATCH :][:BATCH]
            started = time.process_time()
            memories = await store.load_memories(chosen)
            reading += time.process_time() - started
            contents = [page(rng) if changed else None for _ in chosen]
            records = [record(memories[s], 10.0 + n, c, rng) for s, c in zip(chosen, contents, strict=True)]
            batch = Batch(records, [HostUpdate(s, 10.0 + n) for s in chosen], "whittle", bytes(2000))
            started, clock = time.process_time(), time.perf_counter()
            await store.commit(batch)
            writing += time.process_time() - started
            wall += time.perf_counter() - clock
        per = commits * BATCH / 1000
        print(
            f"{name:<11}{label:<10} CPU-s per 1,000 polls: read {reading / per:.4f}  commit {writing / per:.4f}"
            f"   a commit of {BATCH} takes {wall / commits * 1000:.0f} ms"
        )
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--postgres", metavar="URL", help="an empty database to measure as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(f"sqlite:///{folder}/poll.db", arguments.commits))
    if arguments.postgres:
        asyncio.run(measure(arguments.postgres, arguments.commits))


if __name__ == "__main__":
    main()
