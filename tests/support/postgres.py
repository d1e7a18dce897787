"""PostgreSQL databases of a test's own, empty or migrated, made as new after it for the next one.

Creating and dropping a database, from a migrated template as well, costs the server more than migrating does: it logs
every page of the catalogue, and writes a checkpoint. Deleting the rows takes milliseconds. So each process that runs
tests keeps its databases to its end, and drops one at once only where a test changed more of it than its rows. A killed
run leaves databases behind; the next one drops them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import secrets
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import asyncpg
import pytest

from pollerd.storage import migrate
from tests.support import AT_SESSION_END

DEFAULT_URL = "postgresql+asyncpg://postgres@127.0.0.1:5432/test"
T = TypeVar("T")

_CONNECT_SECONDS = 60
_LOCKS = 0x706F6C6C
"""The first number of our advisory locks; the second names the run."""
_OF_A_RUN = re.compile(r"pollerd_test_([0-9a-f]{8})_\w+")


def server_url() -> str:
    """Where tests find a server on which they may create databases (TEST_POSTGRES_URL)."""
    return os.environ.get("TEST_POSTGRES_URL", DEFAULT_URL)


_SHAPE = """
SELECT md5(string_agg(part, ',' ORDER BY part)) FROM (
    SELECT concat_ws(' ', 'schema', nspname, nspowner, nspacl) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
    UNION ALL SELECT concat_ws(' ', 'relation', oid, relname, relowner, relacl) FROM pg_class
        WHERE oid >= 16384 AND relnamespace <> 'pg_toast'::regnamespace AND NOT relispartition
    UNION ALL SELECT concat_ws(' ', 'column', attrelid, attname, atttypid, attnotnull) FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid WHERE attrelid >= 16384 AND attnum > 0
        AND relnamespace <> 'pg_toast'::regnamespace AND NOT relispartition
    UNION ALL SELECT concat_ws(' ', 'constraint', pg_constraint.oid, conname, convalidated) FROM pg_constraint
        LEFT JOIN pg_class ON pg_class.oid = conrelid WHERE pg_constraint.oid >= 16384 AND relispartition IS NOT TRUE
    UNION ALL SELECT concat_ws(' ', 'database', datname, datdba, datallowconn, datconnlimit, datacl) FROM pg_database
        WHERE datname = current_database()
    UNION ALL SELECT concat_ws(' ', 'setting', setrole, setconfig) FROM pg_db_role_setting JOIN pg_database
        ON pg_database.oid = setdatabase WHERE datname = current_database()
) AS parts (part)
"""
"""What a test that touches only rows leaves as it was. Objects that are not PostgreSQL's own have ids from 16384.
Partitions come and go with the days of polls."""
_TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
"""
_PARTITIONS_GONE = """
DO $$ DECLARE one text; BEGIN
    FOR one IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = to_regclass('poll')
        AND inhrelid <> to_regclass('poll_default') LOOP
        EXECUTE 'DROP TABLE ' || one;
    END LOOP;
END $$
"""
_SEQUENCES = "SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence"


class _Fresh:
    """What a database is made as new by: its shape, and a statement that puts back the rows of its beginning."""

    def __init__(self, shape: str, statement: str) -> None:
        self.shape, self.statement = shape, statement

    @classmethod
    async def of(cls, connection: asyncpg.Connection) -> _Fresh:
        """The way back to how the database is now."""
        # Rows refer to each other: as a replica does, none is checked.
        steps = ["SET session_replication_role = replica", _PARTITIONS_GONE]
        tables = [record[0] for record in await connection.fetch(_TABLES)]
        steps += [f'DELETE FROM "{table}"' for table in tables]
        for table in tables:
            if rows := await connection.fetchval(f'SELECT json_agg(one)::text FROM "{table}" AS one'):
                given = f'json_populate_recordset(NULL::"{table}", $rows${rows}$rows$)'
                steps.append(f'INSERT INTO "{table}" OVERRIDING SYSTEM VALUE SELECT * FROM {given}')
        return cls(await connection.fetchval(_SHAPE), "; ".join([*steps, _SEQUENCES]))

    async def again(self, connection: asyncpg.Connection) -> bool:
        """Puts back the rows; false where more than rows changed."""
        if await connection.fetchval(_SHAPE) != self.shape:
            return False
        await connection.execute(self.statement)
        return True


