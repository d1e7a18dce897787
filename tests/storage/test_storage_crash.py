"""kill -9: what was committed stands whole, and the lock is free at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from pollerd.errors import DatabaseInUseError
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from tests.storage.samples import file_of, learned_of, query, schedule_of
from tests.storage.writer import SITES

TESTS = Path(__file__).parents[1]


@contextmanager
def writer(url: str) -> Iterator[IO[str]]:
    """The writer's output; it is killed at the end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    command = [sys.executable, "-m", "storage.writer", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "open\n"
            yield process.stdout
        finally:
            process.kill()


async def test_killed_in_the_middle_of_commits(url: str) -> None:
    reported = 0
    for commits in (3, 5, 8):
        with writer(url) as output:
            for _ in range(commits):
                reported = int(output.readline())
        store = await Store.open(url)
        rows = await schedule_of(store)
        [done] = set(rows.polls.tolist())
        assert done in (reported, reported + 1), "all that was reported, and at most the one under way"
        assert set(rows.changes.tolist()) == {done - 1}
        assert set(rows.last_poll_at.tolist()) == {float(done)}
        _, states = await learned_of(store, "whittle")
        assert {bytes(s) for s in states} == {done.to_bytes(8, "big")}
        contexts = await store.sites.contexts(rows.site_id.tolist())
        contents = await store.contents.load([m.content_id or 0 for m in contexts.values()])
        assert set(contents.values()) == {b"content %d " % done * 50}
        await store.close()
        assert await query(url, "SELECT count(*), count(DISTINCT site_id) FROM poll") == [(done * SITES, SITES)]
        assert await query(url, 'SELECT count(*) FROM "change"') == [((done - 1) * SITES,)]


async def test_the_lock_dies_with_its_process(url: str, settings: StorageSettings) -> None:
    with writer(url) as output:
        output.readline()
        with pytest.raises(DatabaseInUseError):
            await Store.open(url, settings=settings)
        reader = await Store.open(url, settings=settings, exclusive=False)
        assert len(await schedule_of(reader)) == SITES
        await reader.close()
    store = await Store.open(url, settings=settings)
    await store.close()


async def test_the_lock_names_its_holder(sqlite_url: str) -> None:
    store = await Store.open(sqlite_url)
    assert file_of(sqlite_url).with_name("poll.db.lock").read_text() == f"{os.getpid()}\n"
    with pytest.raises(DatabaseInUseError, match=str(os.getpid())):
        await Store.open(sqlite_url)
    await store.close()
