"""Reads of changes in a running daemon: learned half-lives reach the allocator, and stay."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pollerd.allocation.slots import SlotTable
from pollerd.daemon.control.reads import MAX_OLD_SECONDS
from pollerd.errors import InvalidValueError, NotFoundError, TooManyError
from pollerd.site_settings import TagSettings
from pollerd.storage.reads import ReadResult, ReportedRead
from pollerd.storage.settings import StorageSettings
from tests.daemon.conftest import Running, Start
from tests.storage.samples import poll_all
from tests.support.origin import Origin, Page

HOUR, DAY = 3_600.0, 86_400.0
AGES = (0.1, 0.3, 0.6, 1.0, 1.5, 2.5)


@pytest.fixture
def pages(origin: Origin) -> list[str]:
    for name in "ab":
        origin.pages[f"/{name}"] = Page(f"page {name}")
    return [origin.url("/a"), origin.url("/b")]


async def paused(running: Running, *urls: str) -> list[int]:
    """Adds sites that were polled twice and are polled no more."""
    ids = await running.add(*urls)
    for site_id in ids:
        await running.polled(site_id, 2)
        await running.control.sites.pause(site_id, True)
    sites = running.daemon.parts.scheduler.sites
    while sites.in_flight[sites.slots_of(np.array(ids))].any():  # a third one that had begun
        await asyncio.sleep(0.01)
    return list(ids)


async def changes(running: Running, site_id: int, number: int = 20) -> list[float]:
    """Stores changes of a paused site, one a day until yesterday; their times."""
    now = time.time()
    times = [now - DAY * (number - i) for i in range(number)]
    for at in times:
        await poll_all(running.store, [site_id], at, f"{at}".encode(), changed=True)
    return times


async def tell(
    running: Running, site_id: int, times: Sequence[float], scale: float = 1.0, name: str = ""
) -> ReadResult:
    reads = [ReportedRead(at + HOUR * scale * age, site_id=site_id) for at in times for age in AGES]
    return await running.control.reads.report(name or f"{site_id} {scale} {len(times)}", reads)


@pytest.fixture(autouse=True)
def passed(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Slot -> the half-life with which it was added to an allocator last; nan: the default."""
    seen: dict[int, float] = {}
    add = SlotTable.add

    def recorded(table: SlotTable, slots: Any, weight: Any, cost: Any, half_life: Any, *others: Any) -> Any:
        seen.update(zip(np.asarray(slots).tolist(), np.asarray(half_life).tolist(), strict=True))
        return add(table, slots, weight, cost, half_life, *others)

    monkeypatch.setattr(SlotTable, "add", recorded)
    return seen


def slot_of(running: Running, site_id: int) -> int:
    slot = running.daemon.parts.scheduler.sites.slot_of(site_id)
    assert slot is not None
    return slot


async def test_the_allocator_gets_what_is_learned_and_a_restart_keeps_it(
    pages: list[str], start: Start, any_database: str, passed: dict[int, float]
) -> None:
    options = {"url": any_database, "allocator": "whittle", "objective": "interest"}
    async with start(**options) as running:
        a, b = await paused(running, *pages)
        times = await changes(running, a)
        assert math.isnan(passed[slot_of(running, a)])
        scheduler = running.daemon.parts.scheduler
        slots = scheduler.sites.slots_of(np.array([a, b]))
        believed = scheduler.allocator.rates_of(slots).copy()
        result = await tell(running, a, times)
        learned = result.half_lives[a]
        assert 0.5 * HOUR < learned < HOUR
        assert passed[slot_of(running, a)] == learned
        assert math.isnan(passed[slot_of(running, b)])
        assert scheduler.allocator.rates_of(slots).tolist() == believed.tolist()
        shown = running.explain(a)
        assert shown.half_life_in_force == learned
        assert (await running.control.sites.explain(a)).origins["half_life"] == "reads"
        assert (await running.control.sites.explain(b)).origins["half_life"] == "default"
        assert running.explain(b).half_life_in_force == DAY
        live = running.control.sites.live([a, b])
        assert [live[site].learned_half_life for site in (a, b)] == [learned, None]
        assert running.metric("pollerd_reads_total", result="taken") == 120
        await running.control.allocation.set(allocator="optimal")
        assert passed[slot_of(running, a)] == learned
        await running.control.allocation.set(allocator="whittle")
    async with start(**options) as running:
        assert passed[slot_of(running, a)] == learned
        assert math.isnan(passed[slot_of(running, b)])
        again = await tell(running, a, times)
        assert again.repeated
        assert running.metric("pollerd_reads_total", result="taken") == 0
        await running.control.reads.forget(a)
        assert math.isnan(passed[slot_of(running, a)])
        with pytest.raises(NotFoundError):
            await running.control.reads.forget(a)


