"""Pages that differ at every fetch: repeat fetches tell noise from changes, in a live daemon."""

from __future__ import annotations

import secrets

import pytest
from aiohttp import web

from pollerd.errors import DatabaseUnavailableError
from pollerd.model import OutcomeKind
from pollerd.storage import HistoryStore
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page

STEADY = 3
PATIENCE_SECONDS = 60.0


def noisy(origin: Origin, path: str, news: list[str], word: str = "Request") -> None:
    """A page with a token after the word that is another at each request, and the news."""

    async def answer(_: web.Request) -> web.Response:
        items = "".join(f"<li>{item}</li>" for item in news)
        token = secrets.token_hex(8)
        html = f"<html><body><h1>News</h1><ul>{items}</ul><p>{word} {token} served</p><p>The end</p></body></html>"
        return web.Response(text=html, content_type="text/html")

    origin.pages[path] = Page(handler=answer)


async def masked(running: Running, site_id: int) -> None:
    """Waits until a repeat fetch has shown the site's noise."""
    for times in range(8, 400):
        polls = await running.polled(site_id, times, PATIENCE_SECONDS)
        if any(poll.outcome is OutcomeKind.UNCHANGED for poll in polls):
            return
    raise AssertionError("no repeat fetch told the noise from changes")


async def start_with_noise(running: Running, origin: Origin, news: list[str]) -> int:
    noisy(origin, "/noisy", news)
    for i in range(STEADY):
        origin.pages[f"/steady{i}"] = Page(etag=f'"{i}"')
    (site, *_) = await running.add(
        origin.url("/noisy"), *(origin.url(f"/steady{i}", host=i + 2) for i in range(STEADY))
    )
    await masked(running, site)
    return site


async def test_noise_is_masked_and_news_beside_it_is_found(start: Start, origin: Origin) -> None:
    news = ["one"]
    async with start(budget=40.0) as running:
        site = await start_with_noise(running, origin, news)
        assert running.metric("pollerd_masks_learned_total") == 1
        sites = running.daemon.parts.scheduler.sites
        assert sites.trusted[sites.slot_of(site)] == 0
        (hidden,) = (await running.control.sites.explain(site)).mask
        assert "Request" in hidden
        before = len(await running.changes())
        polls = len(await running.polls(site))
        await running.polled(site, polls + 10)
        assert len(await running.changes()) == before
        news.append("two")
        await running.polled(site, polls + 20)
        found = (await running.changes())[before:]
    assert [change.site_id for change in found] == [site]
    assert "two" in found[0].summary


async def test_a_mask_outlives_the_daemon(start: Start, origin: Origin, any_database: str) -> None:
    news = ["one"]
    async with start(budget=40.0, url=any_database) as running:
        site = await start_with_noise(running, origin, news)
    async with start(budget=40.0, url=any_database) as running:
        seen, before = len(await running.polls(site)), len(await running.changes())
        await running.polled(site, seen + 8)
        assert len(await running.changes()) == before


async def test_what_noise_taught_is_forgotten_and_not_replayed(start: Start, origin: Origin) -> None:
    async with start(budget=40.0, allocator="whittle") as running:
        site = await start_with_noise(running, origin, ["one"])
        rate = running.control.sites.live([site])[site].rate_per_day
        await running.control.allocation.set(allocator="uniform")
        await running.control.allocation.set(allocator="whittle")
        replayed = running.control.sites.live([site])[site].rate_per_day
        noise = sum(poll.changed for poll in await running.polls(site))
    assert noise >= 6
    assert rate is not None
    assert replayed is not None
    assert replayed < 2 * rate


async def test_another_url_begins_without_the_mask(start: Start, origin: Origin) -> None:
    async with start(budget=40.0) as running:
        site = await start_with_noise(running, origin, ["one"])
        noisy(origin, "/moved", ["one"], word="Answer number")
        await running.control.sites.update(site, {"url": origin.url("/moved")})
        polls = len(await running.polls(site))
        later = (await running.polled(site, polls + 4))[polls + 1 :]
    assert all(poll.changed for poll in later[:2])


async def test_noise_known_at_its_host_is_known_at_a_new_page(start: Start, origin: Origin) -> None:
    """From its first change on, and on that host alone; news beside it are found."""
    news = ["two"]
    async with start(budget=40.0) as running:
        await start_with_noise(running, origin, ["one"])
        noisy(origin, "/sibling", news)
        sibling, elsewhere = await running.add(origin.url("/sibling"), origin.url("/sibling", host=STEADY + 2))
        quiet = await running.polled(sibling, 4)
        first = await running.polled(elsewhere, 2)
        before = len(await running.changes())
        news.append("three")
        await running.polled(sibling, len(await running.polls(sibling)) + 4)
        found = [change for change in (await running.changes())[before:] if change.site_id == sibling]
    assert not any(poll.changed for poll in quiet)
    assert first[1].changed
    assert len(found) == 1
    assert "three" in found[0].summary


async def test_a_page_that_is_rebuilt_is_asked_twice_anew(start: Start, origin: Origin) -> None:
    news = ["one"]
    async with start(budget=40.0) as running:
        site = await start_with_noise(running, origin, news)

        async def rebuilt(_: web.Request) -> web.Response:
            text = f"<html><body><article><p>Build {secrets.token_hex(8)}</p><p>All new</p></article></body></html>"
            return web.Response(text=text, content_type="text/html")

        origin.pages["/noisy"].handler = rebuilt
        for _ in range(200):
            polls = len(await running.polls(site))
            await running.polled(site, polls + 1)
            if running.metric("pollerd_masks_learned_total") == 2:
                break
        before = len(await running.changes())
        await running.polled(site, len(await running.polls(site)) + 6)
        assert len(await running.changes()) == before


async def test_a_database_that_fails_meanwhile_loses_no_twin(
    start: Start, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failures = HistoryStore.load_content_before, iter(range(2))

    async def failing(self: HistoryStore, site_id: int, content_id: int) -> bytes | None:
        if next(failures, None) is not None:
            raise DatabaseUnavailableError("away for a moment")
        return await read(self, site_id, content_id)

    monkeypatch.setattr(HistoryStore, "load_content_before", failing)
    async with start(budget=40.0) as running:
        await start_with_noise(running, origin, ["one"])
        assert next(failures, None) is None
        assert running.metric("pollerd_site_faults_total") == 0
