"""A full disk, a server that is stopped and comes back, a lock that is held for long: each survived, each reported."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pollerd.storage import StorageSettings
from tests.daemon.conftest import Start
from tests.daemon.test_storage_trouble import (
    assert_nothing_lost_nothing_twice,
    assert_paused,
    assert_resumes,
    failing,
    watched,
)
from tests.support.origin import Origin, Page, until

IMPATIENT = StorageSettings(busy_timeout_seconds=0.2, connect_timeout_seconds=5.0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk(origin: Origin, start: Start, small_disk: Path) -> None:
    url = f"sqlite+aiosqlite:///{small_disk / 'poll.db'}"
    async with start(url=url, storage=IMPATIENT) as running:
        site_id = await watched(running, origin)
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4_096):
                continue
        origin.pages["/0"] = Page("<p>three</p>")
        why = await failing(running)
        assert "full" in why or "disk I/O" in why
        await assert_paused(origin)
        ballast.unlink()
        await assert_resumes(running, origin)
        await until(lambda: running.control.health.status().changes == 2)
        await assert_nothing_lost_nothing_twice(running, origin, site_id, "/0")


class Server:
    """A PostgreSQL of the test's own, to be stopped and started at will."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self._folder, self._binaries = folder, binaries
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    @property
    def url(self) -> str:
        return f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        self._run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self._folder} -c fsync=off"
        self._run("pg_ctl", "-D", "data", "-l", "log", "-o", options, "-w", "-t", "120", "start")

    def stop(self, how: str) -> None:
        self._run("pg_ctl", "-D", "data", "-m", how, "-w", "-t", "120", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        said = self._folder / "out"
        with said.open("ab") as out:  # no pipe: the server would hold it open
            done = subprocess.run(
                [str(self._binaries / program), *arguments],
                cwd=self._folder,
                user="postgres" if os.geteuid() == 0 else None,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=180,
            )
        assert done.returncode == 0, said.read_text()


@pytest.fixture
def server() -> Iterator[Server]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = found[-1] if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("no PostgreSQL server is installed here")
    folder = Path(tempfile.mkdtemp(prefix="pollerd-pg-"))  # a short path: the socket stands in it
    if os.geteuid() == 0:
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    server = Server(folder, Path(initdb).parent)
    try:
        server.make()
        server.start()
        yield server
        with contextlib.suppress(AssertionError):
            server.stop("immediate")
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("how", ["fast", "immediate"])
async def test_postgres_stopped_and_started_again(origin: Origin, start: Start, server: Server, how: str) -> None:
    async with start(url=server.url, storage=IMPATIENT) as running:
        site_id = await watched(running, origin)
        await asyncio.to_thread(server.stop, how)
        origin.pages["/0"] = Page("<p>three</p>")
        assert await failing(running)
        await assert_paused(origin)
        assert running.control.health.alive()
        await asyncio.to_thread(server.start)
        await assert_resumes(running, origin)
        await until(lambda: running.control.health.status().changes == 2)
        await assert_nothing_lost_nothing_twice(running, origin, site_id, "/0")


async def test_locked_for_long(origin: Origin, start: Start, database: str) -> None:
    """Longer than any wait of SQLite's own: tried again and again meanwhile, and said once."""
    async with start(storage=StorageSettings(busy_timeout_seconds=0.1)) as running:
        site_id = await watched(running, origin)
        other = sqlite3.connect(database.removeprefix("sqlite+aiosqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            assert "locked" in await failing(running)
            await asyncio.sleep(4)  # five tries by then
            origin.pages["/0"] = Page("<p>three</p>")
            assert running.control.health.alive()
        finally:
            other.close()
        await assert_resumes(running, origin)
        await until(lambda: running.control.health.status().changes == 2)
        await assert_nothing_lost_nothing_twice(running, origin, site_id, "/0")
