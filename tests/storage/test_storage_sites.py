"""Adding, finding, changing and deleting sites."""

from __future__ import annotations

import math
import random
from dataclasses import fields
from typing import Any

import pytest
from cryptography.fernet import Fernet
from msgspec.structs import fields as struct_fields

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.model import SiteState
from pollerd.scheduling.sites import SiteTable
from pollerd.site_settings import NUMERIC_SETTINGS, Access, DayWindow, SiteSpec, Windows
from pollerd.storage.schema import site
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import ScheduleRows, SiteChanges
from tests.storage.samples import add, hosts_of, poll_all, query, schedule_of


async def test_what_became_of_every_spec(store: Store) -> None:
    await add(store, 2)
    await store.sites.delete(1, 5.0)
    specs = [SiteSpec(f"http://h/{p}") for p in "aba"] + [SiteSpec("http://h1/1"), SiteSpec("http://h0/0")]
    result = await store.sites.add(specs, ["h:80"] * 5, 6.0, respect_deleted=True)
    assert [(site, i) for site, i, _ in result.added] == [(3, 0), (4, 1)]
    assert result.existing == [(3, 2), (2, 3)]
    assert result.deleted == [4]
    assert len({host for _, _, host in result.added}) == 1


async def test_adding_a_deleted_url_on_purpose_restores_it(store: Store, url: str) -> None:
    [site] = await add(store)
    await store.sites.delete(site, 5.0)
    assert await query(url, "SELECT url, deleted_at FROM deleted_url") == [("http://h0/0", 5.0)]
    result = await store.sites.add([SiteSpec("http://h0/0")], ["h0:80"], 6.0, respect_deleted=False)
    assert result.added[0][0] > site, "an id is never used again"
    assert await query(url, "SELECT * FROM deleted_url") == []
    assert await add(store) == []


async def test_a_site_comes_back_as_it_was_given(store: Store) -> None:
    spec = SiteSpec("http://h/é", 2.0, 3.0, ("b", "a", "b"), 10.0, 20.0, half_life=30.0)
    await store.sites.add([spec], ["h:80"], 7.5, respect_deleted=True)
    site = await store.sites.find("http://h/é")
    assert site is not None
    assert site == await store.sites.get(site.id)
    assert site.spec == SiteSpec("http://h/é", 2.0, 3.0, ("b", "a"), 10.0, 20.0, half_life=30.0), (
        "tags keep their order"
    )
    assert (site.host, site.state, site.created_at, site.polls) == ("h:80", SiteState.ACTIVE, 7.5, 0)
    assert await store.sites.find("http://h/e") is None


async def test_sites_of_many_kinds_in_one_import_come_back_as_they_were_given(url: str) -> None:
    store = await Store.open(url, settings=StorageSettings(secret_key=Fernet.generate_key().decode()))
    rng = random.Random(7)
    kinds: list[dict[str, Any]] = [
        {},
        {"weight": 2.5, "paused": True},
        {"min_interval": 0.0, "max_interval": 60.0, "tags": ("a",)},
        {"respect_ttl": True, "min_yield": 0.0},
        {"respect_ttl": False, "half_life": 1e-3},
        {"access": Access(headers=(("X-A", "1"),))},
        {"access": Access(proxy="http://p:1"), "cost": 3.0},
        {"windows": Windows("UTC", (DayWindow(("mon",), "08:00", "24:00"),)), "weight": 1.0},
    ]
    specs = [SiteSpec(f'http://h/"é\\{i}', **rng.choice(kinds)) for i in range(60)]
    result = await store.sites.add([*specs, specs[0]], ["h:80", "i:80"] * 30 + ["h:80"], 1.0, respect_deleted=True)
    assert [i for _, i, _ in result.added] == list(range(60))
    assert [i for _, i in result.existing] == [60]
    ids = [site_id for site_id, _, _ in result.added]
    assert ids == sorted(ids), "slots follow ids at a start: neighbours in the list stay neighbours"
    for site_id, i, _ in result.added:
        site = await store.sites.get(site_id)
        assert (site.spec, site.host, site.created_at) == (specs[i], ["h:80", "i:80"][i % 2], 1.0)
    await store.close()


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("weight", {"weight": float("nan")}),
        ("cost", {"cost": 0.0}),
        ("half_life", {"half_life": -1.0}),
        ("min_yield", {"min_yield": 1.0}),
        ("min_yield", {"min_yield": float("nan")}),
        ("max_interval", {"min_interval": 5.0, "max_interval": 4.0}),
        ("tags", {"tags": ("",)}),
        ("url", {"url": "http://h/\0"}),
    ],
)
async def test_a_spec_that_cannot_be_kept_is_named(store: Store, field: str, values: dict[str, Any]) -> None:
    spec = SiteSpec(**{"url": "http://h/", **values})
    with pytest.raises(InvalidValueError) as caught:
        await store.sites.add([SiteSpec("http://good/"), spec], ["a:80", "h:80"], 1.0, respect_deleted=True)
    assert caught.value.field == field
    assert [rows async for rows in store.sites.schedule.all()] == []


