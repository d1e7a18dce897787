"""A PostgreSQL that refuses: whatever is done to the server or its connections, polling pauses, then goes on whole.

The origin logs what each page showed and when; afterwards the changes in the database are that, each once and in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import uuid
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from pollerd.model import Change
from pollerd.storage.settings import StorageSettings
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until, until_found
from tests.support.postgres import execute, postgres_database

PAGES = 12
IMPATIENT = StorageSettings(busy_timeout_seconds=0.3, keep_contents=10_000)


@pytest.fixture
def role() -> Iterator[str]:
    """A user of the server, without any privilege to begin with."""
    name = f"pollerd_test_{uuid.uuid4().hex[:12]}"
    execute(f'CREATE ROLE "{name}" LOGIN')
    try:
        yield name
    finally:
        execute(f'DROP ROLE "{name}"')


class Refusing:
    """The daemon's database, and what an administrator may do to it."""

    def __init__(self, url: str, role: str) -> None:
        self.name, self.role = make_url(url).database, role
        execute(f'ALTER DATABASE "{self.name}" OWNER TO "{role}"')
        execute(f'REVOKE CONNECT ON DATABASE "{self.name}" FROM PUBLIC')
        self.url = make_url(url).set(username=role, password="unused").render_as_string(hide_password=False)

    async def do(self, sql: str) -> None:
        await asyncio.to_thread(execute, sql.format(name=f'"{self.name}"', role=f'"{self.role}"'))

    async def do_between(self, sql: str) -> None:
        """Does it as soon as nobody is connected: PostgreSQL renames no database otherwise."""
        for _ in range(200):
            await self.cut()
            with contextlib.suppress(asyncpg.ObjectInUseError):
                return await self.do(sql)
        raise AssertionError(f"there was always somebody connected: {sql}")

    async def cut(self, more: str = "TRUE") -> None:
        """Ends the daemon's sessions, all or those that `more` names."""
        await self.do(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}' AND {more}"
        )


@pytest.fixture
def server(role: str) -> Iterator[Refusing]:
    # The role makes the tables itself, so that they are its own.
    with postgres_database(migrated=False) as url:
        yield Refusing(url, role)


REFUSALS = {
    "ALLOW_CONNECTIONS": (
        "ALTER DATABASE {name} ALLOW_CONNECTIONS false",
        "ALTER DATABASE {name} ALLOW_CONNECTIONS true",
        "55000",
    ),
    "REVOKE CONNECT": (
        "REVOKE CONNECT ON DATABASE {name} FROM {role}",
        "GRANT CONNECT ON DATABASE {name} TO {role}",
        "42501",
    ),
    "NOLOGIN": ("ALTER ROLE {role} NOLOGIN", "ALTER ROLE {role} LOGIN", "28000"),
    "CONNECTION LIMIT": ("ALTER ROLE {role} CONNECTION LIMIT 0", "ALTER ROLE {role} CONNECTION LIMIT -1", "53300"),
    "read-only": (
        "ALTER DATABASE {name} SET default_transaction_read_only = on",
        "ALTER DATABASE {name} RESET default_transaction_read_only",
        "25006",
    ),
    "another search path": (
        "ALTER ROLE {role} SET search_path = pg_catalog",
        "ALTER ROLE {role} RESET search_path",
        "SQLSTATE",
    ),
    "statement timeout": (
        "ALTER ROLE {role} SET statement_timeout = '1ms'",
        "ALTER ROLE {role} RESET statement_timeout",
        "",
    ),
    "idle sessions end": (
        "ALTER ROLE {role} SET idle_session_timeout = '1ms'",
        "ALTER ROLE {role} RESET idle_session_timeout",
        "",
    ),
    "a library that is not there": (
        "ALTER ROLE {role} SET session_preload_libraries = 'nowhere'",
        "ALTER ROLE {role} RESET session_preload_libraries",
        "58P01",
    ),
    "renamed": (
        "ALTER DATABASE {name} RENAME TO {aside}",
        "ALTER DATABASE {aside} RENAME TO {name}",
        "3D000",
    ),
}


