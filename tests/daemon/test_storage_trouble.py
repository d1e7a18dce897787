"""A database that is locked, gone or cut off: polling pauses and says why, then goes on, nothing lost or doubled."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from pollerd.app.url_list import read_list
from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError, DuplicateError, NotFoundError
from pollerd.site_settings import SiteSpec
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import SiteContext
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until, until_found
from tests.support.postgres import execute, postgres_database

IMPATIENT = StorageSettings(busy_timeout_seconds=0.2)


@pytest.fixture
def file(database: str) -> Path:
    return Path(str(make_url(database).database))


@contextlib.asynccontextmanager
async def locked(file: Path) -> AsyncIterator[None]:
    """Somebody else writes, and does not come to an end."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


async def failing(running: Running) -> str:
    """Waits until the daemon says that it cannot commit: why."""
    await until(lambda: running.control.health.status().storage_failure is not None)
    assert running.metric("pollerd_storage_failing") == 1
    why = await running.control.health.not_ready()
    assert why is not None
    return why


async def assert_paused(origin: Origin) -> None:
    """What was under way may still arrive; then nothing does."""
    seen = -1
    while seen < len(origin.hits()):
        seen = len(origin.hits())
        await asyncio.sleep(0.8)


async def assert_resumes(running: Running, origin: Origin) -> None:
    """A failure may show late: connections that were ended are noticed when they are used."""
    await until(lambda: running.control.health.status().storage_failure is None)
    seen, polls = len(origin.hits()), running.control.health.status().polls
    await until(lambda: len(origin.hits()) >= seen + 10)
    await until(lambda: running.control.health.status().polls >= polls + 10)

    async def is_ready() -> bool:
        return await running.control.health.not_ready() is None and running.metric("pollerd_storage_failing") == 0

    await until_found(is_ready)


async def assert_nothing_lost_nothing_twice(running: Running, origin: Origin, site_id: int, path: str) -> None:
    """The versions that the page showed stand in the changes once each, in order."""
    changes = [change for change in await running.changes() if change.site_id == site_id]
    texts = [(await running.store.contents.get(change.after_content_id or 0)).body for change in changes]
    assert texts == [b"two", b"three"]
    before = [change.before_content_id for change in changes]
    assert before[1:] == [change.after_content_id for change in changes[:-1]]
    for site in [site.id async for site in running.store.sites.iterate()]:
        await running.control.sites.pause(site, True)
    await running.settled()
    polls = await running.polls(site_id)
    assert (await running.site(site_id)).polls == len(polls) <= len(origin.hits(path))
    assert len({poll.at for poll in polls}) == len(polls)


async def watched(running: Running, origin: Origin) -> int:
    """Ten polled sites, and the id of the one at /0, which says "two" by now."""
    for n in range(10):
        origin.pages[f"/{n}"] = Page("<p>one</p>")
    ids = await running.add(*(origin.url(f"/{n}", host=n) for n in range(10)))
    await until(lambda: running.metric("pollerd_polls_total", outcome="first") == 10)
    origin.pages["/0"] = Page("<p>two</p>")
    await until(lambda: running.control.health.status().changes == 1)
    return ids[0]


async def test_a_database_locked_by_somebody_else(origin: Origin, start: Start, file: Path) -> None:
    async with start(storage=IMPATIENT) as running:
        site_id = await watched(running, origin)
        async with locked(file):
            origin.pages["/0"] = Page("<p>three</p>")
            assert "locked" in await failing(running)
            await assert_paused(origin)
            assert running.control.health.alive(), "pausing is no standstill of the loop"
        await assert_resumes(running, origin)
        await until(lambda: running.control.health.status().changes == 2)
        await assert_nothing_lost_nothing_twice(running, origin, site_id, "/0")


async def test_stopped_while_the_database_is_locked(origin: Origin, start: Start, file: Path) -> None:
    async with contextlib.AsyncExitStack() as lock, start(storage=IMPATIENT, drain_seconds=0.5) as running:
        site_id = await watched(running, origin)
        await lock.enter_async_context(locked(file))
        await failing(running)
        polls = len(origin.hits("/0"))
        running.daemon.stop()
        await asyncio.wait_for(asyncio.shield(running.task), 60)
    origin.pages["/0"] = Page("<p>three</p>")
    async with start() as running:
        await until(lambda: len(origin.hits("/0")) > polls + 2)
        await until(lambda: running.control.health.status().changes >= 2)
        await assert_nothing_lost_nothing_twice(running, origin, site_id, "/0")


async def test_a_file_that_vanished_comes_back(origin: Origin, start: Start, file: Path) -> None:
    away = file.with_name("away.db")
    async with start(storage=IMPATIENT) as running:
        site_id = await watched(running, origin)
        file.rename(away)
        assert "there is no file" in await failing(running)
        origin.pages["/0"] = Page("<p>three</p>")
        await assert_paused(origin)
        assert not file.exists(), "never a silent fresh database"
        away.rename(file)
        await assert_resumes(running, origin)
        await until(lambda: running.control.health.status().changes == 2)
        await assert_nothing_lost_nothing_twice(running, origin, site_id, "/0")


async def test_a_file_that_was_replaced(origin: Origin, start: Start, file: Path) -> None:
    async with start(storage=IMPATIENT, drain_seconds=0.2) as running:
        await watched(running, origin)
        file.rename(file.with_name("old.db"))
        file.write_bytes(b"")
        assert "replaced" in await failing(running)
        await assert_paused(origin)
        assert file.read_bytes() == b""
        assert not running.task.done()


