"""The pages in a real browser: live, by keys, accessible, and inert whatever pages contain."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, Route

from pollerd.storage.changes import ChangeFilter
from tests.web.conftest import HOSTILE, SMALL_OR_CUT, NewReader, Reader, Web, until

PATHS = [
    "/",
    "/sites",
    "/sites/1",
    "/sites/1/polls",
    "/changes",
    "/changes/1",
    "/changes/1?view=side",
    "/rules",
    "/budget",
    "/rules/channels/new?kind=email",
]
PATHS += ["/plan", "/jobs", "/rules/new", "/collection", "/system", "/sites/import", "/sites/1/text"]
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 360, "height": 740}
TELL = """async ([polls, times]) => {
  const { startTicker } = await import(new URL("ticker.js", document.querySelector("script[src]").src).href);
  const ticker = startTicker();
  for (let n = 0; n < times; n += 1) ticker.came({ polls, skipped: n % 3 });
}"""
"""Hands events to the page's own list of polls, as the stream does."""
ONE_TAB_LEADS = "delete globalThis.SharedWorker"
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa"]
RULES: dict[str, Any] = {"runOnly": {"type": "tag", "values": _TAGS}, "rules": {"target-size": {"enabled": True}}}


async def visit(reader: Reader, web: Web, path: str) -> None:
    answer = await reader.page.goto(web.root + path)
    assert answer is not None
    assert answer.status == 200, path


async def sideways(reader: Reader) -> int:
    """How much wider the page is than the window, px."""
    width: int = await reader.page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return width


@pytest.mark.parametrize(
    ("scheme", "viewport"),
    [("light", {"width": 1280, "height": 900}), ("dark", NARROW), ("dark", None), ("light", NARROW)],
)
async def test_every_page_is_accessible_and_complains_of_nothing(
    busy: Web, new_reader: NewReader, scheme: str, viewport: dict[str, int] | None
) -> None:
    """With axe-core; `None`: at 200 % zoom."""
    zoom = {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2} if viewport is None else {}
    options = zoom or {"viewport": viewport}
    reader = await new_reader(busy.root, color_scheme=scheme, **options)
    for path in PATHS:
        await visit(reader, busy, path)
        await asyncio.sleep(0.2)  # scripts write times
        assert await sideways(reader) <= 0, path
        assert await reader.page.evaluate(SMALL_OR_CUT) == [], path
        found = await Axe().run(reader.page, options=RULES)
        broken = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found.response["violations"]]
        assert broken == [], path
    assert reader.complaints == []
    assert reader.foreign == []


async def test_hostile_text_runs_nothing(hostile: Web, new_reader: NewReader) -> None:
    reader = await new_reader(hostile.root, viewport=NARROW)
    paths = ["/", "/sites", "/changes?show=all", *(f"/sites/{n + 1}" for n in range(len(HOSTILE)))]
    paths += [f"/changes/{n + 1}" for n in range(len(HOSTILE))]
    for path in paths:
        await visit(reader, hostile, path)
        assert await sideways(reader) <= 0, path
        assert await reader.page.locator("h1").is_visible(), path
        assert await reader.page.evaluate("window.hit") is None
        assert await reader.page.locator("main script, main img[onerror]").count() == 0
    assert reader.complaints == []
    assert reader.foreign == []


async def test_a_new_change_waits_behind_a_button(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root)
    await visit(reader, busy, "/changes")
    rows = await reader.page.locator("[data-change]").count()
    await streams(busy, 1)
    url = "https://example.org/live"
    site_id = await busy.api.add(url)
    await busy.poll(site_id, url, ["a\n", "b\n"], summary="just now")
    await until(lambda: reader.page.locator("#new-rows").is_visible())
    assert await reader.page.locator("#new-rows").text_content() == "1 new change · show (.)"
    assert await reader.page.title() == "(1 new) Changes · pollerd"
    assert await reader.page.locator("[data-change]").count() == rows
    await reader.page.keyboard.press(".")
    await until(lambda: reader.page.get_by_text("just now").first.is_visible())
    assert reader.complaints == []


async def streams(web: Web, count: int) -> None:
    """Waits until so many event streams are open."""

    async def open_now() -> bool:
        return web.api.streams.under_way == count

    await until(open_now)


async def test_seven_tabs_share_one_stream(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root)
    pages = [await reader.context.new_page() for _ in range(7)]
    for page in pages:
        await page.goto(f"{busy.root}/changes")
    await streams(busy, 1)
    await asyncio.sleep(1.0)
    assert busy.api.streams.under_way == 1
    site_id = await busy.api.add("https://example.org/live")
    await busy.poll(site_id, "https://example.org/live", ["a\n", "b\n"])
    for page in pages:
        await until(lambda page=page: page.locator("#new-rows").is_visible())  # type: ignore[misc]
    for page in pages:
        await page.close()
    await streams(busy, 0)


