"""The databases that tests are given: as new each time, without migrating, and none is left of a killed run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pollerd.storage import migrate
from pollerd.storage.store import Store
from tests.storage.samples import add, poll_all, query
from tests.support import postgres

ROOT = Path(__file__).parents[2]
KILLED = """
import os, signal
from tests.support.postgres import postgres_database
with postgres_database(migrated=False) as url:
    print(url, flush=True)
    input()
    os.kill(os.getpid(), signal.SIGKILL)
"""
LATER = """
from tests.support import AT_SESSION_END
from tests.support.postgres import execute
execute("SELECT 1")
AT_SESSION_END.pop()()
"""


async def test_they_stand_where_a_migrated_database_stands(url: str) -> None:
    assert await migrate.current(url) == migrate.head()


async def test_one_that_was_never_migrated_has_no_tables(new_postgres_url: str) -> None:
    assert await migrate.current(new_postgres_url) is None


async def exists(url: str) -> bool:
    return (url.rsplit("/", 1)[-1],) in await query(postgres.server_url(), "SELECT datname FROM pg_database")


EVERYTHING = """
SELECT (SELECT version_num FROM alembic_version), (SELECT count(*) FROM site), (SELECT count(*) FROM poll),
       (SELECT bytes FROM content_total), (SELECT count(*) FROM pg_tables WHERE schemaname = 'public')
"""


async def test_the_next_has_nothing_of_the_one_before(postgres_url: str) -> None:
    ids = []
    before = await query(postgres_url, EVERYTHING)
    for _ in range(2):
        with postgres.postgres_database() as url:
            assert await query(url, EVERYTHING) == before
            store = await Store.open(url)
            ids.append(await add(store, 3))
            await poll_all(store, ids[-1], 10.0, b"content")
            await store.close()
            assert await query(url, EVERYTHING) != before
    assert ids[0] == ids[1] == [1, 2, 3]


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE more (id integer)",
        "ALTER TABLE site ADD COLUMN more integer",
        "ALTER TABLE site ALTER COLUMN url DROP NOT NULL",
        'ALTER DATABASE "{name}" SET statement_timeout = 10000',
        'ALTER DATABASE "{name}" CONNECTION LIMIT 3',
    ],
)
async def test_one_that_was_changed_is_nobody_elses(change: str) -> None:
    with postgres.postgres_database() as url:
        await query(url, change.format(name=url.rsplit("/", 1)[-1]))
    assert not await exists(url)
    with postgres.postgres_database() as another:
        assert another != url


async def test_the_next_run_drops_what_a_killed_one_left(postgres_url: str) -> None:
    def run(program: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", program], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    with run(KILLED) as killed:
        assert killed.stdout is not None
        left = killed.stdout.readline().strip()
        with run(LATER) as later:
            assert later.wait() == 0
        assert await exists(left), "its run goes on"
        killed.communicate("\n")
        assert killed.returncode == -signal.SIGKILL
    with run(LATER) as later:
        assert later.wait() == 0
    assert not await exists(left)
    assert await exists(postgres_url), "ours is still at work"
