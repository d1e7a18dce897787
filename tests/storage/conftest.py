"""Every test that asks for `store` or `url` runs on both databases: empty ones with pollerd's tables."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from tests.storage.samples import file_of
from tests.support.postgres import postgres_database
from tests.support.stores import empty_database as empty_database
from tests.support.stores import statements_are_compiled_once as statements_are_compiled_once


@pytest.fixture
def new_sqlite_url(tmp_path: Path) -> str:
    """A file that does not exist yet, in a folder whose name needs quoting."""
    folder = tmp_path / "a b%20?#c"
    folder.mkdir()
    return f"sqlite+aiosqlite:///{str(folder / 'poll.db').replace('%', '%25').replace('?', '%3F')}"


@pytest.fixture
def sqlite_url(new_sqlite_url: str, empty_database: Path) -> str:
    shutil.copy(empty_database, file_of(new_sqlite_url))
    return new_sqlite_url


@pytest.fixture
def postgres_url() -> Iterator[str]:
    with postgres_database() as url:
        yield url


@pytest.fixture
def new_postgres_url() -> Iterator[str]:
    """A database without tables."""
    with postgres_database(migrated=False) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest) -> str:
    """A database that was never migrated."""
    value: str = request.getfixturevalue(f"new_{request.param}_url")
    return value


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    value: str = request.getfixturevalue(f"{request.param}_url")
    return value


@pytest.fixture
def settings() -> StorageSettings:
    return StorageSettings(keep_contents=3, busy_timeout_seconds=0.2)


@pytest.fixture
async def store(url: str, settings: StorageSettings) -> AsyncIterator[Store]:
    opened = await Store.open(url, settings=settings)
    yield opened
    await opened.close()
