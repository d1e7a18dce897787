"""Nodes of the version before the hosts were claimed by rows, built as a wheel, and of this one on one database."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from pollerd.storage import migrate
from tests.storage.samples import query
from tests.support.origin import Origin, Page, until_found
from tests.support.ports import free_port
from tests.support.postgres import postgres_database

ROOT = Path(__file__).parents[2]
OLD = "2bf97165"
"""The last commit before nodes asked one another through the database; its schema is 0035."""
HOSTS, HOST_SECONDS = 24, 1.0
PAGES = [f"/p{n}" for n in range(3)]


@pytest.fixture(scope="module")
def old_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the older version, as its wheel holds it."""
    folder = tmp_path_factory.mktemp("old")

    def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)

    if git("cat-file", "-e", f"{OLD}^{{commit}}").returncode:
        whole = git("rev-parse", "--is-shallow-repository").stdout.strip() == b"false"
        assert not (whole and os.environ.get("CI")), f"the history is whole, but has no commit {OLD}"
        pytest.skip(f"commit {OLD} is not in this copy of the history: git fetch --unshallow")
    source = folder / "source"
    source.mkdir()
    subprocess.run(["tar", "-x", "-C", source], input=git("archive", OLD).stdout, check=True)
    subprocess.run(
        [
            sys.executable,
            "-c",
            "from hatchling.cli import hatchling; hatchling()",
            "build",
            "-t",
            "wheel",
            "-d",
            folder,
        ],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "installed")
    return folder / "installed"


@pytest.fixture
def database() -> Iterator[str]:
    with postgres_database(migrated=False) as url:
        yield url


class Process:
    """A node as a process."""

    def __init__(self, name: str, database: str, folder: Path, code: Path) -> None:
        self.name, self.log, self.port = name, folder / f"{name}.log", free_port()
        self._database, self._code, self._folder = database, code, folder
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, *arguments: str, code: Path | None = None) -> None:
        """Starts it, and waits until it answers."""
        self._code = code or self._code
        fast = (
            "--host-interval",
            f"{HOST_SECONDS}s",
            "--min-interval",
            "0",
            "--min-yield",
            "0",
            "--total-timeout",
            "2s",
        )
        usual = ("--budget", "30", "--max-interval", "60s", "--allow-private", "--no-web")
        where = ("--node", self.name, "--database", self._database, "--listen", f"127.0.0.1:{self.port}")
        env = {name: value for name, value in os.environ.items() if not name.startswith("POLLERD_")}
        with self.log.open("ab") as out:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pollerd", "run", *arguments, *fast, *usual, *where),
                stdout=out,
                stderr=out,
                cwd=self._folder,
                env={**env, "PYTHONPATH": str(self._code)},
            )

    async def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 60)

    async def get(self, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
        """Status and answer; 0: none."""
        timeout = aiohttp.ClientTimeout(10)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(method, f"http://127.0.0.1:{self.port}{path}", json=body) as answer,
            ):
                return answer.status, await answer.json()
        except (aiohttp.ClientError, TimeoutError):
            return 0, None


@asynccontextmanager
async def processes(*all_: Process) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for one in all_:

            async def end(one: Process = one) -> None:
                if one.process is not None:
                    await one.end(signal.SIGKILL)

            stack.push_async_callback(end)
        yield


async def held_by(database: str) -> dict[str, int]:
    """How many partitions each node holds, by name."""
    rows = await query(
        database,
        "SELECT n.name, count(*) FROM holding h JOIN node n ON n.id = h.node_id WHERE h.unit >= 0 GROUP BY 1",
    )
    return dict(rows)


async def until_held(database: str, *names: str) -> None:
    """Waits until these nodes have all partitions: equally many of them, or of sites."""

    async def even() -> bool:
        held = await held_by(database)
        return set(held) == set(names) and sum(held.values()) == 64 and min(held.values()) >= 5

    await until_found(even)


async def until_polled(database: str, origin: Origin) -> None:
    """Waits until each page was polled again, and its poll stored."""
    since = max(hit.at for hit in origin.hits())
    before = dict(await query(database, "SELECT site_id, count(*) FROM poll GROUP BY 1"))

    async def again() -> bool:
        now = dict(await query(database, "SELECT site_id, count(*) FROM poll GROUP BY 1"))
        return len(now) == HOSTS * len(PAGES) and all(now[one] > before.get(one, 0) + 1 for one in now)

    await until_found(again)
    assert max(hit.at for hit in origin.hits()) > since


