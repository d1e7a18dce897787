"""Reads of changes, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import structlog.testing

from pollerd.allocation.reads import Read
from pollerd.daemon.control.reads import READ_RULES
from pollerd.errors import InvalidValueError, NotFoundError
from pollerd.storage import reads as read_store
from pollerd.storage.reads import ReadReport, ReadResult
from pollerd.storage.store import Store
from pollerd.storage.values import Batch
from tests.storage.samples import add, poll_all, record, schedule_of

HOUR, DAY = 3_600.0, 86_400.0
T0 = 1_000_000.0


async def tell(
    store: Store,
    reads: Mapping[int, Sequence[Read]],
    name: str = "",
    *,
    now: float = T0 + 40 * DAY,
    complete_until: float | None = None,
    given: Mapping[int, float | None] | None = None,
) -> ReadResult:
    tell.number += 1  # type: ignore[attr-defined]
    name = name or f"report {tell.number}"  # type: ignore[attr-defined]
    report = ReadReport(report=name, reads=reads, given=given or {}, complete_until=complete_until)
    return await store.reads.take(report, READ_RULES, now)


tell.number = 0  # type: ignore[attr-defined]


async def changed(store: Store, site_id: int, *times: float) -> list[int]:
    """Finds a change of the site at each of these times; their ids."""
    for at in times:
        await poll_all(store, [site_id], at, f"at {at}".encode(), changed=True)
    page = await store.changes.page(limit=1_000)
    return sorted(one.id or 0 for one in page.items if one.site_id == site_id and one.detected_at in times)


async def test_half_lives_are_learned_and_kept(store: Store) -> None:
    site, silent = await add(store, 2)
    times = [T0 + DAY * i for i in range(20)]
    await changed(store, site, *times)
    reads = [Read(at + HOUR * age) for at in times for age in (0.2, 0.5, 1.0, 1.5, 2.5)]
    result = await tell(store, {site: reads})
    assert (result.counts.taken, result.unknown_sites, result.repeated) == (100, 0, False)
    known = await store.reads.of_site(site)
    assert known is not None
    assert known.half_life is not None
    assert (known.reads, known.changes, known.last_read_at) == (100, 20, times[-1] + 2.5 * HOUR)
    assert 0.65 * HOUR < known.half_life.value < HOUR  # ln 2 times the mean age of 1.14 h, drawn to a day a little
    assert known.half_life.low < known.half_life.value < known.half_life.high
    assert result.half_lives == {site: known.half_life.value}
    assert known.in_force == known.half_life.value
    rows = await schedule_of(store)
    assert rows.learned_half_life[rows.site_id == site].tolist() == [known.in_force]
    assert np.isnan(rows.learned_half_life[rows.site_id == silent]).all()
    some, _ = await store.sites.schedule.of([silent, site])
    assert sorted(np.isnan(some.learned_half_life).tolist()) == [False, True]
    assert await store.reads.half_lives([site, silent]) == {site: known.in_force}
    assert await store.reads.of_site(silent) is None


async def test_a_report_counts_once(store: Store) -> None:
    (site,) = await add(store)
    await changed(store, site, T0)
    first = await tell(store, {site: [Read(T0 + 5, 3), Read(T0 - 5, 7)]}, "once")
    again = await tell(store, {site: [Read(T0 + 9, 1_000)]}, "once")
    assert again.repeated
    assert (again.counts, again.unknown_sites) == (first.counts, first.unknown_sites)
    assert (first.counts.taken, first.counts.before_changes) == (3, 7)
    known = await store.reads.of_site(site)
    assert known is not None
    assert known.reads == 3
    later = T0 + 40 * DAY + read_store.REMEMBERED_SECONDS + 1
    await tell(store, {}, "another", now=later)
    assert not (await tell(store, {site: [Read(T0 + 9)]}, "once", now=later)).repeated


async def test_reports_at_once(store: Store) -> None:
    """Twenty reports of two sites, half of them twice, from as many tasks: each counts once."""
    one, two = await add(store, 2)
    await changed(store, one, T0)
    await changed(store, two, T0 + 1)
    work = [tell(store, {one: [Read(T0 + 5 + i)], two: [Read(T0 + 6 + i)]}, f"r{i % 10}") for i in range(20)]
    results = await asyncio.gather(*work)
    assert sum(not result.repeated for result in results) == 10
    for site in (one, two):
        known = await store.reads.of_site(site)
        assert known is not None
        assert known.reads == 10


async def test_that_pieces_come_to_the_same(store: Store) -> None:
    """What is told read by read, restarts in between, is what one report tells."""
    one, two = await add(store, 2, hosts=2)
    times = [T0 + HOUR * i for i in range(6)]
    for site in (one, two):
        await changed(store, site, *times)
    reads = [Read(at + age) for at in times for age in (10.0, 700.0, 2_000.0)]
    await tell(store, {one: reads})
    for read in reads:
        await tell(store, {two: [read]})
    known = [await store.reads.of_site(site) for site in (one, two)]
    assert known[0] is not None
    assert known[1] is not None
    assert known[0].reads == known[1].reads == 18
    assert known[0].changes == known[1].changes == 6
    assert known[0].half_life is not None
    assert known[1].half_life is not None
    assert known[0].half_life.value == pytest.approx(known[1].half_life.value, rel=1e-4)


async def test_named_changes_and_dates(store: Store) -> None:
    (site,) = await add(store)
    first, second = await changed(store, site, T0, T0 + HOUR)
    contexts = await store.sites.contexts([site])
    # Dated: published 100 s before the poll found it, 1000 s after the one before.
    dated = record(contexts[site], T0 + 2 * HOUR, b"third", changed=True, age=100.0)
    await store.commit(Batch([dated]))
    reads = [
        Read(T0 + 5, 1, first),
        Read(T0 + HOUR + 5, 10, first),  # the second had followed
        Read(T0 + HOUR + 5, 100, second),
        Read(T0 + HOUR + 5, 1_000, 999),
        Read(T0 + 2 * HOUR - 8, 10_000),  # before the poll, after the date, which lies after the poll before
    ]
    result = await tell(store, {site: reads})
    assert result.counts.taken == 10_101
    assert result.counts.other_changes == 1_010
    known = await store.reads.of_site(site)
    assert known is not None
    assert known.changes == 3


async def test_changes_that_do_not_matter_are_not_read(store: Store) -> None:
    (site,) = await add(store)
    await changed(store, site, T0, T0 + HOUR)
    await store.database.write(
        lambda c: c.exec_driver_sql("UPDATE change SET matters = false WHERE detected_at > 1000001")
    )
    result = await tell(store, {site: [Read(T0 + 2 * HOUR), Read(T0 + 1)]})
    assert result.counts.taken == 2
    known = await store.reads.of_site(site)
    assert known is not None
    assert known.changes == 1


async def test_sites_that_are_not_there(store: Store) -> None:
    site, marked, gone = await add(store, 3)
    await changed(store, site, T0)
    await store.sites.delete(gone, 5.0)
    await store.database.write(lambda c: c.exec_driver_sql(f"INSERT INTO site_mark VALUES ({marked}, 1.0)"))
    result = await tell(store, {site: [Read(T0 + 1)], gone: [Read(T0 + 1, 5)], marked: [Read(T0, 6)], 77: [Read(T0)]})
    assert (result.counts.taken, result.unknown_sites) == (1, 12)
    await store.sites.delete(site, 6.0)
    assert await store.reads.of_site(site) is None
    assert (await tell(store, {})).counts.taken == 0


async def test_reads_before_any_change(store: Store) -> None:
    (site,) = await add(store)
    result = await tell(store, {site: [Read(T0, 4)]})
    assert (result.counts.taken, result.counts.before_changes) == (0, 4)
    assert result.half_lives == {}
    assert await store.reads.of_site(site) is None


async def test_too_many_changes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (site,) = await add(store)
    await changed(store, site, *(T0 + i for i in range(12)))
    monkeypatch.setattr(read_store, "MAX_CHANGES", 10)
    with pytest.raises(InvalidValueError, match=r"reads: .*10 changes"):
        await tell(store, {site: [Read(T0)]}, "long")
    assert not (await tell(store, {site: [Read(T0 + 11)]}, "long")).repeated  # the first one left nothing


async def test_that_hosts_are_pooled(store: Store) -> None:
    """Three reads of a page are drawn to what the others of its host say, and not to other hosts."""
    sites = await add(store, 12, hosts=2)
    lonely, here = sites[0], sites[1]
    times = [T0 + 4 * DAY * i for i in range(9)]
    for site in sites[1::2]:
        await changed(store, site, *times)
    await changed(store, lonely, *times)
    many = [Read(at + HOUR * age) for at in times for age in (0.1, 0.3, 0.6, 1.0, 1.5, 2.0)]
    for site in sites[3::2]:
        await tell(store, {site: many})
    three = [Read(times[0] + 9 * HOUR), Read(times[1] + 10 * HOUR), Read(times[2] + 11 * HOUR)]
    await tell(store, {here: three, lonely: three})
    known = [await store.reads.of_site(site) for site in (lonely, here)]
    assert known[0] is not None
    assert known[1] is not None
    assert known[0].half_life is not None
    assert known[1].half_life is not None
    assert known[1].half_life.value < 0.75 * known[0].half_life.value


async def test_that_a_half_life_is_put_in_force_when_it_moved(store: Store) -> None:
    (site,) = await add(store)
    await changed(store, site, *(T0 + DAY * i for i in range(30)))
    ages = (0.5, 1.0, 1.5)
    first = await tell(store, {site: [Read(T0 + DAY * i + HOUR * age) for i in range(20) for age in ages]})
    in_force = first.half_lives[site]
    second = await tell(store, {site: [Read(T0 + DAY * 20 + HOUR * age) for age in ages]})
    assert second.half_lives == {}
    known = await store.reads.of_site(site)
    assert known is not None
    assert known.half_life is not None
    assert known.in_force == in_force != known.half_life.value
    third = await tell(store, {site: [Read(T0 + DAY * i + HOUR * 4 * age) for i in range(21, 30) for age in ages]})
    assert third.half_lives[site] > 1.1 * in_force


async def test_that_another_url_and_a_wish_forget(store: Store) -> None:
    moved, forgotten = await add(store, 2)
    for site in (moved, forgotten):
        await changed(store, site, *(T0 + DAY * i + site for i in range(5)))
        await tell(store, {site: [Read(T0 + DAY * i + 60 * (1 + n)) for i in range(5) for n in range(5)]})
    assert len(await store.reads.half_lives([moved, forgotten])) == 2
    await store.sites.update(moved, {"url": "http://h9/moved", "host": "h9:80"}, 9.0)
    await store.reads.forget(forgotten)
    assert await store.reads.half_lives([moved, forgotten]) == {}
    assert await store.reads.of_site(moved) is None
    with pytest.raises(NotFoundError):
        await store.reads.forget(forgotten)


async def test_damaged_rows_begin_anew_and_are_logged(store: Store) -> None:
    (site,) = await add(store)
    await changed(store, site, T0, T0 + DAY)
    await tell(store, {site: [Read(T0 + 60 * i) for i in range(1, 9)]})
    await store.database.write(lambda c: c.exec_driver_sql("UPDATE site_reads SET statistics = NULL"))
    assert (await tell(store, {site: [Read(T0 + 70)]})).counts.taken == 1
    await store.database.write(
        lambda c: c.exec_driver_sql(
            "UPDATE site_reads SET open_change = '[1', statistics = "
            + ("x'00'" if c.dialect.name == "sqlite" else "'\\x00'")
        )
    )
    with structlog.testing.capture_logs() as lines:
        assert (await tell(store, {site: [Read(T0 + 70)]})).counts.taken == 1
    dropped = [(line["event"], line["site_id"], line["column"]) for line in lines]
    assert dropped == [("reads_unusable", site, "statistics"), ("reads_unusable", site, "open_change")]
    assert all(line["reason"] for line in lines)
    with structlog.testing.capture_logs() as lines:
        await tell(store, {site: [Read(T0 + 80)]})
    assert lines == []


async def test_that_reads_wait_for_the_poll_that_shows_of_which_change_they_are(store: Store) -> None:
    """Reads after the last poll that saw the page: another poll makes them count, a change takes them away."""
    kept, lost = await add(store, 2)
    for site in (kept, lost):
        await poll_all(store, [site], T0, b"first", changed=True)
        result = await tell(store, {site: [Read(T0 + 60 * n) for n in range(1, 11)]})
        assert result.counts.taken == 10
        assert result.half_lives == {}  # none counts yet
    await poll_all(store, [kept], T0 + HOUR)
    await poll_all(store, [lost], T0 + HOUR, b"second", changed=True)
    seen = f"UPDATE change SET previous_poll_at = {T0} WHERE detected_at > {T0}"
    await store.database.write(lambda c: c.exec_driver_sql(seen))
    after = [await tell(store, {site: [Read(T0 + HOUR + 5)]}, complete_until=T0 + HOUR) for site in (kept, lost)]
    assert after[0].half_lives[kept] < HOUR
    assert after[1].half_lives == {}
    between = await tell(store, {lost: [Read(T0 + HOUR - 5, 3), Read(T0 + HOUR + 5, 4)]})
    assert (between.counts.taken, between.counts.between_polls) == (4, 3)
