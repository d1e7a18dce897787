"""Heavy work leaves the event loop: for a thread what lets others run, for another process what does not."""

from __future__ import annotations

import gzip
import os
import random
import threading

import pytest
from aiohttp import web
from msgspec.structs import replace

from pollerd.detection.detect import detect
from pollerd.detection.summary import summarise
from pollerd.fetching import client as reading
from pollerd.fetching.headers import decode
from pollerd.model import Baseline, Detection, Media, Outcome, OutcomeKind
from pollerd.scheduling.robots import RobotsRules, RobotsText
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page

HERE = f"{os.getpid()}/MainThread"
MALFORMED = "<p><b>x</i><table><tr>" * 230_000
"""5 MB of what no parser likes."""


def place() -> str:
    """Where this runs; the worker processes have one thread for work."""
    return f"{os.getpid()}/{threading.current_thread().name}"


def telling_detect(outcome: Outcome, baseline: Baseline, elapsed: float | None) -> Detection:
    return replace(detect(outcome, baseline, elapsed), detail=place())


def telling_summarise(before: bytes | None, after: bytes, media: Media, mask: bytes, order: tuple[bytes, bytes]) -> str:
    return f"{place()}: {summarise(before, after, media, mask, order)}"


@pytest.fixture(autouse=True)
def telling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pollerd.daemon.poll.detect", telling_detect)
    monkeypatch.setattr("pollerd.daemon.noise.summarise", telling_summarise)


async def first(running: Running, origin: Origin, page: Page) -> str:
    """Where the first poll of the page was detected."""
    path = f"/{len(origin.pages)}"
    origin.pages[path] = page
    (site_id,) = await running.add(origin.url(path, host=len(origin.pages)), min_interval=1000.0)
    (poll,) = await running.polled(site_id, 1, 60)
    assert poll.outcome is OutcomeKind.FIRST, poll.detail
    return poll.detail


def feed(entries: int) -> Page:
    items = "".join(f"<item><guid>{n}</guid><title>entry {n}</title></item>" for n in range(entries))
    text = f'<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>{items}</channel></rss>'
    return Page(text, headers={"Content-Type": "application/rss+xml"})


async def test_where_bodies_are_read(origin: Origin, start: Start) -> None:
    async with start() as running:
        assert await first(running, origin, Page("<p>hello</p>" * 100)) == HERE
        assert await first(running, origin, feed(20)) == HERE
        for page in (Page("<p>hello</p>" * 6_000), Page(MALFORMED), feed(400), feed(5_000)):
            pid, _ = (await first(running, origin, page)).split("/")
            assert int(pid) != os.getpid()
        assert running.metric("pollerd_event_loop_lag_seconds") > 0


async def test_where_large_changes_are_described(origin: Origin, start: Start) -> None:
    lines = [f"<p>line {n}</p>" for n in range(60_000)]
    origin.pages["/a"] = Page("".join(lines))
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 1, 60)
        random.Random(1).shuffle(lines)
        origin.pages["/a"] = Page("".join(lines))
        while not (changes := await running.changes()):
            await running.polled(site_id, len(await running.polls(site_id)) + 1, 60)
        assert int(changes[0].summary.split("/")[0]) != os.getpid()


async def test_where_large_bodies_are_unpacked(origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large as sent, or as unpacked: a little of a compressed body may hold very much."""
    unpacked: dict[str, int] = {}

    def telling_decode(body: bytes, encoding: str, limit: int, **named: bool) -> bytes:
        unpacked[place()] = max(unpacked.get(place(), 0), limit)
        return decode(body, encoding, limit, **named)

    monkeypatch.setattr(reading, "decode", telling_decode)

    def zipped(content: bytes) -> Page:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(body=packed, headers={"Content-Encoding": "gzip", "Content-Type": "image/png"})

        packed = gzip.compress(content)
        return Page(handler=answer)

    async with start() as running:
        await first(running, origin, zipped(bytes(100_000)))
        assert set(unpacked) == {HERE}
        for content in (random.Random(1).randbytes(100_000), bytes(5_000_000)):
            unpacked.clear()
            await first(running, origin, zipped(content))
            assert unpacked.pop(HERE, 0) < 1_000_000 < max(unpacked.values())


async def test_long_robots_txt_is_read_elsewhere(origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a site's own poll and by one that is redirected to its host; and again after a start that finds it stored."""
    read_here: list[RobotsText] = []
    read = RobotsText.read

    def noting(text: RobotsText) -> RobotsRules:
        read_here.append(text)
        return read(text)

    monkeypatch.setattr(RobotsText, "read", noting)
    rules = "".join(f"Disallow: /x{n}*y\n" for n in range(25_000))
    origin.robots = Page(
        f"User-agent: *\nCrawl-delay: 0.2\n{rules}Disallow: /c", headers={"Content-Type": "text/plain"}
    )
    origin.pages |= {"/a": Page(), "/b": Page(status=302, headers={"Location": origin.url("/a", host=1)}), "/c": Page()}
    urls = origin.url("/a", host=1), origin.url("/b", host=2), origin.url("/c", host=1)
    async with start() as running:
        ids = await running.add(*urls)
        await judged(running, ids, polls=1)
    asked = len(origin.hits("/robots.txt"))
    async with start() as running:
        await judged(running, ids, polls=3)
    assert len(origin.hits("/robots.txt")) == asked
    assert not origin.hits("/c")
    assert read_here == []


async def judged(running: Running, ids: list[int], polls: int) -> None:
    """Waits until so many polls of the two allowed sites were done, and checks that the third was denied."""
    for site_id in ids[:2]:
        assert (await running.polled(site_id, polls, 60))[-1].outcome.informative
    assert (await running.polled(ids[2], 1, 60))[-1].outcome is OutcomeKind.DENIED
