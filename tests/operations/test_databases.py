"""A full disk, a server that is stopped and comes back, a lock that is held for long: each survived, each reported."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pollerd.storage.settings import StorageSettings
from tests.daemon.conftest import Start
from tests.daemon.test_storage_trouble import (
    assert_nothing_lost_nothing_twice,
    assert_paused,
    assert_resumes,
    failing,
    watched,
)
from tests.support.origin import Origin, Page, until
from tests.support.own_postgres import OwnServer, missing
from tests.support.ports import free_port

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


@pytest.fixture
def server() -> Iterator[OwnServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    server = OwnServer(free_port(), "-h", "127.0.0.1", "-c", "fsync=off")
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.remove()


@pytest.mark.parametrize("how", ["fast", "immediate"])
async def test_postgres_stopped_and_started_again(origin: Origin, start: Start, server: OwnServer, how: str) -> None:
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
