"""How long a difference can be read: by age, and under the cap the busiest sites give way first."""

from __future__ import annotations

import asyncio
import random
import re
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, event

from pollerd.errors import NotFoundError
from pollerd.model import Baseline, Change, Media, SelectionState
from pollerd.storage import migrate, retention
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.encoding import Order
from pollerd.storage.engine import Database, database_url
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, PruneResult, SelectionRecord
from tests.storage.samples import add, fingerprint, poll_all, query, record
from tests.storage.test_storage_delta_encoding import change, edition

NOISE = random.Random(7).randbytes(200_000)


def large(number: int, size: int = 500) -> bytes:
    """A content of which `size` bytes stay after compression."""
    return NOISE[number * size : (number + 1) * size]


async def open_with(url: str, **settings: Any) -> Store:
    return await Store.open(url, settings=StorageSettings(**settings))


async def changes_of(store: Store, site: int) -> list[Change]:
    return (await store.changes.page(ChangeFilter(site_id=site), limit=1000, order=Order.OLDEST)).items


async def readable(store: Store, site: int) -> list[float]:
    """When the changes of which both contents can be read were found."""
    return [c.detected_at for c in await changes_of(store, site) if c.before_content_id and c.after_content_id]


async def find(store: Store, site: int, at: float, number: int) -> None:
    await poll_all(store, [site], at, large(number), changed=number > 0)


async def assert_counted(store: Store, url: str) -> None:
    """What is counted is what is there, and all of it can be read."""
    counted = await query(url, "SELECT site_id, contents, bytes FROM content_use WHERE contents > 0 ORDER BY site_id")
    there = await query(url, "SELECT site_id, count(*), sum(size) FROM content GROUP BY site_id ORDER BY site_id")
    assert counted == there
    [(total,)] = await query(url, "SELECT bytes FROM content_total")
    assert total >= sum(row[2] for row in there)
    for (content_id,) in await query(url, "SELECT id FROM content"):
        assert (await store.contents.get(content_id)).body


async def test_a_busy_page_keeps_its_differences_for_the_retention(url: str) -> None:
    """Minutes after it was found a difference went before, because ten newer ones had come."""
    store = await open_with(url, content_retention_seconds=1000.0)
    [site] = await add(store)
    for number in range(60):
        await find(store, site, 100.0 + number, number)
    assert await store.prune(1100.0) == PruneResult()
    assert len(await readable(store, site)) == 59
    # The change at 131 is younger than the retention; what it came after is older, and is needed for it.
    pruned = await store.prune(1130.5)
    assert pruned.contents == 30
    assert await readable(store, site) == [100.0 + n for n in range(31, 60)]
    gone = (await changes_of(store, site))[0]
    assert await store.contents.limit_passed(gone) == ("content_retention", 1000.0)
    await assert_counted(store, url)
    await store.close()


async def test_the_newest_contents_stay_whatever_their_age(url: str) -> None:
    store = await open_with(url, content_retention_seconds=1000.0, keep_contents=4)
    quiet, busy = await add(store, 2)
    for number in range(4):
        await find(store, quiet, 100.0 + number, number)
    for number in range(8):
        await find(store, busy, 100.0 + number, number)
    assert (await store.prune(1e9)).contents == 4
    assert len(await readable(store, quiet)) == len(await readable(store, busy)) == 3
    assert await store.prune(1e9) == PruneResult()
    await find(store, busy, 2e9, 50)
    assert (await store.prune(2e9)).contents == 1
    await assert_counted(store, url)
    await store.close()


async def test_a_page_that_hardly_changes_can_be_compared_when_it_does(url: str) -> None:
    """What it was for a year is kept for as long after it changed as anything else."""
    store = await open_with(url, content_retention_seconds=1000.0, keep_contents=2)
    [site] = await add(store)
    for at, number in ((10.0, 0), (20.0, 1), (50_000.0, 2), (50_001.0, 3)):
        await find(store, site, at, number)
    assert (await store.prune(50_900.0)).contents == 1
    assert await readable(store, site) == [50_000.0, 50_001.0]
    assert (await store.prune(51_000.5)).contents == 1
    assert await readable(store, site) == [50_001.0]
    await store.close()


async def test_what_a_selection_reported_last_stays_whatever_its_age(url: str) -> None:
    """Repairing a selection compares with it, however many contents that did not matter came since."""
    store = await open_with(url, content_retention_seconds=1000.0, keep_contents=2, content_cap_bytes=1)
    [site] = await add(store, selections='{"default": {"steps": [{"keep": {"css": "main"}}]}}')
    for number in range(12):
        context = (await store.sites.contexts([site]))[site]
        known = {state.name: state for state in context.states}
        baseline = Baseline(fingerprint(large(number)), media=Media.HTML)
        state = replace(known.get("default", SelectionState("default", b"version1")), baseline=baseline)
        one = SelectionRecord(state, large(number), announces=number == 0)
        poll = replace(record(context, 10.0 + number), selections=(one,))
        after = replace(poll.context, selections=context.selections, own_selections=context.own_selections)
        await store.commit(Batch([replace(poll, context=after)]))
    assert (await store.prune(1e9)).contents > 5
    [state] = (await store.sites.contexts([site]))[site].states
    assert state.announced_id is not None
    assert state.content_id is not None
    assert (await store.contents.get(state.announced_id)).body == large(0)
    assert (await store.contents.get(state.content_id)).body == large(11)
    await store.close()


