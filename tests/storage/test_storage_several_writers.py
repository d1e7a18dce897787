"""Several daemons that write into one PostgreSQL database at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.engine import make_url
from sqlalchemy.util import await_only

from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError, InvalidValueError
from pollerd.events import EventKind, Notice
from pollerd.storage import changes, locks, runs
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.runs import raise_numbers
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, PruneResult
from tests.storage.samples import add, poll_all, query, record, retry_while_unavailable
from tests.support.postgres import execute

T = TypeVar("T")
PATIENCE_SECONDS = 60.0
PATIENT = StorageSettings(busy_timeout_seconds=PATIENCE_SECONDS, keep_contents=2)


@asynccontextmanager
async def writers(url: str, *names: str) -> AsyncIterator[list[Store]]:
    stores = [await Store.open(url, settings=PATIENT, several_writers=True, writer=name) for name in names]
    try:
        for store in stores:
            await store.runs.start("1", 1.0)
        yield stores
    finally:
        for store in stores:
            await store.close()


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is ended for being slow."""
    monkeypatch.setattr(locks, "MAX_IDLE_SECONDS", 600)
    monkeypatch.setattr(runs, "_LOOKS", 5)


class Halt:
    """Halts a store's next transaction between its work and its commit."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        write = store.database.write

        async def halted(work: Callable[[Connection], T]) -> T:
            if "DayPartitions" in getattr(work, "__qualname__", ""):
                return await write(work)  # makes a partition first
            monkeypatch.setattr(store.database, "write", write)

            def then_wait(connection: Connection) -> T:
                result = work(connection)
                self.reached.set()
                await_only(self.go_on.wait())
                return result

            return await write(then_wait)

        monkeypatch.setattr(store.database, "write", halted)


async def newest(store: Store) -> list[float]:
    return [c.detected_at for c in (await store.changes.after(ChangeFilter(), 0)).items]


async def waiting_for_a_lock(url: str) -> None:
    """Returns once a session of the database waits for an advisory lock."""
    sql = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    while await query(url, sql) != [(1,)]:
        await asyncio.sleep(0.02)


async def test_a_later_number_is_never_seen_first(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with writers(postgres_url, "a", "b") as (a, b):
        one, two, three = await add(a, 3)
        halt = Halt(a, monkeypatch)
        first = asyncio.create_task(poll_all(a, [one], 10.0, changed=True))
        await asyncio.wait_for(halt.reached.wait(), PATIENCE_SECONDS)
        second = asyncio.create_task(poll_all(b, [two], 20.0, changed=True))
        await asyncio.wait_for(waiting_for_a_lock(postgres_url), PATIENCE_SECONDS)
        assert await newest(b) == []
        # What holds no change waits for nobody.
        other = await Store.open(postgres_url, several_writers=True, writer="c")
        await asyncio.wait_for(poll_all(other, [three], 15.0), PATIENCE_SECONDS)
        await other.close()
        halt.go_on.set()
        await asyncio.gather(first, second)
        assert await newest(a) == [10.0, 20.0]


async def test_notices_are_numbered_in_order_too(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with writers(postgres_url, "a", "b") as (a, b):
        halt = Halt(a, monkeypatch)
        notice = Notice(event_id="e1", kind=EventKind.BLIND, at=1.0, rule_id=1, channel_id=1, due_at=1.0)
        first = asyncio.create_task(a.notifications.outbox.put([notice]))
        await asyncio.wait_for(halt.reached.wait(), PATIENCE_SECONDS)
        later = Notice(event_id="e2", kind=EventKind.BLIND, at=2.0, rule_id=1, channel_id=1, due_at=2.0)
        second = asyncio.create_task(b.notifications.outbox.put([later]))
        await asyncio.wait_for(waiting_for_a_lock(postgres_url), PATIENCE_SECONDS)
        halt.go_on.set()
        await asyncio.gather(first, second)
        assert await query(postgres_url, "SELECT event_id FROM outbox ORDER BY id") == [("e1",), ("e2",)]


async def test_a_writer_that_stands_still_holds_others_up_for_seconds(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "MAX_IDLE_SECONDS", 3)
    async with writers(postgres_url, "a", "b") as (a, b):
        one, two = await add(a, 2)
        halt = Halt(a, monkeypatch)
        first = asyncio.create_task(poll_all(a, [one], 10.0, changed=True))
        await asyncio.wait_for(halt.reached.wait(), PATIENCE_SECONDS)
        await asyncio.wait_for(poll_all(b, [two], 20.0, changed=True), PATIENCE_SECONDS)
        halt.go_on.set()
        with pytest.raises(DatabaseUnavailableError):
            await first
        assert await newest(b) == [20.0]
        await retry_while_unavailable(lambda: poll_all(a, [one], 30.0, changed=True))
        assert await newest(b) == [20.0, 30.0]


async def test_a_repeated_batch_is_recognised_whatever_others_committed(postgres_url: str) -> None:
    async with writers(postgres_url, "a", "b") as (a, b):
        one, two = await add(a, 2)
        batch = await poll_all(a, [one], 10.0, changed=True)
        await poll_all(b, [two], 20.0, changed=True)
        again = await a.commit(batch)
        assert [change.site_id for change in again.changes] == [one]
        assert await query(postgres_url, "SELECT count(*) FROM poll") == [(2,)]
        await b.runs.end(30.0)
        assert await query(postgres_url, "SELECT writer FROM last_batch") == [("a",)]


async def test_a_run_ends_with_the_next_of_the_same_writer_only(postgres_url: str) -> None:
    async with writers(postgres_url, "a", "b") as (a, b):
        [site] = await add(a)
        again = await Store.open(postgres_url, several_writers=True, writer="a")
        assert not (await again.runs.start("1", 5.0)).previous_clean
        await poll_all(b, [site], 10.0)
        with pytest.raises(DatabaseInUseError, match="took over"):
            await poll_all(a, [site], 20.0)
        await again.close()


async def test_hosts_that_another_writer_may_know_stay(postgres_url: str) -> None:
    async with writers(postgres_url, "a") as (a,):
        [site] = await add(a)
        await a.sites.delete(site, 2.0)
        await a.runs.start("1", 3.0)
        assert await query(postgres_url, "SELECT count(*) FROM host") == [(1,)]


async def test_one_that_is_alone_and_several_exclude_each_other(postgres_url: str) -> None:
    async with writers(postgres_url, "a"):
        with pytest.raises(DatabaseInUseError):
            await Store.open(postgres_url)
    alone = await Store.open(postgres_url)
    with pytest.raises(DatabaseInUseError):
        await Store.open(postgres_url, several_writers=True, writer="a")
    await alone.close()


async def test_what_several_writers_need_is_named(sqlite_url: str, postgres_url: str) -> None:
    with pytest.raises(InvalidValueError, match="database: must be PostgreSQL"):
        await Store.open(sqlite_url, several_writers=True, writer="a")
    with pytest.raises(InvalidValueError, match="writer: must be the name of this writer"):
        await Store.open(postgres_url, several_writers=True)
    with pytest.raises(InvalidValueError, match="writer: must be None if there is one writer"):
        await Store.open(postgres_url, writer="a")


async def test_one_writer_takes_no_lock_and_tells_nobody(postgres_url: str) -> None:
    store = await Store.open(postgres_url)
    sites = await add(store, 2)
    said: list[str] = []
    writer = store.database._driver._writer.sync_engine  # type: ignore[union-attr] # noqa: SLF001
    event.listen(writer, "before_cursor_execute", lambda _c, _u, sql, *_: said.append(sql))
    await poll_all(store, sites, 10.0, changed=True)
    await store.changes.put_seen("reader", [(1, 2)])
    await store.prune(20.0)
    assert said
    assert not [sql for sql in said if "advisory" in sql or "notify" in sql or "FOR UPDATE" in sql]
    assert not store.several_writers
    await store.close()


async def test_a_lost_connection_loses_no_news(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed while nobody listens is found when the listener is back."""
    monkeypatch.setattr(changes, "LOOK_SECONDS", 3_600.0)
    monkeypatch.setattr(changes, "_AGAIN_SECONDS", 0.2)
    async with writers(postgres_url, "a", "b") as (a, b):
        [site] = await add(a)
        hearing = asyncio.create_task(b.listen_for_changes())
        await poll_all(a, [site], 10.0, changed=True)
        await asyncio.wait_for(b.changes.news(0), PATIENCE_SECONDS)
        for n in range(3):
            listener = "application_name = 'pollerd listener' AND datname = $1"
            name = make_url(postgres_url).database
            sql = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {listener}"
            await asyncio.to_thread(execute, sql, name)
            reached = b.changes.newest
            await poll_all(a, [site], 20.0 + n, changed=True)
            await asyncio.wait_for(b.changes.news(reached), PATIENCE_SECONDS)
        assert not hearing.done()
        hearing.cancel()