class _Administrator:
    """Creates, renews and drops this process's databases, over one connection in a thread of its own.

    The thread is needed because a test's event loop may be running already. The connection holds a lock that names the
    run, and that the server lets go of with the process: databases whose lock is free are a killed run's.
    """

    def __init__(self) -> None:
        self._run_id = secrets.randbits(31)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="postgres-administrator", daemon=True)
        self._thread.start()
        self._connection: asyncpg.Connection | None = None
        self._numbers = itertools.count()
        self._fresh: dict[str, _Fresh] = {}
        self._free: dict[bool, list[str]] = {True: [], False: []}
        """Names of databases that are as new and that no test has, by whether they are migrated."""

    def execute(self, sql: str, *arguments: Any) -> None:
        """Runs a statement on the maintenance database."""
        self._wait_for(self._execute(sql, *arguments))

    def take(self, *, migrated: bool) -> str:
        """The name of a database that is as new, and nobody else's until it is given back."""
        return self._free[migrated].pop() if self._free[migrated] else self._wait_for(self._create(migrated))

    def give_back(self, name: str, *, migrated: bool) -> None:
        """Makes the database as new for the next; drops it where that takes more than its rows."""
        if self._wait_for(self._renew(name)):
            self._free[migrated].append(name)
        else:
            self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def close(self) -> None:
        """Drops all that is left, then ends the connection and the thread."""
        for name in itertools.chain(*self._free.values()):
            self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        if self._connection is not None:
            self._wait_for(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _create(self, migrated: bool) -> str:
        name = f"pollerd_test_{self._run_id:08x}_{next(self._numbers)}"
        await self._execute(f'CREATE DATABASE "{name}"')
        if migrated:
            await migrate.upgrade(url_of(name))
        async with _connected(url_of(name)) as connection:
            self._fresh[name] = await _Fresh.of(connection)
        return name

    async def _renew(self, name: str) -> bool:
        await self._execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        try:
            async with _connected(url_of(name)) as connection:
                return await self._fresh[name].again(connection)
        except asyncpg.PostgresError:
            return False  # it may not be connected to any more

    async def _execute(self, sql: str, *arguments: Any) -> None:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
        await self._connection.execute(sql, *arguments)

    async def _connect(self) -> asyncpg.Connection:
        connection = await asyncpg.connect(_plain(server_url()), timeout=_CONNECT_SECONDS)
        await connection.execute(f"SELECT pg_advisory_lock({_LOCKS}, {self._run_id})")
        for record in await connection.fetch("SELECT datname FROM pg_database"):
            found = _OF_A_RUN.fullmatch(record["datname"])
            if found is None or int(found[1], 16) == self._run_id:
                continue
            lock = f"({_LOCKS}, {int(found[1], 16)})"
            if await connection.fetchval(f"SELECT pg_try_advisory_lock{lock}"):
                # Another process that starts now may find it, too.
                await connection.execute(f'DROP DATABASE IF EXISTS "{found[0]}" WITH (FORCE)')
                await connection.execute(f"SELECT pg_advisory_unlock{lock}")
        return connection


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(_plain(url), timeout=_CONNECT_SECONDS)
    try:
        yield connection
    finally:
        await connection.close()


_OF_THIS_PROCESS: list[_Administrator] = []


def _administrator() -> _Administrator:
    if not _OF_THIS_PROCESS:
        _OF_THIS_PROCESS.append(_Administrator())
        AT_SESSION_END.append(lambda: _OF_THIS_PROCESS.pop().close())
    return _OF_THIS_PROCESS[0]


def url_of(name: str) -> str:
    """The URL of a database of the tests' server."""
    return server_url().rsplit("/", 1)[0] + f"/{name}"


@contextmanager
def postgres_database(*, migrated: bool = True) -> Iterator[str]:
    """The URL of a database as new, with pollerd's tables where it is `migrated`, otherwise with none.

    Skips the test where no server answers; under CI that is a failure.
    """
    try:
        name = _administrator().take(migrated=migrated)
    except OSError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no PostgreSQL answers at {server_url().rsplit('@', 1)[-1]}: {error}")
    try:
        yield url_of(name)
    finally:
        _administrator().give_back(name, migrated=migrated)


def execute(sql: str, *arguments: Any) -> None:
    """Run a statement on the server's maintenance database, as the tests' administrator."""
    _administrator().execute(sql, *arguments)


def _plain(url: str) -> str:
    return url.replace("postgresql+asyncpg://", "postgresql://")