async def test_under_the_cap_the_busiest_gives_way_first(url: str) -> None:
    store = await open_with(url, content_cap_bytes=40 * 500)
    sites = await add(store, 3)
    for site, count in zip(sites, (8, 40, 12), strict=True):
        for number in range(count):
            await find(store, site, 100.0 + number, number)
    pruned = await store.prune(200.0)
    assert pruned.contents >= 20
    assert [len(await readable(store, site)) for site in (sites[0], sites[2])] == [7, 11]
    left = await readable(store, sites[1])
    assert 10 <= len(left) <= 19
    assert left == [100.0 + n for n in range(40 - len(left), 40)]
    assert await store.contents.limit_passed((await changes_of(store, sites[1]))[0]) == ("content_cap_bytes", 40 * 500)
    [(used,)] = await query(url, "SELECT sum(size) FROM content")
    assert 38 * 500 < used <= 40 * 500
    await assert_counted(store, url)
    await store.close()


async def test_the_newest_of_every_site_go_last(url: str) -> None:
    """Busy sites come down together; only when all keep few do the few go, evenly."""
    for cap, most in ((60, 10), (24, 4), (1, 1)):
        store = await open_with(url, content_cap_bytes=cap * 500)
        if cap == 60:
            sites = await add(store, 6)
            for i, site in enumerate(sites):
                for number in range(5 + 7 * i):
                    await find(store, site, 100.0 + number, number)
        await store.prune(1000.0)
        kept = [count for (count,) in await query(url, "SELECT count(*) FROM content GROUP BY site_id")]
        assert len(kept) == 6, "a current content is never dropped"
        assert most - 1 <= max(kept) <= most + 1, (cap, kept)
        assert max(kept) - min(kept) <= (6 if cap == 60 else 1)
        await assert_counted(store, url)
        await store.close()


async def test_nothing_left_to_drop_ends_the_round(url: str) -> None:
    store = await open_with(url, content_cap_bytes=0)
    [site] = await add(store)
    for number in range(1, 4):
        await change(store, site, float(number), edition(number))
    assert (await store.prune(10.0)).contents == 1
    assert await store.prune(10.0) == PruneResult()
    await change(store, site, 20.0, edition(9))
    assert (await store.prune(30.0)).contents == 1
    await assert_counted(store, url)
    await store.close()


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_goes_the_rest_can_be_read_and_the_limit_is_named(url: str, seed: int) -> None:
    """Pages that are edited in places, rebuilt and put back, under both limits."""
    chance = random.Random(seed)
    store = await open_with(url, content_retention_seconds=60.0, content_cap_bytes=6_000, keep_contents=3)
    sites, at = await add(store, 4), 1000.0
    for _ in range(6):
        for _ in range(25):
            at += chance.uniform(0.1, 3.0)
            site = sites[min(int(chance.expovariate(0.8)), 3)]
            body = edition(chance.randrange(40))
            await change(store, site, at, body if chance.random() < 0.8 else large(chance.randrange(200)) + body)
        await store.prune(at)
        await assert_counted(store, url)
    for site in sites:
        context = (await store.sites.contexts([site]))[site]
        if context.content_id is not None:
            assert (await store.contents.get(context.content_id)).body
        pruned = [c for c in await changes_of(store, site) if not (c.before_content_id and c.after_content_id)]
        assert {(await store.contents.limit_passed(c))[0] for c in pruned} <= {"content_retention", "content_cap_bytes"}
    await store.close()


async def test_sites_that_go_are_not_counted_for_ever(url: str) -> None:
    store = await open_with(url, content_cap_bytes=12 * 500)
    sites = await add(store, 2)
    for site in sites:
        for number in range(8):
            await find(store, site, 100.0 + number, number)
    await store.prune(200.0)
    await store.sites.delete(sites[0], 300.0)
    before = len(await readable(store, sites[1]))
    for number in range(20, 24):
        await find(store, sites[1], 400.0 + number, number)
    # What was counted is more than the cap, what is there is not.
    assert (await store.prune(500.0)).contents == 0
    assert len(await readable(store, sites[1])) == before + 4
    await store.close()


