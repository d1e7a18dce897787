"""Screenshots over REST: who may ask for them, what comes, and how they are sent."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from pollerd.storage.values import Batch
from tests.api.conftest import Api, Reply
from tests.storage.samples import record

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
URL = "https://a.invalid/"


async def shown(api: Api, site: int, at: float, content: bytes, png: bytes | None) -> int:
    context = (await api.store.sites.contexts([site]))[site]
    one = replace(record(context, at, content, changed=at > 1), screenshot=png)
    return (await api.store.commit(Batch([one]))).content_ids[site]


async def test_they_come_as_files_that_a_browser_saves(api: Api) -> None:
    site = await api.add(URL, render="browser", keep_screenshots=True)
    assert (await api("GET", f"/sites/{site}")).json["keep_screenshots"] is True
    first = await shown(api, site, 1.0, b"the first content of the page", PNG)
    second = await shown(api, site, 2.0, b"another content, without one", None)
    [change] = (await api("GET", "/changes")).json["items"]
    assert (change["before_content_id"], change["after_content_id"]) == (first, second)
    reply = await api("GET", f"/contents/{first}/screenshot")
    assert (reply.status, reply.body) == (200, PNG)
    assert reply.headers["Content-Type"] == "image/png"
    assert reply.headers["Content-Disposition"] == f'attachment; filename="content-{first}.png"'
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Content-Security-Policy"] == "default-src 'none'"
    as_bytes = await api("GET", f"/contents/{first}/screenshot", headers={"Accept": "application/octet-stream"})
    assert (as_bytes.headers["Content-Type"], as_bytes.body) == ("application/octet-stream", PNG)
    assert (await api("GET", f"/contents/{second}/screenshot")).status == 404
    assert (await api("GET", f"/sites/{site}/screenshot")).status == 404
    assert (await api("GET", "/sites/99/screenshot")).status == 404
    await shown(api, site, 3.0, b"and a third content", PNG[:50])
    assert (await api("GET", f"/sites/{site}/screenshot")).body == PNG[:50]


async def test_a_site_that_is_not_rendered_is_refused_by_name(api: Api) -> None:
    def field(reply: Reply) -> str:
        return str(reply.json["errors"][0]["field"])

    plain = {"url": URL, "keep_screenshots": True}
    reply = await api("POST", "/sites", plain)
    assert (reply.status, field(reply)) == (422, "keep_screenshots")
    await api("PUT", "/tags/app", {"render": "browser"})
    site = await api.add(URL, keep_screenshots=True, tags=["app"])
    patches: list[dict[str, Any]] = [{"tags": []}, {"tags": ["other"], "keep_screenshots": True}]
    for patch in patches:
        reply = await api("PATCH", f"/sites/{site}", patch)
        assert (reply.status, field(reply)) == (422, "keep_screenshots")
    assert (await api("PATCH", f"/sites/{site}", {"keep_screenshots": None, "tags": []})).status == 200
    reply = await api("PATCH", f"/sites/{site}", {"keep_screenshots": True})
    assert (reply.status, field(reply)) == (422, "keep_screenshots")
    reply = await api("PATCH", f"/sites/{site}", {"keep_screenshots": "yes"})
    assert (reply.status, field(reply)) == (422, "keep_screenshots")


async def test_a_tag_may_say_it_and_lists_hold_it(api: Api) -> None:
    await api("PUT", "/tags/app", {"keep_screenshots": True})
    site = await api.add(URL, tags=["app"])
    assert (await api("GET", f"/sites/{site}")).json["keep_screenshots"] is True
    assert (await api("GET", "/tags/app")).json["keep_screenshots"] is True
    lines = b"url,render,keep_screenshots\nhttps://b.invalid/,{},true\nhttps://c.invalid/,,true\n"
    reply = await api("POST", "/sites/import?format=csv", data=lines)
    assert (reply.json["added"], reply.json["rejected_count"]) == (1, 1)
    assert "keep_screenshots" in reply.json["rejected"][0]["reason"]
    exported = (await api("GET", "/sites/export?format=jsonl")).body
    assert b'"keep_screenshots":true' in exported
