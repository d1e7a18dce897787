"""One linear tree of migrations, up and down with rows, on both databases."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError, InvalidValueError, SchemaError
from pollerd.scheduling.min_yield import least_savings
from pollerd.site_settings import RespectTtl, SiteSpec, TagSettings
from pollerd.storage import migrate
from pollerd.storage.engine import Database, database_url
from pollerd.storage.schema import metadata
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from tests.storage.samples import add, poll_all, query


@pytest.fixture
def url(new_url: str) -> str:
    """In place of the suite's: a database that was never migrated."""
    return new_url


async def test_the_tree_is_linear() -> None:
    scripts = ScriptDirectory.from_config(migrate.config())
    assert scripts.get_heads() == [migrate.head()]
    assert scripts.get_bases() == ["0001"]
    assert {script.revision for script in scripts.walk_revisions()} == migrate.known_revisions()
    assert all(not isinstance(s.down_revision, tuple) for s in scripts.walk_revisions())


async def test_the_migrated_schema_is_the_declared_one(store: Store) -> None:
    def differences(connection: Connection) -> list[object]:
        # An index of trigrams has no declaration that both databases have, that of polls' times is SQLite's, and
        # partitions follow their table.
        apart = re.compile("trigram" if connection.dialect.name == "sqlite" else "trigram|^poll_|^ix_poll_at$")
        options = {"compare_type": True, "include_object": lambda _, name, *__: not apart.search(name or "")}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))

    assert await store.database.read(differences) == []


async def test_up_down_and_up_with_rows(url: str, settings: StorageSettings) -> None:
    store = await Store.open(url, settings=settings)
    sites = await add(store, 3, tags=("a",))
    await poll_all(store, sites, 10.0, b"one")
    await poll_all(store, sites, 20.0, b"two", changed=True)
    await store.runs.start("1", 1.0)
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "base"))
    assert await database.read(migrate.read_revision) is None
    assert await database.read(lambda c: c.dialect.get_table_names(c)) == ["alembic_version"]
    await database.close()
    assert await migrate.upgrade(url) == migrate.head() == await migrate.current(url)
    store = await Store.open(url, settings=settings)
    assert await add(store, 2) == [1, 2]
    await store.check()
    await store.close()


async def test_pages_keep_their_values_under_other_names(url: str, settings: StorageSettings) -> None:
    """0012 renames columns; rows, values and the indexes on them go down and up."""
    await migrate.upgrade(url)
    columns, row = "key, url, host_id, depth, discovered_at", "7, 'http://a/', 1, 0, 9.0, 0.5, 3, 2, 1.25"
    after = "value, child_count, children_retrieved, children_relevance"
    before = "worth, brood, brood_asked, brood_sum"
    await query(url, f"INSERT INTO page ({columns}, {after}) VALUES ({row})")
    database = Database(database_url(url), settings, create=False)
    for move, names, value in [("0011", before, "worth"), ("0012", after, "value")]:
        if move == "0011":
            await database.write(lambda c: migrate.down(c, "0011"))
        else:
            await database.write(migrate.up)
        assert await query(url, f"SELECT {names} FROM page") == [(0.5, 3, 2, 1.25)]
        indexes = await database.read(lambda c: {index["name"] for index in inspect(c).get_indexes("page")})
        assert {f"ix_page_host_id_{value}", f"ix_page_parent_id_{value}"} <= indexes
    await database.close()


async def test_a_newer_schema_is_refused(url: str, settings: StorageSettings) -> None:
    await migrate.upgrade(url)
    await query(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaError, match="9999"):
        await Store.open(url, settings=settings)
    with pytest.raises(SchemaError, match="9999"):
        await migrate.upgrade(url)
    assert await migrate.current(url) == "9999"


async def test_a_schema_that_changed_under_us_is_noticed(store: Store, url: str) -> None:
    await store.check()
    await query(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaError, match="9999"):
        await store.check()


async def test_no_upgrade_under_a_running_daemon(store: Store, url: str) -> None:
    assert await migrate.upgrade(url) == migrate.head()  # nothing to do, nothing to lock
    await query(url, "DELETE FROM alembic_version")
    with pytest.raises(DatabaseInUseError):
        await migrate.upgrade(url)


@pytest.mark.parametrize("text", ["mysql://x/y", "nonsense", "sqlite+pysqlite:///x", "postgresql+psycopg://u:pw@h/d"])
def test_only_two_databases_are_known(text: str) -> None:
    with pytest.raises(InvalidValueError, match="database") as caught:
        database_url(text)
    assert "pw" not in str(caught.value)


def test_plain_urls_get_their_driver() -> None:
    for text in ("postgres://u@h/d", "postgresql://u@h/d", "postgresql+asyncpg://u@h/d"):
        assert database_url(text).drivername == "postgresql+asyncpg"
    for text in ("sqlite:///x.db", "sqlite+aiosqlite:///x.db"):
        assert database_url(text).drivername == "sqlite"


