"""A translation is a file: with one of some texts, pages are in its language as far as it goes, and English beyond."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from pollerd import texts
from pollerd.texts import speaking
from pollerd.web.words import Strong, figure, how_often, plain, sentence
from tests.support.pseudo import catalogue, catalogue_of
from tests.web.conftest import NewReader, Web, until
from tests.web.test_browser import streams, visit

GERMAN = Path(__file__).parents[1] / "words/de.po"


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> texts.TextLanguage:
    language = texts.translated("de", GERMAN)
    monkeypatch.setattr(texts, "CODES", ("en", "de"))
    monkeypatch.setitem(texts.LOADED, "de", language)
    return language


def test_every_text_of_the_file_is_one_of_ours() -> None:
    assert catalogue_of(GERMAN) - catalogue() == set()


def test_numbers_plurals_and_the_order_of_words_are_those_of_the_language(german: texts.TextLanguage) -> None:
    text = "The last check was {ago} ago; the chance that it has changed since is {chance}."
    with speaking(german):
        assert (figure(1_204.0), figure(0.015), how_often(2.5)) == ("1.204", "0,015", "2,5-mal am Tag")
        said = plain(sentence(text, ago=Strong("3 h"), chance=Strong("15 %")))
        assert said == "Mit 15 % Wahrscheinlichkeit hat sie sich seit der letzten Prüfung vor 3 h geändert."
        assert texts.n_("{count} site is ahead of it.", "{count} sites are ahead of it.", 1) == (
            "Eine Seite ist vor ihr an der Reihe."
        )
        assert texts.n_("{count} site is ahead of it.", "{count} sites are ahead of it.", 1_204).startswith("1.204 S")


async def test_a_reader_gets_pages_in_the_language_that_the_browser_asks_for(
    german: texts.TextLanguage, busy: Web
) -> None:
    page = (await busy.get("/changes", **{"Accept-Language": "de-AT, en;q=0.5"})).text
    assert '<html lang="de"' in page
    assert ">Heute</a>" in page
    assert "✓ alles gut · " in page
    assert "von " in page.partition('id="health"')[2].partition("</p>")[0]
    assert ">Alerts</a>" in page  # is not translated
    for_scripts = json.loads(unescape(page.partition('data-texts="')[2].partition('"')[0]))
    assert for_scripts["{count} new change · show (.)"] == {
        "one": "{count} neue Änderung · zeigen (.)",
        "other": "{count} neue Änderungen · zeigen (.)",
    }
    english = (await busy.get("/changes", **{"Accept-Language": "fr, en;q=0.5"})).text
    assert '<html lang="en"' in english
    assert "data-texts" not in english


async def test_scripts_speak_it_too(german: texts.TextLanguage, busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root, locale="de-AT")
    await visit(reader, busy, "/changes")
    await streams(busy, 1)
    site_id = await busy.api.add("https://example.org/live")
    for count, expected in ((1, "1 neue Änderung · zeigen (.)"), (2, "2 neue Änderungen · zeigen (.)")):
        await busy.poll(site_id, "https://example.org/live", [f"a{count}\n", f"b{count}\n"])

        async def says(expected: str = expected) -> bool:
            return await reader.page.locator("#new-rows").text_content() == expected

        await until(says)
    assert reader.complaints == []


@pytest.mark.parametrize(
    ("locale", "ago", "title"),
    [
        ("de-AT", "vor ", r"\d+\.\d+\.\d{4}, \d\d:\d\d:\d\d"),
        ("fr-FR", " ago", r"[A-Z][a-z]+ \d+, \d{4}, \d+:\d\d:\d\d\s[AP]M"),  # its pages are in English
        ("en-GB", " ago", r"\d+ [A-Z][a-z]+ \d{4}, \d\d:\d\d:\d\d"),
    ],
)
async def test_times_are_in_the_language_of_the_page(
    german: texts.TextLanguage, busy: Web, new_reader: NewReader, locale: str, ago: str, title: str
) -> None:
    reader = await new_reader(busy.root, locale=locale, timezone_id="UTC")
    await visit(reader, busy, "/sites/1")
    time = reader.page.locator("time[title]").first
    await time.wait_for(state="attached", timeout=20_000)
    assert ago in (await time.text_content() or "")
    assert re.match(title, await time.get_attribute("title") or "")