async def test_hosts_and_specs_must_match(store: Store) -> None:
    with pytest.raises(InvalidValueError, match="hosts"):
        await store.sites.add([SiteSpec("http://h/")], [], 1.0, respect_deleted=True)


async def test_pages_of_sites_go_through_all_of_them_once(store: Store) -> None:
    sites = await add(store, 7)
    found: list[int] = []
    cursor: str | None = None
    while True:
        page = await store.sites.page(limit=3, cursor=cursor)
        found += [s.id for s in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == sites == [s.id async for s in store.sites.iterate()]


async def test_filters(store: Store) -> None:
    sites = await add(store, 4, tags=("x",))
    await store.sites.add([SiteSpec("http://other/50%_A", tags=("y",))], ["other:80"], 1.0, respect_deleted=True)
    await store.sites.update(sites[0], {"paused": True}, 2.0)

    async def ids(**filters: Any) -> list[int]:
        return [s.id for s in (await store.sites.page(**filters)).items]

    assert await ids(tag="x") == sites
    assert await ids(host="h1:80") == [sites[1], sites[3]]
    assert await ids(q="%_a") == [sites[3] + 1]
    assert await ids(state=SiteState.PAUSED) == [sites[0]]
    assert await ids(state=SiteState.ACTIVE, tag="x") == sites[1:]
    assert await ids(state=SiteState.GONE) == []
    assert await store.sites.count() == 5


async def test_changed_settings_are_kept_and_the_rest_stays(store: Store) -> None:
    [site] = await add(store, weight=2.0, tags=("a",))
    await poll_all(store, [site], 10.0, b"one")
    changes: SiteChanges = {"cost": 3.0, "tags": ["b", "c"], "min_interval": 60.0, "paused": True}
    after = await store.sites.update(site, changes, 20.0)
    assert after.spec == SiteSpec("http://h0/0", 2.0, 3.0, ("b", "c"), 60.0, paused=True)
    assert (after.state, after.polls) == (SiteState.PAUSED, 1)
    context = (await store.sites.contexts([site]))[site]
    assert (context.settings_changed_at, context.baseline.fingerprint is None) == (20.0, False)
    after = await store.sites.update(site, {"min_interval": None, "paused": False}, 30.0)
    assert (after.spec.min_interval, after.state, after.spec.tags) == (None, SiteState.ACTIVE, ("b", "c"))


async def test_a_new_url_forgets_the_old_page(store: Store) -> None:
    sites = await add(store, 2)
    await poll_all(store, sites, 10.0, b"one")
    after = await store.sites.update(sites[0], {"url": "http://new/", "host": "new:80"}, 20.0)
    assert (after.spec.url, after.host, after.polls) == ("http://new/", "new:80", 1)
    context = (await store.sites.contexts(sites))[sites[0]]
    assert (context.baseline.fingerprint, context.content_id, bool(context.validators)) == (None, None, False)
    with pytest.raises(DuplicateError) as caught:
        await store.sites.update(sites[0], {"url": "http://h1/1", "host": "h1:80"}, 30.0)
    assert caught.value.existing_id == sites[1]
    assert (await store.sites.get(sites[0])).spec.url == "http://new/"


async def test_bad_changes_are_refused(store: Store) -> None:
    [site] = await add(store)
    numbers = [{"weight": -1.0}, {"min_interval": -1.0}, {"cost": 0.0}]
    bad: list[Any] = [*numbers, {"url": "http://no-host/"}, {"colour": "red"}]
    for changes in bad:
        with pytest.raises(InvalidValueError):
            await store.sites.update(site, changes, 2.0)
    assert (await store.sites.contexts([site]))[site].settings_changed_at is None


async def test_a_deleted_site_leaves_nothing(store: Store, url: str) -> None:
    sites = await add(store, 2, tags=("a",))
    await poll_all(store, sites, 10.0, b"one")
    await poll_all(store, sites, 20.0, b"two", changed=True)
    await store.sites.delete(sites[0], 30.0)
    for table in ("site_tag", "site_state", "poll", "content", "change"):
        assert await query(url, f"SELECT DISTINCT site_id FROM {table}") == [(sites[1],)]
    for call in (store.sites.get(sites[0]), store.sites.delete(sites[0], 1.0), store.sites.update(sites[0], {}, 1.0)):
        with pytest.raises(NotFoundError):
            await call


async def test_sync_deletes_what_is_not_listed_and_lets_it_come_back(store: Store) -> None:
    sites = await add(store, 4)
    assert await store.sites.delete_missing(["http://h0/0", "http://h1/3", "http://unknown/"]) == sites[1:3]
    assert (await schedule_of(store)).site_id.tolist() == [sites[0], sites[3]]
    assert len(await add(store, 4)) == 2


async def test_a_hundred_thousand_sites_at_once(store: Store) -> None:
    count = 100_000
    specs = [
        SiteSpec(f"http://host{i % 2000}.example/page/{i}", tags=("all",) if i % 10 == 0 else ()) for i in range(count)
    ]
    hosts = [f"host{i % 2000}.example:80" for i in range(count)]
    result = await store.sites.add(specs, hosts, 1.0, respect_deleted=True)
    assert len(result.added) == count
    rows = await schedule_of(store)
    assert len(rows) == count
    assert rows.site_id.tolist() == [site for site, _, _ in result.added]
    assert rows.host_id.tolist() == [host for _, _, host in result.added]
    assert len(await hosts_of(store)) == 2000
    again = await store.sites.add(specs[-7000:], hosts[-7000:], 2.0, respect_deleted=True)
    assert (len(again.added), len(again.existing)) == (0, 7000)


def test_every_table_of_sites_has_the_settings_that_are_numbers() -> None:
    others = {"url", "title", "tags", "access", "paused", "windows", "selections", "render", "keep_screenshots"}
    others |= {"spelling"}
    assert set(NUMERIC_SETTINGS) == {one.name for one in struct_fields(SiteSpec)} - others
    assert set(NUMERIC_SETTINGS) <= set(site.c.keys())
    assert set(NUMERIC_SETTINGS) <= {one.name for one in fields(ScheduleRows)}
    table = SiteTable()
    table.add([7])
    for name, value in NUMERIC_SETTINGS.items():
        empty = getattr(table, name)[0]
        assert math.isnan(empty) if value is None else empty == value


async def test_many_are_paused_some_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pollerd.storage.site_rows.PIECE", 2)
    specs = [SiteSpec(f"http://h/{n}", tags=("odd",) if n % 2 else (), paused=n == 1) for n in range(7)]
    added = await store.sites.add(specs, ["h:80"] * 7, 1.0, respect_deleted=True)
    ids = [site_id for site_id, _, _ in added.added]
    seen = []
    async for piece, changed in store.sites.pause("odd", True):
        seen.append((piece.tolist(), changed))
        await store.sites.delete(ids[5], 2.0) if len(seen) == 1 else None  # another write comes in between
    assert seen == [([ids[1], ids[3]], 1)]
    paused = {site.id for site in await store.sites.get_many(ids) if site.spec.paused}
    assert paused == {ids[1], ids[3]}
    everyone = [(piece.tolist(), changed) async for piece, changed in store.sites.pause(None, False)]
    assert everyone == [(ids[0:2], 1), (ids[2:4], 1), ([ids[4], ids[6]], 0)]
    assert [changed async for _, changed in store.sites.pause("nobody", True)] == []


async def test_a_change_leaves_what_another_changed_since_the_site_was_read(store: Store) -> None:
    site_id = (await add(store, 1))[0]
    before = await store.sites.get(site_id)
    await store.sites.update(site_id, {"weight": 4.0, "title": "theirs"}, 20.0)
    await store.sites.update(before, {"cost": 2.0}, 30.0)
    after = await store.sites.get(site_id)
    assert (after.spec.weight, after.spec.cost, after.spec.title) == (4.0, 2.0, "theirs")
    assert [one.id for one in (await store.sites.page(q="theirs")).items] == [site_id], "it is found by its title"


async def test_a_site_that_is_gone_since_it_was_read_is_not_changed(store: Store) -> None:
    site_id = (await add(store, 1))[0]
    before = await store.sites.get(site_id)
    await store.sites.discard([site_id])
    with pytest.raises(NotFoundError):
        await store.sites.update(before, {"cost": 2.0}, 30.0)
