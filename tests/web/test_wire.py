"""What goes over the wire: compressed pages, few requests, and parts of pages that are no pages."""

from __future__ import annotations

import gzip
import re

import pytest

from tests.api.test_values import PRICES, URL, read
from tests.web.conftest import NewReader, Web

_TODAY_BYTES, _SITES_BYTES, _REQUESTS = 15 * 1024, 8 * 1024, 5
PACKED = {"Accept-Encoding": "gzip"}


async def _sent(web: Web, path: str) -> tuple[bytes, str]:
    """The body as it is sent, and as text."""
    async with web.api.session.request("GET", web.root + path, headers=PACKED, auto_decompress=False) as answer:
        body = await answer.read()
        assert (answer.status, answer.headers.get("Content-Encoding")) == (200, "gzip"), path
        assert "Accept-Encoding" in answer.headers["Vary"]
    return body, gzip.decompress(body).decode()


async def test_today_is_small_and_asks_for_little(busy: Web) -> None:
    body, page = await _sent(busy, "/")
    files = set(re.findall(r'"(/assets/[^"]+)"', page))
    sent = [body, *[(await _sent(busy, one))[0] for one in files]]
    assert len(sent) <= _REQUESTS
    assert sum(map(len, sent)) <= _TODAY_BYTES
    for one in files:
        assert not re.search(r"^import ", (await _sent(busy, one))[1], re.MULTILINE), "a script asks for no further one"


async def test_what_a_browser_asks_for(busy: Web, new_reader: NewReader) -> None:
    reader = await new_reader(busy.root)
    asked: list[str] = []
    kinds = {"document", "stylesheet", "script", "image"}
    reader.page.on("request", lambda one: asked.append(one.url) if one.resource_type in kinds else None)
    await reader.page.goto(busy.root + "/")
    assert len(asked) <= _REQUESTS, asked
    assert reader.complaints == []


async def test_fifty_sites_are_small(web: Web) -> None:
    for n in range(50):
        title = f"What the {n * 7919 % 1000}th shop asks for its {n * 104729 % 1000}th lamp"
        await web.api.add(f"https://shop{n}.example.org/lamps/{n * 7919 % 1000}", title=title, tags=["shop"])
    body, page = await _sent(web, "/sites")
    assert page.count("data-row") == 50
    assert len(body) <= _SITES_BYTES


@pytest.mark.parametrize("path", ["/sites?q=secret", "/changes?show=all"])
async def test_what_shows_input_again_is_not_compressed(busy: Web, path: str) -> None:
    answer = await busy.get(path, **PACKED)
    assert (answer.status, answer.headers.get("Content-Encoding")) == (200, None)
    told = await busy.post("/sites/1/counts", {"selection": "default", "add": "value"}, **PACKED)
    assert (told.status, told.headers.get("Content-Encoding")) == (200, None)


@pytest.mark.parametrize("selections", ["{", '{"default": {"include": ["css:["]}}'])
async def test_a_refused_part_is_a_part(busy: Web, selections: str) -> None:
    answer = await busy.post("/sites/1", {"selections": selections}, **{"X-Fragment": "1"})
    assert (answer.status, answer.headers["X-Fragment"]) == (422, "1")
    assert 'role="alert"' in answer.text
    assert "selections" in answer.text
    assert "<html" not in answer.text


async def test_a_whole_page_is_no_part(busy: Web) -> None:
    answer = await busy.get("/sites", **{"X-Fragment": "1"})
    assert "<html" in answer.text
    assert "X-Fragment" not in answer.headers


async def test_the_picture_of_a_value_is_there(web: Web) -> None:
    site = await web.api.add(URL, selections={"default": {"steps": [{"keep": {"css": "main"}}]}})
    await read(web.api, site, *({"price": one} for one in PRICES))
    source = re.search(r'<img class="plot-image" src="([^"]+)"', (await web.get(f"/sites/{site}")).text)
    assert source is not None
    answer = await web.get(source[1].replace("&amp;", "&"))
    assert (answer.status, answer.headers["Content-Type"]) == (200, "image/svg+xml")
