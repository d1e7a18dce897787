"""Selections on hostile pages: each costs a bounded time and memory, and concerns only its own site."""

from __future__ import annotations

from functools import partial

import pytest
from aiohttp import web

from pollerd.app import build
from pollerd.daemon.workers import WorkerPool
from pollerd.detection.selection.comparing import detect_selections, heavy_for_selections
from pollerd.errors import SelectionLimitError, TooHeavyError
from pollerd.model import Baseline, Outcome, OutcomeKind
from tests.daemon.conftest import Start
from tests.hostile.pages_for_selections import HTML, PAGES, HostilePage, keep
from tests.support.origin import Origin, Page

URL = "http://a.example/"
GOOD = HostilePage(HTML, lambda: b"<p>one</p>", keep(css="p"))
ENDED_BY_LIMITS = ("XPath of cubic time, 500 kB", "PDF, a page of 500 MB")
"""Pages that nothing ends but the limits of their process."""
COUNTED = {
    "CSS `b b b b i`, 32 KiB nested": "open elements",
    "CSS `div:has(i)`, 500 kB nested": "open elements",
    "XML, billion laughs": "entities",
    "each character replaced by a thousand, 5 MB": "characters after replacing",
    "JSONPath with a filter in a filter, 200 kB": "values looked at",
}
"""Pages that are refused by counting what they take, and what is counted."""


def answer(page: HostilePage) -> Outcome:
    body = page.make()
    return Outcome(OutcomeKind.BODY, 0.0, 0.0, 200, len(body), body, page.media)


def serving(page: HostilePage) -> Page:
    body = page.make()

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=page.media)

    return Page(handler=handler)


@pytest.mark.parametrize("name", COUNTED)
def test_what_a_page_takes_is_counted(name: str) -> None:
    page = PAGES[name]
    with pytest.raises(SelectionLimitError, match=COUNTED[name]):
        detect_selections(answer(page), URL, page.settings, Baseline(), (), None)


@pytest.mark.parametrize("name", ["`(a+)+$`, 100 kB", "`(x+x+)+y` in lines, 5 MB", "`(?:.?){1000}`, 5 MB"])
def test_patterns_that_backtrack_elsewhere_are_read_to_their_end(name: str) -> None:
    page = PAGES[name]
    found = detect_selections(answer(page), URL, page.settings, Baseline(), (), None)
    assert found.kind in (OutcomeKind.FIRST, OutcomeKind.NOTHING_SELECTED)


@pytest.mark.parametrize("name", PAGES)
def test_only_small_bodies_under_css_are_read_in_the_loop(name: str) -> None:
    page = PAGES[name]
    assert heavy_for_selections(answer(page), page.settings, Baseline(), ()) != ("32 KiB" in name)


async def test_a_page_that_needs_too_much_memory_harms_no_other() -> None:
    pool = WorkerPool(workers=1, memory_bytes=64 * 1024**2)
    page = PAGES["CSS `p a`, 5 MB of elements"]
    try:
        with pytest.raises(TooHeavyError, match="64 MiB of memory"):
            await pool.do(detect_selections, answer(page), URL, page.settings, Baseline(), (), None)
        found = await pool.do(detect_selections, answer(GOOD), URL, GOOD.settings, Baseline(), (), None)
    finally:
        pool.close()
    assert found.selections[0].content == b"one"


async def test_pages_that_take_too_long_set_only_their_own_sites_aside(
    start: Start, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "WorkerPool", partial(WorkerPool, patience_seconds=1.0))
    hostile = [PAGES[name] for name in ENDED_BY_LIMITS]
    for number, page in enumerate(hostile):
        origin.pages[f"/{number}"] = serving(page)
    origin.pages["/good"] = Page(body="<nav>x</nav><p>one</p>")
    async with start(budget=40.0) as running:
        added = [
            (await running.add(origin.url(f"/{number}", host=number + 2), selections=page.settings))[0]
            for number, page in enumerate(hostile)
        ]
        (good,) = await running.add(origin.url("/good", host=9), selections=GOOD.settings)
        for site in added:
            polls = await running.polled(site, 1, 60.0)
            assert polls[0].outcome is OutcomeKind.UNDECODABLE
            assert "detection failed" in polls[0].detail
        origin.pages["/good"] = Page(body="<nav>x</nav><p>two</p>")
        seen = len(await running.polls(good))
        await running.polled(good, seen + 4)
        changes = await running.changes()
    assert [change.site_id for change in changes] == [good]
