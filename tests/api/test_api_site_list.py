"""Lists of sites over REST and on the command line: filters, orders, cursors, jobs, dry runs."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text
from typer.testing import CliRunner, Result

from pollerd.cli.commands import app
from tests.api.conftest import Api


async def _ids(api: Api, query: str) -> list[int]:
    reply = await api("GET", f"/sites?{query}")
    assert reply.status == 200, reply.body
    return [site["id"] for site in reply.json["items"]]


async def _rated(api: Api, **rates: float) -> None:
    def fill(connection: Any) -> None:
        for site, rate in rates.items():
            connection.execute(text(f"UPDATE site_state SET rate = {rate} WHERE site_id = {site[1:]}"))

    await api.store.database.write(fill)


@pytest.fixture
async def three(api: Api) -> list[int]:
    one = await api.add("https://b.example/news", title="Prices of old", tags=["x"])
    two = await api.add("https://a.example/Shop", tags=["x"])
    return [one, two, await api.add("https://c.example/")]


async def test_filters_orders_and_totals(api: Api, three: list[int]) -> None:
    one, two, three_ = three
    await _rated(api, s1=6.0, s2=0.5)
    assert await _ids(api, "sort=url") == [two, one, three_]
    assert await _ids(api, "sort=-url") == [three_, one, two]
    assert await _ids(api, "sort=-rate") == [one, two, three_]
    assert await _ids(api, "q=PRICES%20news") == [one]
    assert await _ids(api, "q=shop&tag=x") == [two]
    assert await _ids(api, "rate_min=1") == [one]
    assert await _ids(api, "rate_max=1") == [two]
    assert await _ids(api, "changed=3600") == []
    assert await _ids(api, "q=%20") == [one, two, three_]
    whole = (await api("GET", "/sites?limit=2")).json
    assert (whole["total"], whole["total_is_exact"], whole["previous_cursor"]) == (3, True, None)
    some = (await api("GET", "/sites?tag=x&limit=1&sort=url")).json
    assert (some["total"], some["total_is_exact"], len(some["items"])) == (2, True, 1)
    more = (await api("GET", f"/sites?tag=x&limit=1&cursor={some['next_cursor']}")).json
    assert ([site["id"] for site in more["items"]], more["total"], more["next_cursor"]) == ([one], None, None)
    back = (await api("GET", f"/sites?tag=x&limit=1&cursor={more['previous_cursor']}")).json
    assert ([site["id"] for site in back["items"]], back["previous_cursor"]) == ([two], None)


@pytest.mark.parametrize(
    ("query", "field", "allowed"),
    [
        ("sort=rating", "sort", "one of id, url, title, last_change, rate, failures, last_poll, next_poll"),
        ("rate_min=-1", "rate_min", "0"),
        ("rate_min=nan", "rate_min", "finite"),
        ("rate_min=2&rate_max=1", "rate_max", "at least rate_min (2 a day)"),
        ("changed=0", "changed", "0"),
        ("q=" + quote(" ".join(map(str, range(17)))), "q", "at most 16 words"),
        ("cursor=nope", "cursor", "a next_cursor or previous_cursor of this list"),
        ("cursor=czEwMA&sort=url", "sort", "leave sort out, or give id"),
        ("sorted=url", "sorted", "did you mean sort?"),
    ],
)
async def test_what_cannot_be_is_named(api: Api, query: str, field: str, allowed: str) -> None:
    reply = await api("GET", f"/sites?{query}")
    assert reply.status == 422
    [error] = reply.json["errors"]
    assert error["field"] == field
    assert allowed in error["allowed"]


async def test_bulk_over_a_filter_and_undo(api: Api, three: list[int]) -> None:
    body = {"filter": {"tag": "x"}, "action": "tag", "value": {"tag": " new "}}
    reply = await api("POST", "/sites/bulk", body)
    assert reply.status == 202
    job = reply.json
    assert (job["state"], job["total"], job["changed"], job["value"]) == ("done", 2, 2, {"tag": "new"})
    assert await _ids(api, "tag=new") == three[:2]
    assert (await api("GET", f"/jobs/{job['id']}")).json == job
    assert (await api("GET", "/jobs")).json == {"items": [job], "next_cursor": None}
    undone = await api("POST", f"/jobs/{job['id']}/undo")
    assert undone.status == 202
    assert (undone.json["state"], undone.json["restored"], undone.json["undo_until"]) == ("undone", 2, None)
    assert await _ids(api, "tag=new") == []
    again = await api("POST", f"/jobs/{job['id']}/undo")
    assert (again.status, again.json["type"]) == (409, "urn:pollerd:problem:not-undoable")
    assert (await api("POST", "/jobs/99/undo")).status == (await api("GET", "/jobs/99")).status == 404


async def test_bulk_of_ids_deletes_and_brings_back(api: Api, three: list[int]) -> None:
    job = (await api("POST", "/sites/bulk", {"ids": three[1:], "action": "delete"})).json
    assert job["changed"] == 2
    assert await _ids(api, "") == three[:1]
    assert (await api("GET", f"/sites/{three[1]}")).status == 404
    assert (await api("GET", "/sites")).json["total"] == 1
    assert (await api("POST", f"/jobs/{job['id']}/undo")).json["restored"] == 2
    assert await _ids(api, "") == three
    await api("POST", "/sites/bulk", {"ids": three, "action": "delete"})
    back = await api("POST", "/sites", {"url": "https://c.example/", "title": "New"})
    assert (back.status, back.json["id"], back.json["title"]) == (201, three[2], "New")


async def test_other_bulk_actions(api: Api, three: list[int]) -> None:
    every: dict[str, Any] = {"filter": {}}
    for body in (
        {"action": "weight", "value": {"weight": 4}},
        {"action": "limits", "value": {"min_interval": 60, "max_interval": 90}},
        {"action": "pause"},
        {"action": "poll"},
    ):
        reply = await api("POST", "/sites/bulk", {**every, **body})
        assert (reply.status, reply.json["changed"]) == (202, 3), reply.body
    site = (await api("GET", f"/sites/{three[0]}")).json
    found = [site[name] for name in ("weight", "min_interval", "max_interval", "state")]
    assert found == [4.0, 60.0, 90.0, "paused"]
    await api("POST", "/sites/bulk", {**every, "action": "limits", "value": {"max_interval": None}})
    await api("POST", "/sites/bulk", {"filter": {"state": "paused"}, "action": "resume"})
    site = (await api("GET", f"/sites/{three[0]}")).json
    assert [site[name] for name in ("min_interval", "max_interval", "state")] == [60.0, None, "active"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "pause"}, "filter"),
        ({"action": "pause", "filter": {}, "ids": [1]}, "filter"),
        ({"action": "pause", "ids": []}, "ids"),
        ({"action": "pause", "ids": [0]}, "ids.0"),
        ({"action": "stop", "filter": {}}, "action"),
        ({"action": "pause", "filter": {"url": "x"}}, "filter.url"),
        ({"action": "pause", "filter": {"state": "fine"}}, "filter.state"),
        ({"action": "pause", "filter": {"rate_min": 3, "rate_max": 2}}, "rate_max"),
        ({"action": "pause", "filter": {}, "value": {"weight": 1}}, "value"),
        ({"action": "tag", "filter": {}}, "value"),
        ({"action": "tag", "filter": {}, "value": {"tag": ";"}}, "value.tag"),
        ({"action": "weight", "filter": {}, "value": {"weight": -1}}, "weight"),
        ({"action": "limits", "filter": {}, "value": {"weight": 1}}, "value"),
        ({"action": "limits", "filter": {}, "value": {"min_interval": 9, "max_interval": 3}}, "max_interval"),
    ],
)
async def test_what_bulk_cannot_do_is_named(api: Api, body: dict[str, Any], field: str) -> None:
    reply = await api("POST", "/sites/bulk", body)
    assert reply.status == 422, reply.body
    assert reply.json["errors"][0]["field"] == field


async def test_a_dry_run_says_what_an_import_would_do(api: Api, three: list[int]) -> None:
    lines = b"https://a.example/Shop\nhttps://new.example/\nhttps://new.example/\nnot a page\nhttps://c.example\n"
    dry = (await api("POST", "/sites/import?dry_run=1", data=lines)).json
    assert (dry["added"], dry["existing"], dry["rejected_count"], dry["dry_run"]) == (1, 3, 1, True)
    assert [one["line"] for one in dry["rejected"]] == [4]
    assert await _ids(api, "") == three
    assert (await api("POST", "/sites/import", data=lines)).json == {**dry, "dry_run": False}


async def _run(api: Api, *words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, [*words, "--url", api.root])


def _last(done: Result) -> str:
    """The last line: the log of the daemon, which is in this process, may go before."""
    return done.stdout.splitlines()[-1]


async def test_commands(api: Api, three: list[int]) -> None:
    await _rated(api, s1=6.0)
    listed = json.loads((await _run(api, "sites", "list", "--sort=-url", "--limit", "2", "--json")).stdout)
    assert [site["id"] for site in listed] == [three[2], three[0]]
    listed = json.loads((await _run(api, "sites", "list", "--rate-min", "1", "--state", "active", "--json")).stdout)
    assert [site["id"] for site in listed] == three[:1]
    done = await _run(api, "sites", "bulk", "tag", "new", "--tag", "x")
    assert (done.exit_code, _last(done)) == (0, "job 1: tag done, 2 sites changed"), done.output
    limited = await _run(api, "sites", "bulk", "limits", "--max-interval", "1m", "--all")
    assert _last(limited) == "job 2: limits done, 3 sites changed", limited.output
    rows = (await _run(api, "jobs")).stdout.splitlines()
    assert [row.split("\t")[:3] for row in rows] == [
        ["id", "action", "state"],
        ["2", "limits", "done"],
        ["1", "tag", "done"],
    ]
    assert "changed\t2" in (await _run(api, "jobs", "show", "1")).stdout
    assert _last(await _run(api, "jobs", "undo", "1")) == "job 1: tag undone for 2 sites"
    again = await _run(api, "jobs", "undo", "1")
    assert (again.exit_code != 0, "not undone yet" in again.output) == (True, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("pause",), "--all"),
        (("pause", "--all", "--tag", "x"), "--all"),
        (("pause", "x", "--all"), "takes no value"),
        (("weight", "--all"), "VALUE is missing: the weight, or none"),
        (("tag", "--all"), "VALUE is missing: the tag"),
        (("pause", "--all", "--min-interval", "5"), "go with limits"),
    ],
)
async def test_what_the_command_cannot_do_is_said(api: Api, words: tuple[str, ...], why: str) -> None:
    done = await _run(api, "sites", "bulk", *words)
    assert done.exit_code != 0
    assert why in str(done.exception) + done.output