async def test_without_shared_workers_one_tab_leads(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root)
    await reader.context.add_init_script(ONE_TAB_LEADS)
    first, second = await reader.context.new_page(), await reader.context.new_page()
    for page in (first, second):
        await page.goto(f"{busy.root}/changes")
    await streams(busy, 1)
    await first.close()
    # The change may come while no tab leads.
    site_id = await busy.api.add("https://example.org/live")
    await busy.poll(site_id, "https://example.org/live", ["a\n", "b\n"])
    await until(lambda: second.locator("#new-rows").is_visible())
    assert await second.locator("#new-rows").text_content() == "1 new change · show (.)"


@pytest.mark.parametrize("script", ["", ONE_TAB_LEADS], ids=["shared worker", "one tab leads"])
@pytest.mark.parametrize("tabs", [1, 2])
async def test_what_comes_while_a_page_loads_is_new_to_it(
    busy: Web, new_reader: NewReader, script: str, tabs: int
) -> None:
    reader = await new_reader(busy.root)
    await reader.context.add_init_script(script)
    url = "https://example.org/live"
    site_id = await busy.api.add(url)

    pages: list[Page] = []

    async def says(page: Page, changes: int) -> None:
        expected = f"{changes} new change{'s' if changes > 1 else ''} · show (.)"
        await until(lambda: _is_text(page, "#new-rows", expected))

    async def change_first(route: Route) -> None:
        await busy.poll(site_id, url, ["a\n", "b\n"])
        for older, page in enumerate(reversed(pages), 2):
            await says(page, older)
        await route.continue_()

    for _ in range(tabs):
        # The page is made, a change comes to the tabs that are open, then its script runs and follows.
        page = await reader.context.new_page()
        await page.route("**/page.js", change_first)
        await page.goto(f"{busy.root}/changes")
        await says(page, 1)
        pages.append(page)
        await streams(busy, 1)


async def _is_text(page: Page, selector: str, expected: str) -> bool:
    return await page.locator(selector).text_content() == expected


async def test_without_either_the_page_asks(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root)
    await reader.context.add_init_script("delete globalThis.SharedWorker; delete globalThis.BroadcastChannel")
    async with reader.page.expect_response(lambda answer: answer.url.endswith("/live/state")) as asked:
        await visit(reader, busy, "/changes")
    assert (await (await asked.value).json())["polling"] is True
    assert busy.api.streams.under_way == 0


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["desk", "phone"])
async def test_the_inbox_by_keys(busy: Web, new_reader: NewReader, viewport: dict[str, int]) -> None:
    """A morning: from Today to the differences, read, undone, all read, and on to the sites."""
    reader = await new_reader(busy.root, viewport=viewport)
    page, changes = reader.page, busy.api.store.changes
    for site in (1, 2, 3):  # without a tag none are together
        await busy.api("PATCH", f"/sites/{site}", {"tags": []})
    await visit(reader, busy, "/")
    for key in ("g", "c"):
        await page.keyboard.press(key)
    await page.wait_for_url("**/changes")
    for key in ("j", "o"):
        await page.keyboard.press(key)
    await until(lambda: page.locator(".diff-place table").is_visible())
    assert await page.evaluate("document.activeElement.dataset.change") == "6"
    assert await sideways(reader) <= 0
    await page.keyboard.press("t")
    await until(lambda: page.locator(".diff-place table.side").is_visible())
    await page.keyboard.press("Escape")
    assert not await page.locator(".diff-place table").is_visible()
    await page.keyboard.press("j")
    await page.keyboard.press("m")
    assert await page.evaluate("document.activeElement.dataset.change") == "4"

    async def unseen() -> list[int | None]:
        return [one.id for one in (await changes.page(ChangeFilter(unseen_by=""))).items]

    async def is_unseen(*ids: int) -> bool:
        return await unseen() == list(ids)

    await until(lambda: is_unseen(4, 3, 2, 1))
    await page.keyboard.press("u")
    await until(lambda: is_unseen(5, 4, 3, 2, 1))
    await page.keyboard.press("A")
    await until(is_unseen)
    await page.keyboard.press("g")
    await page.keyboard.press("s")
    await page.wait_for_url("**/sites")
    await page.keyboard.press("/")
    assert await page.evaluate("document.activeElement.name") == "q"
    await page.keyboard.type("jk?")
    assert await page.locator("input[name=q]").input_value() == "jk?"
    assert not await page.locator("#keys").is_visible()
    assert reader.complaints == []


async def test_keys_can_be_switched_off(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root)
    await visit(reader, busy, "/changes")
    await reader.page.keyboard.press("?")
    await reader.page.locator("#keys-on").uncheck()
    await reader.page.keyboard.press("Escape")
    await reader.page.keyboard.press("?")
    assert not await reader.page.locator("#keys").is_visible()


