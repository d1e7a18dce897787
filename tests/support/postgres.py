"""A PostgreSQL database of a test's own, created and dropped around it."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest

DEFAULT_URL = "postgresql+asyncpg://postgres@127.0.0.1:5432/test"


def server_url() -> str:
    """Where tests find a server on which they may create databases (TEST_POSTGRES_URL)."""
    return os.environ.get("TEST_POSTGRES_URL", DEFAULT_URL)


@contextmanager
def postgres_database() -> Iterator[str]:
    """The URL of a new, empty database. Skips the test where no server answers; under CI that is a failure."""
    name = f"pollerd_test_{uuid.uuid4().hex[:12]}"
    try:
        _run(f'CREATE DATABASE "{name}"')
    except OSError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no PostgreSQL answers at {server_url().rsplit('@', 1)[-1]}: {error}")
    try:
        yield server_url().rsplit("/", 1)[0] + f"/{name}"
    finally:
        _run(f'DROP DATABASE "{name}" WITH (FORCE)')


def empty(url: str) -> None:
    """Make a database of ours as new, and end whatever is still connected to it: far quicker than another one."""
    name = url.rsplit("/", 1)[-1]
    _run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    _run("DROP SCHEMA public CASCADE", url=url)
    _run("CREATE SCHEMA public", url=url)


def execute(sql: str, *arguments: Any) -> None:
    """Run a statement on the server's maintenance database, as the tests' administrator."""
    _run(sql, *arguments)


def _plain(url: str) -> str:
    return url.replace("postgresql+asyncpg://", "postgresql://")


def _run(sql: str, *arguments: Any, url: str | None = None) -> None:
    async def work() -> None:
        connection = await asyncpg.connect(_plain(url or server_url()), timeout=5)
        try:
            await connection.execute(sql, *arguments)
        finally:
            await connection.close()

    # A thread of its own: the test's event loop may be running already.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work()).result()