async def test_a_half_life_that_is_given_stays(pages: list[str], start: Start, passed: dict[int, float]) -> None:
    """Of the site or of its tag: it holds until it is taken away, and then what was learned does."""
    async with start(allocator="whittle", objective="interest") as running:
        a, b = await paused(running, *pages)
        await running.control.sites.update(a, {"half_life": 5 * DAY})
        await running.control.sites.update(b, {"tags": ("slow",)})
        await running.control.tags.put(TagSettings("slow", {"half_life": 7 * DAY}), by="test")
        learned: dict[int, float] = {}
        for site in (a, b):
            learned |= (await tell(running, site, await changes(running, site))).half_lives
        assert passed[slot_of(running, a)] == 5 * DAY
        assert passed[slot_of(running, b)] == 7 * DAY
        assert (await running.control.sites.explain(a)).origins["half_life"] == "site"
        await running.control.sites.update(a, {"half_life": None})
        await running.control.tags.delete("slow", by="test")
        assert passed[slot_of(running, a)] == learned[a] < HOUR
        assert passed[slot_of(running, b)] == learned[b] < HOUR
        await running.control.sites.update(a, {"half_life": 3 * DAY})
        assert passed[slot_of(running, a)] == 3 * DAY


async def test_reads_by_url_and_of_no_site(pages: list[str], start: Start) -> None:
    async with start() as running:
        a, _ = await paused(running, *pages)
        times = await changes(running, a, 3)
        reads = [
            ReportedRead(times[0] + 5, 4, url=pages[0]),
            ReportedRead(times[0] + 5, 8, url="https://a.invalid/"),
            ReportedRead(times[0] - DAY, 16, site_id=a),
            ReportedRead(times[0] + 5, 32, site_id=99),
        ]
        result = await running.control.reads.report("r", reads)
        assert (result.counts.taken, result.counts.before_changes, result.unknown_sites) == (4, 16, 40)
        assert running.metric("pollerd_reads_total", result="ignored") == 56
        await running.control.sites.delete(a)
        assert (await tell(running, a, times)).unknown_sites == 18


async def test_times_outside_the_history_are_refused_by_name(pages: list[str], start: Start) -> None:
    kept = StorageSettings(change_retention_seconds=DAY)
    async with start(storage=kept) as running:
        (a, _), now = await paused(running, *pages), time.time()
        early = [ReportedRead(now - DAY / 2, site_id=a), ReportedRead(now - DAY - 60, site_id=a)]
        with pytest.raises(InvalidValueError, match=r"reads\[1\]\.at: .*where the history begins"):
            await running.control.reads.report("early", early)
        with pytest.raises(InvalidValueError, match=r"reads\[0\]\.at"):
            await running.control.reads.report("late", [ReportedRead(now + 300, site_id=a)])
        with pytest.raises(InvalidValueError, match="complete_until"):
            await running.control.reads.report("until", early[:1], now + 300)
        ahead = await running.control.reads.report("clock", [ReportedRead(now + 30, site_id=a)])
        assert ahead.counts.taken + ahead.counts.before_changes == 1
    async with start() as running:
        with pytest.raises(InvalidValueError, match=r"reads\[0\]\.at"):
            await running.control.reads.report("old", [ReportedRead(now - MAX_OLD_SECONDS - 60, site_id=a)])


async def test_a_million_reads_a_minute(pages: list[str], start: Start, passed: dict[int, float]) -> None:
    """As entries they are refused after some thousands; as counts they are taken, and weigh as much as twenty."""
    async with start(allocator="whittle", objective="interest") as running:
        a, b = await paused(running, *pages)
        times = await changes(running, a, 20)
        await changes(running, b, 20)
        few = [ReportedRead(at + HOUR * age, 7, site_id=a) for at in times for age in AGES]
        learned = (await running.control.reads.report("few", few)).half_lives[a]
        many = [ReportedRead(at + HOUR * age, 1_000_000, site_id=b) for at in times for age in AGES]
        told = await running.control.reads.report("many", many)
        assert told.counts.taken == 120_000_000
        assert told.half_lives[b] == pytest.approx(learned, rel=0.02)
        flood, taken = [ReportedRead(times[0] + n / 10, site_id=a) for n in range(1_000)], 0
        refused: TooManyError | None = None
        while refused is None and taken < 20:
            try:
                await running.control.reads.report(f"flood {taken}", flood)
                taken += 1
            except TooManyError as error:
                refused = error
        assert 4 <= taken < 20
        assert refused is not None
        assert 0 < refused.seconds <= 20
        assert running.metric("pollerd_read_reports_refused_total") == 1
        assert passed[slot_of(running, b)] == told.half_lives[b]


async def test_that_nothing_is_kept_where_nobody_reports(pages: list[str], start: Start) -> None:
    async with start(allocator="whittle", objective="interest") as running:
        await paused(running, *pages)
        sites = running.daemon.parts.scheduler.sites
        assert sites.is_default("learned_half_life")
        assert np.isnan(sites.half_lives(slice(0, sites.size))).all()
