"""Settings that change while pages are rendered: how many at once, deadlines, sizes, and the guard."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind
from pollerd.rendering.renderer import PageTurns, Renderer
from pollerd.rendering.settings import RenderingSettings
from tests.support.origin import Origin, Page


class Turns:
    """Pages that take their turns until they are let go."""

    def __init__(self, most: int) -> None:
        self.turns = PageTurns(most)
        self._ends: list[asyncio.Event] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.running: list[int] = []

    async def begin(self, *pages: int) -> None:
        for page in pages:
            self._ends.append(asyncio.Event())
            self._tasks.append(asyncio.create_task(self._page(page)))
        await asyncio.sleep(0)

    async def _page(self, page: int) -> None:
        async with self.turns:
            self.running.append(page)
            await self._ends[page].wait()
            self.running.remove(page)

    async def end(self, *pages: int) -> None:
        for page in pages:
            self._ends[page].set()
        for _ in range(5):
            await asyncio.sleep(0)


async def test_the_number_of_pages_may_grow_and_shrink() -> None:
    pages = Turns(2)
    await pages.begin(0, 1, 2, 3, 4, 5)
    assert pages.running == [0, 1]
    pages.turns.adopt(3)
    await pages.end()
    assert pages.running == [0, 1, 2]
    pages.turns.adopt(1)
    await pages.end(0, 1)
    assert pages.running == [2], "pages under way end, and no other begins"
    await pages.end(2)
    assert pages.running == [3]
    pages.turns.adopt(2)
    await pages.end()
    assert pages.running == [3, 4]
    await pages.end(3, 4, 5)
    assert pages.running == []
    assert pages.turns.most == 2


async def test_a_smaller_number_holds_for_those_that_begin() -> None:
    pages = Turns(3)
    pages.turns.adopt(1)
    await pages.begin(0, 1)
    await pages.end()
    assert pages.running == [0]
    pages.turns.adopt(2)
    await pages.end()
    assert pages.running == [0, 1]


async def test_pages_that_begin_later_have_the_new_settings(settings: RenderingSettings) -> None:
    fetching = FetchSettings(allow_private=True)
    async with Origin() as origin, Renderer(settings, fetching) as renderer:
        origin.pages["/"] = Page("<p>here</p>")
        request = Request(origin.url("/"))
        assert (await renderer.render(request)).kind is OutcomeKind.BODY
        renderer.adopt(replace(settings, browser="/nowhere", browser_page_bytes=65_536), fetching)
        assert renderer.settings == replace(settings, browser_page_bytes=65_536), "the browser stays"
        origin.pages["/large"] = Page("<p>x</p>" * 100_000)
        assert (await renderer.render(Request(origin.url("/large")))).kind is OutcomeKind.TOO_LARGE
        renderer.adopt(settings, replace(fetching, allow_private=False))
        outcome = await renderer.render(request)
        assert outcome.kind is OutcomeKind.BLOCKED_ADDRESS, outcome.detail
        renderer.adopt(replace(settings, browser_deadline_seconds=1.0), fetching)
        origin.pages["/never"] = Page("<script>for (;;) {}</script>")
        assert (await renderer.render(Request(origin.url("/never")))).kind is OutcomeKind.TIMEOUT
        assert renderer.starts == 1
