"""What counts on a page, by form: previewed on the page as it is and on stored changes, saved, refused in place."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from playwright.async_api import Page, async_playwright

from tests.support.chromium import chromium_path
from tests.support.origin import Origin, until
from tests.support.origin import Page as Served
from tests.support.process import daemon_process

SHOP = """<html lang="en"><body><nav><a href="/">Home</a></nav><h1>Espresso machine</h1>
<p id="price" class="css-1x2y3z">%s</p><p>In stock.</p><p class="ad">Ad &lt;script&gt;window.hit=1&lt;/script&gt; %s</p>
<ul><li class="review">Good</li><li class="review">Fine</li><li class="review">So so</li></ul></body></html>"""


@dataclass(frozen=True)
class Running:
    """A daemon, and the site that it watches."""

    root: str
    session: aiohttp.ClientSession

    async def post(self, path: str, fields: Any) -> tuple[int, str]:
        async with self.session.post(self.root + path, data=fields, allow_redirects=False) as answer:
            return answer.status, await answer.text()

    async def get(self, path: str) -> str:
        async with self.session.get(self.root + path) as answer:
            return await answer.text()

    async def site(self) -> Any:
        return orjson.loads(await self.get("/api/v1/sites/1"))

    async def changes(self) -> int:
        return len(orjson.loads(await self.get("/api/v1/changes?site=1"))["items"])


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin() as served:
        yield served


@pytest.fixture
async def running(tmp_path: Path, origin: Origin) -> AsyncIterator[Running]:
    """A site with four changes: two of its price, two of an advertisement."""
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    origin.pages["/shop"] = Served(SHOP % ("€ 1,199.00", "a"))
    browser = ("--browser", chromium_path(), "--browser-no-sandbox")
    arguments = ("--budget", "20", "--max-interval", "0.2", *browser)
    async with (
        daemon_process(database, tmp_path / "log", *arguments) as daemon,
        aiohttp.ClientSession() as session,
    ):
        await until(lambda: bool(re.search(r"http://127\.0\.0\.1:\d+", daemon.log)))
        made = Running(re.findall(r"http://127\.0\.0\.1:\d+", daemon.log)[0], session)
        url = origin.url("/shop")
        async with session.post(made.root + "/api/v1/sites", json={"url": url}) as answer:
            assert answer.status == 201, await answer.text()
        for n, (price, ad) in enumerate([("1,199", "a"), ("999", "a"), ("999", "b"), ("999", "c"), ("1,299", "c")]):
            origin.pages["/shop"] = Served(SHOP % (f"€ {price}.00", ad))
            async with asyncio.timeout(60):
                while (await made.site())["polls"] == 0 or await made.changes() < n:
                    await asyncio.sleep(0.05)
        yield made


@asynccontextmanager
async def browsing(*, scripts: bool, width: int = 1280) -> AsyncIterator[tuple[Page, list[str]]]:
    """Yields a page of a browser, and the errors that it says on its console."""
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"]) as browser,
    ):
        context = await browser.new_context(java_script_enabled=scripts, viewport={"width": width, "height": 740})
        page = await context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        yield page, complaints


FIELDS = {"selection": "default", "keep": "#price", "keep_how": "elements"}


async def test_a_preview_says_which_of_the_last_changes_would_have_been_sent(running: Running) -> None:
    status, page = await running.post("/sites/1/counts", {**FIELDS, "preview": "1"})
    assert status == 200
    assert "€ 1,299.00" in page
    assert "Of the last 4 changes, <strong>2</strong> would have been sent" in page
    assert page.count("○ not sent: not in the part that counts") == 2
    value = {"value_name": "price", "value_kind": "price", "value_source": "#price", "value_attribute": ""}
    value |= {"value_which": "only", "value_currency": "", "value_was": ""}
    below = {
        "if_of": "price",
        "if_test": "below",
        "if_argument": "1000",
        "if_not": "",
        "if_since": "",
        "if_join": "and",
    }
    status, page = await running.post("/sites/1/counts", {**FIELDS, **value, **below, "preview": "1"})
    assert "Of the last 4 changes, <strong>1</strong> would have been sent" in page
    assert "not below 1000" in page
    assert (await running.site())["selections"] is None


async def test_it_is_saved_and_what_is_wrong_is_said_next_to_its_field(running: Running) -> None:
    wrong = [
        ("selection", "default"),
        ("keep", "#price"),
        ("keep_how", "elements"),
        ("keep", "p >"),
        ("keep_how", "elements"),
    ]
    status, page = await running.post("/sites/1/counts", wrong)
    assert status == 422
    assert 'value="p &gt;"' in page
    assert page.index('value="p &gt;"') < page.index('class="wrong"')
    assert (await running.site())["selections"] is None
    status, _ = await running.post("/sites/1/counts", FIELDS)
    assert status == 303
    kept = {"default": {"steps": [{"keep": [{"css": "#price"}]}]}}
    assert (await running.site())["selections"] == kept
    status, page = await running.post("/sites/1/counts", {**FIELDS, "json": "{"})
    assert (status, "This is not JSON" in page) == (422, True)
    status, page = await running.post("/sites/1/counts", {**FIELDS, "keep": "h1", "json": "{}"})
    assert (status, "Both the fields and the JSON were edited" in page) == (422, True)
    assert (await running.site())["selections"] == kept
    status, _ = await running.post("/sites/1/counts", {**FIELDS, "json": ""})
    assert (status, (await running.site())["selections"]) == (303, None)


async def test_after_saving_earlier_changes_are_tried_by_what_counted_when_they_were_found(
    running: Running, origin: Origin
) -> None:
    """Four changes of the whole page, then one of the price alone, then what counts is the heading."""

    async def preview(keep: str) -> str:
        fields = {**FIELDS, "keep": keep, "preview": "1"}
        return (await running.post("/sites/1/counts", fields))[1]

    async def polled_again() -> None:
        polls = (await running.site())["polls"]
        async with asyncio.timeout(60):
            while (await running.site())["polls"] < polls + 2:
                await asyncio.sleep(0.05)

    assert "Of the last 4 changes, <strong>2</strong> would have been sent" in await preview("#price")
    assert (await running.post("/sites/1/counts", FIELDS))[0] == 303
    assert "Of the last 4 changes, <strong>2</strong> would have been sent" in await preview("#price")
    await polled_again()
    page = await preview("#price")
    assert "Of the last 4 changes, <strong>2</strong> would have been sent (estimated" in page
    assert page.count("○ not sent: not in the part that counts") == 2
    origin.pages["/shop"] = Served(SHOP % ("€ 899.00", "c"))
    async with asyncio.timeout(60):
        while await running.changes() < 5:
            await asyncio.sleep(0.05)
    assert "Of the last 5 changes, <strong>3</strong> would have been sent" in await preview("#price")
    assert (await running.post("/sites/1/counts", {**FIELDS, "keep": "h1"}))[0] == 303
    for _ in range(2):
        page = await preview("h1")
        assert "Of the last 4 changes, <strong>0</strong> would have been sent" in page
        assert "Of 1 change the stored text does not say enough" in page
        assert page.count("? unknown: what counted then was set otherwise") == 1
        await polled_again()


async def test_the_page_is_fetched_once_and_no_more_than_three_times_a_minute(running: Running, origin: Origin) -> None:
    async with running.session.post(running.root + "/api/v1/sites/1/pause") as answer:
        assert answer.status == 200
    origin.pages["/shop"] = Served("<p>Now</p>")
    status, page = await running.post("/sites/1/counts", {"selection": "default", "preview": "1"})
    assert "Now" in page
    hits = len(origin.hits())
    for _ in range(4):
        status, page = await running.post("/sites/1/counts", {"selection": "default", "preview": "1"})
        assert status == 200
    assert len(origin.hits()) == hits
    origin.pages["/shop"] = Served(status=503)
    for expected in (200, 200, 422):
        status, page = await running.post("/sites/1/counts", {"selection": "default", "read": "1"})
        assert status == expected
    assert "3 pages per minute" in page


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_condition_is_built_by_clicks(running: Running, scripts: bool) -> None:
    async with browsing(scripts=scripts, width=360) as (page, complaints):
        await page.goto(f"{running.root}/sites/1/counts")
        form = page.locator("form.counts")
        await form.locator("input[name=keep]").first.fill("#price")
        await form.locator("fieldset", has_text="Keep").get_by_role("button", name="One more").click()
        await form.locator("input[name=keep]").nth(1).fill("h1")
        await form.locator("input[name=ignore]").first.fill("Ad")
        await form.locator("select[name=ignore_how]").first.select_option("lines")
        await form.locator("select[name=if_test]").first.select_option("appears")
        await form.locator("input[name=if_argument]").first.fill("999")
        await form.locator("input[name=if_argument]").first.press("Enter")
        await page.locator("#preview").get_by_text("1 would have been sent").wait_for()
        assert "Espresso machine" in await page.locator("#preview pre").first.inner_text()
        if scripts:
            assert not await page.evaluate("window.hit === 1")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it fits a phone"
        await form.get_by_role("button", name="Save").click()
        await page.wait_for_url(f"{running.root}/sites/1#counts")
        assert complaints == []
    saved = (await running.site())["selections"]["default"]
    assert saved["steps"] == [
        {"keep": [{"css": "#price"}, {"css": "h1"}]},
        {"lines": {"drop": [{"text": "Ad"}]}},
    ]
    assert saved["conditions"] == {"appears": {"text": "999"}}


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_part_is_chosen_by_clicks(running: Running, origin: Origin, scripts: bool) -> None:
    async with browsing(scripts=scripts) as (page, complaints):
        await page.goto(f"{running.root}/sites/1/counts")
        await page.get_by_role("button", name="Read the page").click()
        await page.locator("button.line", has_text="Fine").click()
        await page.locator("#preview li", has_text="all 3 like it").wait_for()
        await page.locator("#preview li", has_text="all 3 like it").get_by_role("button", name="Ignore").click()
        await page.locator("#preview").get_by_text("Left out").wait_for()
        assert await page.locator("button.line.out").count() == 3
        await page.locator("button.line", has_text="1,299").click()
        await page.locator("#preview").get_by_role("button", name="Watch this price").click()
        await page.locator("#preview").get_by_text("1299 EUR", exact=True).wait_for()
        assert complaints == []
        await page.get_by_role("button", name="Save").click()
        await page.wait_for_url(f"{running.root}/sites/1#counts")
    saved = (await running.site())["selections"]["default"]
    assert saved["steps"] == [{"remove": [{"css": ".review"}]}]
    assert saved["values"]["price"] == {"kind": "price", "from": {"css": "#price"}, "which": "first"}


async def tab_to(page: Page, name: str, *, key: str = "Tab") -> None:
    """Presses Tab until the button that has the focus is named so."""
    named = "document.activeElement.matches('button') ? document.activeElement.textContent : ''"
    for _press in range(120):
        await page.keyboard.press(key)
        if name in await page.evaluate(named):
            return
    raise AssertionError(f"no way by {key} to {name}")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scripts", [True, False])
async def test_a_part_is_chosen_by_keys_alone(running: Running, scripts: bool, width: int) -> None:
    async with browsing(scripts=scripts, width=width) as (page, complaints):
        await page.goto(f"{running.root}/sites/1/counts")
        await tab_to(page, "Read the page, to click on its parts")
        await page.keyboard.press("Enter")
        await page.locator("button.line").first.wait_for()
        if scripts:
            await tab_to(page, "Home")
            await page.keyboard.press("End")
            await page.keyboard.press("ArrowUp")
            assert await page.evaluate("document.activeElement.innerText") == "Fine"
            await page.keyboard.press("Tab")
            assert not await page.evaluate("document.activeElement.matches('.line')"), "lines are one stop"
            await page.keyboard.press("Shift+Tab")
        else:
            await tab_to(page, "Fine")
        await page.keyboard.press("Enter")
        await page.locator("#preview li", has_text="all 3 like it").wait_for()
        if not scripts or "Ignore all 3 like it" not in await page.evaluate("document.activeElement.textContent"):
            await tab_to(page, "Ignore all 3 like it")
        await page.keyboard.press("Enter")
        await page.locator("#preview").get_by_text("Left out").wait_for()
        assert await page.locator("button.line.out").count() == 3
        await tab_to(page, "Save", key="Shift+Tab")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{running.root}/sites/1#counts")
        if scripts:
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert complaints == []
    assert (await running.site())["selections"]["default"]["steps"] == [{"remove": [{"css": ".review"}]}]


async def test_a_line_that_is_not_there_and_a_page_that_is_not_kept(running: Running) -> None:
    status, page = await running.post("/sites/1/counts", {"selection": "default", "pick": "3"})
    assert (status, "read it again" in page) == (422, True)
    await running.post("/sites/1/counts", {"selection": "default", "read": "1"})
    status, page = await running.post("/sites/1/counts", {"selection": "default", "pick": "99999"})
    assert (status, "Keep or ignore" in page) == (200, False)
    status, page = await running.post("/sites/1/counts", {"selection": "default", "pick": "x"})
    assert status == 422


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_kind_of_change_is_ignored_from_its_difference(running: Running, scripts: bool) -> None:
    async with browsing(scripts=scripts) as (page, _complaints):
        await page.goto(f"{running.root}/changes/2")
        await page.get_by_text("Ignore this kind of change").click()
        await page.locator("li", has_text="Ad <script>").get_by_role("button", name="Ignore").click()
        await page.locator("#preview").get_by_text("Of the last 4 changes, 2 would have been sent").wait_for()
        await page.get_by_role("button", name="Save").click()
        await page.wait_for_url(f"{running.root}/sites/1#counts")
    (step,) = (await running.site())["selections"]["default"]["steps"]
    assert "Ad <script>" in step["lines"]["drop"][0]["re"]


async def test_json_is_picked_line_by_line_and_selectors_are_offered(running: Running, origin: Origin) -> None:
    stock = [{"sku": "<b>", "price": 5}, {"sku": "lamp", "price": 7}]
    origin.pages["/stock.json"] = Served(orjson.dumps(stock).decode(), headers={"Content-Type": "application/json"})
    async with running.session.post(running.root + "/api/v1/sites", json={"url": origin.url("/stock.json")}) as answer:
        site = f"/sites/{(await answer.json())['id']}/counts"
    empty = {"selection": "default", "keep": "", "keep_how": "elements"}
    status, page = await running.post(site, {**empty, "read": "1"})
    assert status == 200
    assert '<option value="$[*].price"></option>' in page
    line = re.search(r'name="pick" value="(\d+)"[^>]*>price: 7<', page)
    assert line is not None
    status, page = await running.post(site, {**empty, "pick": line[1]})
    chosen = re.findall(r'name="take" value="([^"]+)"', page)
    assert chosen[0] == "keep $[?@.sku == &#39;lamp&#39;].price"
    assert "ignore $[?@.sku == &#39;lamp&#39;].price" in chosen
    status, page = await running.post(site, {**empty, "take": "ignore $[?@.sku == 'lamp'].price"})
    assert status == 200
    assert re.findall(r"&#34;price&#34;: (\d)", page.partition("<h4>Kept</h4>")[2].partition("</pre>")[0]) == ["5"]
    status, page = await running.post(site, {**empty, "take": "keep $[?@.sku == 'lamp'].price"})
    assert '<h4>Kept</h4><pre class="text" tabindex="0">7</pre>' in page
    status, _ = await running.post(site, {**empty, "keep": "$[?@.sku == 'lamp'].price"})
    assert status == 303
    status, page = await running.post("/sites/1/counts", {**FIELDS, "read": "1"})
    assert '<option value="#price"></option>' in page


LATER = """<html><body><h1>Lamps</h1><p class="old">Never</p><div id="cost"></div><script>
document.getElementById("cost").innerHTML = "<b>€ 40.00</b>"; document.querySelector(".old").remove();
</script></body></html>"""


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_part_is_chosen_in_the_picture_of_a_rendered_page(
    running: Running, origin: Origin, scripts: bool
) -> None:
    origin.pages["/lamps"] = Served(LATER)
    site = {"url": origin.url("/lamps"), "render": "browser"}
    async with running.session.post(running.root + "/api/v1/sites", json=site) as answer:
        number = (await answer.json())["id"]
    async with running.session.post(f"{running.root}/api/v1/sites/{number}/pause") as answer:
        assert answer.status == 200
    assert (await running.session.get(f"{running.root}/sites/{number}/counts/picture")).status == 404
    async with browsing(scripts=scripts, width=360) as (page, complaints):
        await page.goto(f"{running.root}/sites/{number}/counts")
        await page.get_by_role("button", name="Read the page").click()
        picture = page.locator(".pictured input")
        boxes = page.locator(".pictured rect")
        await boxes.first.wait_for(state="attached")
        price = [float(await boxes.nth(1).get_attribute(side) or "") for side in ("x", "y", "width", "height")]
        await picture.click(position={"x": price[0] + price[2] / 2, "y": price[1] + price[3] / 2})
        keep = page.locator("#preview").get_by_role("button", name=re.compile("Keep this part"))
        await keep.click()
        await page.locator("#preview").get_by_text("Kept").wait_for()
        assert "€ 40.00" in await page.locator("#preview pre").first.inner_text()
        assert await page.locator("input[name=keep]").first.input_value() == "#cost > b:nth-of-type(1)"
        await picture.click(position={"x": 1, "y": 1})
        await page.get_by_text("Nothing can be picked there").first.wait_for()
        assert [one for one in complaints if "422" not in one] == []
