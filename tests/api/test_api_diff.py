"""What changed, over REST."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest
from msgspec.structs import replace

from pollerd.api import diff
from pollerd.model import Baseline, Media
from pollerd.storage.settings import StorageSettings
from pollerd.storage.values import Batch
from tests.api.conftest import Api
from tests.api.test_api_history import START, URL, record

JSON = {"Accept": "application/json"}


async def change(api: Api, *contents: bytes, media: Media = Media.HTML) -> int:
    """A site whose polls found these contents: the id of its last change."""
    site_id = await api.add(URL)
    for n, content in enumerate(contents):
        found = record(site_id, n)
        baseline = Baseline(fingerprint=n.to_bytes(16, "big"), media=media)
        await api.store.commit(
            Batch([replace(found, content=content, context=replace(found.context, baseline=baseline))])
        )
    newest: int = (await api("GET", "/changes?limit=1")).json["items"][0]["id"]
    return newest


async def test_unified_text(api: Api) -> None:
    lines = [f"line {n}" for n in range(20)]
    other = [*lines[:9], "new", *lines[10:], "more"]
    change_id = await change(api, "\n".join(lines).encode(), "\n".join(other).encode())
    reply = await api("GET", f"/changes/{change_id}/diff?context=1")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert reply.body.decode() == (
        f"--- {URL}\t2027-01-15T08:00:00.000Z\n+++ {URL}\t2027-01-15T08:00:01.250Z\n"
        "@@ -9,3 +9,3 @@\n line 8\n-line 9\n+new\n line 10\n@@ -20 +20,2 @@\n line 19\n+more\n"
    )
    without = (await api("GET", f"/changes/{change_id}/diff?context=0")).body.decode()
    assert without.splitlines()[2:] == ["@@ -10 +10 @@", "-line 9", "+new", "@@ -20,0 +21 @@", "+more"]


async def test_unified_as_json_where_that_is_preferred(api: Api) -> None:
    change_id = await change(api, b"one\ntwo", b"two\nthree\nfour")
    for accept in ("application/json", "text/plain;q=0.5, application/json", "APPLICATION/JSON;q=0.2,*/*;q=0.1"):
        reply = await api("GET", f"/changes/{change_id}/diff", headers={"Accept": accept})
        assert reply.headers["Content-Type"] == "application/json"
    for accept in ("*/*", "text/plain", "text/plain, application/json", "application/json;q=0", "x;q=x"):
        reply_as_text = await api("GET", f"/changes/{change_id}/diff", headers={"Accept": accept})
        assert reply_as_text.headers["Content-Type"].startswith("text/plain")
    found = reply.json
    assert (found["change_id"], found["format"], found["added"], found["removed"]) == (change_id, "unified", 2, 1)
    assert found["text"].encode() == reply_as_text.body
    assert found["before"] == {"at": "2027-01-15T08:00:00.000Z", "kind": "html", "bytes": 7, "lines": 2}
    assert (found["rows"], found["coarse"], found["truncated"]) == (None, False, False)


async def test_side_by_side(api: Api) -> None:
    change_id = await change(api, b"same\nold words\ngone", b"same\nnew words\nsame too\nadded")
    reply = await api("GET", f"/changes/{change_id}/diff?format=side-by-side", headers={"Accept": "text/plain"})
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    rows = reply.json["rows"]
    shape = [(r["kind"], r["left_line"], r["left_text"], r["right_line"], r["right_text"]) for r in rows]
    assert shape == [
        ("equal", 1, "same", 1, "same"),
        ("replace", 2, "old words", 2, "new words"),
        ("replace", 3, "gone", 3, "same too"),
        ("insert", None, None, 4, "added"),
    ]
    assert (rows[1]["left_marks"], rows[1]["right_marks"]) == ([[0, 3]], [[0, 3]])


async def test_all_differences_of_a_busy_page_can_be_read(api: Api) -> None:
    last = await change(api, *(f"text {n}".encode() for n in range(40)))
    await api.store.prune(START + 86_400.0)
    for change_id in range(1, last + 1):
        assert (await api("GET", f"/changes/{change_id}/diff")).status == 200


@pytest.mark.parametrize(
    ("settings", "limit", "detail"),
    [
        ({"content_retention_seconds": 5.0}, "content_retention", "content_retention (5 s)"),
        ({"content_cap_bytes": 1000}, "content_cap_bytes", "content_cap_bytes (1,000 bytes)"),
    ],
)
async def test_a_pruned_content_is_gone_and_says_which_limit_it_was(
    api: Api, settings: dict[str, Any], limit: str, detail: str
) -> None:
    change_id = await change(api, *(random.Random(n).randbytes(200) for n in range(20)))
    api.store.adopt(StorageSettings(**settings))
    await api.store.prune(START + 100.0)
    first = (await api("GET", "/changes?order=oldest&limit=1")).json["items"][0]["id"]
    reply = await api("GET", f"/changes/{first}/diff")
    assert (reply.status, reply.headers["Content-Type"]) == (410, "application/problem+json")
    assert reply.json["type"] == "urn:pollerd:problem:content-pruned"
    assert (reply.json["pruned"], reply.json["summary"]) == (["before", "after"], "change 1")
    assert reply.json["limit"] == limit
    assert detail in reply.json["detail"]
    assert (await api("GET", f"/changes/{change_id}/diff")).status == 200


async def test_of_binary_contents_is_told_what_is_known(api: Api) -> None:
    change_id = await change(api, b"\x00\x01", b"\x00\x01\x02", media=Media.BINARY)
    text = (await api("GET", f"/changes/{change_id}/diff")).body.decode()
    assert text.endswith("\nBinary contents differ: binary, 2 bytes, then binary, 3 bytes\n")
    for form in ("unified", "side-by-side"):
        found = (await api("GET", f"/changes/{change_id}/diff?format={form}", headers=JSON)).json
        assert (found["text"], found["rows"], found["added"], found["after"]["lines"]) == (None, None, None, None)
        assert (found["before"]["bytes"], found["after"]["bytes"]) == (2, 3)


async def test_a_page_that_became_empty(api: Api) -> None:
    change_id = await change(api, b"one", b"")
    lines = (await api("GET", f"/changes/{change_id}/diff")).body.decode().splitlines()
    assert lines[2:] == ["@@ -1 +0,0 @@", "-one"]


async def test_text_cannot_steer_a_terminal_but_json_keeps_it(api: Api) -> None:
    change_id = await change(api, b"a", b"\x1b[31mred\x9b\xff\ttab")
    text = (await api("GET", f"/changes/{change_id}/diff")).body.decode()
    assert "+\ufffd[31mred\ufffd\ufffd\ttab\n" in text
    assert "\x1b[31mred" in (await api("GET", f"/changes/{change_id}/diff", headers=JSON)).json["text"]


@pytest.mark.parametrize(
    ("query", "field"), [("format=word", "format"), ("context=-1", "context"), ("context=x", "context"), ("c=1", "c")]
)
async def test_a_parameter_that_cannot_be_is_named(api: Api, query: str, field: str) -> None:
    reply = await api("GET", f"/changes/1/diff?{query}")
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)


async def test_a_change_that_is_nowhere(api: Api) -> None:
    assert (await api("GET", "/changes/7/diff")).status == 404


async def test_five_megabytes_are_compared_beside_the_loop(api: Api) -> None:
    rng = random.Random(1)
    lines = [f"line {n} {rng.random()} and some words" for n in range(120_000)]
    left = "\n".join(lines).encode()
    rng.shuffle(lines)
    right = "\n".join(f"{line}!" if rng.random() < 0.5 else line for line in lines).encode()
    assert min(len(left), len(right)) > 5_000_000
    change_id = await change(api, left, right, media=Media.TEXT)
    asked = asyncio.create_task(api("GET", f"/changes/{change_id}/diff?format=side-by-side"))
    turns, began = 0, time.monotonic()
    while not asked.done():
        assert (await api("GET", "//healthz")).status in (200, 503)
        turns += 1
    found = (await asked).json
    assert turns > 1, f"the loop stood still for {time.monotonic() - began:.1f} s"
    assert (found["truncated"], len(found["rows"])) == (True, 20_000)
    assert found["before"]["lines"] == 120_000


async def test_only_so_many_may_wait(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    change_id = await change(api, b"one", b"two")
    monkeypatch.setattr(diff, "MAX_WAITING", 0)
    reply = await api("GET", f"/changes/{change_id}/diff")
    assert (reply.status, reply.json["type"]) == (503, "urn:pollerd:problem:busy")
    assert int(reply.headers["Retry-After"]) >= 1
