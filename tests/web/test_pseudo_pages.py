"""Every page in a language that only the catalogue has: nothing that people read is left out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selectolax.lexbor import LexborHTMLParser

from pollerd import texts
from pollerd.allocation import registry
from pollerd.allocation.registered import OBJECTIVES
from pollerd.daemon.views import ExplanationView
from pollerd.model import Media, OutcomeKind
from pollerd.rendering.plan import RESOURCE_TYPES
from pollerd.site_settings import SITE_SETTINGS
from tests.support.pseudo import PseudoLanguage, untranslated
from tests.web.conftest import NewReader, Reader, Web, until
from tests.web.test_browser import NARROW, TELL, WIDE, sideways, streams, visit
from tests.web.test_browser import PATHS as SEEN
from tests.web.test_pages import PATHS

DATA = "bdi, code, pre, time, kbd, script, style, textarea, .tag, .ticker, ins, del, .diff td"
"""Elements whose text is of pages, users or programs."""
ATTRIBUTES = ("title", "placeholder", "aria-label", "alt", "aria-valuetext")
NAMES = {
    *registry.names(),
    *OBJECTIVES,
    *SITE_SETTINGS,
    *RESOURCE_TYPES,
    *(media.value for media in Media),
    *(kind.value.replace("_", " ") for kind in OutcomeKind),
    *ExplanationView.__dataclass_fields__,
    *("Webhook", "False", "session=…; consent=…"),
}
"""Texts that are names of programs, not words."""
KNOWN = (
    *(
        "pollerd",
        "UTC",
        "JavaScript",
        "CSS",
        "XPath",
        "JSONPath",
        "whittle",
        ": changes",
        "'changes'",
        "example.org:443",
        "default",
    ),
    *(f"example.org/{number}" for number in range(3)),
    *(f"Page {number}" for number in range(3)),
    *(f"change {number}" for number in range(1, 3)),
)
OF_SITES = (
    "/sites/1",
    "/sites/1/polls",
    "/sites/1/text",
    "/sites/1/counts",
    "/changes/1",
    "/plan",
    "/jobs",
    "/sites/add",
)


@pytest.fixture(autouse=True)
def _pseudo() -> Iterator[None]:
    texts.speak(PseudoLanguage())
    yield
    texts.speak(texts.language(texts.ENGLISH))


def shown(page: str) -> Iterator[str]:
    """Yields the texts of a page, without data."""
    tree = LexborHTMLParser(page)
    for node in tree.css(DATA):
        node.decompose()
    for node in tree.css("*"):
        for name in ATTRIBUTES:
            yield node.attributes.get(name) or ""
    for node in tree.css("title, body *"):
        yield node.text(deep=False)


@pytest.mark.parametrize("path", [*PATHS, *OF_SITES])
async def test_every_page(busy: Web, path: str) -> None:
    page = await busy.get(path)
    assert "⟦" in page.text
    faults = {
        text.strip()[:120]: words
        for text in shown(page.text)
        if text.strip() not in NAMES and (words := untranslated(text, KNOWN))
    }
    assert [f"{text}: {words}" for text, words in faults.items()] == []


@pytest.mark.parametrize("viewport", [NARROW, WIDE])
async def test_longer_words_fit(busy: Web, new_reader: NewReader, viewport: dict[str, int]) -> None:
    reader = await new_reader(busy.root, viewport=viewport, locale="eo")  # a language that pollerd does not have
    too_wide = {}
    for path in SEEN:
        await visit(reader, busy, path)
        assert "⟦" in await reader.page.content()
        if (by := await sideways(reader)) > 0:
            too_wide[path] = by
    assert too_wide == {}


SAID_BY_SCRIPTS = ("#new-rows", "#status", "#health", "#not-live", "#selected-count", "#ticker-pause", "#ticker li")


async def said_by_scripts(reader: Reader) -> dict[str, str]:
    """The texts of elements that scripts write."""
    return {
        place: " ".join(await reader.page.locator(place).all_text_contents())
        for place in SAID_BY_SCRIPTS
        if await reader.page.locator(place).count()
    }


async def test_what_scripts_say(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root, locale="eo")
    await reader.page.clock.install()
    await visit(reader, busy, "/sites")
    await reader.page.locator("#bulk input[name=id]").first.check()
    said = await said_by_scripts(reader)
    label = await reader.page.locator("thead input[type=checkbox]").get_attribute("aria-label")
    await visit(reader, busy, "/budget")
    polls = [[1, 1_800_000_000, outcome, 1, "7"] for outcome in ("changed", "same", "failed", "proving")]
    await reader.page.evaluate(TELL, [polls, 2])
    await reader.page.locator("#ticker-pause").click()
    said |= await said_by_scripts(reader)
    await visit(reader, busy, "/changes?show=all")
    await streams(busy, 1)
    site_id = await busy.api.add("https://example.org/live")
    await busy.poll(site_id, "https://example.org/live", ["a\n", "b\n"])
    await until(lambda: reader.page.locator("#new-rows").is_visible())
    await reader.page.keyboard.press("j")
    await reader.page.keyboard.press("m")
    await until(lambda: reader.page.locator("#status:not(:empty)").is_visible())
    title = await reader.page.title()
    busy.api.streams.end()

    async def is_broken() -> bool:
        await reader.page.clock.fast_forward(5_000)
        return await reader.page.locator("#not-live").is_visible()

    await until(is_broken)
    said |= await said_by_scripts(reader) | {"label": label or "", "title": title}
    assert set(said) == {*SAID_BY_SCRIPTS, "label", "title"}
    assert all(said.values())
    known = [
        "pollerd",
        "AM",
        "PM",
        "ms",
        "seconds ago",
        "second ago",
        "minute ago",
        "minutes ago",
    ]  # Intl's are English
    assert {place: words for place, text in said.items() if (words := untranslated(text, known))} == {}
    assert reader.complaints == []