@pytest.fixture
def postgres() -> Iterator[str]:
    with postgres_database() as url:
        yield url


def cut(url: str, *, but_lock: bool = False) -> None:
    """Ends the connections to the database, with or without the one that holds the daemon's lock."""
    sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
    if but_lock:
        sql += " AND application_name <> 'pollerd writer'"
    execute(sql, make_url(url).database)


@pytest.mark.parametrize("but_lock", [True, False])
async def test_connections_that_the_server_ends(origin: Origin, start: Start, postgres: str, but_lock: bool) -> None:
    async with start(url=postgres, storage=IMPATIENT) as running:
        site_id = await watched(running, origin)
        for _ in range(3):
            await asyncio.to_thread(cut, postgres, but_lock=but_lock)
            await asyncio.sleep(0.2)
        origin.pages["/0"] = Page("<p>three</p>")
        await assert_resumes(running, origin)
        await until(lambda: running.control.health.status().changes == 2)
        await assert_nothing_lost_nothing_twice(running, origin, site_id, "/0")


async def test_the_lock_lost_to_another_ends_the_daemon_with_its_cause(
    origin: Origin, start: Start, postgres: str
) -> None:
    async with start(url=postgres, storage=IMPATIENT) as running:
        await watched(running, origin)
        other = asyncio.create_task(Store.open(postgres, settings=IMPATIENT))
        await asyncio.sleep(0.3)  # it waits for the lock by now, and takes it as soon as it is free
        await asyncio.to_thread(cut_lock, postgres)
        try:
            store = await other
        except DatabaseInUseError:
            await assert_resumes(running, origin)  # the daemon had it back first: just as well
            return
        await store.runs.start("other", 0.0)
        with pytest.raises(ExceptionGroup) as caught:
            await asyncio.wait_for(asyncio.shield(running.task), 60)
        assert caught.group_contains(DatabaseInUseError)
        await store.close()
        running.task = asyncio.create_task(asyncio.sleep(0))


def cut_lock(url: str) -> None:
    execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = $1 AND application_name = 'pollerd writer'"
        " AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)",
        make_url(url).database,
    )


async def test_a_list_read_while_the_database_is_locked_is_added_once_it_is_free(
    origin: Origin, start: Start, file: Path, tmp_path: Path
) -> None:
    urls = tmp_path / "urls.txt"
    urls.write_text("\n".join(origin.url(f"/{n}", host=n) for n in range(3)))
    async with start(storage=IMPATIENT) as running:
        async with locked(file):
            reading = asyncio.create_task(read_list(urls, running.control, sync=True))
            await asyncio.sleep(1.0)
            assert not reading.done()
        await asyncio.wait_for(reading, 60)
        await until(lambda: len(origin.hits()) >= 3)


async def test_sites_that_cannot_be_read_are_told_of_once(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with start() as running:
        read = running.store.sites.contexts

        async def refused(site_ids: Sequence[int]) -> dict[int, SiteContext]:
            raise DatabaseUnavailableError("permission denied for table site")

        monkeypatch.setattr(running.store.sites, "contexts", refused)
        await running.add(origin.url("/a"))
        assert await failing(running) == "permission denied for table site"
        await asyncio.sleep(1.5)
        assert running.control.health.alive()
        assert origin.hits() == []
        monkeypatch.setattr(running.store.sites, "contexts", read)
        await until(lambda: len(origin.hits()) > 1)
        assert running.control.health.status().storage_failure is None
    assert capsys.readouterr().out.count("storage_failing") == 1


async def test_the_last_word_that_does_not_get_through_is_no_error(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(now: float) -> None:
        raise DatabaseUnavailableError("the database system is shutting down")

    async with start() as running:
        await watched(running, origin)
        monkeypatch.setattr(running.store.runs, "end", refused)
    assert running.task.exception() is None


async def test_whether_all_is_well_is_answered_though_the_database_never_answers(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start() as running:
        monkeypatch.setattr("pollerd.daemon.control.health.CHECK_SECONDS", 0.2)
        monkeypatch.setattr(running.store, "check", asyncio.Event().wait)
        assert await running.control.health.not_ready() == "the database does not answer within 0.2 s"


async def test_what_went_in_although_its_answer_was_lost_is_taken_in_when_it_is_repeated(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start() as running:
        add, delete = running.store.sites.add, running.store.sites.delete

        async def lost(*arguments: Any, **options: Any) -> None:
            await (add if "respect_deleted" in options else delete)(*arguments, **options)
            raise DatabaseUnavailableError("connection was closed in the middle of operation")

        monkeypatch.setattr(running.store.sites, "add", lost)
        monkeypatch.setattr(running.store.sites, "delete", lost)
        spec = SiteSpec(origin.url("/a"))
        with pytest.raises(DatabaseUnavailableError):
            await running.control.sites.add_one(spec)
        monkeypatch.setattr(running.store.sites, "add", add)
        with pytest.raises(DuplicateError) as caught:
            await running.control.sites.add_one(spec)
        await running.polled(caught.value.existing_id, 2)
        with pytest.raises(DatabaseUnavailableError):
            await running.control.sites.delete(caught.value.existing_id)
        monkeypatch.setattr(running.store.sites, "delete", delete)
        with pytest.raises(NotFoundError):
            await running.control.sites.delete(caught.value.existing_id)
        assert running.control.health.status().sites == 0
