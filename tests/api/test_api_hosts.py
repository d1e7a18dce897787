"""Hosts over REST: what is known of them, and pauses by hand; sites paused many at a time."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from pollerd.api.settings import ApiSettings
from tests.api.conftest import Api, NewApi

HOST = "example.org:443"


async def test_a_host_is_shown_with_all_that_is_known(api: Api) -> None:
    await api.add("https://example.org/a")
    await api.add("https://example.org/b")
    await api.add("http://other.org/")
    host = (await api("GET", f"/hosts/{HOST}")).json
    shown = "name sites spacing crawl_delay robots paused paused_until paused_by pause_reason refusals"
    assert " ".join(host) == f"{shown} last_request_at next_request_at busy override"
    assert (host["name"], host["sites"], host["spacing"], host["paused"]) == (HOST, 2, 1.0, False)
    assert host["robots"] == {"state": "unknown", "fetched_at": None, "retry_at": None, "failures": 0, "detail": ""}
    assert (host["last_request_at"], host["override"], host["busy"]) == (None, None, False)
    listed = (await api("GET", "/hosts")).json
    assert [one["name"] for one in listed["items"]] == [HOST, "other.org:80"]
    assert (await api("GET", "/hosts/EXAMPLE.org:443")).json["name"] == HOST


@pytest.mark.parametrize("path", ["/hosts/example.org", "/hosts/none.org:80", "/hosts/%00", "/hosts/a%2Fb"])
async def test_a_host_that_is_not_there(api: Api, path: str) -> None:
    await api.add("https://example.org/a")
    for method, body in (("GET", None), ("PATCH", {"paused": True})):
        reply = await api(method, path, body)
        assert (reply.status, reply.headers["Content-Type"]) == (404, "application/problem+json"), path


async def test_ipv6_hosts_are_named_in_brackets(api: Api) -> None:
    await api.add("http://[2001:db8::1]:8080/")
    for name in ("%5B2001%3Adb8%3A%3A1%5D%3A8080", "[2001:db8::1]:8080"):
        assert (await api("GET", f"/hosts/{name}")).json["name"] == "[2001:db8::1]:8080"
    paused = await api("PATCH", "/hosts/%5B2001:db8::1%5D:8080", {"paused": True})
    assert (paused.status, paused.json["paused"]) == (200, True)


async def test_pages_and_filters(api: Api) -> None:
    for n in range(5):
        await api.add(f"http://h{n}.org/")
    await api("PATCH", "/hosts/h1.org:80", {"paused": True})
    await api("PATCH", "/hosts/h3.org:80", {"paused": True})
    cursor: str | None = ""
    names = []
    while cursor is not None:
        page = (await api("GET", "/hosts?limit=2" + (f"&cursor={cursor}" if cursor else ""))).json
        names += [host["name"] for host in page["items"]]
        cursor = page["next_cursor"]
    assert names == [f"h{n}.org:80" for n in range(5)]
    for query, expected in (
        ("paused=true", [1, 3]),
        ("paused=false", [0, 2, 4]),
        ("q=H3", [3]),
        ("q=h1&paused=true", [1]),
        ("q=h1&paused=false", []),
        ("unreachable=true", []),
        ("unreachable=false&paused=true", [1, 3]),
    ):
        found = (await api("GET", f"/hosts?{query}")).json["items"]
        assert [host["name"] for host in found] == [f"h{n}.org:80" for n in expected], query
    first = (await api("GET", "/hosts?paused=true&limit=1")).json
    rest = (await api("GET", f"/hosts?paused=true&limit=1&cursor={first['next_cursor']}")).json
    assert ([host["name"] for host in rest["items"]], rest["next_cursor"]) == (["h3.org:80"], None)
    for query, field in (("paused=maybe", "paused"), ("cursor=x", "cursor"), ("state=paused", "state")):
        reply = await api("GET", f"/hosts?{query}")
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)


async def test_pausing_by_hand_and_ending_it(api: Api) -> None:
    site_id = await api.add("https://example.org/a")
    for_good = (await api("PATCH", f"/hosts/{HOST}", {"paused": True})).json
    assert (for_good["paused"], for_good["paused_until"], for_good["paused_by"]) == (True, None, "operator")
    assert (for_good["next_request_at"], for_good["override"]["by"]) == (None, "a user of this machine")
    told = (await api("GET", f"/sites/{site_id}/explain")).json
    assert (told["host"], told["why_not_now"], told["next_poll_at"]) == (HOST, "its host was paused by hand", None)
    assert told["host_override"] == for_good["override"]
    assert (await api("GET", f"/sites/{site_id}")).json["next_poll_at"] is None
    until = (await api("PATCH", f"/hosts/{HOST}", {"paused_until": "2126-01-31T12:00:00Z"})).json
    assert until["paused_until"] == until["next_request_at"] == "2126-01-31T12:00:00.000Z"
    for body in ({"paused_until": None}, {"paused": False}, {"paused": False, "paused_until": None}):
        await api("PATCH", f"/hosts/{HOST}", {"paused": True, "paused_until": "2126-01-31T12:00:00Z"})
        ended = (await api("PATCH", f"/hosts/{HOST}", body)).json
        assert (ended["paused"], ended["paused_until"], ended["paused_by"]) == (False, None, None)
        assert ended["override"]["paused"] is False
    told = (await api("GET", f"/sites/{site_id}/explain")).json
    assert told["why_not_now"] != "its host was paused by hand"
    assert told["host_override"]["paused"] is False


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "paused"),
        ({"paused": "yes"}, "paused"),
        ({"paused": None}, "paused"),
        ({"paused_until": "soon"}, "paused_until"),
        ({"paused_until": "1970-01-01T00:00:00Z"}, "paused_until"),
        ({"paused_until": "1e300"}, "paused_until"),
        ({"paused_until": 7}, "paused_until"),
        ({"paused": False, "paused_until": "2126-01-31T12:00:00Z"}, "paused_until"),
        ({"spacing": 3}, "spacing"),
    ],
)
async def test_a_pause_that_cannot_be_is_named(api: Api, body: dict[str, object], field: str) -> None:
    await api.add("https://example.org/a")
    reply = await api("PATCH", f"/hosts/{HOST}", body)
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)
    assert (await api("GET", f"/hosts/{HOST}")).json["override"] is None


async def test_who_it_was_is_the_scope_it_took(new_api: NewApi, capsys: pytest.CaptureFixture[str]) -> None:
    api = await new_api(ApiSettings.listening("127.0.0.1:0", token="secret", read_token="other"))
    writer, reader = ({"Authorization": f"Bearer {word}"} for word in ("secret", "other"))
    await api("POST", "/sites", {"url": "https://example.org/a", "tags": ["x"]}, headers=writer)
    for path in (f"/hosts/{HOST}", "/sites/pause"):
        method = "PATCH" if path.startswith("/hosts") else "POST"
        assert (await api(method, path, {"all": True}, headers=reader)).status == 403
    paused = await api("PATCH", f"/hosts/{HOST}", {"paused": True}, headers=writer)
    assert paused.json["override"]["by"] == "a token of scope write"
    assert (await api("POST", "/sites/pause", {"tag": "x"}, headers=writer)).json == {"count": 1}
    logged = capsys.readouterr()
    for event in ("host_paused", "sites_paused"):
        (line,) = [line for line in (logged.out + logged.err).splitlines() if event in line]
        assert "a token of scope write" in line
        assert "secret" not in line


async def test_all_sites_are_paused_and_resumed(api: Api) -> None:
    sites = [await api.add(f"http://h{n}.org/", tags=["even"] if n % 2 == 0 else []) for n in range(5)]
    assert (await api("POST", f"/sites/{sites[0]}/pause")).status == 200
    assert (await api("POST", "/sites/pause", {"all": True})).json == {"count": 4}
    assert (await api("POST", "/sites/pause", {"all": True})).json == {"count": 0}
    assert {site["state"] for site in (await api("GET", "/sites")).json["items"]} == {"paused"}
    assert {(await api("GET", f"/sites/{s}")).json["next_poll_at"] for s in sites} == {None}
    assert (await api("POST", "/sites/resume", {"tag": " even "})).json == {"count": 3}
    states = [site["state"] for site in (await api("GET", "/sites")).json["items"]]
    assert states == ["active", "paused", "active", "paused", "active"]
    told = [(await api("GET", f"/sites/{s}/explain")).json["why_not_now"] for s in sites]
    assert [why == "paused by the user" for why in told] == [False, True, False, True, False]
    assert (await api("POST", "/sites/resume", {"all": True})).json == {"count": 2}
    assert (await api("POST", "/sites/pause", {"tag": "nobody has it"})).json == {"count": 0}


@pytest.mark.parametrize(
    "body",
    [{}, {"all": False}, {"all": True, "tag": "x"}, {"tag": ""}, {"tag": "a;b"}, {"tag": None}, {"ids": [1]}, []],
)
async def test_a_selection_that_is_none_changes_nothing(api: Api, body: object) -> None:
    site_id = await api.add("https://example.org/a")
    reply = await api("POST", "/sites/pause", body)
    assert reply.status == 422, reply.body
    assert reply.json["errors"][0]["field"] in ("all", "tag", "ids", "body")
    assert (await api("GET", f"/sites/{site_id}")).json["state"] == "active"


async def test_a_wrong_method_names_the_right_ones(api: Api) -> None:
    for path, allowed in ((f"/hosts/{HOST}", "GET, PATCH"), ("/hosts", "GET"), ("/sites/pause", "POST")):
        reply = await api("DELETE", path)
        assert (reply.status, reply.headers["Allow"]) == (405, allowed)


async def test_the_time_of_an_override_is_its_own(api: Api) -> None:
    await api.add("https://example.org/a")
    before = time.time()
    await api("PATCH", f"/hosts/{HOST}", {"paused": True})
    (one,) = [host["override"] for host in (await api("GET", "/hosts")).json["items"]]
    assert before - 1 <= datetime.fromisoformat(one["at"]).timestamp() <= time.time() + 1
