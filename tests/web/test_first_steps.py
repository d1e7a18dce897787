"""The card of first steps, and the example sites that a daemon serves to itself."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import aiohttp
import pytest

from pollerd.app.examples import SITES, ExampleSites
from pollerd.fetching.guard import BlockedAddressError, Guard
from tests.support.process import guarded_daemon_process
from tests.web.conftest import Web


def _target(host: str, port: int) -> tuple[int, int, int, str, tuple[str, int]]:
    return (2, 1, 6, "", (host, port))


async def test_only_the_places_that_we_serve_are_opened() -> None:
    examples, guard = ExampleSites(), Guard(allow_private=False)
    urls = await examples.start()
    try:
        assert len(urls) == SITES
        assert await examples.start() == urls, "they are started once"
        host, port = urls[0].removeprefix("http://").partition("/")[0].split(":")
        guard(_target(host, int(port))).close()
        for other_host, other_port in ((host, int(port) + 1), (host, 22), ("127.0.0.1", int(port)), ("10.0.0.1", 80)):
            with pytest.raises(BlockedAddressError):
                guard(_target(other_host, other_port))
        assert guard.denial(host) is not None, "names that lead there stay closed"
        async with aiohttp.ClientSession() as session, session.get(urls[0]) as answer:
            assert answer.status in (200, 403, 500, 503)
    finally:
        await examples.stop()
        await examples.stop()
    assert not examples.running
    with pytest.raises(BlockedAddressError):
        guard(_target(host, int(port)))


async def test_steps_are_ticked_as_they_are_done_and_the_card_is_dismissed(web: Web) -> None:
    page = (await web.get("/")).text
    assert "First steps" in page
    assert page.count('<span class="fine">✓</span>') == 0
    assert "example sites" not in page, "this process serves none"
    site = {"url": "https://example.org/", "selections": {"default": {"steps": [{"keep": {"css": "main"}}]}}}
    assert (await web.api("POST", "/sites", site)).status == 201
    channel = {"name": "hook", "kind": "webhook", "settings": {"url": "https://a.example/x"}}
    assert (await web.api("POST", "/channels", channel)).status == 201
    assert (await web.api("POST", "/rules", {"name": "r", "channels": ["hook"]})).status == 201
    page = (await web.get("/")).text
    card = page[page.index("First steps") :]
    card = card[: card.index("</section>")]
    assert card.count('<span class="fine">✓</span>') == 3
    assert '<a href="/system/accounts">Set up signing in</a>' in card
    for _ in range(2):
        answer = await web.post("/first-steps/dismiss")
        assert answer.status == 303
        assert "Set-Cookie" not in answer.headers, "it holds in every browser"
        assert "First steps" not in (await web.get("/")).text
    assert not await web.api.store.changes.has_dismissed_steps("user:2"), "and for this reader alone"
    assert "Show the first steps again" in (await web.get("/system")).text
    assert (await web.post("/first-steps/dismiss", {"again": "1"})).status == 303
    assert "First steps" in (await web.get("/")).text
    assert "Show the first steps again" not in (await web.get("/system")).text
    refused = await web.post("/first-steps/examples")
    assert (refused.status, "pollerd demo" in refused.text) == (422, True)


def _root(log: str) -> str:
    listening = re.search(r"event=started .*?listen=(\S+)", log)
    assert listening is not None
    return f"http://{listening[1]}"


async def _sites(session: aiohttp.ClientSession, root: str) -> list[dict[str, str]]:
    async with session.get(f"{root}/api/v1/sites?limit=100") as answer:
        listed: list[dict[str, str]] = (await answer.json())["items"]
    return listed


async def test_examples_that_ended_with_the_process_give_way_to_new_ones(tmp_path: Path) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    async with aiohttp.ClientSession() as session:
        async with guarded_daemon_process(database, tmp_path / "log") as daemon:
            await daemon.said("event=started")
            async with session.post(f"{_root(daemon.log)}/first-steps/examples") as answer:
                assert answer.status == 200
            before = {site["url"] for site in await _sites(session, _root(daemon.log))}
            async with session.post(f"{_root(daemon.log)}/first-steps/examples") as answer:
                assert answer.status == 200, "twice, and nothing is lost"
            assert {site["url"] for site in await _sites(session, _root(daemon.log))} == before
        async with guarded_daemon_process(database, tmp_path / "log2") as daemon:
            await daemon.said("event=started")
            root = _root(daemon.log)
            async with session.get(f"{root}/") as answer:
                page = await answer.text()
            assert "The example sites ended when pollerd was restarted." in page
            assert "Start new example sites" in page
            async with session.post(f"{root}/first-steps/examples") as answer:
                assert answer.status == 200
            while len(sites := await _sites(session, root)) != SITES or before & {site["url"] for site in sites}:
                await asyncio.sleep(0.1)
            async with session.get(f"{root}/") as answer:
                page = await answer.text()
            assert "12 example sites are watched; this daemon serves them to itself." in page
            assert "Start new example sites" not in page


async def test_a_daemon_polls_its_examples_and_removes_them(tmp_path: Path) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    process = guarded_daemon_process(database, tmp_path / "log")
    async with process as daemon, aiohttp.ClientSession() as session:
        await daemon.said("event=started")
        root = _root(daemon.log)

        async def text(path: str) -> str:
            async with session.get(root + path) as answer:
                return await answer.text()

        assert "Try it with 12 example sites" in await text("/")
        async with session.post(f"{root}/first-steps/examples") as answer:
            assert str(answer.url).endswith("/sites?tag=example")
        async with session.get(f"{root}/api/v1/sites?limit=100") as answer:
            sites = (await answer.json())["items"]
        assert len(sites) == SITES

        async def read() -> int:
            async with session.get(f"{root}/api/v1/sites?limit=100") as answer:
                polled = [site["last_outcome"] for site in (await answer.json())["items"]]
            return sum(outcome in ("first", "unchanged", "changed") for outcome in polled)

        while await read() < 5:
            await asyncio.sleep(0.2)
        page = await text("/")
        assert "12 example sites are watched" in page
        async with session.post(f"{root}/first-steps/examples/remove") as answer:
            assert answer.status == 200
        page = await text("/sites")
        assert not re.search(r'href="/sites/\d+"', page)
        assert "Try it with 12 example sites" in await text("/")
