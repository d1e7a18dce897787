"""Importing lists over REST."""

from __future__ import annotations

import pytest

from .conftest import Api

TEXT = {"Content-Type": "text/plain"}


async def test_good_lines_are_added_and_bad_ones_named(api: Api) -> None:
    await api.add("https://known.org/")
    data = b"# mine\nhttps://a.org/\nnonsense\nhttps://known.org\nhttps://A.org/#twice\nftp://x.org/\xff\n"
    reply = await api("POST", "/sites/import", data=data, headers=TEXT)
    assert reply.status == 200
    assert (reply.json["added"], reply.json["existing"], reply.json["rejected_count"]) == (1, 2, 2)
    assert [line["line"] for line in reply.json["rejected"]] == [3, 6]
    assert all(line["reason"].startswith("url: must be ") for line in reply.json["rejected"])
    assert len((await api("GET", "/sites")).json["items"]) == 2


async def test_repeating_an_import_adds_nothing(api: Api) -> None:
    data = "".join(f"https://h{n % 50}.example/{n}\n" for n in range(12_001)).encode()
    first = (await api("POST", "/sites/import", data=data, headers=TEXT)).json
    second = (await api("POST", "/sites/import", data=data, headers=TEXT)).json
    assert (first["added"], first["existing"]) == (12_001, 0)
    assert (second["added"], second["existing"]) == (0, 12_001)


async def test_settings_come_with_csv_and_json_lines(api: Api) -> None:
    for content_type, data in [
        ("text/csv", b"url,weight,tags,max_interval\nhttps://a.org/,3,x;y,60\n"),
        ("application/x-ndjson", b'{"url": "https://b.org/", "weight": 3, "tags": ["x", "y"], "max_interval": 60}'),
    ]:
        reply = await api("POST", "/sites/import", data=data, headers={"Content-Type": content_type})
        assert reply.json == {"added": 1, "existing": 0, "rejected": [], "rejected_count": 0}
    sites = (await api("GET", "/sites?tag=y")).json["items"]
    assert [(s["url"], s["weight"], s["tags"], s["max_interval"]) for s in sites] == [
        ("https://a.org/", 3.0, ["x", "y"], 60.0),
        ("https://b.org/", 3.0, ["x", "y"], 60.0),
    ]


async def test_whatever_a_list_may_say_can_be_kept(api: Api) -> None:
    data = (
        b"url,weight,cost,min_interval,max_interval,half_life,tags\n"
        b"https://a.org/,0.001,0.01,0.001,0.001,0.001,\n"
        b"https://b.org/,1e9,10000,1e9,1e9,1e9,\xc3\xa9\xf0\x9f\x90\x9d\n"
    )
    reply = await api("POST", "/sites/import", data=data, headers={"Content-Type": "text/csv"})
    assert (reply.status, reply.json.get("added")) == (200, 2), reply.body


async def test_a_deleted_site_comes_back_when_it_is_imported(api: Api) -> None:
    site_id = await api.add("https://a.org/")
    await api("DELETE", f"/sites/{site_id}")
    reply = await api("POST", "/sites/import", data=b"https://a.org/", headers=TEXT)
    assert reply.json["added"] == 1


@pytest.mark.parametrize("content_type", ["application/json", "text/html", "application/octet-stream", ""])
async def test_another_type_is_unsupported(api: Api, content_type: str) -> None:
    reply = await api("POST", "/sites/import", data=b"https://a.org/", headers={"Content-Type": content_type})
    assert (reply.status, reply.json["status"]) == (415, 415)
    assert "text/csv" in reply.json["detail"]


async def test_a_compressed_list_is_unsupported(api: Api) -> None:
    reply = await api("POST", "/sites/import", data=b"x", headers={**TEXT, "Content-Encoding": "gzip"})
    assert reply.status == 415


async def test_a_csv_header_that_cannot_be_used_is_named(api: Api) -> None:
    reply = await api("POST", "/sites/import", data=b"https://a.org/\n", headers={"Content-Type": "text/csv"})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "header")
