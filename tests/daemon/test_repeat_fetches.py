"""Pages that differ at every fetch: proof polls tell noise from changes, in a live daemon."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import pytest
from aiohttp import web

from pollerd.errors import DatabaseUnavailableError
from pollerd.model import OutcomeKind
from pollerd.storage.contents import ContentStore
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

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
    """Waits until a proof poll has shown the site's noise."""
    for times in range(3, 400):
        polls = await running.polled(site_id, times, PATIENCE_SECONDS)
        if any(poll.outcome is OutcomeKind.UNCHANGED for poll in polls):
            return
    raise AssertionError("no proof poll told the noise from changes")


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
        assert await running.changes() == []
        assert running.metric("pollerd_proofs_total", result="noise") == 1
        polls = len(await running.polls(site))
        await running.polled(site, polls + 10)
        assert await running.changes() == []
        news.append("two")
        await running.polled(site, polls + 20)
        found = await running.changes()
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


async def test_a_page_that_becomes_noisy_is_proven_again_and_its_noise_forgotten(start: Start, origin: Origin) -> None:
    """What its first changes of noise taught is not replayed either."""
    async with start(budget=40.0, allocator="whittle") as running:
        origin.pages["/noisy"] = Page(body="<html><body><p>first</p></body></html>")
        for i in range(STEADY):
            origin.pages[f"/steady{i}"] = Page(etag=f'"{i}"')
        steady = (origin.url(f"/steady{i}", host=i + 2) for i in range(STEADY))
        (site, *_) = await running.add(origin.url("/noisy"), *steady)
        await running.polled(site, 2)
        origin.pages["/noisy"] = Page(body="<html><body><p>second</p></body></html>")
        await until(lambda: running.control.health.status().changes == 1)
        assert [change.site_id for change in await running.changes()] == [site]
        noisy(origin, "/noisy", ["one"])
        for _ in range(400):
            if running.metric("pollerd_masks_learned_total"):
                break
            await running.polled(site, len(await running.polls(site)) + 1)
        await running.polled(site, len(await running.polls(site)) + 1)
        rate = running.control.sites.live([site])[site].rate_per_day
        await running.control.allocation.set(allocator="uniform")
        await running.control.allocation.set(allocator="whittle")
        replayed = running.control.sites.live([site])[site].rate_per_day
        found = await running.changes()
        await running.polled(site, len(await running.polls(site)) + 8)
        assert await running.changes() == found
    # Proven at the third change in a row, of which `second` may be one, or later: proofs of a page keep their distance.
    assert 2 <= len(found) - 1 < 16
    assert rate is not None
    assert replayed is not None
    assert replayed < 2 * rate


async def test_another_url_begins_without_the_mask(start: Start, origin: Origin) -> None:
    async with start(budget=40.0) as running:
        site = await start_with_noise(running, origin, ["one"])
        noisy(origin, "/moved", ["one"], word="Answer number")
        polls = len(await running.polls(site))
        await running.control.sites.update(site, {"url": origin.url("/moved")})
        await until(lambda: len(origin.hits("/moved")) >= 5)
        later = (await running.polled(site, polls + 5))[polls:]
        assert await running.changes() == []
    outcomes = [poll.outcome for poll in later if poll.outcome in (OutcomeKind.FIRST, OutcomeKind.PROVING)]
    assert outcomes == [OutcomeKind.FIRST, OutcomeKind.PROVING]


async def test_noise_known_at_its_host_is_known_at_a_new_page(start: Start, origin: Origin) -> None:
    """From its first change on, and on that host alone; news beside it are found."""
    news = ["two"]
    async with start(budget=40.0) as running:
        await start_with_noise(running, origin, ["one"])
        noisy(origin, "/sibling", news)
        sibling, elsewhere = await running.add(origin.url("/sibling"), origin.url("/sibling", host=STEADY + 2))
        quiet = await running.polled(sibling, 4)
        first = await running.polled(elsewhere, 3)
        before = len(await running.changes())
        news.append("three")
        await running.polled(sibling, len(await running.polls(sibling)) + 4)
        found = [change for change in (await running.changes())[before:] if change.site_id == sibling]
    assert [poll.outcome for poll in quiet[:4]] == [OutcomeKind.FIRST, *[OutcomeKind.UNCHANGED] * 3]
    assert [poll.outcome for poll in first[:3]] == [OutcomeKind.FIRST, OutcomeKind.PROVING, OutcomeKind.UNCHANGED]
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
        await running.polled(site, len(await running.polls(site)) + 6)
        (change,) = await running.changes()
    assert "All new" in change.summary or "+ " in change.summary


async def test_a_database_that_fails_meanwhile_loses_no_twin(
    start: Start, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is prepared again must not take a poll for its own proof."""
    read, failures = ContentStore.load, iter(range(4))

    async def failing(self: ContentStore, content_ids: Sequence[int]) -> dict[int, bytes]:
        if next(failures, None) is not None:
            raise DatabaseUnavailableError("away for a moment")
        return await read(self, content_ids)

    monkeypatch.setattr(ContentStore, "load", failing)
    async with start(budget=40.0) as running:
        await start_with_noise(running, origin, ["one"])
        assert next(failures, None) is None
        assert await running.changes() == []
        assert running.metric("pollerd_site_faults_total") == 0
