"""Every test that asks for `store` or `url` runs on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pollerd.storage import StorageSettings, Store
from tests.support.postgres import empty, postgres_database


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file that does not exist yet, in a folder whose name needs quoting."""
    folder = tmp_path / "a b%20?#c"
    folder.mkdir()
    return f"sqlite+aiosqlite:///{str(folder / 'poll.db').replace('%', '%25').replace('?', '%3F')}"


@pytest.fixture(scope="session")
def postgres_of_session() -> Iterator[str]:
    with postgres_database() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_of_session: str) -> str:
    empty(postgres_of_session)
    return postgres_of_session


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
