"""Allocators take over from each other while the polling goes on, and a kill leaves the one or the other, whole."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from numpy.typing import NDArray

from pollerd.allocation.automata.htraa import Htraa
from pollerd.errors import InvalidValueError
from pollerd.site_settings import SiteSpec
from pollerd.storage.store import Store
from pollerd.urls import normalise_url
from tests.daemon.conftest import Running, Start
from tests.storage.samples import learned_of
from tests.support.origin import Origin, Page, until
from tests.support.process import DaemonProcess, daemon_process

PAGES = 8
PATIENCE_SECONDS = 60.0


def pages(origin: Origin) -> list[str]:
    """URLs: every other page is new at each request, the others never change."""
    for n in range(PAGES):
        if n % 2:
            numbers = itertools.count()

            async def handler(_: web.Request, numbers: Iterator[int] = numbers) -> web.Response:
                return web.Response(text=f"<p>{next(numbers) // 2}</p>", content_type="text/html")

            origin.pages[f"/{n}"] = Page(handler=handler)
        else:
            origin.pages[f"/{n}"] = Page("<p>calm</p>")
    return [origin.url(f"/{n}", host=n) for n in range(PAGES)]


def rates(running: Running, ids: list[int]) -> NDArray[np.float64]:
    known = [running.explain(site_id).rate_per_day for site_id in ids]
    return np.array([np.nan if rate is None else rate for rate in known])


async def more_polls(running: Running, number: int) -> None:
    wanted = running.control.health.status().polls + number
    await until(lambda: running.control.health.status().polls >= wanted, PATIENCE_SECONDS)


async def test_whittle_htraa_uniform_whittle_under_load(origin: Origin, start: Start, any_database: str) -> None:
    async with start(url=any_database, allocator="whittle") as running:
        ids = await running.add(*pages(origin))
        await more_polls(running, 80)
        for name in ("htraa", "uniform", "whittle"):
            switch = asyncio.create_task(running.control.allocation.set(allocator=name))
            await more_polls(running, 3)
            assert (await switch).allocator == name
            if name != "uniform":
                learned = rates(running, ids)
                assert learned[1::2].min() > learned[::2].max(), "known from the stored polls"
            site_ids, _ = await learned_of(running.store, name)
            assert sorted(site_ids.tolist()) == ids
            await more_polls(running, 40)


async def test_sites_that_change_while_the_successor_learns(origin: Origin, start: Start, any_database: str) -> None:
    async with start(url=any_database, allocator="uniform") as running:
        ids = await running.add(*pages(origin))
        await more_polls(running, 80)
        calm, changing = ids[0], ids[5]
        for name in ("htraa", "whittle"):
            switch = asyncio.create_task(running.control.allocation.set(allocator=name))
            await asyncio.sleep(0)
            await running.control.sites.delete(ids.pop(1))
            for site_id in (calm, changing):
                await running.control.sites.update(site_id, {"half_life": 50.0 + ids[-1]})
            ids += await running.add(origin.url("/0", host=20 + len(ids)))
            await switch
            assert np.isfinite(rates(running, ids)).all()
            slow, fast = rates(running, [calm, changing])
            assert slow < fast, "what was learned stays"
            seen = len(origin.hits())
            await until(lambda seen=seen: len(origin.hits()) >= seen + 40, PATIENCE_SECONDS)  # type: ignore[misc]


async def test_a_switch_that_cannot_be_changes_nothing(origin: Origin, start: Start) -> None:
    async with start(allocator="whittle") as running:
        ids = await running.add(*pages(origin))
        await running.control.sites.update(ids[3], {"weight": 2.0})
        await more_polls(running, 40)
        with pytest.raises(InvalidValueError, match="weight"):
            await running.control.allocation.set(allocator="htraa")
        assert running.control.allocation.view().allocator == "whittle"
        await more_polls(running, 20)
        site_ids, _ = await learned_of(running.store, "whittle")
        assert sorted(site_ids.tolist()) == ids


@pytest.mark.parametrize("name", ["whittle", "htraa"])
async def test_what_is_learned_in_common_is_stored_now_and_then_and_caught_up_on(
    origin: Origin, start: Start, any_database: str, name: str
) -> None:
    async with start(url=any_database, allocator=name, kill=True) as running:
        ids = await running.add(*pages(origin))
        await more_polls(running, 20)
        first = await running.store.allocation.load()
        await more_polls(running, 40)
        later = await running.store.allocation.load()
        assert first is not None
        assert later == first, "not with every commit"
        for site_id in ids:
            await running.control.sites.pause(site_id, True)
        await running.settled()
        before, allocator = rates(running, ids), running.daemon.parts.scheduler.allocator
        taught = allocator.polls_learned if isinstance(allocator, Htraa) else None
    async with start(url=any_database, allocator=name) as running:
        kept = await running.store.allocation.load()
        assert kept is not None
        assert kept.learned_through == await running.store.history.last_poll_id() > (later.learned_through or 0)
        # whittle learns its prior from all sites at certain counts of polls: caught up on, it comes out a little other.
        after = rates(running, ids)
        np.testing.assert_allclose(after, before, rtol=0.6 if name == "whittle" else 1e-12)
        assert after[1::2].min() > after[::2].max()
        allocator = running.daemon.parts.scheduler.allocator
        assert taught == (allocator.polls_learned if isinstance(allocator, Htraa) else None)


class Address:
    """The API of a daemon process."""

    def __init__(self, daemon: DaemonProcess, session: aiohttp.ClientSession) -> None:
        found = re.findall(r"listen=(\S+)", daemon.log)
        self._url, self._session = f"http://{found[-1]}/api/v1/allocation", session

    async def allocator(self) -> str:
        async with self._session.get(self._url) as reply:
            return str((await reply.json())["allocator"])

    async def switch(self, name: str) -> int:
        async with self._session.put(self._url, json={"allocator": name}) as reply:
            return reply.status


async def test_killed_in_the_middle_of_a_switch(origin: Origin, any_database: str, tmp_path: Path) -> None:
    urls, log, moments = tmp_path / "urls.txt", tmp_path / "log", random.Random(random.randrange(10**6))
    urls.write_text("\n".join(pages(origin)))
    before = "whittle"
    async with aiohttp.ClientSession() as session:
        for name in ("htraa", "uniform", "whittle", "htraa"):
            said = log.read_text().count("listen=") if log.exists() else 0
            async with daemon_process(any_database, log, str(urls), POLLERD_BUDGET="60") as daemon:
                await until(lambda said=said: log.read_text().count("listen=") > said, PATIENCE_SECONDS)  # type: ignore[misc]
                hits = len(origin.hits())
                await until(lambda hits=hits: len(origin.hits()) >= hits + 5 * PAGES, PATIENCE_SECONDS)  # type: ignore[misc]
                address = Address(daemon, session)
                assert await address.allocator() == before
                switch = asyncio.create_task(address.switch(name))
                await asyncio.sleep(moments.uniform(0.0, 0.15))
                await daemon.kill()
                await asyncio.gather(switch, return_exceptions=True)
            before = await one_allocator_whole(any_database, {before, name})
        async with daemon_process(any_database, log, str(urls), POLLERD_BUDGET="60") as daemon:
            hits = len(origin.hits())
            await until(lambda: len(origin.hits()) >= hits + 3 * PAGES, PATIENCE_SECONDS)
            daemon.send(signal.SIGTERM)
            assert await daemon.ended() == 0
    assert "Traceback" not in log.read_text(), log.read_text()
    assert "learned_state_unusable" not in log.read_text()


async def one_allocator_whole(url: str, allowed: set[str]) -> str:
    """The allocator in force: all that is stored is its own, and all sites that were polled twice are known to it."""
    store = await Store.open(url)
    try:
        kept = await store.allocation.load()
        assert kept is not None
        assert kept.allocator in allowed
        polled = [site.id for site in (await store.sites.page()).items if site.polls > 1]
        learned = {name: (await learned_of(store, name))[0].tolist() for name in ("whittle", "htraa", "uniform")}
        assert set(polled) <= set(learned.pop(kept.allocator))
        assert not any(learned.values())
    finally:
        await store.close()
    return kept.allocator


async def test_more_sites_than_the_allocator_is_made_for_are_refused_one_by_one(origin: Origin, start: Start) -> None:
    urls = [origin.url(f"/{n}", host=n) for n in range(34)]
    async with start(allocator="lspe") as running:
        ids = await running.add(*urls[:3])
        result = await running.control.sites.add([SiteSpec(url=normalise_url(url)) for url in urls])
        assert sorted(site_id for site_id, _ in result.existing) == ids
        assert len(result.added) == 27
        assert [(place, error.field) for place, error in result.refused] == [
            (n, "number of sites") for n in range(30, 34)
        ]
        assert running.control.health.status().sites == 30
        await running.control.sites.delete(ids[0])
        assert await running.add(urls[33])
        with pytest.raises(InvalidValueError, match="at most 30 while lspe allocates; given: 31"):
            await running.control.sites.add_one(SiteSpec(url=normalise_url(urls[32])))
