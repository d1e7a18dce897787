"""What was learned, and what was set while running, outlives the process."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest
from aiohttp import web
from numpy.typing import NDArray

from pollerd.allocation.registry import create
from pollerd.model import OutcomeKind, SiteState
from pollerd.urls import normalise_url
from tests.daemon.conftest import Running, Start
from tests.storage.samples import learned_of
from tests.support.origin import Origin, Page, until

PAGES = 8


def changing(origin: Origin, path: str) -> None:
    """A page that is another one at every other poll."""
    count = itertools.count()

    async def handler(_: web.Request) -> web.Response:
        return web.Response(text=f"<p>{next(count) // 2}</p>", content_type="text/html")

    origin.pages[path] = Page(handler=handler)


async def some_pages(running: Running, origin: Origin, polls: int = 60) -> list[int]:
    """Half of them change, half never do; polled often enough to tell."""
    for n in range(PAGES):
        if n % 2:
            changing(origin, f"/{n}")
        else:
            origin.pages[f"/{n}"] = Page("<p>calm</p>")
    ids = await running.add(*(origin.url(f"/{n}", host=n) for n in range(PAGES)))
    await until(lambda: running.control.health.status().polls >= polls)
    # The allocator decides which are polled how often: each one that changes has done so twice.
    await until(lambda: all(len(origin.hits(f"/{n}")) >= 6 for n in range(1, PAGES, 2)))
    return ids


def rates(running: Running, ids: list[int]) -> NDArray[np.float64]:
    """Believed changes per day; nan where there is no belief."""
    known = [running.explain(site_id).rate_per_day for site_id in ids]
    return np.array([np.nan if rate is None else rate for rate in known])


def least_rates(running: Running, ids: list[int]) -> list[float]:
    """Lower ends of the believed intervals, changes per day: what little polls say of high rates does not hide them."""
    return [running.explain(site_id).rate_low_per_day or 0.0 for site_id in ids]


def prior_rate() -> float:
    """What whittle believes of a site it knows nothing of, per day."""
    fresh = create("whittle", budget=50.0, rng=np.random.default_rng(0))
    fresh.add(np.array([0]), np.ones(1), np.ones(1))
    return float(fresh.rates()[0]) * 86_400


async def quiet(running: Running, ids: list[int]) -> None:
    """Pauses all, and waits until the last poll is committed."""
    for site_id in ids:
        await running.control.sites.pause(site_id, True)
    await running.settled()


async def test_the_same_rates_after_a_restart(origin: Origin, start: Start) -> None:
    async with start(allocator="whittle") as running:
        ids = await some_pages(running, origin)
        await quiet(running, ids)
        before = rates(running, ids)
        assert before[1::2].min() > before[::2].max(), "what changes is known from what does not"
    async with start(allocator="whittle") as running:
        assert np.allclose(rates(running, ids), before, rtol=1e-6)


async def test_learned_state_survives_a_kill(origin: Origin, start: Start) -> None:
    async with start(allocator="whittle", kill=True) as running:
        ids = await some_pages(running, origin)
        await quiet(running, ids)
        before = rates(running, ids)
    async with start(allocator="whittle") as running:
        after = rates(running, ids)
        assert np.allclose(after, before, rtol=0.6), "what is learned in common may be a second older"
        assert after[1::2].min() > after[::2].max()


async def test_what_was_learned_in_common_outlives_its_sites(origin: Origin, start: Start) -> None:
    async with start(allocator="whittle") as running:
        ids = await some_pages(running, origin)
        for site_id in ids:
            await running.control.sites.delete(site_id)
    for _ in range(2):
        async with start(allocator="whittle") as running:
            new = await running.add(origin.url("/new"))
            learned = rates(running, new)[0]
            assert not np.isclose(learned, prior_rate(), rtol=1e-3)
            await running.control.sites.delete(new[0])


async def test_a_new_site_is_believed_to_be_like_the_others_of_its_host(origin: Origin, start: Start) -> None:
    """Of hosts of which one changes and one does not; after a restart too, and under an allocator that takes over."""
    for n in range(PAGES):
        if n % 2:
            changing(origin, f"/{n}")
        else:
            origin.pages[f"/{n}"] = Page("<p>calm</p>")
    async with start(allocator="whittle") as running:
        await running.add(*(origin.url(f"/{n}", host=n % 2) for n in range(PAGES)))
        await until(lambda: running.control.health.status().polls >= 120)
        new = await running.add(*(origin.url("/new", host=n) for n in range(2)), paused=True)
        calm, lively = least_rates(running, new)
        assert calm < lively
        assert "its host's" in running.explain(new[1]).notes["prior_source"]
        await running.control.allocation.set(allocator="uniform")
    async with start(allocator="whittle") as running:
        calm, lively = least_rates(running, new)
        assert calm < lively


async def test_another_allocator_learns_from_the_stored_polls(origin: Origin, start: Start) -> None:
    async with start(allocator="uniform") as running:
        ids = await some_pages(running, origin)
        assert np.isnan(rates(running, ids)).all()
        view = await running.control.allocation.set(allocator="whittle")
        assert (view.allocator, view.budget) == ("whittle", 50.0)
        await quiet(running, ids)
        learned = rates(running, ids)
        assert learned[1::2].min() > learned[::2].max()
        assert not np.isclose(learned, prior_rate()).any()
    async with start(allocator="whittle") as running:
        assert np.allclose(rates(running, ids), learned, rtol=1e-6)


async def test_a_start_with_another_allocator_learns_from_the_stored_polls(origin: Origin, start: Start) -> None:
    async with start(allocator="uniform") as running:
        ids = await some_pages(running, origin)
        await quiet(running, ids)
    async with start(allocator="whittle") as running:
        learned = rates(running, ids)
        assert learned[1::2].min() > learned[::2].max()


async def test_no_poll_is_lost_while_the_allocator_is_switched(origin: Origin, start: Start) -> None:
    async with start(allocator="uniform", flush_seconds=0.01) as running:
        ids = await some_pages(running, origin)
        for name in ("whittle", "uniform", "whittle"):
            await running.control.allocation.set(allocator=name)
            await asyncio.sleep(0.1)
        await quiet(running, ids)
        before = rates(running, ids)
        site_ids, _ = await learned_of(running.store, "whittle")
        assert sorted(site_ids.tolist()) == ids, "no site's state is kept under the allocator before"
    async with start(allocator="whittle") as running:
        assert np.allclose(rates(running, ids), before, rtol=1e-6)


async def test_new_settings_keep_what_was_learned(origin: Origin, start: Start) -> None:
    async with start(allocator="whittle") as running:
        ids = await some_pages(running, origin)
        await quiet(running, ids)
        before = rates(running, ids)
        await running.control.sites.update(ids[1], {"weight": 7.0})
        await running.control.sites.update(ids[2], {"cost": 3.0, "half_life": 60.0})
        assert np.allclose(rates(running, ids), before, rtol=1e-6)
        assert (await running.site(ids[1])).changes > 0
    async with start(allocator="whittle") as running:
        assert np.allclose(rates(running, ids), before, rtol=1e-6)
        site = await running.site(ids[2])
        assert (site.spec.cost, site.spec.half_life) == (3.0, 60.0)


async def test_a_new_url_starts_afresh(origin: Origin, start: Start) -> None:
    origin.pages["/moved"] = Page("<p>elsewhere</p>")
    async with start(allocator="whittle") as running:
        ids = await some_pages(running, origin)
        await quiet(running, ids)
        before, status = rates(running, ids), running.control.health.status()
        moved = await running.control.sites.update(ids[1], {"url": normalise_url(origin.url("/moved", host=30))})
        assert moved.host == origin.url("", host=30).removeprefix("http://")
        after = rates(running, ids)
        assert np.allclose(np.delete(after, 1), np.delete(before, 1))
        assert not np.isclose(after[1], before[1], rtol=1e-3)
        new = await running.add(origin.url("/new", host=31))
        assert np.isclose(after[1], rates(running, new)[0]), "nothing is known of it but what pages are like in general"
        await running.control.sites.delete(new[0])
        assert running.explain(ids[1]).elapsed is None
        assert (running.control.health.status().polls, running.control.health.status().changes) == (
            status.polls,
            status.changes,
        )
        await running.control.sites.pause(ids[1], False)
        seen = len(origin.hits("/1"))
        polls = await running.polled(ids[1], moved.polls + 2)
        assert [poll.outcome for poll in polls[moved.polls :][:2]] == [OutcomeKind.FIRST, OutcomeKind.UNCHANGED]
        assert polls[moved.polls].elapsed is None
        assert len(origin.hits("/1")) == seen


async def test_a_new_url_in_the_middle_of_a_poll(origin: Origin, start: Start) -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.4)
        return web.Response(text="<p>old</p>", content_type="text/html")

    origin.pages["/old"] = Page(handler=slow)
    origin.pages["/new"] = Page("<p>new</p>")
    async with start(flush_seconds=0.3) as running:
        (site_id,) = await running.add(origin.url("/old"))
        await running.polled(site_id, 1)
        for wait in (0.1, 0.5):  # while it is asked for, and while its answer waits for the commit
            await asyncio.sleep(wait)
            await running.control.sites.update(site_id, {"url": normalise_url(origin.url("/new"))})
            seen = len(origin.hits("/new"))
            await until(lambda seen=seen: len(origin.hits("/new")) >= seen + 2)  # type: ignore[misc]
            await running.control.sites.update(site_id, {"url": normalise_url(origin.url("/old"))})
        await until(lambda: running.control.health.status().in_flight == 1)
        changed = [change.id for change in await running.changes()]
        assert not changed, "two pages are no change"


async def test_a_paused_site_stays_paused_under_a_new_url(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = origin.pages["/b"] = Page()
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 1)
        await running.control.sites.pause(site_id, True)
        site = await running.control.sites.update(site_id, {"url": normalise_url(origin.url("/b"))})
        assert site.state is SiteState.PAUSED
        await asyncio.sleep(0.5)
        assert not origin.hits("/b")
        await running.control.sites.pause(site_id, False)
        await until(lambda: len(origin.hits("/b")) >= 2)


async def test_settings_changed_in_the_middle_of_a_poll_ask_for_the_whole_page(origin: Origin, start: Start) -> None:
    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(0.3)
        if request.headers.get("If-None-Match") == '"v"':
            return web.Response(status=304, headers={"ETag": '"v"'})
        return web.Response(text="<p>x</p>", content_type="text/html", headers={"ETag": '"v"'})

    origin.pages["/a"] = Page(handler=slow)
    async with start(full_get_every=10_000) as running:
        (site_id,) = await running.add(origin.url("/a"))
        polls = await running.polled(site_id, 2)
        await until(lambda: running.control.health.status().in_flight == 1)
        await running.control.sites.update(site_id, {"weight": 2.0})
        polls = await running.polled(site_id, len(polls) + 3)
        assert [poll.outcome for poll in polls[1:]].count(OutcomeKind.UNCHANGED) == 1


@pytest.mark.parametrize("objective", ["freshness", "interest"])
async def test_another_objective_keeps_what_was_learned(origin: Origin, start: Start, objective: str) -> None:
    async with start(allocator="whittle") as running:
        ids = await some_pages(running, origin)
        view = await running.control.allocation.set(objective=objective)
        assert (view.allocator, view.objective) == ("whittle", objective)
        learned = rates(running, ids)
        assert learned[1::2].min() > learned[::2].max()
