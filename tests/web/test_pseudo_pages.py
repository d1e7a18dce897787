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
from tests.web.conftest import NewReader, Web
from tests.web.test_browser import NARROW, WIDE, sideways, visit
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
