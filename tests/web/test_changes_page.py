"""The list of changes: under the days of the reader, and changes that say the same as one row."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import update

from pollerd.model import Change, Media
from pollerd.storage.schema import change
from pollerd.web.changes import ChangeRow, days_of
from tests.web.conftest import NewReader, Web, until


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def one(number: int, site: int, when: str, summary: str = "", title: str = "") -> Change:
    url = f"https://example.org/{site}"
    return Change(number, site, url, at(when), None, Media.HTML, summary or f"change {number}", title=title)


NOW = at("2026-11-28T01:30")


def test_days_are_those_of_the_reader() -> None:
    changes = [one(4, 1, "2026-11-28T01:00"), one(3, 1, "2026-11-27T23:30"), one(2, 1, "2026-11-27T03:00")]
    changes.append(one(1, 1, "2026-11-25T12:00"))

    def shown(zone: str) -> dict[str, list[int | None]]:
        days = days_of(changes, {}, NOW, ZoneInfo(zone))
        return {day.name: [row.changes[0].id for row in day.rows] for day in days}

    assert shown("UTC") == {"Today": [4], "Yesterday": [3, 2], "Wed 2026-11-25": [1]}
    assert shown("Europe/Berlin") == {"Today": [4, 3], "Yesterday": [2], "Wed 2026-11-25": [1]}
    assert shown("America/New_York") == {"Today": [4, 3], "Yesterday": [2], "Wed 2026-11-25": [1]}
    assert days_of([], {}, NOW) == []


def test_changes_that_say_the_same_of_sites_of_one_tag_are_one_row() -> None:
    tags = {1: ["articles", "real"], 2: ["articles"], 3: ["articles", "real"], 4: [], 5: ["shop"]}
    summary = "Version 3 → 4"
    changes = [
        one(9, 1, "2026-11-28T01:20", summary, "Article 35"),
        one(8, 5, "2026-11-28T01:10", summary, "Lamp"),
        one(7, 2, "2026-11-28T01:00", summary, "Article 62"),
        one(6, 2, "2026-11-28T00:50", "Version 2 → 3", "Article 62"),
        one(5, 4, "2026-11-28T00:40", summary, "Alone"),
        one(4, 3, "2026-11-28T00:30", summary, "Article 146"),
        one(3, 1, "2026-11-28T00:20", summary, "Article 35"),
        one(2, 3, "2026-11-27T22:00", summary, "Article 146"),
    ]
    today, yesterday = days_of(changes, tags, NOW)
    rows = [(row.tag, [of.id for of in row.changes]) for row in today.rows]
    assert rows == [("articles", [9, 7, 4, 3]), ("", [8]), ("", [6]), ("", [5])]
    assert (today.rows[0].sites, today.rows[0].titles) == (3, "Article 35, 62, 146")
    assert [(row.tag, row.changes[0].id) for row in yesterday.rows] == [("", 2)], "a group is of one day"


@pytest.mark.parametrize(
    ("titles", "shown"),
    [
        (["Article 35", "Article 62", "Article 146", "Article 9"], "Article 35, 62, 146 …"),
        (["News", "News of the town"], "News, of the town"),
        (["A", "B"], "A, B"),
        (["", ""], "example.org/0, example.org/1"),
    ],
)
def test_the_words_in_which_titles_begin_are_said_once(titles: list[str], shown: str) -> None:
    changes = [one(n, n, "2026-11-28T01:00", "x", title) for n, title in enumerate(titles)]
    assert ChangeRow(changes, "tag").titles == shown


async def articles(web: Web, count: int = 4) -> None:
    for n in range(count):
        site = await web.api.add(f"https://example.org/{n}", title=f"Article {n}", tags=["<articles>"])
        await web.poll(site, f"https://example.org/{n}", ["a", "b"], summary="Version 3 → 4")
    lamp = await web.api.add("https://shop.example.org/", title="Lamp")
    await web.poll(lamp, "https://shop.example.org/", ["a", "b"], summary="€ 5 → € 4")


async def test_a_group_unfolds_and_is_marked_with_the_rest(web: Web) -> None:
    await articles(web)
    page = (await web.get("/changes")).text
    assert "<bdi>&lt;articles&gt;</bdi> · 4 sites" in page
    assert "(Article 3, 2, 1 …)" in page
    assert page.count("data-change=") == 5, "each change is in the list, folded"
    assert "<small>UTC</small>" in page
    assert "<small>UTC</small>" not in (await web.get("/changes", Cookie="pollerd-zone=Europe/Berlin")).text
    assert (await web.get("/changes", Cookie='pollerd-zone="><script>')).status == 200
    ids = re.findall(r'name="id" value="(\d+)"', page)
    assert (await web.post("/changes/seen", [("id", number) for number in ids])).status == 303
    assert "You are up to date." in (await web.get("/changes")).text
    assert "Mark these 5 as unread" in (await web.get("/changes?show=all")).text


async def test_groups_by_key_and_by_pointer(web: Web, new_reader: NewReader) -> None:
    await articles(web)
    reader = await new_reader(web.root, timezone_id="Asia/Tokyo")
    page = reader.page
    await page.goto(web.root + "/")
    await page.goto(f"{web.root}/changes")
    assert await page.locator("h2.day").first.text_content() in ("Today", "Yesterday"), "the reader's zone is known"
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    group = page.locator("li.group")
    assert await group.evaluate("group => group === document.activeElement")
    await page.keyboard.press("j")
    assert await group.evaluate("group => group === document.activeElement"), "what is folded is no stop"
    await page.keyboard.press("o")
    assert await page.locator("li.group li[data-row]").first.is_visible()
    await page.keyboard.press("o")
    await page.keyboard.press("m")

    async def is_read() -> bool:
        text = (await web.get("/changes")).text
        return "Lamp" in text and "Article" not in text

    await until(is_read)
    await page.keyboard.press("u")
    await until(lambda: _holds(web, "4 sites"))
    await page.locator("li.group summary").click()
    await page.locator("li.group [data-open]").nth(1).click()
    await page.wait_for_selector("li.group table.diff")
    assert reader.complaints == []


async def _holds(web: Web, text: str) -> bool:
    return text in (await web.get("/changes")).text


async def test_what_is_folded_is_not_read_by_scrolling_past_nothing(web: Web, new_reader: NewReader) -> None:
    await articles(web)
    reader = await new_reader(web.root)
    await reader.page.clock.install()
    await reader.page.goto(f"{web.root}/changes")
    await reader.page.clock.run_for(60_000)
    assert await reader.page.locator("[data-row].seen").count() == 0
    assert await _holds(web, "4 sites")


async def test_a_group_of_yesterday_stands_under_yesterday(web: Web) -> None:
    await articles(web)
    statement = update(change).values(detected_at=change.c.detected_at - 86_400.0)
    await web.api.store.database.write(lambda connection: connection.execute(statement))
    page = (await web.get("/changes")).text
    assert '<h2 class="day">' in page
    assert '<h2 class="day">Today' not in page