async def test_changes_go_where_that_is_wanted(url: str) -> None:
    store = await open_with(url)
    [site] = await add(store)
    for number in range(5):
        await find(store, site, 100.0 + number, number)
    assert (await store.prune(1e12)).changes == 0
    await store.close()
    store = await open_with(url, change_retention_seconds=50.0)
    assert (await store.prune(152.5)).changes == 2
    assert [c.detected_at for c in await changes_of(store, site)] == [103.0, 104.0]
    assert (await store.prune(1e12)).changes == 2
    assert await store.changes.last_id() == 0
    with pytest.raises(NotFoundError):
        await store.changes.get(1)
    await find(store, site, 2e12, 9)
    assert [c.id for c in await changes_of(store, site)] == [5], "ids are never used again"
    await store.close()


async def test_a_database_of_before_is_counted_as_it_is_brought_up(url: str) -> None:
    settings = StorageSettings(keep_contents=3, content_retention_seconds=50.0)
    store = await Store.open(url, settings=settings)
    sites = await add(store, 2)
    for number in range(6):
        await poll_all(store, sites, 100.0 + number, large(number), changed=number > 0)
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0010"))
    await database.close()
    await query(url, "DELETE FROM content WHERE id <= 4")  # as versions before dropped them
    store = await Store.open(url, settings=settings)
    await assert_counted(store, url)
    assert (await store.contents.limit_passed((await changes_of(store, sites[0]))[0])) == ("keep_contents", 3)
    assert (await store.prune(1000.0)).contents == 2
    await assert_counted(store, url)
    await store.close()


async def fill_tables(store: Store, url: str) -> list[int]:
    """Many sites with two small contents each, counted, and statistics that say so; the ids of five of them."""
    sites = await add(store, 3000)
    await query(
        url,
        "INSERT INTO content (site_id, fingerprint, media, size, first_seen_at, last_seen_at, body) "
        f"SELECT id, {'zeroblob(16)' if url.startswith('sqlite') else 'decode(repeat($$00$$, 16), $$hex$$)'}, "
        "'html', 1, 50.0, 50.0, 'x' FROM site",
    )
    await store.prune(60.0)
    await query(url, "ANALYZE")
    return sites[:5]


async def statements_of_a_round(store: Store, now: float) -> list[tuple[str, Any]]:
    seen: list[tuple[str, Any]] = []

    def note(_c: Connection, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        seen.append((statement, parameters))

    engine = store.database.engine
    event.listen(engine, "before_cursor_execute", note)
    pruned = await store.prune(now)
    event.remove(engine, "before_cursor_execute", note)
    assert pruned.contents > 5, "both by age and under the cap"
    return [one for one in seen if "content" in one[0]]


async def test_pruning_reads_only_what_an_index_names(url: str) -> None:
    """No statement of a round looks at all contents, or at all sites, but to sum up where the cap is passed."""
    store = await open_with(url, content_retention_seconds=10.0, content_cap_bytes=14_000, keep_contents=3)
    busy = await fill_tables(store, url)
    for number in range(10):
        await poll_all(store, busy, 100.0 + number, large(number), changed=number > 0)
    seen = await statements_of_a_round(store, 115.0)
    explain = "EXPLAIN QUERY PLAN " if url.startswith("sqlite") else "EXPLAIN "

    def plan(connection: Connection, statement: str, parameters: Any) -> str:
        rows = connection.exec_driver_sql(explain + statement, parameters)
        return "\n".join(str(row[-1]) for row in rows)

    for statement, given in seen:
        parameters = given[0] if isinstance(given, list) else given
        found = await store.database.read(partial(plan, statement=statement, parameters=parameters))
        whole = re.search(r"\b(?:SCAN|Seq Scan on) (content|content_use|site_state)\b(?! USING)", found)
        assert whole is None or "sum(content_use" in statement, f"{statement}\n{found}"
    await store.close()


def test_how_far_the_busiest_come_down() -> None:
    class Site:
        def __init__(self, rank: int, size: int) -> None:
            self.rank, self.bytes = rank, size

    level = retention.kept_by_each
    assert level([], 1, 100) == 1
    assert level([Site(100, 1000), Site(90, 900)], 1, 1) == 99
    assert level([Site(100, 1000), Site(90, 900)], 1, 300) == 81
    assert level([Site(100, 1000)], 60, 10**9) == 60
    assert level([Site(10, 100), Site(10, 100)], 10, 10**9) == 9
    assert level([Site(10**6, 10**9)], 1, 10**12) == 10**6 - retention.PIECE + 1


async def test_a_round_is_wanted_once_much_has_come(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pollerd.storage.retention.GROWTH_BYTES", 1000)
    store = await open_with(url, content_cap_bytes=64_000)
    [site] = await add(store)
    wanted = asyncio.create_task(store.crowded())
    await find(store, site, 100.0, 0)
    await asyncio.sleep(0)
    assert not wanted.done()
    await find(store, site, 101.0, 1)
    await asyncio.wait_for(wanted, 30)
    await store.prune(200.0)
    again = asyncio.create_task(store.crowded())
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()
    await store.close()
