"""Headers, credentials and proxies at rest: sealed, with a key that is somewhere else."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from pollerd.errors import ConfigError, InvalidValueError
from pollerd.site_settings import NO_ACCESS, Access, Credentials
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from tests.storage.samples import add, file_of, poll_all, query

SECRET = Access(
    (("X-Key", "opensesame"),), Credentials(username="someone", password="hunter2"), "http://me:pw99@10.0.0.1:3128"
)
PLAIN = (b"opensesame", b"hunter2", b"pw99", b"someone")


def _keyed(*keys: str) -> StorageSettings:
    return StorageSettings(busy_timeout_seconds=0.2, secret_key=",".join(keys))


def _key() -> str:
    return Fernet.generate_key().decode()


async def test_what_is_secret_comes_back_and_is_nowhere_in_clear(url: str) -> None:
    settings = _keyed(_key())
    store = await Store.open(url, settings=settings)
    [site] = await add(store, 1, access=SECRET)
    plain = (await add(store, 2))[-1]
    assert (await store.sites.get(site)).spec.access == SECRET
    assert (await store.sites.get(plain)).spec.access == NO_ACCESS
    await poll_all(store, [site, plain], 10.0, b"one")
    contexts = await store.sites.contexts([site, plain])
    assert (contexts[site].access, contexts[plain].access) == (SECRET, NO_ACCESS)
    await store.close()
    [(sealed,)] = await query(url, f"SELECT access FROM site WHERE id = {site}")
    assert not any(word in bytes(sealed) for word in PLAIN)
    store = await Store.open(url, settings=settings)
    assert (await store.sites.get(site)).spec.access == SECRET
    await store.close()


async def test_it_is_changed_and_taken_away(url: str) -> None:
    store = await Store.open(url, settings=_keyed(_key()))
    [site] = await add(store, 1)
    await store.sites.update(site, {"access": SECRET}, 5.0)
    changed = await store.sites.update(site, {"weight": 2.0}, 6.0)
    assert changed.spec.access == SECRET
    assert (await store.sites.contexts([site]))[site].settings_changed_at == 6.0
    await store.sites.update(site, {"access": NO_ACCESS}, 7.0)
    assert await query(url, "SELECT access FROM site") == [(None,)]
    await store.close()


async def test_another_key_is_refused_at_the_start_and_an_old_one_may_stay(url: str) -> None:
    old, new = _key(), _key()
    store = await Store.open(url, settings=_keyed(old))
    await add(store, 7, access=SECRET)
    await store.close()
    with pytest.raises(ConfigError, match=r"secret_key: .*\(sites 1, 2, 3, 4, 5 and 2 more\)"):
        await Store.open(url, settings=_keyed(new))
    store = await Store.open(url, settings=_keyed(new, old))
    assert (await store.sites.get(1)).spec.access == SECRET
    await store.close()


async def test_postgres_without_a_key_keeps_no_secrets(postgres_url: str) -> None:
    store = await Store.open(postgres_url)
    with pytest.raises(InvalidValueError, match="headers: PostgreSQL keeps no secrets without a key") as caught:
        await add(store, 1, access=SECRET)
    assert "opensesame" not in str(caught.value)
    assert (await store.sites.page()).items == []
    await store.close()
    store = await Store.open(postgres_url, settings=_keyed(_key()))
    await add(store, 1, access=SECRET)
    await store.close()
    with pytest.raises(ConfigError, match="no key is set"):
        await Store.open(postgres_url)


async def test_sqlite_makes_a_key_of_its_own_when_it_is_needed(sqlite_url: str) -> None:
    database = file_of(sqlite_url)
    key = database.with_name(database.name + ".key")
    store = await Store.open(sqlite_url)
    await add(store, 1)
    assert not key.exists()
    await store.sites.update(1, {"access": SECRET}, 5.0)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert sorted(p.name for p in database.parent.glob("*.key*")) == [key.name]
    await store.close()
    for file in database.parent.iterdir():
        assert not any(word in file.read_bytes() for word in PLAIN), file
    store = await Store.open(sqlite_url)
    assert (await store.sites.get(1)).spec.access == SECRET
    await store.close()
    key.unlink()
    with pytest.raises(ConfigError, match="no key is set"):
        await Store.open(sqlite_url)


async def test_a_key_set_later_leaves_open_what_the_key_file_sealed(sqlite_url: str) -> None:
    store = await Store.open(sqlite_url)
    await add(store, 1, access=SECRET)
    await store.close()
    settings = _keyed(_key())
    store = await Store.open(sqlite_url, settings=settings)
    assert (await store.sites.get(1)).spec.access == SECRET
    await store.sites.update(1, {"access": SECRET}, 5.0)
    await store.close()
    file_of(sqlite_url).with_name("poll.db.key").unlink()
    store = await Store.open(sqlite_url, settings=settings)
    assert (await store.sites.get(1)).spec.access == SECRET
    await store.close()


@pytest.mark.parametrize("text", [b"nonsense\n", b"\xff\xfe"])
async def test_a_spoiled_key_file_is_refused(sqlite_url: str, text: bytes) -> None:
    database = file_of(sqlite_url)
    Path(database.with_name(database.name + ".key")).write_bytes(text)
    with pytest.raises(ConfigError, match="key file") as caught:
        await Store.open(sqlite_url)
    assert "nonsense" not in str(caught.value)


async def test_in_memory_nothing_is_written() -> None:
    store = await Store.open("sqlite://")
    await add(store, 1, access=SECRET)
    assert (await store.sites.get(1)).spec.access == SECRET
    await store.close()


@pytest.mark.parametrize("key", ["", "short", ",", "é" * 44])
def test_a_key_is_checked_and_never_shown(key: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^secret_key: must be (?!.*given)"):
        StorageSettings(secret_key=key)
    assert "AAAA" not in repr(StorageSettings(secret_key="A" * 43 + "="))
