"""A daemon whose sites are polled by what their tags say, at once, after a kill, and in their windows only."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from pollerd.site_settings import DAYS, NO_ACCESS, Access, Credentials, DayWindow, SiteSpec, TagSettings, Windows
from pollerd.storage.keys import new_key
from pollerd.storage.settings import StorageSettings
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

SECRET = Access((("X-Key", "s3cret"),), Credentials(token="t0ken"))
ALWAYS = Windows("UTC", (DayWindow(DAYS, "00:00", "24:00"),))


def closed_now() -> Windows:
    """An hour that is neither now nor soon."""
    begins = datetime.now(UTC) + timedelta(hours=9)
    return Windows("UTC", (DayWindow(DAYS, f"{begins:%H}:00", f"{begins:%H}:30"),))


async def put(running: Running, name: str, access: Access = NO_ACCESS, **settings: object) -> None:
    await running.control.tags.put(TagSettings(name, settings, access), by="a test")


def columns(running: Running, *site_ids: int) -> list[tuple[float, float, float]]:
    """Weight, cost and min_interval by which the sites are polled."""
    sites = running.daemon.parts.scheduler.sites
    slots = sites.slots_of(np.array(site_ids))
    return [(float(sites.weight[s]), float(sites.cost[s]), float(sites.min_interval[s])) for s in slots.tolist()]


async def test_a_tag_is_in_force_at_once_and_after_a_kill(origin: Origin, start: Start, any_database: str) -> None:
    storage = StorageSettings(secret_key=new_key())
    async with start(url=any_database, kill=True, storage=storage, allocator="whittle") as running:
        one, two = await running.add(origin.url("/1"), tags=("a", "b")) + await running.add(origin.url("/2"), cost=7.0)
        await put(running, "a", weight=2.0, min_interval=0.2)
        await put(running, "b", weight=9.0, cost=3.0)
        (three,) = await running.add(origin.url("/3"), tags=("b",))
        expected = [(2.0, 3.0, 0.2), (1.0, 7.0, np.nan), (9.0, 3.0, np.nan)]
        np.testing.assert_equal(columns(running, one, two, three), expected)
        await running.polled(one, 1)
    async with start(url=any_database, storage=storage, allocator="whittle") as running:
        np.testing.assert_equal(columns(running, one, two, three), expected)
        await running.control.tags.delete("b", by="a test")
        np.testing.assert_equal(columns(running, one, three), [(2.0, 1.0, 0.2), (1.0, 1.0, np.nan)])
        explained = await running.control.sites.explain(one)
        assert (explained.origins["weight"], explained.origins["cost"]) == ("tag a", "default")
        await running.control.sites.update(one, {"tags": ()})
        np.testing.assert_equal(columns(running, one), [(1.0, 1.0, np.nan)])


async def test_what_was_learned_stays_when_a_tag_changes_weights(origin: Origin, start: Start) -> None:
    async with start(allocator="whittle") as running:
        [site_id] = await running.add(origin.url("/a"), tags=("a",))
        await running.polled(site_id, 6)
        running.daemon.parts.scheduler.sites.paused[:] = True
        await running.settled()
        before = running.explain(site_id).rate_per_day
        await put(running, "a", weight=2.0)
        assert running.explain(site_id).rate_per_day == before


async def test_requests_carry_what_the_tag_says_and_ask_for_the_whole_page(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(etag='"1"')
    origin.pages["/b"] = Page(status=302, headers={"Location": origin.url("/c", host=2)})
    origin.pages["/c"] = Page()
    async with start() as running:
        [site_id] = await running.add(origin.url("/a"), min_interval=0.1, tags=("club",))
        await running.add(origin.url("/b"), min_interval=0.1, tags=("club",))
        await running.polled(site_id, 2)
        await put(running, "club", SECRET)
        told = origin.hits("/a")
        await running.polled(site_id, len(told) + 3)
        await until(lambda: any("X-Key" in hit.headers for hit in origin.hits("/b")))
        await running.control.tags.delete("club", by="a test")
        without = len(origin.hits("/a")) + 1
        await running.polled(site_id, without + 2)
    keyed = [hit for hit in origin.hits("/a") if "X-Key" in hit.headers]
    assert "If-None-Match" not in keyed[0].headers
    assert "If-None-Match" in keyed[1].headers
    assert keyed[0].headers["Authorization"] == "Bearer t0ken"
    assert "X-Key" not in origin.hits("/a")[without].headers
    assert not any("X-Key" in hit.headers for hit in origin.hits("/c")), "never across to another origin"
    assert any("X-Key" in hit.headers for hit in origin.hits("/b"))


async def test_a_site_outside_of_its_windows_is_not_polled(origin: Origin, start: Start) -> None:
    async with start() as running:
        await put(running, "night", windows=closed_now(), max_interval=0.1)
        [closed] = await running.add(origin.url("/closed", host=1), tags=("night",))
        [always] = await running.add(
            origin.url("/always", host=2), windows=ALWAYS, tags=("night",), min_interval=0.05, max_interval=3600
        )
        await running.polled(always, 3)
        assert origin.hits("/closed") == []
        why = running.explain(closed)
        assert why.why_not_now is not None
        assert why.why_not_now.startswith("closed until 20")
        assert why.next_poll_at is not None
        assert time.time() + 3600 < why.next_poll_at <= time.time() + 86_400
        await running.control.sites.poll_now(closed)
        await running.polled(always, 6)
        assert origin.hits("/closed") == [], "by hand neither"
        view = running.control.explainer.allocation()
        assert "1 site is outside its polling hours" in view.binding_in_words
        assert (view.sites, view.late_sites) == (2, 0)
        shown = running.control.explainer.binding.now().in_short()
        assert shown is not None
        assert "1 site is outside its polling hours" in shown
        await put(running, "night", windows=ALWAYS)
        await running.polled(closed, 1)


async def test_windows_survive_a_restart(origin: Origin, start: Start, any_database: str) -> None:
    async with start(url=any_database, kill=True) as running:
        [own] = await running.add(origin.url("/a", host=1), windows=closed_now())
        await put(running, "night", windows=closed_now())
        [tagged] = await running.add(origin.url("/b", host=2), tags=("night",))
    async with start(url=any_database) as running:
        [other] = await running.add(origin.url("/c", host=3))
        await running.polled(other, 2)
        for site_id in (own, tagged):
            why = running.explain(site_id).why_not_now
            assert why is not None
            assert why.startswith("closed until")
    assert origin.hits("/a") == origin.hits("/b") == []


async def test_a_daemon_without_tags_that_send_asks_the_database_for_none(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def note(*given: object) -> dict[int, list[str]]:
        asked.append(given)
        return {}

    monkeypatch.setattr("pollerd.storage.site_context.names_among", note)
    async with start() as running:
        await put(running, "a", weight=2.0)
        [site_id] = await running.add(origin.url("/a"), tags=("a",))
        await running.polled(site_id, 2)
        assert asked == []
        assert running.daemon.parts.scheduler.sites.is_default("hours")
        await put(running, "a", SECRET)
        await running.polled(site_id, 4)
        assert asked


async def test_while_many_sites_of_a_tag_change_others_run(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pollerd.daemon.control.tags._AT_ONCE", 100)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with start(budget=0.01) as running:
        specs = [SiteSpec(f"http://127.0.0.1:9/{n}", tags=("all",), paused=True) for n in range(3_000)]
        result = await running.control.sites.add(specs)
        counting = asyncio.create_task(count())
        await put(running, "all", min_interval=77.0)
        counting.cancel()
        assert turns >= 30
        ids = [site_id for site_id, _, _ in result.added]
        assert {interval for _, _, interval in columns(running, *ids)} == {77.0}
