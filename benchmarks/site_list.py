"""Milliseconds that pages of a long list of sites take: first and deep pages of each order, filters, searches.

    python benchmarks/site_list.py [--sites 1000000] [--postgres URL] [--plans]

Makes sites with titles, tags, rates and times in an empty database, then reads pages of 50 as the API does, each five
times; the fastest is shown, and the least CPU time of this process, which on SQLite is all there is. How many fit is
counted with the first page. With --plans also the database's plan of every statement.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from typing import Any

import numpy as np
from sqlalchemy import Connection, event, text

from pollerd.model import SiteState
from pollerd.site_settings import SiteSpec
from pollerd.storage.site_order import SiteOrder, SiteSort
from pollerd.storage.store import Store
from pollerd.storage.values import SiteFilter, SitePage

AT_ONCE = 50_000
NOW = 1_800_000_000.0
WORDS = ("prices", "news", "docs", "minutes", "jobs", "weather", "releases", "notices", "rates", "menu")


def specs(first: int, number: int) -> tuple[list[SiteSpec], list[str]]:
    """Returns sites and their hosts: a third has a title, one of a hundred a tag, one of a million another."""
    found, hosts = [], []
    for n in range(first, first + number):
        name = f"host{n * 7919 % 50_000}.example"
        title = f"{WORDS[n % 10].title()} of place {n % 9973}" if n % 3 == 0 else ""
        tags = tuple(tag for tag, every in (("common", 2), ("some", 100), ("rare", 50_000)) if n % every == 0)
        found.append(SiteSpec(f"https://{name}/{WORDS[n % 7]}/{n:x}", title=title, tags=tags))
        hosts.append(f"{name}:443")
    return found, hosts


def fill(connection: Connection, sites: int) -> None:
    """Gives the sites rates, changes, failures and times."""
    rng = np.random.default_rng(1)
    state = "UPDATE site_state SET rate = :r, last_change_at = :c, failures = :f, state = :s WHERE site_id = :id"
    times = "UPDATE site_times SET last_poll_at = :l, next_poll_at = :n WHERE site_id = :id"
    for start in range(1, sites + 1, AT_ONCE):
        ids = np.arange(start, min(start + AT_ONCE, sites + 1))
        rates = np.exp(rng.normal(-1, 2, len(ids)))
        failures = np.where(rng.random(len(ids)) < 0.005, rng.integers(1, 9, len(ids)), 0)
        changed = NOW - rng.exponential(30 * 86_400, len(ids))
        polled = NOW - rng.exponential(86_400, len(ids))
        rows: list[dict[str, Any]] = [
            {"id": i, "r": r, "c": c, "f": f, "s": "backing_off" if f else "active", "l": p, "n": p + 90_000}
            for i, r, c, f, p in zip(
                ids.tolist(), rates.tolist(), changed.tolist(), failures.tolist(), polled.tolist(), strict=True
            )
        ]
        connection.execute(text(state), rows)
        connection.execute(text(times), rows)


async def make(store: Store, sites: int) -> None:
    started, used = time.perf_counter(), time.process_time()
    for first in range(0, sites, AT_ONCE):
        some, hosts = specs(first, min(AT_ONCE, sites - first))
        await store.sites.add(some, hosts, NOW, respect_deleted=False)
    took, used = time.perf_counter() - started, time.process_time() - used
    print(f"{sites:,} sites added in {took:.1f} s, CPU {used:.1f} s", flush=True)
    await store.database.write(lambda c: fill(c, sites))


CASES: list[tuple[str, SiteFilter, str]] = [
    *((f"all, by {way}{sort}", SiteFilter(), f"{way}{sort}") for sort in SiteSort for way in ("", "-")),
    ("failing, -failures", SiteFilter(state=SiteState.BACKING_OFF), "-failures"),
    ("active, -last_change", SiteFilter(state=SiteState.ACTIVE), "-last_change"),
    ("tag of half, -rate", SiteFilter(tag="common"), "-rate"),
    ("tag of 1 in 100, title", SiteFilter(tag="some"), "title"),
    ("tag of 20, url", SiteFilter(tag="rare"), "url"),
    ("above 24 a day, url", SiteFilter(rate_min=24.0), "url"),
    ("changed within a day, -rate", SiteFilter(changed_since=NOW - 86_400), "-rate"),
    ("failing, tag of half, title", SiteFilter(state=SiteState.BACKING_OFF, tag="common"), "title"),
    ('search "https://host123.ex"', SiteFilter(q="https://host123.ex"), "url"),
    ('search "weather place 77"', SiteFilter(q="weather place 77"), "title"),
    ('search "news"', SiteFilter(q="news"), "-last_change"),
    ('search "e"', SiteFilter(q="e"), "-last_change"),
    ('search "nothing here"', SiteFilter(q="nothing here"), "url"),
]  # fmt: skip


async def fastest(store: Store, wanted: SiteFilter, order: str | None, cursor: str | None) -> tuple[SitePage, str]:
    """Returns a page, and the ms and CPU ms that it takes."""
    took, used = [], []
    for _ in range(5):
        started, before = time.perf_counter(), time.process_time()
        given = None if order is None else SiteOrder.of(order)
        page = await store.sites.listed(wanted, given, 50, cursor, count=cursor is None)
        took.append(time.perf_counter() - started)
        used.append(time.process_time() - before)
    return page, f"{1000 * min(took):>9.1f}{1000 * min(used):>8.1f}"


async def timed(store: Store, wanted: SiteFilter, order: str, pages: int) -> str:
    """Returns the times of the first page, and of one behind `pages` of 1,000, and how many fit."""
    page, first = await fastest(store, wanted, order, None)
    cursor = page.next_cursor
    for _ in range(pages):
        if cursor is not None:
            cursor = (await store.sites.listed(wanted, None, 1000, cursor)).next_cursor or cursor
    deep = " " * 17 if cursor is None else (await fastest(store, wanted, None, cursor))[1]
    fits = "all" if page.count is None else f"{'' if page.count_is_exact else '> '}{page.count:,}"
    return f"{first}{deep}{fits:>12}"


async def explain(store: Store, wanted: SiteFilter, order: str) -> None:
    seen: list[tuple[str, Any]] = []

    @event.listens_for(store.database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        seen.append((statement, parameters))

    await store.sites.listed(wanted, SiteOrder.of(order), 50, count=True)
    event.remove(store.database.engine, "before_cursor_execute", note)
    word = "EXPLAIN QUERY PLAN " if store.database.is_sqlite else "EXPLAIN "

    def plans(connection: Connection) -> list[str]:
        return [str(r[-1]) for statement, given in seen for r in connection.exec_driver_sql(word + statement, given)]

    for line in await store.database.read(plans):
        print("      ", line)


async def measure(url: str, sites: int, plans: bool) -> None:
    store = await Store.open(url)
    await make(store, sites)
    if not store.database.is_sqlite:
        await store.database.write(lambda c: c.exec_driver_sql("ANALYZE"))
    print(f"{url.split(':', 1)[0]:<32}{'first, ms':>9}{'CPU':>8}{'deep, ms':>9}{'CPU':>8}{'fit':>12}")
    for name, wanted, order in CASES:
        print(f"{name:<32}{await timed(store, wanted, order, sites // 20_000)}", flush=True)
        if plans:
            await explain(store, wanted, order)
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sites", type=int, default=1_000_000)
    parser.add_argument("--postgres", metavar="URL", help="an empty database to measure in place of SQLite")
    parser.add_argument("--plans", action="store_true", help="show the plan of every statement")
    arguments = parser.parse_args()
    if arguments.postgres:
        asyncio.run(measure(arguments.postgres, arguments.sites, arguments.plans))
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(f"sqlite:///{folder}/poll.db", arguments.sites, arguments.plans))


if __name__ == "__main__":
    main()
