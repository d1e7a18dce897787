"""Settings of tags in both databases: kept, inherited at a start and for polls, damaged by hand, migrated."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pollerd.errors import ConfigError
from pollerd.site_settings import DAYS, NO_ACCESS, Access, DayWindow, RespectTtl, SiteSpec, TagSettings, Windows
from pollerd.storage import migrate
from pollerd.storage.engine import Database, database_url
from pollerd.storage.keys import new_key
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from tests.storage.samples import query, schedule_of

NIGHT = Windows("Europe/Berlin", (DayWindow(DAYS, "22:00", "06:00"),))
SECRET = Access((("X-Key", "hush"),), None, "http://p:1")


@pytest.fixture
def settings() -> StorageSettings:
    return StorageSettings(secret_key=new_key())


async def put(store: Store, name: str, access: Access = NO_ACCESS, **settings: Any) -> None:
    tag = TagSettings(name, settings, access, 5.0)
    await store.sites.tags.put(tag, sends=bool(access))


async def test_tags_are_there_after_a_restart(url: str, settings: StorageSettings) -> None:
    store = await Store.open(url, settings=settings)
    await put(
        store, "news", SECRET, weight=2.0, windows=NIGHT, respect_ttl=RespectTtl.OFF, tomorrow={"of": ["another"]}
    )
    await put(store, "gone", weight=1.0)
    await store.sites.tags.delete("gone", 6.0, sends=False)
    there = store.sites.tags.in_force
    assert list(there) == ["news"]
    await store.close()
    again = await Store.open(url, settings=settings)
    assert again.sites.tags.in_force == {}
    assert await again.sites.tags.load() == there
    assert again.sites.tags.in_force["news"].settings["windows"] == NIGHT
    assert again.sites.tags.in_force["news"].settings["tomorrow"] == {"of": ["another"]}, "of a version to come"
    assert b"hush" not in (await query(url, "SELECT access FROM tag"))[0][0]
    await again.close()
    with pytest.raises(ConfigError, match="tag news"):
        await Store.open(url, settings=StorageSettings(secret_key=new_key()))


async def test_a_start_reads_what_sites_are_polled_by(store: Store) -> None:
    other = Windows("UTC", (DayWindow(("mon",), "00:00", "24:00"),))
    one, two, three, four = await _four(store, other)
    await put(store, "a", weight=3.0, min_interval=60.0, windows=NIGHT)
    await put(store, "b", weight=9.0, cost=4.0, respect_ttl=RespectTtl.STRICT)
    rows = await schedule_of(store)
    assert rows.site_id.tolist() == [one, two, three, four]
    assert [_plain(value) for value in rows.weight] == [1.0, 9.0, 3.0, None]
    assert [_plain(value) for value in rows.cost] == [None, 4.0, 4.0, None]
    assert [_plain(value) for value in rows.min_interval] == [60.0, 60.0, 60.0, None]
    assert [_plain(value) for value in rows.respect_ttl] == [None, 1.0, 1.0, None]
    assert rows.windows == {one: NIGHT, two: other, three: NIGHT}


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


async def _four(store: Store, other: Windows) -> list[int]:
    specs = [
        SiteSpec("http://h/1", weight=1.0, tags=("a",)),
        SiteSpec("http://h/2", tags=("b", "a", "c"), windows=other),
        SiteSpec("http://h/3", tags=("a", "b")),
        SiteSpec("http://h/4", tags=("c",)),
    ]
    result = await store.sites.add(specs, ["h:80"] * 4, 1.0, respect_deleted=True)
    return [site_id for site_id, _, _ in result.added]


async def test_the_sites_of_a_tag_are_read_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pollerd.storage.site_rows.PIECE", 2)
    ids = await _four(store, NIGHT)
    future = {"a": TagSettings("a", {"weight": 3.0, "windows": NIGHT})}
    pieces = [piece async for piece, _ in store.sites.tags.tagged("a", future)]
    assert [piece.site_id.tolist() for piece in pieces] == [ids[:2], ids[2:3]]
    assert [piece.numbers["weight"].tolist() for piece in pieces] == [[1.0, 3.0], [3.0]]
    assert [piece.windows for piece in pieces] == [{ids[0]: NIGHT, ids[1]: NIGHT}, {ids[2]: NIGHT}]
    assert [_plain(v) async for piece, _ in store.sites.tags.tagged("a", {}) for v in piece.numbers["weight"]] == [
        1.0,
        None,
        None,
    ]
    assert [piece async for piece in store.sites.tags.tagged("nobody", future)] == []


async def test_polls_send_what_tags_say(store: Store) -> None:
    ids = await _four(store, NIGHT)
    await put(store, "a", SECRET)
    found = await store.sites.contexts(ids)
    assert [bool(found[site_id].access) for site_id in ids] == [True, True, True, False]
    assert [found[site_id].settings_changed_at for site_id in ids] == [5.0, 5.0, 5.0, None], "their next poll is whole"
    await store.sites.tags.delete("a", 6.0, sends=True)
    found = await store.sites.contexts(ids)
    assert [(found[site_id].access, found[site_id].settings_changed_at) for site_id in ids[:1]] == [(Access(), 6.0)]


async def test_damage_is_reported_and_touches_only_the_sites_of_the_tag(store: Store, url: str) -> None:
    ids = await _four(store, NIGHT)
    for settings in ("{", '{"weight": "much"}', '{"windows": {"zone": "Mars/Base", "open": []}}', "[]"):
        await query(url, "DELETE FROM tag")
        await query(url, f"INSERT INTO tag (name, settings, changed_at) VALUES ('b', '{settings}', 1)")
        tags = await store.sites.tags.load()
        assert "its tag b cannot be read" in tags["b"].fault, settings
        found = await store.sites.contexts(ids)
        assert [bool(found[site_id].fault) for site_id in ids] == [False, True, True, False]
    await query(url, "UPDATE site SET windows = '{' WHERE id = " + str(ids[0]))
    faults: dict[int, str] = {}
    async for _, some in store.sites.schedule.all():
        faults |= some
    assert list(faults) == [ids[0]]
    assert "windows" in faults[ids[0]]


async def test_a_weight_of_one_was_unsaid_before_there_was_inheritance(url: str, settings: StorageSettings) -> None:
    store = await Store.open(url, settings=settings)
    specs = [
        SiteSpec("http://h/1", tags=("b", "a")),
        SiteSpec("http://h/2", weight=2.0, cost=1.0),
        SiteSpec("http://h/3"),
    ]
    await store.sites.add(specs, ["h:80"] * 3, 1.0, respect_deleted=True)
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0012"))
    await database.close()
    store = await Store.open(url, settings=settings)
    found = [(site.spec.weight, site.spec.cost) for site in await store.sites.get_many([1, 2, 3])]
    assert found == [(None, None), (2.0, None), (None, None)]
    await store.close()


async def test_sites_of_a_tag_and_tags_of_sites(store: Store) -> None:
    specs = [SiteSpec(f"http://h/{n}", tags=tags) for n, tags in enumerate([("b", "a"), (), ("a",)])]
    added = await store.sites.add(specs, ["h:80"] * 3, 1.0, respect_deleted=True)
    one, two, three = [site_id for site_id, _, _ in added.added]
    assert (await store.sites.tags.ids_tagged("a")).tolist() == [one, three]
    assert (await store.sites.tags.ids_tagged("c")).tolist() == []
    assert sorted(await store.sites.tags.among([one, two, 99])) == [(one, "a"), (one, "b")]
    assert await store.sites.tags.among([]) == []