async def test_everything_without_javascript(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root, java_script_enabled=False)
    page = reader.page
    await visit(reader, busy, "/sites")
    await page.locator("input[name=url]").fill("https://example.org/new")
    await page.get_by_role("button", name="Watch", exact=True).click()
    await page.wait_for_url("**/sites/4")
    await page.get_by_role("link", name="Address and tags").click()
    await page.locator("input[name=title]").fill("Named")
    await page.locator("form", has=page.locator("input[name=title]")).get_by_role("button", name="Save").click()
    await page.get_by_role("heading", name="Named", level=1).wait_for()
    assert await page.locator("h1").text_content() == "Named"
    await page.get_by_role("button", name="Pause").click()
    await page.locator("#site-state").get_by_text("paused").wait_for()
    await visit(reader, busy, "/changes")
    await page.get_by_role("button", name="Mark these").click()
    await page.get_by_text("You are up to date.").wait_for()
    await visit(reader, busy, "/changes/1")
    assert await page.locator("table.diff").is_visible()
    await visit(reader, busy, "/sites")
    await page.locator("input[name=id]").first.check()
    await page.get_by_role("button", name="Delete").click()
    await page.wait_for_url("**/jobs/1*")
    await page.get_by_role("button", name="Undo").click()
    await page.get_by_text("undone").first.wait_for()
    await page.get_by_role("link", name="Back to the list").click()
    await page.wait_for_url("**/sites")
    assert await page.locator("[data-row]").count() == 4


async def test_forms_begin_in_the_readers_zone(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root, timezone_id="Asia/Tokyo")
    await visit(reader, busy, "/rules/new?ready=digest")
    assert await reader.page.input_value("input[name=zone]") == "Asia/Tokyo"
    assert await reader.page.input_value("input[name=quiet_zone]") == "Asia/Tokyo"
    assert reader.complaints == []


async def test_times_are_the_readers(busy: Web, new_reader: NewReader) -> None:
    for zone in ("Asia/Kathmandu", "America/New_York", "UTC"):
        reader = await new_reader(busy.root, timezone_id=zone)
        await visit(reader, busy, "/sites/1/polls")
        shown = reader.page.locator("td time").last

        async def rewritten(shown: Any = shown) -> bool:
            return "ago" in (await shown.text_content() or "")

        await until(rewritten)
        expected = await reader.page.evaluate(
            "(at) => new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit'}).format(new Date(at))",
            await shown.get_attribute("datetime"),
        )
        assert (await shown.text_content() or "").startswith(expected)


async def test_polls_and_health_are_live(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root)
    await visit(reader, busy, "/budget")
    await streams(busy, 1)

    async def watched() -> bool:
        busy.api.control.poll_feed.note([])
        return busy.api.control.poll_feed.watchers == 1

    await until(watched)
    from tests.api.test_api_history import record

    await asyncio.sleep(1.1)
    busy.api.control.poll_feed.note([record(1, 1), record(2, 0)])
    await until(lambda: reader.page.locator("#ticker li").nth(1).is_visible())
    said = await reader.page.locator("#ticker li").all_text_contents()
    assert any("changed" in one and "Page 0" in one for one in said), "its title names a site"
    places = await reader.page.locator("#ticker a").evaluate_all("links => links.map((link) => link.title)")
    assert any("example.org/news" in place for place in places)
    await reader.page.locator("#ticker-pause").click()
    assert reader.complaints == []


async def test_a_tab_left_open_keeps_sixty_rows(busy: Web, new_reader: NewReader) -> None:
    """A day's worth of events: what the page holds does not grow with them."""
    reader = await new_reader(busy.root)
    await visit(reader, busy, "/budget")
    many = [[n % 50, 1_800_000_000 + n, "same", 1, f"example.org/{n}"] for n in range(10)]
    size = "document.querySelectorAll('*').length"
    await reader.page.evaluate(TELL, [many, 200])
    before = await reader.page.evaluate(size)
    await reader.page.evaluate(TELL, [many, 10_000])
    assert await reader.page.locator("#ticker li").count() == 60
    assert await reader.page.evaluate(size) == before
    assert reader.complaints == []


async def test_a_broken_stream_is_said_only_after_ten_seconds(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root)
    await reader.page.clock.install()
    await visit(reader, busy, "/changes")
    await streams(busy, 1)
    began = time.monotonic()
    busy.api.streams.end()
    await asyncio.sleep(1.0)
    # Its clock goes on by itself, too: seven seconds have passed then, whatever this machine is busy with.
    await reader.page.clock.fast_forward(max(round(1_000 * (began + 7.0 - time.monotonic())), 1))
    assert not await reader.page.locator("#not-live").is_visible()
    await reader.page.clock.fast_forward(5_000)
    await until(lambda: reader.page.locator("#not-live").is_visible())
    assert "Connection lost at" in (await reader.page.locator("#not-live").text_content() or "")
    header = reader.page.locator("#health")
    assert (await header.text_content(), await header.get_attribute("data-state")) == ("▲ cannot be reached", "bad")
