"""`/reads` and `/sites/ID/reads`."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from pollerd.allocation.reads import HalfLife
from pollerd.api.reads import reads_in_words
from pollerd.storage.reads import SiteInterest
from pollerd.timestamps import rfc3339
from tests.api.conftest import Api

A, B = "https://a.invalid/x", "https://a.invalid/y"
DAY = 86_400.0


def now(ahead: float = 0.0) -> str:
    return rfc3339(time.time() + ahead)


async def test_reads_before_any_change_are_told_apart(api: Api) -> None:
    site = (await api("POST", "/sites", {"url": A})).json
    assert site["learned_half_life"] is None
    reads = [
        {"site_id": site["id"], "at": now(-5), "count": 3},
        {"url": "HTTPS://A.INVALID/x", "at": now(-4)},
        {"url": B, "at": now(-3), "count": 10},
        {"site_id": 999, "at": now(-3), "count": 20},
    ]
    taken = {"reads": 0, "unknown_sites": 30, "before_changes": 4, "other_changes": 0, "between_polls": 0}
    taken["repeated"] = False
    reply = await api("POST", "/reads", {"report": "one", "reads": reads})
    assert (reply.status, reply.json) == (200, taken)
    again = await api("POST", "/reads", {"report": "one", "reads": reads[:1]})
    assert again.json == {**taken, "repeated": True}
    shown = (await api("GET", f"/sites/{site['id']}/reads")).json
    assert (shown["reads"], shown["half_life"], shown["in_words"]) == (0, None, "no reads were reported")
    assert (await api("DELETE", f"/sites/{site['id']}/reads")).status == 204
    assert (await api("DELETE", f"/sites/{site['id']}/reads")).status == 404
    assert (await api("GET", "/sites/999/reads")).status == 404


@pytest.mark.parametrize(
    ("reads", "field"),
    [
        ([], "reads"),
        ([{"site_id": 1, "at": now()}] * 1_001, "reads"),
        ([{"at": now()}], "reads[0].site_id"),
        ([{"site_id": 1, "url": A, "at": now()}], "reads[0].site_id"),
        ([{"site_id": 1, "at": now()}, {"url": "ftp://a", "at": now()}], "reads[1].url"),
        ([{"site_id": 1, "at": "yesterday"}], "reads[0].at"),
        ([{"site_id": 1, "at": "nan"}], "reads[0].at"),
        ([{"site_id": 1, "at": "1e308"}], "reads[0].at"),
        ([{"site_id": 1, "at": "-inf"}], "reads[0].at"),
        ([{"site_id": 1, "at": now(DAY)}], "reads[0].at"),
        ([{"site_id": 1, "at": now(-30 * DAY - 60)}], "reads[0].at"),
        ([{"site_id": 1, "at": None}], "reads.0.at"),
        ([{"site_id": 1}], "reads.0.at"),
        ([{"site_id": 1, "at": now(), "count": 0}], "reads.0.count"),
        ([{"site_id": 1, "at": now(), "count": -5}], "reads.0.count"),
        ([{"site_id": 1, "at": now(), "count": 1_000_001}], "reads.0.count"),
        ([{"site_id": 1, "at": now(), "count": 10**30}], "reads.0.count"),
        ([{"site_id": 1, "at": now(), "count": 1.5}], "reads.0.count"),
        ([{"site_id": 1, "at": now(), "count": True}], "reads.0.count"),
        ([{"site_id": 1, "at": now(), "count": "3"}], "reads.0.count"),
        ([{"site_id": 0, "at": now()}], "reads.0.site_id"),
        ([{"site_id": 10**30, "at": now()}], "reads.0.site_id"),
        ([{"site_id": 1, "at": now(), "change_id": -1}], "reads.0.change_id"),
        ([{"site_id": 1, "at": now(), "clicks": 3}], "reads.0.clicks"),
        ("all", "reads"),
        ({"site_id": 1}, "reads"),
    ],
)
async def test_what_cannot_be_read_is_refused_by_name(api: Api, reads: Any, field: str) -> None:
    reply = await api("POST", "/reads", {"report": "r", "reads": reads})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)


@pytest.mark.parametrize("report", ["", "x" * 101, 7, None, ["a"]])
async def test_a_report_needs_a_name(api: Api, report: Any) -> None:
    reply = await api("POST", "/reads", {"report": report, "reads": [{"site_id": 1, "at": now()}]})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "report")


@pytest.mark.parametrize(
    "name",
    ["a\x00b", "\ud83d", "é" * 100, "'; DROP TABLE site; --"],
    ids=["NUL", "half a pair", "long", "SQL"],
)
async def test_strange_names_are_names(api: Api, name: str) -> None:
    body = json.dumps({"report": name, "reads": [{"site_id": 1, "at": now()}]}).encode()
    for _ in range(2):
        reply = await api("POST", "/reads", data=body, headers={"Content-Type": "application/json"})
        assert reply.status in (200, 400, 422)
        assert (await api("GET", "/sites")).status == 200


@pytest.mark.parametrize(
    "until", ["soon", now(DAY), now(-40 * DAY), "inf"], ids=["no time", "a day ahead", "40 days ago", "inf"]
)
async def test_until_when_all_was_told_is_a_time_of_the_history(api: Api, until: str) -> None:
    body = {"report": "r", "reads": [{"site_id": 1, "at": now()}], "complete_until": until}
    reply = await api("POST", "/reads", body)
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "complete_until")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[]", b"\xff\xfe", b'{"report": "a", "reads": [{"site_id": 1, "at": NaN}]}', b"[" * 50_000],
    ids=["empty", "open", "null", "list", "no UTF-8", "nan", "deep"],
)
async def test_garbage_is_refused(api: Api, body: bytes) -> None:
    reply = await api("POST", "/reads", data=body, headers={"Content-Type": "application/json"})
    assert reply.status in (400, 422)


async def test_a_flood_has_to_wait(api: Api) -> None:
    """A program that tells 10^6 entries a minute: a few thousand are taken, the others refused before any look-up."""
    entries = [{"site_id": 1, "at": now()}] * 1_000
    replies = [await api("POST", "/reads", {"report": f"r{n}", "reads": entries}) for n in range(12)]
    assert [reply.status for reply in replies[:5]] == [200] * 5
    refused = [reply for reply in replies if reply.status == 429]
    assert len(refused) >= 5
    assert 1 <= int(refused[0].headers["Retry-After"]) <= 20
    assert refused[0].json["type"] == "urn:pollerd:problem:too-many"
    small = await api("POST", "/reads", {"report": "small", "reads": [{"site_id": 1, "at": now()}] * 1_000})
    assert small.status == 429


def test_what_reads_say_in_words() -> None:
    known = SiteInterest(1_204, 61, 1.0, HalfLife(5_400.0, 4_700.0, 6_200.0), 5_400.0)
    assert reads_in_words(known).startswith("1,204 reads of 61 changes: interest halves in ")
    assert reads_in_words(None) == "no reads were reported"
