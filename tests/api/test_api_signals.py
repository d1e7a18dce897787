"""`/signal-sources`, `/signals` and `/sites/ID/signals`."""

from __future__ import annotations

from typing import Any

import pytest

from pollerd.allocation.evidence import SourceQuality
from pollerd.api.signals import quality_in_words
from tests.api.conftest import Api

A, B = "https://a.invalid/x", "https://a.invalid/y"


async def push_source(api: Api) -> int:
    reply = await api("POST", "/signal-sources", {"kind": "push", "name": "cms"})
    assert (reply.status, reply.headers["Location"]) == (201, f"/api/v1/signal-sources/{reply.json['id']}")
    return int(reply.json["id"])


async def test_a_site_becomes_a_signal_source_and_is_one_no_more(api: Api) -> None:
    site = (await api("POST", "/sites", {"url": "https://a.invalid/map.xml"})).json
    reply = await api("POST", "/signal-sources", {"kind": "sitemap", "site_id": site["id"]})
    shown = reply.json
    assert reply.status == 201
    assert (shown["url"], shown["hosts"], shown["pages"], shown["quality"]) == (site["url"], "same", 0, None)
    again = await api("POST", "/signal-sources", {"kind": "feed", "site_id": site["id"]})
    assert (again.status, again.json["existing_id"]) == (409, shown["id"])
    path = f"/signal-sources/{shown['id']}"
    assert (await api("GET", path)).json == (await api("GET", "/signal-sources")).json["items"][0]
    assert (await api("DELETE", path)).status == 204
    assert (await api("DELETE", path)).status == 404
    assert (await api("GET", f"/sites/{site['id']}")).status == 200


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kind": "push"}, "name"),
        ({"kind": "push", "name": "cms", "site_id": 1}, "site_id"),
        ({"kind": "push", "name": "cms", "hosts": "same"}, "hosts"),
        ({"kind": "sitemap"}, "site_id"),
        ({"kind": "sitemap", "site_id": 1, "name": "x"}, "name"),
        ({"kind": "rumour", "name": "x"}, "kind"),
        ({"kind": "push", "name": ""}, "name"),
    ],
)
async def test_what_cannot_be_a_source_is_refused(api: Api, given: dict[str, Any], field: str) -> None:
    reply = await api("POST", "/signal-sources", given)
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)


async def test_a_source_needs_its_site(api: Api) -> None:
    assert (await api("POST", "/signal-sources", {"kind": "feed", "site_id": 999})).status == 422


async def test_reports_are_taken_once(api: Api) -> None:
    await push_source(api)
    site = (await api("POST", "/sites", {"url": A})).json
    report = {"source": "cms", "signals": [{"url": A.upper(), "at": "2100-01-01T00:00:00Z"}, {"url": B}]}
    report["signals"][0]["url"] = "HTTPS://A.INVALID/x"  # type: ignore[index]
    assert (await api("POST", "/signals", report)).json == {"signals": 1, "ignored": 1}
    assert (await api("POST", "/signals", report)).json == {"signals": 0, "ignored": 2}
    (said,) = (await api("GET", f"/sites/{site['id']}/signals")).json["items"]
    assert (said["date"], said["waiting"], said["signals"]) == ("2100-01-01T00:00:00.000Z", True, 1)
    assert said["source"] == "cms"
    assert (await api("POST", "/signals", {"source": "cms", "urlList": [A]})).json == {"signals": 1, "ignored": 0}
    (shown,) = (await api("GET", "/signal-sources")).json["items"]
    assert (shown["signals"], shown["pages"]) == (2, 1)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"source": "cms"}, "signals"),
        ({"source": "cms", "urlList": ["ftp://a.invalid"]}, "urlList[0]"),
        ({"source": "cms", "signals": [{"url": A}, {"url": A, "at": "yesterday"}]}, "signals[1].at"),
        ({"source": "cms", "urlList": [A] * 10_001}, "urlList"),
    ],
)
async def test_a_report_that_cannot_be_read_is_refused(api: Api, given: dict[str, Any], field: str) -> None:
    await push_source(api)
    reply = await api("POST", "/signals", given)
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)


async def test_reports_of_unknown_sources_are_refused(api: Api) -> None:
    assert (await api("POST", "/signals", {"source": "cms", "urlList": [A]})).status == 422


async def test_a_flood_of_reports_has_to_wait(api: Api) -> None:
    await push_source(api)
    report = {"source": "cms", "urlList": [f"https://a.invalid/{n}" for n in range(10_000)]}
    replies = [await api("POST", "/signals", report) for _ in range(8)]
    refused = [reply for reply in replies if reply.status == 429]
    assert replies[0].status == 200
    assert refused
    assert 1 <= int(refused[0].headers["Retry-After"]) <= 20
    assert refused[0].json["type"] == "urn:pollerd:problem:too-many"


def test_a_quality_in_words() -> None:
    quality = SourceQuality(0.61, 0.83, 1e-6, 240.0, 0.97, 120.0)
    assert quality_in_words(quality) == "precision 83 %, recall 61 %, about 4 min late; trust 97 %"
    unsure = SourceQuality(0.5, 0.5, 1e-6, float("nan"), 0.05, 0.2)
    assert quality_in_words(unsure) == "no track record yet"