class Truth:
    """Pages that only get newer, and the log of what each showed when it was asked."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self.current = dict.fromkeys(range(PAGES), 0)
        for page in self.current:
            self._show(page)

    def _show(self, page: int) -> None:
        self._origin.pages[f"/{page}"] = Page(f"<p>{self.current[page]}</p>")

    @contextlib.asynccontextmanager
    async def growing(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._grow())
        try:
            yield
        finally:
            task.cancel()

    async def _grow(self) -> None:
        chooser = random.Random(7)
        while True:
            page = chooser.randrange(PAGES)
            self.current[page] += 1
            self._show(page)
            await asyncio.sleep(0.02)


async def begun(running: Running, origin: Origin) -> list[int]:
    ids = await running.add(*(origin.url(f"/{n}", host=n) for n in range(PAGES)))
    await until(lambda: running.metric("pollerd_polls_total", outcome="first") == PAGES)
    return ids


async def assert_paused(running: Running, origin: Origin, code: str) -> None:
    await until(lambda: code in (running.control.health.status().storage_failure or "works"))
    await until(lambda: running.metric("pollerd_storage_failing") == 1)
    assert await running.control.health.not_ready() is not None
    assert running.control.health.alive(), "pausing is no standstill of the loop"
    assert not running.task.done()
    seen = -1
    while seen < len(origin.hits()):  # what was under way may still arrive; then nothing does
        seen = len(origin.hits())
        await asyncio.sleep(0.5)  # in which it would ask for 25 pages


async def assert_goes_on(running: Running, origin: Origin) -> None:
    """A failure may show late: sessions that were ended are noticed when they are used."""
    await until(lambda: running.control.health.status().storage_failure is None)
    seen, polls = len(origin.hits()), running.control.health.status().polls
    await until(lambda: len(origin.hits()) >= seen + 2 * PAGES)
    await until(lambda: running.control.health.status().polls >= polls + 2 * PAGES)

    async def is_ready() -> bool:
        return await running.control.health.not_ready() is None and running.metric("pollerd_storage_failing") == 0

    await until_found(is_ready)


async def chain(running: Running, changes: list[Change]) -> list[int]:
    """The versions that the changes lead through."""
    for before, after in itertools.pairwise(changes):
        assert after.before_content_id == before.after_content_id
    ids = [changes[0].before_content_id, *(change.after_content_id for change in changes)] if changes else []
    return [int((await running.store.contents.get(content_id or 0)).body) for content_id in ids]


async def assert_nothing_lost_nothing_twice(running: Running, origin: Origin, truth: Truth, ids: list[int]) -> None:
    """Each page's last version was found, and the way there has neither gap nor repetition."""
    hits = {page: len(origin.hits(f"/{page}")) for page in truth.current}
    await until(lambda: all(len(origin.hits(f"/{page}")) > seen + 1 for page, seen in hits.items()))
    for site_id in ids:
        await running.control.sites.pause(site_id, True)
    await running.settled()
    changes = await running.changes()
    for page, site_id in enumerate(ids):
        own = [change for change in changes if change.site_id == site_id]
        versions = await chain(running, own)
        assert versions == sorted(set(versions)), "only newer ones, each once"
        assert versions[-1] == truth.current[page], "the last was found"
        polls = await running.polls(site_id)
        site = await running.site(site_id)
        assert site.polls == len(polls) <= len(origin.hits(f"/{page}"))
        assert site.changes == len(own) == sum(poll.changed for poll in polls)


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_server_that_refuses_is_waited_for(
    origin: Origin, start: Start, server: Refusing, refusal: str
) -> None:
    refuse, allow, code = (words.replace("{aside}", f'"{server.name}_aside"') for words in REFUSALS[refusal])
    await server.do("GRANT CONNECT ON DATABASE {name} TO {role}")
    truth = Truth(origin)
    async with start(url=server.url, storage=IMPATIENT) as running:
        ids = await begun(running, origin)
        async with truth.growing():
            for _ in range(2):
                await server.do_between(refuse)
                await server.cut()
                await assert_paused(running, origin, code)
                await server.do(allow)
                await server.cut()  # sessions keep what was set when they began
                await assert_goes_on(running, origin)
        await assert_nothing_lost_nothing_twice(running, origin, truth, ids)


@pytest.mark.parametrize("who", ["all", "the writer", "readers"])
async def test_backends_killed_under_load(origin: Origin, start: Start, server: Refusing, who: str) -> None:
    which = {
        "all": "TRUE",
        "the writer": "application_name = 'pollerd writer'",
        "readers": "application_name = 'pollerd'",
    }[who]
    await server.do("GRANT CONNECT ON DATABASE {name} TO {role}")
    truth, moments = Truth(origin), random.Random()
    async with start(url=server.url, storage=IMPATIENT, budget=200.0) as running:
        ids = await begun(running, origin)
        async with truth.growing():
            for _ in range(25):
                await asyncio.sleep(moments.uniform(0.0, 0.15))
                await server.cut(which)
            await assert_goes_on(running, origin)
        await assert_nothing_lost_nothing_twice(running, origin, truth, ids)
