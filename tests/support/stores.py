"""What makes a store quick to open: an empty database to copy, statements that are compiled once."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Dialect

from pollerd.storage import migrate, notifications, store
from pollerd.storage.locks import WriterLocks
from pollerd.storage.notices import OutboxStatements
from pollerd.storage.statements import Statements

_MADE: list[Path] = []
"""The file of this process: each conftest.py that has the fixture would make another one."""


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with its schema and nothing in it, to be copied: migrations have tests of their own."""
    if not _MADE:
        _MADE.append(tmp_path_factory.mktemp("empty") / "poll.db")
        asyncio.run(migrate.upgrade(f"sqlite+aiosqlite:///{_MADE[0]}"))
    return _MADE[0]


@pytest.fixture(scope="session", autouse=True)
def statements_are_compiled_once() -> Iterator[None]:
    """Stores of one writer share their statements in this process; compiling them is most of opening a store."""
    compiled: dict[object, Statements] = {}

    def statements(dialect: Dialect, locks: WriterLocks | None = None) -> Statements:
        if locks is not None and locks.several:
            return Statements(dialect, locks)
        kind = (dialect.name, getattr(dialect, "server_version_info", None))
        return compiled.setdefault(kind, compiled.get(kind) or Statements(dialect, locks))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "Statements", statements)
        patch.setattr(notifications, "OutboxStatements", functools.cache(OutboxStatements))
        yield