async def test_numbers_are_raised_past_all_that_were_given(postgres_url: str) -> None:
    async with writers(postgres_url, "a") as (a,):
        [site] = await add(a)
        for at in (10.0, 20.0):
            await poll_all(a, [site], at, b"%f" % at, changed=True)
        raised = await raise_numbers(postgres_url, 1000)
        assert raised["change"] == 1003
        assert {"site", "poll", "content", "outbox", "daemon_run", "job"} <= set(raised)
        await poll_all(a, [site], 30.0, changed=True)
        changes = await a.changes.after(ChangeFilter(), 0)
        assert [c.id for c in changes.items] == [1, 2, 1004]
        # A reader that saw what the replica lacks gets all that is new.
        assert [c.id for c in (await a.changes.after(ChangeFilter(), 900)).items] == [1004]
        assert await add(a, 2) == [1003]
    for by in (0, 10**12 + 1):
        with pytest.raises(InvalidValueError, match="by: must be 1 to"):
            await raise_numbers(postgres_url, by)


async def test_a_file_has_no_numbers_to_raise(sqlite_url: str) -> None:
    with pytest.raises(InvalidValueError, match="database: must be PostgreSQL's"):
        await raise_numbers(sqlite_url, 1)


async def test_two_that_prune_at_once_count_and_drop_once(postgres_url: str) -> None:
    async with writers(postgres_url, "a", "b") as (a, b):
        sites = await add(a, 3)
        for n in range(6):
            await poll_all(a, sites, 10.0 + n, b"content %d" % n, changed=True)
        late = 10.0 + 400 * 86_400
        results = await asyncio.gather(a.prune(late), b.prune(late))
        dropped: list[PruneResult] = list(results)
        assert sum(one.polls for one in dropped) == 18
        assert sum(one.contents for one in dropped) == 12
        use = "SELECT sum(contents), sum(bytes) FROM content_use"
        there = "SELECT count(*), sum(size) FROM content"
        assert await query(postgres_url, use) == await query(postgres_url, there)