async def test_signal_sources_go_down_and_up_without_their_hubs(url: str, settings: StorageSettings) -> None:
    """0027 adds columns to signal sources, and a table whose rows are made anew; only its program knows its tokens."""
    await migrate.upgrade(url)
    await query(url, "INSERT INTO signal_source (kind, name, hosts, created_at) VALUES ('push', 'cms', 'any', 1.0)")
    columns = "source_id, hub, topic, callback, secret, state, created_at, next_at"
    await query(url, f"INSERT INTO hub_subscription ({columns}) VALUES (1, 'h', 't', 'c', '', 'active', 1.0, 2.0)")
    for name, role in (("a", "signals"), ("b", "read")):
        token = f"'{name}', '{name}', '{role}', '{name}', 1.0"
        await query(url, f"INSERT INTO api_token (name, key, role, digest, created_at) VALUES ({token})")
    assert await query(url, "SELECT origin, index_id, made_site FROM signal_source") == [("api", None, False)]
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0026"))
    await database.close()
    assert await query(url, "SELECT kind, name FROM signal_source") == [("push", "cms")]
    assert await query(url, "SELECT name FROM api_token") == [("b",)]
    await migrate.upgrade(url)
    assert await query(url, "SELECT name, origin FROM signal_source") == [("cms", "api")]
    assert await query(url, "SELECT count(*) FROM hub_subscription") == [(0,)]


async def test_whether_ttls_are_respected_goes_down_and_up(url: str, settings: StorageSettings) -> None:
    """0034 makes numbers of true and false, in sites and tags; a hint becomes the default of earlier versions."""
    given = {"a": RespectTtl.OFF, "b": RespectTtl.STRICT, "c": RespectTtl.HINT, "d": None}
    await migrate.upgrade(url)
    store = await Store.open(url, settings=settings)
    for name, trust in given.items():
        specs = [SiteSpec(f"http://h/{name}", respect_ttl=trust)]
        await store.sites.add(specs, ["h:80"], 1.0, respect_deleted=True)
        said = {"weight": 2.0} if trust is None else {"weight": 2.0, "respect_ttl": trust}
        await store.sites.tags.put(TagSettings(name, said, changed_at=5.0), sends=False)
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0032"))
    await database.close()
    rows = await query(url, "SELECT respect_ttl FROM site ORDER BY url")
    assert [value if value is None else bool(value) for (value,) in rows] == [False, True, None, None]
    tags = [json.loads(text) for (text,) in await query(url, "SELECT settings FROM tag ORDER BY name")]
    assert json.dumps([one.get("respect_ttl") for one in tags]) == "[false, true, null, null]"
    assert [one["weight"] for one in tags] == [2.0] * 4
    await migrate.upgrade(url)
    store = await Store.open(url, settings=settings)
    sites = sorted((await store.sites.page(limit=9)).items, key=lambda site: site.spec.url)
    kept = [RespectTtl.OFF, RespectTtl.STRICT, None, None]
    assert [site.spec.respect_ttl for site in sites] == kept
    assert [tag.settings.get("respect_ttl") for _, tag in sorted((await store.sites.tags.load()).items())] == kept
    await store.close()


async def test_rows_that_said_no_min_yield_before_there_was_a_min_saving_say_it_still(
    url: str, settings: StorageSettings
) -> None:
    """0038 only adds a column: a min_yield of 0 without a min_saving means 0 wherever it is read, also to old nodes."""
    await migrate.upgrade(url)
    store = await Store.open(url, settings=settings)
    specs = [SiteSpec("http://h/a", min_yield=0.0), SiteSpec("http://h/b", tags=("t",)), SiteSpec("http://h/c")]
    await store.sites.add(specs, ["h:80"] * 3, 1.0, respect_deleted=True)
    await store.sites.tags.put(TagSettings("t", {"min_yield": 0.0}, changed_at=5.0), sends=False)
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0037"))
    assert "min_saving" not in await database.read(
        lambda c: {column["name"] for column in inspect(c).get_columns("site")}
    )
    await database.close()
    await migrate.upgrade(url)
    store = await Store.open(url, settings=settings)
    await store.sites.tags.load()
    (rows, faults), *_ = [part async for part in store.sites.schedule.all()]
    assert not faults
    assert least_savings(rows.min_saving, rows.min_yield, 20.0).tolist() == [0.0, 0.0, 20.0]
    await store.close()


async def test_a_reader_creates_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/none.db"
    with pytest.raises(DatabaseUnavailableError):
        await migrate.current(url)
    with pytest.raises(DatabaseUnavailableError):
        await Store.open(url, exclusive=False)
    with pytest.raises(DatabaseUnavailableError):
        await Store.open(f"sqlite:///{tmp_path}/no/such/folder/x.db")
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"This is a text, and a long one at that. " * 200)
    with pytest.raises(SchemaError, match="not a database"):
        await Store.open(f"sqlite:///{tmp_path}/x.db")


def test_migrations_are_found_beside_an_installed_package(tmp_path: Path) -> None:
    """A wheel holds them as pollerd/storage/migrations."""
    checkout = Path(migrate.__file__).parents[2]
    shutil.copytree(checkout / "pollerd", tmp_path / "pollerd")
    shutil.copytree(checkout / "migrations", tmp_path / "pollerd" / "storage" / "migrations")
    script = (
        "import asyncio; from pollerd.storage import migrate; "
        f"assert migrate.__file__.startswith({str(tmp_path)!r}); "
        "print(asyncio.run(migrate.upgrade('sqlite:///x.db')))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True)
    assert (done.stdout.decode().strip(), done.stderr) == (migrate.head(), b"")
