"""Lists that are read newest first or oldest first, and cursors that know which."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, event

from pollerd.errors import InvalidValueError
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.encoding import Order
from pollerd.storage.store import Store
from pollerd.storage.values import ListPage
from tests.storage.samples import add, poll_all, query

Read = Callable[..., Any]


def from_before(kind: str, last_id: int) -> str:
    """A cursor as it was given out before cursors named their order."""
    return base64.urlsafe_b64encode(f"{kind}{last_id}".encode()).decode().rstrip("=")


def lists_of(store: Store, site: int) -> dict[str, Read]:
    async def polls(**options: Any) -> ListPage[Any]:
        return await store.history.list_polls(site, **options)

    async def changes(**options: Any) -> ListPage[Any]:
        return await store.changes.page(ChangeFilter(site_id=site), **options)

    return {"polls": polls, "changes": changes}


async def walk(read: Read, **options: Any) -> list[float]:
    """When each was recorded, through all pages of two."""
    page = await read(limit=2, **options)
    seen = list(page.items)
    while page.next_cursor is not None:
        page = await read(limit=2, cursor=page.next_cursor)
        seen += page.items
    return [one.at if hasattr(one, "at") else one.detected_at for one in seen]


@pytest.mark.parametrize("name", ["polls", "changes"])
async def test_both_orders_and_the_default(store: Store, name: str) -> None:
    sites = await add(store, 2)
    for n in range(5):
        await poll_all(store, sites, 10.0 + n, b"%d" % n, changed=True)
    read = lists_of(store, sites[0])[name]
    oldest = [10.0, 11.0, 12.0, 13.0, 14.0]
    assert await walk(read, order=Order.OLDEST) == oldest
    assert await walk(read, order=Order.NEWEST) == await walk(read) == oldest[::-1]


@pytest.mark.parametrize("name", ["polls", "changes"])
async def test_paging_newest_first_ends_whatever_comes_meanwhile(store: Store, name: str) -> None:
    [site] = await add(store)
    read, at = lists_of(store, site)[name], 10.0
    for at in (10.0, 11.0, 12.0, 13.0, 14.0):
        await poll_all(store, [site], at, b"%d" % at, changed=True)
    page = await read(limit=2)
    ids = [one.id for one in page.items]
    while page.next_cursor is not None:
        for _ in range(3):  # more comes than is read
            at += 1.0
            await poll_all(store, [site], at, b"%d" % at, changed=True)
        page = await read(limit=2, cursor=page.next_cursor)
        ids += [one.id for one in page.items]
    assert ids == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("name", ["polls", "changes"])
async def test_the_last_cursor_repeated_follows_oldest_first(store: Store, name: str) -> None:
    [site] = await add(store)
    read = lists_of(store, site)[name]
    for at in (10.0, 11.0, 12.0):
        await poll_all(store, [site], at, b"%d" % at, changed=True)
    first = await read(limit=2, order=Order.OLDEST)
    cursor = first.next_cursor
    seen = [one.id for one in first.items]
    for at in (13.0, 14.0, 15.0, 16.0):
        page = await read(limit=2, cursor=cursor, order=Order.OLDEST)
        seen += [one.id for one in page.items if one.id not in seen]
        cursor = page.next_cursor or cursor
        await poll_all(store, [site], at, b"%d" % at, changed=True)
    seen += [one.id for one in (await read(cursor=cursor)).items if one.id not in seen]
    assert seen == [1, 2, 3, 4, 5, 6, 7]


async def test_cursors_from_before_go_on_as_they_began(store: Store) -> None:
    [site] = await add(store)
    for at in (10.0, 11.0, 12.0, 13.0):
        await poll_all(store, [site], at, b"%d" % at, changed=True)
    read = lists_of(store, site)
    page = await read["changes"](limit=1, cursor=from_before("c", 2))
    assert [one.id for one in page.items] == [3]
    page = await read["changes"](limit=1, cursor=page.next_cursor)
    assert ([one.id for one in page.items], page.next_cursor) == ([4], None)
    assert [one.id for one in (await read["polls"](cursor=from_before("p", 3))).items] == [2, 1]
    with pytest.raises(InvalidValueError, match=r"order: the cursor is of another order: .*, or give oldest"):
        await read["changes"](cursor=from_before("c", 2), order=Order.NEWEST)
    with pytest.raises(InvalidValueError, match=r"order: the cursor is of another order: .*, or give newest"):
        await read["polls"](cursor=from_before("p", 2), order=Order.OLDEST)


@pytest.mark.parametrize("name", ["polls", "changes"])
async def test_an_order_that_contradicts_the_cursor_is_named(store: Store, name: str) -> None:
    [site] = await add(store)
    for at in (10.0, 11.0):
        await poll_all(store, [site], at, b"%d" % at, changed=True)
    read = lists_of(store, site)[name]
    for order, other in ((Order.OLDEST, Order.NEWEST), (Order.NEWEST, Order.OLDEST)):
        cursor = (await read(limit=1, order=order)).next_cursor
        assert len((await read(cursor=cursor, order=order)).items) == 1
        with pytest.raises(InvalidValueError, match=f"or give {order}") as caught:
            await read(cursor=cursor, order=other)
        assert (caught.value.field, caught.value.given) == ("order", other)


async def test_a_cursor_with_an_order_that_is_none_is_refused(store: Store) -> None:
    for text in ("cx1", "cn", "co-1", "cno1", "cn01", "n1", "pn1"):
        cursor = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        with pytest.raises(InvalidValueError, match="cursor"):
            await store.changes.page(cursor=cursor)


READS: dict[str, tuple[str, Callable[[Store, Any], Any]]] = {
    "all changes": ("change", lambda store, options: store.changes.page(**options)),
    "a site's changes": (
        "change",
        lambda store, options: store.changes.page(ChangeFilter(site_id=1), **options),
    ),
    "a site's polls": ("poll", lambda store, options: store.history.list_polls(1, **options)),
}


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("read", list(READS))
async def test_pages_in_either_order_come_from_an_index(store: Store, url: str, read: str, order: Order) -> None:
    """Without sorting and without looking at what stands on no page."""
    await fill_tables(store, url)
    table, call = READS[read]
    first = await call(store, {"limit": 3, "order": order})
    for options in ({"order": order}, {"cursor": first.next_cursor}):
        plan = await plan_of(store, partial(call, store, {"limit": 3, **options}))
        assert not re.search("sort|temp b-tree", plan, re.IGNORECASE), plan
        if url.startswith("sqlite"):
            # The rowid is the order of the table and ends each index.
            scan = f"SCAN {table}" if read == "all changes" and "order" in options else f"SEARCH {table} USING"
            assert scan in plan, plan
        else:
            index, place = f"pk_{table}" if read == "all changes" else f"ix_{table}_site_id_id", table
            if table == "poll":  # all of them are in one partition
                index, place = "poll_default_site_id_id_idx", "poll_default poll"
            backward = "Scan Backward" if order is Order.NEWEST else "Scan"
            assert f"Index {backward} using {index} on {place}" in plan, plan


async def fill_tables(store: Store, url: str) -> None:
    """Two sites of which the first is hardly ever there, and statistics that say so."""
    await add(store, 2)
    site = "CASE WHEN i % 1000 = 0 THEN 1 ELSE 2 END"
    number = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999) "
    await query(
        url,
        f"INSERT INTO change (site_id, detected_at, kind, summary) {number} SELECT {site}, i, 'html', '' FROM n",
    )
    await query(
        url,
        "INSERT INTO poll (site_id, at, outcome, duration, bytes, changed) "
        f"{number} SELECT {site}, i, 'changed', 0, 0, true FROM n",
    )
    await query(url, "ANALYZE")


async def plan_of(store: Store, call: Callable[[], Any]) -> str:
    """How the database goes about the one statement of the call."""
    engine, seen = store.database.engine, list[tuple[str, Any]]()

    def note(_c: Connection, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        seen.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        await call()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    [(statement, parameters)] = [one for one in seen if "LIMIT" in one[0]]
    explain = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "

    def read(connection: Connection) -> str:
        return "\n".join(str(row[-1]) for row in connection.exec_driver_sql(explain + statement, parameters))

    return await store.database.read(read)
