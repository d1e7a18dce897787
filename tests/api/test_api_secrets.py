"""A site's own headers, credentials and proxy over REST: taken, checked, never given out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pollerd.site_settings import Access, Credentials
from tests.api.conftest import Api

URL = "https://example.org/members"
BASIC = {"username": "someone", "password": "s3cret-pw"}
GIVEN = {"headers": {"X-Key": "s3cret-key"}, "credentials": BASIC, "proxy": "http://me:s3cret@proxy.example:3128"}
TAKEN = Access((("X-Key", "s3cret-key"),), Credentials("someone", "s3cret-pw"), "http://me:s3cret@proxy.example:3128")


async def _access(api: Api, site_id: int) -> Access:
    return (await api.store.sites.get(site_id)).spec.access


async def test_no_answer_tells_what_was_given(api: Api) -> None:
    added = await api("POST", "/sites", {"url": URL, **GIVEN})
    assert added.status == 201
    site = added.json
    assert (site["header_names"], site["has_credentials"]) == (["X-Key"], True)
    assert site["proxy"] == "http://proxy.example:3128"
    assert await _access(api, site["id"]) == TAKEN
    path = f"/sites/{site['id']}"
    calls = [
        ("GET", path),
        ("GET", "/sites"),
        ("GET", f"{path}/explain"),
        ("POST", f"{path}/poll"),
        ("GET", "//metrics"),
    ]
    calls += [
        ("POST", f"{path}/pause"),
        ("POST", f"{path}/resume"),
        ("GET", "//openapi.json"),
        ("GET", f"{path}/polls"),
    ]
    calls += [("GET", f"/sites/export?format={form}") for form in ("text", "csv", "jsonl", "opml")]
    for reply in [added, *[await api(*call) for call in calls], await api("POST", "/sites", {"url": URL, **GIVEN})]:
        assert b"s3cret" not in reply.body
        assert b"someone" not in reply.body


async def test_a_patch_changes_what_it_names(api: Api) -> None:
    site_id = await api.add(URL, **GIVEN)
    path = f"/sites/{site_id}"
    assert (await api("PATCH", path, {"weight": 3.0})).status == 200
    assert await _access(api, site_id) == TAKEN
    reply = await api("PATCH", path, {"credentials": {"token": "abc"}})
    assert (reply.status, reply.json["has_credentials"], reply.json["header_names"]) == (200, True, ["X-Key"])
    assert await _access(api, site_id) == Access(TAKEN.headers, Credentials(token="abc"), TAKEN.proxy)
    reply = await api("PATCH", path, {"headers": {}, "credentials": None, "proxy": None})
    assert (reply.json["header_names"], reply.json["has_credentials"], reply.json["proxy"]) == ([], False, None)
    assert not await _access(api, site_id)


async def test_patches_at_the_same_time_lose_nothing(api: Api) -> None:
    site_id = await api.add(URL)
    patches = [{name: value} for name, value in GIVEN.items()]
    replies = await asyncio.gather(*(api("PATCH", f"/sites/{site_id}", patch) for patch in patches))
    assert [reply.status for reply in replies] == [200, 200, 200]
    assert await _access(api, site_id) == TAKEN


@pytest.mark.parametrize(
    ("patch", "kept"),
    [
        ({"url": "https://example.org/other"}, TAKEN),
        ({"url": "http://example.org/members"}, Access(proxy=TAKEN.proxy)),
        ({"url": "https://elsewhere.example/"}, Access(proxy=TAKEN.proxy)),
        ({"url": "https://elsewhere.example/", "headers": {"A": "b"}}, Access((("A", "b"),), None, TAKEN.proxy)),
    ],
)
async def test_another_origin_does_not_get_the_secrets(api: Api, patch: dict[str, Any], kept: Access) -> None:
    site_id = await api.add(URL, **GIVEN)
    assert (await api("PATCH", f"/sites/{site_id}", patch)).status == 200
    assert await _access(api, site_id) == kept


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ({"headers": {"Host": "s3cret"}}, "headers.Host", "the daemon sets this header itself"),
        ({"headers": {"if-none-MATCH": "s3cret"}}, "headers.if-none-MATCH", "the daemon sets this header itself"),
        ({"headers": {"Connection": "s3cret"}}, "headers.Connection", "the daemon sets this header itself"),
        ({"headers": {"User-Agent": "s3cret"}}, "headers.User-Agent", "the daemon sets this header itself"),
        ({"headers": {"A": "s3cret\r\nB: c"}}, "headers.A", "printable ASCII"),
        ({"headers": {"A": "s3cret\n"}}, "headers.A", "printable ASCII"),
        ({"headers": {"A": "s3cret "}}, "headers.A", "printable ASCII"),
        ({"headers": {"A": "s3crété"}}, "headers.A", "printable ASCII"),
        ({"headers": {"s3cret: x": "y"}}, "headers", "named by"),
        ({"headers": {"s3cret\n": "y"}}, "headers", "named by"),
        ({"headers": {"": "s3cret"}}, "headers", "named by"),
        ({"headers": {"A": "s3cret", "a": "s3cret"}}, "headers", "free of names"),
        ({"headers": {f"A{i}": "s3cret" for i in range(33)}}, "headers", "at most 32"),
        ({"headers": {"A": "s3cret" * 2000}}, "headers", "at most 8192"),
        (
            {"headers": {"Authorization": "s3cret"}, "credentials": BASIC},
            "headers.Authorization",
            "give credentials or",
        ),
        ({"headers": {"A": 5}}, "headers.A", "a text"),
        ({"headers": ["s3cret"]}, "headers", "an object"),
        ({"credentials": {"username": "s3cret"}}, "credentials", "username and password, or token"),
        ({"credentials": {**BASIC, "token": "s3cret"}}, "credentials", "username and password, or token"),
        ({"credentials": {}}, "credentials", "username and password, or token"),
        ({"credentials": {"username": "a:s3cret", "password": "x"}}, "credentials.username", "free of ':'"),
        ({"credentials": {"username": "a", "password": "s3cret\n"}}, "credentials.password", "at most 4096 printable"),
        ({"credentials": {"token": "s3cret x"}}, "credentials.token", "letters"),
        ({"credentials": {"passwort": "s3cret"}}, "credentials.passwort", "unknown field"),
        ({"credentials": "someone:s3cret"}, "credentials", "an object"),
        (
            {"password": "s3cret"},
            "password",
            "unknown field; did you mean pdf_password?",
        ),
        ({"proxy": "http://me:s3cret@proxy.example/path"}, "proxy", "http://host:port"),
        ({"proxy": "http://me:s3cret%40proxy.example:3128"}, "proxy", "http://host:port"),
        ({"proxy": "me:s3cret"}, "proxy", "http://host:port"),
        ({"proxy": ["s3cret"]}, "proxy", "a text"),
    ],
)
async def test_what_cannot_be_used_is_named_and_not_shown(
    api: Api, given: dict[str, Any], field: str, allowed: str
) -> None:
    site_id = await api.add("https://example.org/")
    for method, path, body in (("POST", "/sites", {"url": URL, **given}), ("PATCH", f"/sites/{site_id}", given)):
        reply = await api(method, path, body)
        assert reply.status == 422, reply.body
        [error] = reply.json["errors"]
        assert error["field"] == field
        assert error["allowed"].startswith(allowed)
        assert b"s3cret" not in reply.body.replace(b"s3cret: x", b"")
    line = json.dumps({"url": URL, **given}).encode()
    reply = await api("POST", "/sites/import", data=line, headers={"Content-Type": "application/x-ndjson"})
    assert (reply.status, reply.json["added"], reply.json["rejected_count"]) == (200, 0, 1)
    assert b"s3cret" not in reply.body


async def test_lists_may_hold_them_and_broken_lines_are_not_shown(api: Api) -> None:
    lines = json.dumps({"url": URL, **GIVEN}) + '\n{"url": "https://a.example/", "headers": {"A": "s3cret"}\n'
    reply = await api("POST", "/sites/import", data=lines.encode(), headers={"Content-Type": "application/x-ndjson"})
    assert (reply.json["added"], reply.json["rejected_count"]) == (1, 1)
    assert b"s3cret" not in reply.body
    found = await api.store.sites.find(URL)
    assert found is not None
    assert found.spec.access == TAKEN
    header = 'url,headers,credentials,proxy\nhttps://c.example/,"{""A"": ""b""}","{""token"": ""t""}",http://p:1\n'
    broken = 'https://d.example/,"{""A"": ""s3cret""}\nhttps://e.example/,A: s3cret\n'
    reply = await api("POST", "/sites/import", data=(header + broken).encode(), headers={"Content-Type": "text/csv"})
    assert (reply.json["added"], reply.json["rejected_count"]) == (1, 2)
    assert b"s3cret" not in reply.body
    found = await api.store.sites.find("https://c.example/")
    assert found is not None
    assert found.spec.access == Access((("A", "b"),), Credentials(token="t"), "http://p:1")


def test_no_repr_tells_a_secret() -> None:
    assert "s3cret" not in repr(TAKEN)
    assert "someone" not in repr(TAKEN)