async def test_contents_committed_out_of_order_are_counted(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with writers(postgres_url, "a", "b") as (a, b):
        one, two = await add(a, 2)
        halt = Halt(a, monkeypatch)
        first = asyncio.create_task(poll_all(a, [one], 10.0, b"earlier id"))
        await asyncio.wait_for(halt.reached.wait(), PATIENCE_SECONDS)
        await poll_all(b, [two], 20.0, b"later id")
        await b.prune(30.0)  # the first one is still under way: nothing is counted
        assert await query(postgres_url, "SELECT count(*) FROM content_use") == [(0,)]
        halt.go_on.set()
        await first
        await b.prune(30.0)
        assert await query(postgres_url, "SELECT sum(contents) FROM content_use") == [(2,)]


async def test_a_content_that_another_makes_current_is_not_dropped(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with writers(postgres_url, "a", "b") as (a, b):
        [site] = await add(a)
        for n in range(4):
            await poll_all(a, [site], 10.0 + n, b"content %d" % n, changed=True)
        await b.prune(20.0)
        halt = Halt(a, monkeypatch)
        late = 10.0 + 400 * 86_400
        first = asyncio.create_task(poll_all(a, [site], late, b"content 0", changed=True))
        await asyncio.wait_for(halt.reached.wait(), PATIENCE_SECONDS)
        await b.prune(late)  # the site is left out while it is committed for
        halt.go_on.set()
        await first
        change = (await a.changes.page()).items[0]
        assert (await a.contents.get(change.after_content_id or 0)).body == b"content 0"


async def test_two_that_note_what_one_reader_saw(postgres_url: str) -> None:
    async with writers(postgres_url, "a", "b") as stores:
        notes = [stores[n % 2].changes.put_seen("reader", [(2 * n + 1, 2 * n + 2)]) for n in range(20)]
        await asyncio.gather(*notes)
        assert await query(postgres_url, "SELECT first, last FROM seen_range") == [(1, 40)]


async def test_many_changes_of_two_writers_keep_their_records(postgres_url: str) -> None:
    async with writers(postgres_url, "a", "b") as stores:
        sites = await add(stores[0], 20)

        async def commit(store: Store, mine: list[int]) -> None:
            contexts = await store.sites.contexts(mine)
            for n in range(10):
                batch = Batch([record(contexts[s], 10.0 + n, changed=True) for s in mine])
                result = await store.commit(batch)
                assert [change.site_id for change in result.changes] == mine
                for change in result.changes:
                    assert (await store.changes.get(change.id)).site_id == change.site_id

        await asyncio.gather(commit(stores[0], sites[:10]), commit(stores[1], sites[10:]))
