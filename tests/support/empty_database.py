"""A migrated SQLite file with nothing in it, made once, to be copied: migrations have tests of their own."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

import pytest

from pollerd.storage.db import migrate


@functools.cache
def _made(factory: pytest.TempPathFactory) -> Path:
    file = factory.mktemp("empty") / "poll.db"
    asyncio.run(migrate.upgrade(f"sqlite+aiosqlite:///{file}"))
    # Its lock file lies beside it and is not copied.
    return file


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file, to be imported by the conftest.py of a folder that uses it."""
    return _made(tmp_path_factory)
