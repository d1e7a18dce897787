"""IndexNow: a daemon with its API, and a site on loopback that holds its key."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from pollerd.api.application import create_api
from pollerd.api.settings import ApiSettings
from pollerd.daemon.settings import SignalSettings
from pollerd.site_settings import SiteSpec
from tests.api.conftest import served
from tests.daemon.conftest import Running, Start
from tests.daemon.test_signals import Recorder, recorder, slot_of
from tests.support.origin import Origin, Page, until

__all__ = ["recorder"]

KEY = "0123abcd-KEY"
Send = Callable[..., Awaitable[int]]


class Reporter:
    """Reports to the daemon as a program does."""

    def __init__(self, root: str, session: aiohttp.ClientSession, origin: Origin) -> None:
        self._root, self._session, self._origin = root, session, origin

    async def get(self, **given: str) -> int:
        async with self._session.get(f"{self._root}/indexnow", params={"key": KEY, **given}) as answer:
            return answer.status

    async def post(self, *urls: str, **given: Any) -> int:
        body = {"host": f"127.0.0.2:{self._origin.port}", "key": KEY, "urlList": urls, **given}
        return await self.send(json.dumps(body).encode())

    async def send(self, body: bytes) -> int:
        async with self._session.post(f"{self._root}/indexnow", data=io.BytesIO(body)) as answer:
            return answer.status


Begin = Callable[..., contextlib.AbstractAsyncContextManager[tuple[Running, Reporter]]]


@pytest.fixture
def begin(start: Start, origin: Origin) -> Begin:
    @contextlib.asynccontextmanager
    async def begun(allowed: bool = True, **options: Any) -> AsyncIterator[tuple[Running, Reporter]]:
        async with start(signals=SignalSettings(indexnow=allowed), **options) as running:
            app = create_api(running.control, running.store, running.registry, ApiSettings(), "test")
            async with served(app) as root, aiohttp.ClientSession() as session:
                yield running, Reporter(root, session, origin)

    return begun


async def until_known(reporter: Reporter, url: str, status: int, **given: str) -> None:
    """Reports until the key is checked; a report under way is awaited."""
    for _ in range(500):
        if await reporter.get(url=url, **given) == status:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"no answer {status}")


async def test_a_key_that_its_host_holds_makes_reports_signals(
    origin: Origin, begin: Begin, any_database: str, recorder: Recorder
) -> None:
    a = origin.url("/a")
    origin.pages["/a"] = Page()
    origin.pages[f"/{KEY}.txt"] = Page(f"{KEY}\n")
    async with begin(url=any_database) as (running, reporter):
        (site_id,) = await running.add(a)
        await running.polled(site_id, 1)
        await running.control.sites.pause(site_id, True)
        assert await reporter.get(url=a) == 202
        await until(lambda: len(recorder.signals) == 1)
        (source,) = await running.store.signals.all()
        assert (source.spec.kind, source.spec.name) == ("push", f"indexnow:127.0.0.2:{origin.port}")
        assert recorder.signals[0][:2] == (source.id, slot_of(running, site_id))
        # The key is known now; a report of the same waits for a poll.
        assert await reporter.post(a) == 200
        assert len(recorder.signals) == 1
        assert await reporter.post(a, origin.url("/none")) == 200
        assert len(origin.hits(f"/{KEY}.txt")) == 1
        assert running.metric("pollerd_indexnow_reports_total", result="taken") == 2


async def test_a_wrong_key_is_refused_and_fetched_once(origin: Origin, begin: Begin, recorder: Recorder) -> None:
    a = origin.url("/a")
    origin.pages["/a"] = Page()
    origin.pages[f"/{KEY}.txt"] = Page("another")
    origin.pages["/moved.txt"] = Page(status=302, headers={"Location": origin.url("/key.txt", 2)})
    origin.pages["/key.txt"] = Page(KEY)
    origin.pages["/long.txt"] = Page(KEY + " " * 5_000)
    async with begin() as (running, reporter):
        await running.add(a)
        assert await reporter.get(url=a) == 202
        await until_known(reporter, a, 403)
        assert len(origin.hits(f"/{KEY}.txt")) == 1
        # Neither does one count that another host holds, nor a long file.
        for name in ("moved", "long"):
            place = origin.url(f"/{name}.txt")
            assert await reporter.get(url=a, keyLocation=place) == 202
            await until_known(reporter, a, 403, keyLocation=place)
            assert len(origin.hits(f"/{name}.txt")) == 1
        # A key is not fetched as often as somebody likes.
        found = [await reporter.get(url=a, key=f"another-key-{number}") for number in range(6)]
        assert found[-1] == 429
        assert (await running.store.signals.all(), recorder.signals) == ([], [])


async def test_no_host_without_sites_is_asked(origin: Origin, begin: Begin) -> None:
    async with begin() as (running, reporter):
        assert await reporter.get(url=origin.url("/a")) == 200
        assert await reporter.post(origin.url("/a"), origin.url("/b")) == 200
        assert origin.log == []
        assert running.metric("pollerd_indexnow_reports_total", result="ignored") == 2


async def test_robots_txt_holds_for_keys(origin: Origin, begin: Begin) -> None:
    origin.robots = Page("User-agent: *\nDisallow: /0123", headers={"Content-Type": "text/plain"})
    origin.pages["/a"] = Page()
    origin.pages[f"/{KEY}.txt"] = Page(KEY)
    async with begin() as (running, reporter):
        await running.add(origin.url("/a"))
        await until_known(reporter, origin.url("/a"), 403)
        assert origin.hits(f"/{KEY}.txt") == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[1]", 400),
        (b'{"key": 1, "urlList": []}', 400),
        (b'{"key": "0123abcd", "urlList": []}', 422),
        (b'{"key": "0123abcd", "urlList": ["https://a.invalid/", "https://b.invalid/"]}', 422),
        (b'{"key": "0123abcd", "urlList": ["\xff"]}', 400),
        (b"[" * 100_000, 400),
        (b" " * (2 * 1024 * 1024 + 1), 413),
    ],
)
async def test_what_is_no_report_is_refused(begin: Begin, body: bytes, status: int) -> None:
    async with begin() as (_, reporter):
        assert await reporter.send(body) == status


async def test_without_the_setting_nothing_is_taken(origin: Origin, begin: Begin) -> None:
    async with begin(allowed=False) as (running, reporter):
        await running.add(origin.url("/a"))
        assert await reporter.get(url=origin.url("/a")) == 404
        assert await reporter.post(origin.url("/a")) == 404


async def test_a_million_pings_a_minute_are_bounded(origin: Origin, begin: Begin, recorder: Recorder) -> None:
    """As fast as the test can; each refusal costs no look at the database, and nothing grows."""
    slow = asyncio.Event()

    async def answer(_: web.Request) -> web.StreamResponse:
        await slow.wait()
        return web.Response(text=KEY)

    origin.pages["/a"] = Page()
    origin.pages[f"/{KEY}.txt"] = Page(handler=answer)
    async with begin() as (running, reporter):
        await running.control.sites.add([SiteSpec(url=origin.url("/a"))])
        found: list[int] = []
        while 429 not in found and len(found) < 5_000:
            found += await asyncio.gather(*(reporter.get(url=origin.url("/a")) for _ in range(20)))
        assert found.count(202) >= 300
        assert set(found) == {202, 429}
        slow.set()
        await until(lambda: len(recorder.signals) >= 1)
        assert len(origin.hits(f"/{KEY}.txt")) == 1
