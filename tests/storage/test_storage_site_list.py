"""Lists of sites: searched, filtered, sorted and paged in either direction, on more rows than are sorted at once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, event, text

from pollerd.errors import InvalidValueError
from pollerd.model import SiteState
from pollerd.site_settings import SiteSpec
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.settings import StorageSettings
from pollerd.storage.site_lists import COUNTED
from pollerd.storage.site_order import SiteOrder, SitePlace, SiteSort
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, SiteFilter
from tests.storage.samples import add, query, record
from tests.support.postgres import postgres_database

MANY = 20_000
ORDERS = [SiteOrder(sort, descending) for sort in SiteSort for descending in (False, True)]


@dataclass(frozen=True)
class Row:
    """What is known of a site, to compare with."""

    id: int
    url: str
    title: str
    rate: float
    failures: int
    last_change: float
    last_poll: float
    next_poll: float
    tags: tuple[str, ...]


def _row(number: int, rng: random.Random) -> Row:
    title = f"Größe {number % 977} von {rng.choice('ABC')}" if number % 3 else ""
    tags = tuple(name for name, every in (("most", 1), ("half", 2), ("few", 400)) if number % every == 0)
    times = (float(rng.randrange(1_000)), float(rng.randrange(1_000)))
    return Row(
        id=number + 1,
        url=f"https://h{number % 50}.example/Page/{number:05}",
        title=title,
        rate=rng.choice([-1.0, 0.5, 6.0, 24.0]),
        failures=rng.choice([0] * 50 + [1, 2]),
        last_change=rng.choice([0.0, 0.0, 100.0 + rng.randrange(500)]),
        last_poll=times[0],
        next_poll=times[1],
        tags=tags,
    )


async def _made(url: str, store: Store, number: int) -> list[Row]:
    rng = random.Random(5)
    rows = [_row(n, rng) for n in range(number)]
    specs = [SiteSpec(row.url, title=row.title, tags=row.tags) for row in rows]
    await store.sites.add(specs, [f"h{n % 50}.example:443" for n in range(number)], 1.0, respect_deleted=True)

    def count_too_early(connection: Connection) -> None:
        # As a server may that counts during an import: nothing may depend on counts that are right.
        for table in ("site", "site_state", "site_times", "site_text", "site_tag", "host"):
            connection.execute(text(f"ALTER TABLE {table} SET (autovacuum_enabled = false)"))
            connection.execute(text(f"ANALYZE {table}"))

    if not store.database.is_sqlite:
        await store.database.write(count_too_early)

    def fill(connection: Connection) -> None:
        state = (
            "UPDATE site_state SET rate = :rate, failures = :failures, last_change_at = :changed WHERE site_id = :id"
        )
        times = "UPDATE site_times SET last_poll_at = :last, next_poll_at = :next WHERE site_id = :id"
        given = [{"id": r.id, "rate": r.rate, "failures": r.failures, "changed": r.last_change} for r in rows]
        connection.execute(text(state), given)
        connection.execute(text(times), [{"id": r.id, "last": r.last_poll, "next": r.next_poll} for r in rows])

    await store.database.write(fill)
    return rows


@dataclass(frozen=True)
class Filled:
    """A database with many sites, which tests only read."""

    url: str
    rows: list[Row]
    settings: StorageSettings

    @contextlib.asynccontextmanager
    async def store(self) -> AsyncIterator[Store]:
        opened = await Store.open(self.url, settings=self.settings)
        try:
            yield opened
        finally:
            await opened.close()


@pytest.fixture(scope="module")
def sqlite_filled(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Filled:
    path = shutil.copy(empty_database, tmp_path_factory.mktemp("filled") / "poll.db")
    return asyncio.run(_filled(f"sqlite+aiosqlite:///{path}"))


@pytest.fixture(scope="module")
def postgres_filled() -> Iterator[Filled]:
    with postgres_database() as url:
        yield asyncio.run(_filled(url))


async def _filled(url: str) -> Filled:
    settings = StorageSettings(busy_timeout_seconds=0.2)
    store = await Store.open(url, settings=settings)
    try:
        return Filled(url, await _made(url, store, MANY), settings)
    finally:
        await store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest) -> Filled:
    found: Filled = request.getfixturevalue(f"{request.param}_filled")
    return found


def ordered(rows: Sequence[Row], order: SiteOrder) -> list[int]:
    def key(row: Row) -> Any:
        value = {"last_change": row.last_change, "title": row.title.casefold()}.get(order.sort.value)
        return (getattr(row, order.sort.value) if value is None else value, row.id)

    return [row.id for row in sorted(rows, key=key, reverse=order.descending)]


async def test_each_order_on_and_back_at_a_size_at_which_nothing_is_sorted(filled: Filled) -> None:
    async with filled.store() as store:
        await assert_each_order_on_and_back(filled.rows, store)


async def assert_each_order_on_and_back(many: list[Row], store: Store) -> None:
    for order in ORDERS:
        expected = ordered(many, order)
        first = await store.sites.listed(SiteFilter(), order, 50)
        assert [site.id for site in first.items] == expected[:50]
        assert first.previous_cursor is None
        assert first.count is None
        second = await store.sites.listed(SiteFilter(), None, 1000, first.next_cursor)
        assert [site.id for site in second.items] == expected[50:1050], order
        back = await store.sites.listed(SiteFilter(), order, 30, second.previous_cursor)
        assert [site.id for site in back.items] == expected[20:50]
        again = await store.sites.listed(SiteFilter(), order, 30, back.next_cursor)
        assert [site.id for site in again.items] == expected[50:80]
        begin = await store.sites.listed(SiteFilter(), order, 30, back.previous_cursor)
        assert [site.id for site in begin.items] == expected[:20]
        assert begin.previous_cursor is None


FILTERS: list[tuple[SiteFilter, Callable[[Row], bool]]] = [
    (SiteFilter(tag="few"), lambda r: "few" in r.tags),
    (SiteFilter(tag="half"), lambda r: "half" in r.tags),
    (SiteFilter(tag="most", rate_min=6.0, rate_max=6.0), lambda r: r.rate == 6.0),
    (SiteFilter(rate_max=1.0), lambda r: r.rate == 0.5),
    (SiteFilter(rate_min=0.0), lambda r: r.rate >= 0),
    (SiteFilter(changed_since=500.0), lambda r: r.last_change >= 500),
    (SiteFilter(q="GRÖSSE"), lambda r: "größe" in r.title.lower()),
    (SiteFilter(q="größe h7.exam"), lambda r: bool(r.title) and "h7.example" in r.url),
    (SiteFilter(q="page/0012"), lambda r: "Page/0012" in r.url),
    (SiteFilter(q="https", tag="few"), lambda r: "few" in r.tags),
    (SiteFilter(q="größe", rate_min=0.0), lambda r: bool(r.title) and r.rate >= 0),
    (SiteFilter(rate_min=0.0, tag="half"), lambda r: "half" in r.tags and r.rate >= 0),
    (SiteFilter(q="/0"), lambda r: "/0" in r.url),
    (SiteFilter(q="%"), lambda r: False),
    (SiteFilter(host="h3.example:443", tag="half"), lambda r: "h3.example" in r.url and "half" in r.tags),
    (SiteFilter(state=SiteState.ACTIVE), lambda r: True),
    (SiteFilter(state=SiteState.PAUSED), lambda r: False),
]


async def test_each_filter_in_several_orders_with_what_it_counts(filled: Filled) -> None:
    in_order = {order: ordered(filled.rows, order) for order in ORDERS}
    async with filled.store() as store:
        for wanted, fits in FILTERS:
            fitting = {row.id for row in filled.rows if fits(row)}
            number = len(fitting)
            for order, ids in in_order.items():
                page = await store.sites.listed(wanted, order, 60, count=True)
                expected = list(itertools.islice((site for site in ids if site in fitting), 60))
                assert [site.id for site in page.items] == expected, (wanted, order)
                assert (page.next_cursor is None) == (number <= 60)
                exact = number <= COUNTED
                assert (page.count, page.count_is_exact) == (number if exact else COUNTED, exact), wanted


async def test_no_row_comes_twice_or_is_lost_while_others_come_and_go(store: Store, url: str) -> None:
    many = await _made(url, store, COUNTED + 2_000)
    stay = [row for row in many if row.id % 7]
    for order in (SiteOrder.of("-last_poll"), SiteOrder.of("url")):
        for wanted in (SiteFilter(), SiteFilter(q="h7.exam")):
            found: list[int] = []
            page = await store.sites.listed(wanted, order, 400)
            turn = 0
            while True:
                found += [site.id for site in page.items]
                if turn < 5:
                    # The row at the cursor goes, and others; new ones come before and behind it.
                    gone = [site.id for site in page.items if site.id % 7 == 0] + [7 * (turn + 1)]
                    await store.sites.discard(gone)
                    new = [f"https://h7.example/{order}/{bool(wanted.q)}/{turn}/{n}" for n in range(3)]
                    await store.sites.add([SiteSpec(u) for u in new], ["h7.example:443"] * 3, 2.0, respect_deleted=True)
                turn += 1
                if page.next_cursor is None:
                    break
                page = await store.sites.listed(wanted, None, 400, page.next_cursor)
            assert len(found) == len(set(found))
            lasting = [row.id for row in stay if not wanted.q or "h7.exam" in row.url]
            assert set(lasting) <= set(found)


async def test_beyond_the_end_the_way_back_begins_with_the_last_row(store: Store) -> None:
    sites = await add(store, 4)
    page = await store.sites.listed(SiteFilter(), SiteOrder.of("url"), 3)
    assert page.next_cursor is not None
    await store.sites.discard(sites[3:])
    order = [site.id for site in page.items]
    await store.sites.discard([site for site in sites if site not in order])
    end = await store.sites.listed(SiteFilter(), None, 3, page.next_cursor)
    assert (end.items, end.next_cursor) == ([], None)
    back = await store.sites.listed(SiteFilter(), None, 2, end.previous_cursor)
    assert [site.id for site in back.items] == order[1:]
    assert back.next_cursor is not None
    assert back.previous_cursor is not None


@pytest.mark.parametrize(
    "place",
    [
        SitePlace(SiteOrder.of("-url"), "https://a/ü\"'", 5, back=True),
        SitePlace(SiteOrder.of("rate"), 0.1, 2**62),
        SitePlace(SiteOrder.of("-failures"), 3.0, 0),
        SitePlace(SiteOrder.of("-id"), 9, 9, back=True),
        SitePlace(SiteOrder(), 9, 9),
    ],
)
def test_cursors_come_back(place: SitePlace) -> None:
    assert SitePlace.of(place.cursor(), None) == place
    assert SitePlace.of(place.cursor(), place.order) == place
    with pytest.raises(InvalidValueError, match=f"or give {place.order}"):
        SitePlace.of(place.cursor(), SiteOrder.of("title"))


@pytest.mark.parametrize("cursor", ["", "x", "czA=", "czEgMA", "c3h4", "W10", "WyJyYXRlIiwiZiIsIngiLDFd", "é", "W1t7"])
async def test_other_cursors_are_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidValueError, match="cursor"):
        await store.sites.listed(SiteFilter(), None, 10, cursor)


async def test_bad_orders_and_too_many_words_are_refused(store: Store) -> None:
    with pytest.raises(InvalidValueError, match="descending"):
        SiteOrder.of("--url")
    with pytest.raises(InvalidValueError, match="16 words"):
        await store.sites.listed(SiteFilter(q=" ".join(map(str, range(17)))))


async def test_what_lists_sort_by_is_written_with_the_commit(store: Store, url: str) -> None:
    [one, two] = await add(store, 2)
    contexts = await store.sites.contexts([one, two])

    async def listed(site: int) -> tuple[Any, ...]:
        columns = "state, failures, rate, last_change_at, t.last_poll_at, next_poll_at"
        read = f"SELECT {columns} FROM site_state s JOIN site_times t USING (site_id) WHERE site_id = {site}"
        return (await query(url, read))[0]

    assert await listed(one) == ("active", 0, -1.0, 0.0, 0.0, 0.0)
    first = replace(record(contexts[one], 10.0, b"a", changed=True), rate=6.0, next_poll_at=40.0)
    failed = replace(
        record(contexts[two], 11.0), state=SiteState.BACKING_OFF, failures=2, not_before=90.0, next_poll_at=None
    )
    await store.commit(Batch([first, failed]))
    assert await listed(one) == ("active", 0, 6.0, 10.0, 10.0, 40.0)
    assert await listed(two) == ("backing_off", 2, -1.0, 0.0, 11.0, 90.0)
    near = replace(record(contexts[one], 20.0), rate=6.1, next_poll_at=50.0)
    await store.commit(Batch([near]))
    assert await listed(one) == ("active", 0, 6.0, 10.0, 20.0, 50.0), "2 % make no difference"
    await store.commit(Batch([replace(record(contexts[one], 30.0), rate=6.2)]))
    assert (await listed(one))[2] == 6.2
    await store.sites.update(one, {"url": "http://moved/", "host": "moved:80"}, 40.0)
    assert (await listed(one))[2:4] == (-1.0, 0.0), "nothing is known of the new page"


async def test_words_follow_urls_and_titles(store: Store) -> None:
    [site] = await add(store, title="Über uns")

    async def found(q: str) -> bool:
        return bool((await store.sites.listed(SiteFilter(q=q))).items)

    assert await found("ÜBER")
    assert await found("h0/0 uns")
    assert not await found("prices")
    await store.sites.update(site, {"title": "Prices"}, 2.0)
    assert await found("prices")
    assert not await found("über")
    await store.sites.update(site, {"url": "http://other/", "host": "other:80"}, 3.0)
    assert await found("other")
    assert not await found("h0/0")
    await store.sites.delete(site, 4.0)
    assert not await found("prices")
    assert not await found("ot")


async def test_without_an_index_of_words_beginnings_are_found(
    url: str, settings: StorageSettings, store: Store
) -> None:
    await store.sites.add(
        [SiteSpec("https://h/a_b", title="Ärzte hier"), SiteSpec("http://i/")], ["h:1"] * 2, 1.0, respect_deleted=True
    )
    sqlite = url.startswith("sqlite")
    gone = ["DROP INDEX ix_site_text_trigram"]
    if sqlite:
        names = ("site_text_gone", "site_text_changed")
        gone = [*(f"DROP TRIGGER {name}" for name in names), "DROP TABLE site_trigram"]
    for statement in gone:
        await query(url, statement)
    for q, expected in [("h/A", 0), ("h/a_b", 1), ("h/a%", 0), ("https://h", 1), ("ärzte h", 1), ("hier", 0)]:
        assert len((await store.sites.listed(SiteFilter(q=q))).items) == expected, q


async def test_nothing_is_scanned_that_is_not_shown(sqlite_filled: Filled) -> None:
    """Plans of SQLite: only indexes are walked, in their order; what is sorted are a filter's few sites.

    Those of PostgreSQL depend on its statistics.
    """
    async with sqlite_filled.store() as store:
        await assert_nothing_is_scanned(store)


async def assert_nothing_is_scanned(store: Store) -> None:
    seen: list[tuple[str, Any]] = []

    @event.listens_for(store.database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "site" in statement and statement.lstrip().upper().startswith("SELECT"):
            seen.append((statement, parameters))

    cases = [
        SiteFilter(),
        SiteFilter(tag="few"),
        SiteFilter(tag="most"),
        SiteFilter(q="page/0012"),
        SiteFilter(q="page"),
    ]
    for wanted in cases:
        for order in ORDERS:
            await store.sites.listed(wanted, order, 50)
    event.remove(store.database.engine, "before_cursor_execute", note)

    def plans(connection: Connection) -> list[tuple[str, list[str]]]:
        explained = []
        for statement, parameters in seen:
            rows = connection.exec_driver_sql("EXPLAIN QUERY PLAN " + statement, parameters).all()
            explained.append((statement, [row[-1] for row in rows]))
        return explained

    for statement, plan in await store.database.read(plans):
        for step in plan:
            allowed = "USING" in step or "VIRTUAL TABLE" in step or "subquery" in step or step == "SCAN CONSTANT ROW"
            in_order_of_ids = step == "SCAN site" and "ORDER BY site_id" in statement
            first_row = step == "SCAN site_mark" and "EXISTS" in statement
            of_few = step == "SCAN anon_1" and "json_each" in statement
            of_one = step == "SCAN its_row"
            fine = allowed or in_order_of_ids or first_row or of_few or of_one
            assert not step.startswith("SCAN") or fine, (statement, plan)
            if step.startswith("USE TEMP B-TREE FOR ORDER BY"):
                assert "json_each" in statement, (statement, plan)


async def test_a_page_s_own_title_names_its_site_until_the_user_does(store: Store) -> None:
    site_id = (await add(store))[0]

    async def polled(content: bytes, title: str) -> None:
        context = (await store.sites.contexts([site_id]))[site_id]
        new = replace(record(context, 5.0, content, changed=True), page_title=title)
        await store.commit(Batch(id=content, records=(new,)))

    async def named(words: str) -> list[tuple[str, str]]:
        listed = await store.sites.listed(SiteFilter(q=words), SiteOrder(SiteSort.TITLE), 10)
        return [(site.title, site.page_title) for site in listed.items]

    await polled(b"one", "Größe der Welt")
    assert await named("GRÖßE") == [("Größe der Welt", "Größe der Welt")]
    assert [change.title for change in (await store.changes.page()).items] == ["Größe der Welt"]
    assert len((await store.changes.page(ChangeFilter(words="der welt"))).items) == 1
    await store.sites.update(site_id, {"title": "Mine"}, 6.0)
    await polled(b"two", "News")
    assert await named("mine") == await named("news") == [("Mine", "News")]
    assert await named("größe") == []
    await store.sites.update(site_id, {"title": ""}, 7.0)
    await polled(b"three", "")  # it was not read: what is known stays
    assert await named("news") == [("News", "News")]
    assert await named("mine") == []
    await store.sites.update(site_id, {"url": "http://other/", "host": "other:80"}, 8.0)
    assert await named("other") == [("", "")]
