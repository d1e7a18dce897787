"""Fixtures: the web pages beside the API, over sites with a history; and a browser that notes every complaint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from pollerd.model import Baseline, Media, OutcomeKind, Poll, SiteState
from pollerd.storage.values import Batch, ChangeDraft, PollRecord, SiteContext
from pollerd.web.application import add_pages
from tests.api.conftest import Api, NewApi, new_api, store
from tests.support.chromium import chromium_path
from tests.support.stores import empty_database, statements_are_compiled_once

__all__ = ["empty_database", "new_api", "statements_are_compiled_once", "store"]
HOSTILE = (
    "<script>window.hit=1</script>",
    '"><img src=x onerror="window.hit=1">',
    "red} *{display:none}",
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe",
    "{{7*7}}{% for x in y %}",
    "</title></textarea><h1>x",
    "]]>--> \x1b[31m",
    "word" * 3_000,
)

SMALL_OR_CUT = """
[...document.querySelectorAll("svg.plot text")].filter((text) => {
  const plot = text.ownerSVGElement.getBoundingClientRect();
  if (plot.width === 0) return false; // the one for another width
  const scale = plot.width / text.ownerSVGElement.viewBox.baseVal.width;
  const box = text.getBoundingClientRect();
  const small = parseFloat(getComputedStyle(text).fontSize) * scale < 11;
  return small || box.left < plot.left - 1 || box.right > plot.right + 1 || box.bottom > plot.bottom + 3;
}).map((text) => text.textContent)
"""
"""The letters of plots that are smaller than 11 px, or not all within their plot."""


@dataclass(frozen=True)
class Answer:
    """A page."""

    status: int
    headers: Any
    text: str


@dataclass(frozen=True)
class Web:
    """The pages over a daemon that is built but does not run."""

    api: Api

    @property
    def root(self) -> str:
        return self.api.root

    async def get(self, path: str, **headers: str) -> Answer:
        async with self.api.session.get(self.root + path, headers=headers, allow_redirects=False) as answer:
            return Answer(answer.status, answer.headers, await answer.text())

    async def post(self, path: str, data: Any = None, **headers: str) -> Answer:
        given = data if data is not None else {}
        async with self.api.session.post(
            self.root + path, data=given, headers=headers, allow_redirects=False
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.text())

    async def poll(self, site_id: int, url: str, texts: list[str], *, summary: str = "") -> None:
        """Commits polls that read these texts, a minute apart; the last one now."""
        start = time.time() - 60.0 * len(texts)
        before: bytes | None = None
        for n, text in enumerate(texts):
            await self.api.store.commit(Batch([_record(site_id, url, n, start, (before, text.encode()), summary)]))
            before = text.encode()

    async def fails(self, site_id: int, url: str, outcome: OutcomeKind, detail: str, state: SiteState) -> None:
        """Commits a poll that failed now."""
        now = time.time()
        poll = Poll(site_id, now, 60.0, outcome, None, 0.1, 0, False, detail=detail)
        context = (await self.api.store.sites.contexts([site_id]))[site_id]
        await self.api.store.commit(Batch([PollRecord(poll, context, state, failures=1, not_before=now + 600.0)]))


def _record(
    site_id: int, url: str, n: int, start: float, texts: tuple[bytes | None, bytes], summary: str
) -> PollRecord:
    before, text = texts
    changed = before is not None and before != text
    outcome = OutcomeKind.FIRST if before is None else OutcomeKind.CHANGED if changed else OutcomeKind.UNCHANGED
    at = start + 60.0 * n
    return PollRecord(
        poll=Poll(site_id, at, 60.0 if n else None, outcome, 200, 0.1, len(text), changed),
        context=SiteContext(site_id, url, baseline=Baseline(fingerprint=n.to_bytes(16, "big"), media=Media.HTML)),
        state=SiteState.ACTIVE,
        last_seen_at=at,
        content=text if before != text else None,
        change=ChangeDraft(Media.HTML, summary or f"change {n}", at - 60.0) if changed else None,
    )


async def opened(new_api: NewApi) -> Web:
    """The pages of a new API."""
    api = await new_api()
    add_pages(api.app)
    return Web(api)


@pytest.fixture
async def web(new_api: NewApi) -> Web:
    """Without a token, as on a user's own machine."""
    return await opened(new_api)


@pytest.fixture
async def busy(web: Web) -> Web:
    """With some sites and changes."""
    await add_changes(web)
    return web


async def add_changes(web: Web) -> None:
    """Adds some sites with changes."""
    for n in range(3):
        url = f"https://example.org/{n}"
        site_id = await web.api.add(url, title=f"Page {n}", tags=["shop"])
        await web.poll(site_id, url, ["one\ntwo\nthree\n", "one\n2\nthree\n", "one\n2\nthree\nfour\n"])


@pytest.fixture
async def hostile(web: Web) -> Web:
    """With titles, tags, summaries and contents that try to be more than text."""
    await add_hostile(web)
    return web


async def add_hostile(web: Web) -> None:
    """Adds sites whose titles, tags, summaries and contents try to be more than text."""
    for n, text in enumerate(HOSTILE):
        url = f"https://example.org/{n}?q=%3Cscript%3E"
        tag = "".join(letter for letter in text if letter.isprintable() and letter != ";")[:60]
        title = "".join(letter for letter in text if letter.isprintable())[:190]
        site_id = await web.api.add(url, title=title, tags=[tag])
        contents = [f"{text}\n", f"{text}\n{text} more\n"]
        await web.poll(site_id, url, contents, summary=text[:900])


@dataclass
class Reader:
    """A browser's page, and all it complained of."""

    page: Page
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


NewReader = Callable[..., Awaitable[Reader]]


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    path = chromium_path()
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        await opened.close()


@pytest.fixture
async def new_reader(browser: Browser) -> NewReader:
    """`await new_reader(root, ...)` opens a private window with the given options."""

    async def start(root: str, **options: Any) -> Reader:
        context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        page = await context.new_page()
        reader = Reader(page, context)
        page.on("pageerror", lambda error: reader.complaints.append(str(error)))
        page.on("console", lambda said: reader.complaints.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked: reader.foreign.append(asked.url) if not asked.url.startswith(root) else None)
        return reader

    return start


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Waits for a condition. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)