def check_hosts(origin: Origin) -> None:
    times: defaultdict[str, list[float]] = defaultdict(list)
    for hit in origin.hits():
        times[hit.host].append(hit.at)
    assert len(times) == HOSTS
    for host, its in times.items():
        assert np.diff(its).min(initial=np.inf) > 0.9 * HOST_SECONDS, host


async def test_nodes_are_upgraded_one_by_one_while_all_poll(
    old_wheel: Path, database: str, origin: Origin, tmp_path: Path
) -> None:
    origin.pages |= {path: Page(body="<p>first</p>") for path in PAGES}
    urls = [origin.url(path, host=f"127.0.1.{n}") for n in range(1, HOSTS + 1) for path in PAGES]
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    a, b, c = (
        Process(name, database, tmp_path, code) for name, code in zip("abc", (old_wheel, old_wheel, ROOT), strict=True)
    )
    async with processes(a, b, c):
        await a.start(str(tmp_path / "urls.txt"))
        await until_found(lambda: ready(a))
        await b.start()
        await until_held(database, "a", "b")
        await until_polled(database, origin)
        assert await migrate.current(database) == "0035"

        # A newer one joins: it migrates beside the others, which go on.
        await c.start()
        await until_held(database, "a", "b", "c")
        assert await migrate.current(database) == migrate.head()
        assert "migrated_beside_nodes" in c.log.read_text()
        await until_polled(database, origin)
        status, refused = await c.get("/api/v1/cluster/nodes/c", "PATCH", {"drained": True})
        assert (status, "a (0.1.0), b (0.1.0) would not take what node c hands over" in refused["detail"]) == (
            409,
            True,
        )
        assert [(one["name"], one["version"]) for one in (await c.get("/api/v1/cluster"))[1]["nodes"]] == [
            (name, "0.1.0") for name in "abc"
        ]
        theirs = await query(
            database,
            "SELECT s.id FROM site s JOIN host_partition p ON p.host_id = s.host_id"
            " JOIN holding h ON h.unit = p.partition JOIN node n ON n.id = h.node_id WHERE n.name = 'a' LIMIT 1",
        )
        status, refused = await c.get(f"/api/v1/sites/{theirs[0][0]}/explain")
        assert (status, "node a, which polls" in refused["detail"], "upgrade it" in refused["detail"]) == (
            503,
            True,
            True,
        )
        for page in origin.pages.values():
            page.body = "<p>second, which is another text</p>"

        # One dies: old and new take over what it held, and its roles.
        await a.end(signal.SIGKILL)
        await until_held(database, "b", "c")
        await until_polled(database, origin)
        await a.start()  # its old program
        assert await a.end(signal.SIGCONT) != 0
        assert "is newer than this program (up to 0035); upgrade pollerd" in a.log.read_text()
        await a.start(code=ROOT)
        await until_held(database, "a", "b", "c")
        assert await b.end(signal.SIGTERM) == 0
        await b.start(code=ROOT)
        await until_held(database, "a", "b", "c")
        await until_polled(database, origin)

        # Only now all that is new works.
        assert (await c.get("/api/v1/cluster/nodes/a", "PATCH", {"drained": True}))[0] == 200
        await until_held(database, "b", "c")
        assert (await c.get(f"/api/v1/sites/{theirs[0][0]}/explain"))[0] == 200
        await until_polled(database, origin)
        for one in (a, b, c):
            assert await one.end(signal.SIGTERM) == 0
    check_hosts(origin)
    for one in (a, b, c):
        assert "Traceback" not in one.log.read_text()
    polls = (await query(database, "SELECT count(*) FROM poll"))[0][0]
    asked = sum(hit.path in origin.pages for hit in origin.hits())
    assert asked - 40 <= polls <= asked, "no poll twice, none lost but with the node that was killed"
    assert await query(database, "SELECT count(*), count(DISTINCT site_id) FROM change") == [(len(urls), len(urls))]


async def ready(one: Process) -> bool:
    return (await one.get("/readyz"))[0] == 200
