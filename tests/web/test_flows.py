"""The whole way of a person who watches a price, in a browser: from an address to a message and its difference."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from tests.support.origin import Origin
from tests.support.origin import Page as Served
from tests.support.ports import free_port
from tests.support.process import daemon_process
from tests.web.conftest import NewReader, Reader, until
from tests.web.test_browser import NARROW, WIDE, sideways

SHOP = "<title>Lamp of brass</title><main><h1>Lamp</h1><p class=price>€ %s</p></main><aside>Ad %d</aside>"


class Shop(Origin):
    """A shop whose price is set, and what a webhook was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.price, self.messages, self.reads = "1,199.00", list[dict[str, Any]](), 0
        self.pages |= {"/lamp": Served(handler=self._lamp), "/hook": Served(handler=self._hook)}

    async def _lamp(self, _request: web.Request) -> web.Response:
        self.reads += 1
        return web.Response(text=SHOP % (self.price, self.reads), content_type="text/html")

    async def _hook(self, request: web.Request) -> web.Response:
        self.messages.append(orjson.loads(await request.read()))
        return web.Response()


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    served = Shop()
    async with served:
        yield served


async def choose_by_click(reader: Reader) -> None:
    """Reads the page and clicks the price."""
    page = reader.page
    await page.get_by_role("button", name="Read the page, to click on its parts").click()
    await page.locator(".drawn .line", has_text="1,199.00").click()
    await page.get_by_role("button", name="Watch this price").first.click()
    await page.get_by_text("1199.00").or_(page.get_by_text("1,199.00")).first.wait_for()


async def choose_by_typing(reader: Reader) -> None:
    """Types the selector."""
    await reader.page.locator("input[name=value_name]").last.fill("price")
    await reader.page.locator("input[name=value_source]").last.fill(".price")


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["desk", "phone"])
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
async def test_from_an_address_to_the_difference(
    shop: Shop, new_reader: NewReader, tmp_path: Path, viewport: dict[str, int], *, scripts: bool
) -> None:
    root = f"http://127.0.0.1:{free_port()}"
    flags = ("--listen", root.removeprefix("http://"), "--public-url", root, "--allow-private-channels")
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    async with daemon_process(database, tmp_path / "log", flags=flags) as daemon:
        await daemon.said("event=started")
        reader = await new_reader(root, viewport=viewport, java_script_enabled=scripts)
        page = reader.page

        async def check(reads: int) -> None:
            """Has the site checked until its page was read so often since."""
            wanted = shop.reads + reads
            await page.goto(f"{root}/sites/1")
            await page.get_by_role("button", name="Check now").click()

            async def was_read() -> bool:
                return shop.reads >= wanted

            await until(was_read)

        # An address, and what it is.
        await page.goto(root)
        await page.get_by_placeholder("Paste an address to watch").fill(shop.url("/lamp"))
        await page.get_by_role("button", name="Look first").click()
        assert await page.get_by_role("heading", name="Lamp of brass").is_visible()
        await page.get_by_role("button", name="Add", exact=True).click()
        await page.wait_for_url("**/sites/1")
        assert await page.locator("h1").text_content() == "Lamp of brass"

        # What counts, and when.
        await page.locator(".tabs").get_by_role("link", name="What counts").click()
        await (choose_by_click(reader) if scripts else choose_by_typing(reader))
        await page.get_by_role("button", name="Show what it keeps").click()
        await page.locator("#preview section").first.wait_for()
        if await page.locator("select[name=if_of]").last.locator("option", has_text="price").count() == 0:
            await page.get_by_role("button", name="Save").first.click()
            await page.wait_for_url("**/sites/1#counts")
        await page.locator("select[name=if_of]").last.select_option("price")
        await page.locator("select[name=if_test]").last.select_option("crosses_below")
        await page.locator("input[name=if_argument]").last.fill("1000")
        await page.locator("#counts-form").get_by_role("button", name="Save").click()
        await page.wait_for_url("**/sites/1#counts")
        assert await sideways(reader) <= 0

        # Who is alerted.
        await page.locator(".tabs").get_by_role("link", name="Alerts").click()
        await page.get_by_role("link", name="Alert me of this").click()
        await page.get_by_role("link", name="add one first").click()
        await page.get_by_role("link", name="Webhook").click()
        await page.get_by_label("Name").fill("hook")
        await page.get_by_label("Address").fill(shop.url("/hook"))
        await page.get_by_role("button", name="Add").click()
        await page.goto(f"{root}/sites/1#alerts")
        await page.get_by_role("link", name="Alert me of this").click()
        await page.get_by_role("button", name="Save").click()
        await page.wait_for_url("**/rules*")
        assert await page.get_by_text("Lamp of brass").first.is_visible()
        assert await sideways(reader) <= 0

        # A change that is not important, then one that is.
        await check(1)
        for price in ("1,099.00", "949.00"):
            shop.price = price
            await check(2)  # a first difference is proven by a second look

        async def was_sent() -> bool:
            return bool(shop.messages)

        await until(was_sent)
        (message,) = shop.messages
        link = re.findall(rf"{root}/changes/\d+", orjson.dumps(message).decode())
        assert link, message

        # The difference.
        await page.goto(link[0])
        assert "949" in (await page.locator("h1").text_content() or "")
        assert "1,099.00" in (await page.locator("table.diff").text_content() or "").replace("\xa0", " ")
        assert await sideways(reader) <= 0
        await page.goto(f"{root}/")
        assert "949" in (await page.locator(".news .summary").first.text_content() or "")
        assert reader.complaints == []
        assert reader.foreign == []
