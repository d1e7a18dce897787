"""Methods that are transactions: awaited alone, as a part of another, refused, and read in pieces."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Sequence
from typing import assert_type

import pytest
from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from pollerd.errors import DuplicateError
from pollerd.storage.engine import Database
from pollerd.storage.schema import deleted_url
from pollerd.storage.store import Store
from pollerd.storage.transactions import Subject, Transaction, in_pieces, reads, writes


class Urls(Subject):
    """URLs with a time each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.threads = set[int]()

    @reads
    def all(self, connection: Connection, *, after: str = "") -> list[str]:
        """Returns the URLs after this one."""
        self.threads.add(threading.get_ident())
        c = deleted_url.c
        return list(connection.execute(select(c.url).where(c.url > after).order_by(c.url)).scalars())

    @writes
    def add(self, connection: Connection, url: str, at: float = 1.0) -> int:
        """Adds one; returns how many there are. Raises `DuplicateError`."""
        if url in self.all.within(connection):
            raise DuplicateError("url", url, 0)
        connection.execute(insert(deleted_url).values(url=url, deleted_at=at))
        return len(self.all.within(connection))

    @writes
    def add_both(self, connection: Connection, first: str, second: str) -> int:
        """Adds two, or none."""
        assert_type(self.add.within(connection, first, at=2.0), int)
        return self.add.within(connection, second)

    @reads
    def write_nevertheless(self, connection: Connection) -> None:
        """Adds the same twice."""
        connection.execute(insert(deleted_url), [{"url": "same", "deleted_at": 1.0}] * 2)


@pytest.fixture
def urls(store: Store) -> Urls:
    return Urls(store.database)


async def test_it_is_awaited_as_an_asynchronous_method_is(urls: Urls) -> None:
    assert_type(await urls.add("b"), int)
    assert await urls.add("a", at=2.0) == 2
    assert assert_type(await urls.all(), list[str]) == ["a", "b"]
    assert await urls.all(after="a") == ["b"]


async def test_one_within_another_is_the_same_transaction(urls: Urls) -> None:
    assert await urls.add_both("a", "b") == 2
    with pytest.raises(DuplicateError):
        await urls.add_both("c", "a")
    assert await urls.all() == ["a", "b"]


async def test_errors_of_ours_leave_it_as_they_are(urls: Urls) -> None:
    with pytest.raises(IntegrityError):
        await urls.write_nevertheless()


async def test_calls_are_values_of_their_own(urls: Urls, store: Store) -> None:
    other = Urls(store.database)
    add = urls.add
    await asyncio.gather(*(add(f"{i}") for i in range(5)), *(other.add(f"{i}") for i in range(5, 9)))
    assert len(await other.all()) == 9


async def test_sqlite_runs_it_in_a_thread_and_postgres_in_the_loop(urls: Urls, store: Store) -> None:
    await urls.all()
    assert (threading.get_ident() in urls.threads) != store.database.is_sqlite


def test_help_shows_it_as_it_is_called(urls: Urls) -> None:
    assert isinstance(Urls.add, Transaction)
    for one in (Urls.add, urls.add):
        assert one.__name__ == "add"
        assert inspect.getdoc(one) == "Adds one; returns how many there are. Raises `DuplicateError`."
    assert list(inspect.signature(urls.add).parameters) == ["url", "at"]


async def test_it_can_be_replaced_in_one_object(urls: Urls, monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(*, after: str = "") -> list[str]:
        return []

    await urls.add("a")
    monkeypatch.setattr(urls, "all", none)
    assert await urls.all() == []


async def test_pieces_end_with_one_that_has_no_ids() -> None:
    asked = []

    async def read(after: int) -> Sequence[int]:
        asked.append(after)
        return [each for each in range(7) if each > after][:3]

    assert [piece async for piece in in_pieces(read, lambda piece: piece)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert asked == [-1, 2, 5, 6]
    assert [piece async for piece in in_pieces(read, lambda piece: piece, after=5)] == [[6]]
