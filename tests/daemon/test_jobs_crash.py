"""kill -9 in the middle of a job, and of its undoing: a restart does the rest, and nothing is done twice or lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from pollerd.model import JobAction, JobState
from pollerd.site_settings import SiteSpec
from pollerd.storage.jobs import Job, JobSpec
from pollerd.storage.store import Store
from pollerd.storage.values import SiteFilter
from tests.support.origin import until_found
from tests.support.process import daemon_process

SITES = 8_000


async def reached(database: str, done: Callable[[Job], bool]) -> Job:
    """The only job, read beside the daemon, once that holds."""
    store = await Store.open(database, exclusive=False)
    try:
        return await until_found(lambda: _done(store, done), 120.0)
    finally:
        await store.close()


async def _done(store: Store, done: Callable[[Job], bool]) -> Job | None:
    job = await store.jobs.get(1)
    return job if done(job) else None


async def run_with_kills(database: str, log: Path, progress: Callable[[Job], int], rng: random.Random) -> Job:
    """Runs the job to its end by three daemons, of which two are killed on the way."""
    for least in sorted(rng.randrange(1, SITES) for _ in range(2)):
        async with daemon_process(database, log) as daemon:
            await reached(database, lambda job, n=least: job.ended_at is not None or progress(job) >= n)  # type: ignore[misc]
            await daemon.kill()
    async with daemon_process(database, log) as daemon:
        job = await reached(database, lambda job: job.ended_at is not None)
        await daemon.kill()
    return job


async def test_killed_while_sites_are_tagged_and_while_that_is_undone(any_database: str, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print("seed:", seed)  # noqa: T201  # shown with a failure
    rng, log = random.Random(seed), tmp_path / "log"
    store = await Store.open(any_database)
    specs = [SiteSpec(f"http://h/{n}", tags=("old",) if n % 3 else (), paused=True) for n in range(SITES)]
    await store.sites.add(specs, ["h:80"] * SITES, time.time(), respect_deleted=True)
    await store.jobs.start(JobSpec(JobAction.TAG, {"tag": "new"}, filter=SiteFilter()), "a test", time.time())
    await store.close()

    job = await run_with_kills(any_database, log, lambda job: job.seen, rng)
    assert (job.state, job.changed, job.refused) == (JobState.DONE, SITES, 0)
    store = await Store.open(any_database)
    assert [site.spec.tags async for site in store.sites.iterate()] == [(*spec.tags, "new") for spec in specs]
    await store.jobs.begin_undo(job.id)
    await store.close()

    job = await run_with_kills(any_database, log, lambda job: job.restored, rng)
    assert job.state is JobState.UNDONE
    store = await Store.open(any_database)
    assert [site.spec async for site in store.sites.iterate()] == specs
    await store.close()
    assert "Traceback" not in log.read_text()
