"""Looking at an address before it is added: what it is, what is in the way, and what helps."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import orjson
import pytest
from aiohttp import web
from playwright.async_api import async_playwright

from tests.support.chromium import chromium_path
from tests.support.origin import Origin, until
from tests.support.origin import Page as Served
from tests.support.process import daemon_process

Post = Callable[..., Awaitable[tuple[int, str, str]]]
SHOP = (
    '<title>Machine</title><h1>Machine</h1><p>In stock.</p><script type="application/ld+json">{"@type":"Product",'
    '"offers":{"price":"%s","priceCurrency":"EUR"}}</script>'
)
HOSTILE = "<title>&lt;script&gt;window.hit=1&lt;/script&gt;</title><p>{{7*7}} &lt;img src=x onerror=hit()&gt;</p>"


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin() as served:
        yield served


@pytest.fixture
async def post(tmp_path: Path) -> AsyncIterator[Post]:
    """Posts the form that adds a site, or "POST PATH" another; returns status, page and where it leads, or is."""
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    async with daemon_process(database, tmp_path / "log") as daemon, aiohttp.ClientSession() as session:
        await until(lambda: bool(re.search(r"http://127\.0\.0\.1:\d+", daemon.log)))
        root = re.findall(r"http://127\.0\.0\.1:\d+", daemon.log)[0]

        async def posted(path: str = "/sites", **fields: str) -> tuple[int, str, str]:
            verb, _, place = path.rpartition(" ")
            if path != "/sites" and not verb:
                async with session.get(root + path) as answer:
                    return answer.status, await answer.text(), str(answer.url)
            async with session.post(root + place, data=fields, allow_redirects=False) as answer:
                return answer.status, await answer.text(), answer.headers.get("Location", "")

        yield posted


async def test_a_product_is_added_by_its_price(post: Post, origin: Origin) -> None:
    origin.pages["/shop"] = Served(SHOP % "999.00")
    status, page, _ = await post(url=origin.url("/shop"), look="1")
    assert (status, "it says that the price is <strong>999.00 EUR</strong>" in page) == (200, True)
    assert orjson.loads((await post("/api/v1/sites"))[1])["items"] == [], "nothing is added by looking"
    price = re.search(r'name="price" value="([^"]+)"', page)
    assert price is not None
    fields = {"url": origin.url("/shop"), "counts": "price", "price": price[1].replace("&#34;", '"')}
    status, _, place = await post(title="Machine", tags="shop", **fields)
    assert (status, place) == (303, "/sites/1")
    site = orjson.loads((await post("/api/v1/sites/1"))[1])
    assert site["selections"]["default"]["values"]["price"]["kind"] == "price"
    assert (site["title"], site["tags"]) == ("Machine", ["shop"])


async def test_a_password_is_asked_for_where_it_is_needed(post: Post, origin: Origin) -> None:
    async def answer(request: web.Request) -> web.Response:
        wanted = "Basic " + base64.b64encode(b"anna:sesame").decode()
        if request.headers.get("Authorization") != wanted:
            return web.Response(status=401, headers={"WWW-Authenticate": "Basic"})
        return web.Response(text="<title>Intranet</title><p>Canteen: soup.</p>", content_type="text/html")

    origin.pages["/in"] = Served(handler=answer)
    _, page, _ = await post(url=origin.url("/in"), look="1")
    assert "In the way: the site asks for a user name and password (401)." in page
    assert 'name="password"' in page
    _, page, _ = await post(url=origin.url("/in"), look="1", username="anna", password="sesame")
    assert "✓ It was read" in page, page[page.index("<main") :]
    assert "sesame" not in page
    assert "Type it once more" in page
    assert (await post(url=origin.url("/in"), username="anna", password="sesame"))[0] == 303
    assert "sesame" not in (await post("/api/v1/sites/1"))[1]


async def test_what_pages_say_is_inert_and_looking_has_a_limit(post: Post, origin: Origin) -> None:
    feed = '<link rel="alternate" type="application/rss+xml" href="/feed?a=&quot;><script>x</script>">'
    origin.pages["/x"] = Served(HOSTILE + feed)
    _, page, _ = await post(url=origin.url("/x"), look="1")
    assert "<script>window" not in page
    assert "<script>x" not in page
    assert "<img src=x" not in page
    assert "{{7*7}}" in page, page[page.index("<main") :]
    assert "Add the feed instead" in page
    for expected in (200, 200, 422):
        status, page, _ = await post(url=origin.url("/x"), look="1")
        assert status == expected
    assert "3 pages per minute" in page
    assert (await post(url=origin.url("/x")))[0] == 303


async def test_what_is_shared_with_it_fills_the_form_and_fetches_nothing(post: Post, origin: Origin) -> None:
    origin.pages["/shop"] = Served(SHOP % "1")
    url = origin.url("/shop")
    for query in (f"url={url}&title=A%22%3E%3Cscript%3E", f"text=Look%20at%20{url}%20now"):
        status, page, _ = await post(f"/sites/add?{query}")
        assert (status, f'value="{url}"' in page, "<script>" in page) == (200, True, False)
        assert "javascript:location.href=" in page
    assert origin.hits() == []
    assert (await post("/sites/add?url=" + "x" * 3000))[0] == 422
    manifest = orjson.loads((await post("/manifest.webmanifest"))[1])
    assert manifest["share_target"]["action"] == "/sites/add"
    assert (await post(manifest["icons"][0]["src"]))[0] == 200


async def test_a_page_of_its_own_says_that_it_is_out_of_reach(tmp_path: Path) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"]) as browser,
    ):
        page = await browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        async with daemon_process(database, tmp_path / "log") as daemon:
            await until(lambda: bool(re.search(r"http://127\.0\.0\.1:\d+", daemon.log)))
            root = re.findall(r"http://127\.0\.0\.1:\d+", daemon.log)[0]
            await page.goto(f"{root}/sites")
            await page.evaluate("navigator.serviceWorker.ready.then(() => null)")
            assert complaints == []
        await page.goto(f"{root}/sites")
        assert await page.text_content("h1") == "pollerd cannot be reached"
        assert await page.evaluate("getComputedStyle(document.querySelector('h1')).fontSize") != "32px", (
            "it has its style"
        )
