"""Sources over REST and on the command line; the daemon behind them does not run, so nothing is read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pollerd.cli.sites import list_
from pollerd.site_settings import SiteSpec
from tests.api.conftest import Api

MAP = "https://example.org/sitemap.xml"


async def add(api: Api, **settings: Any) -> dict[str, Any]:
    reply = await api("POST", "/sources", {"url": MAP, **settings})
    assert reply.status == 201, reply.body
    assert reply.headers["Location"] == f"/api/v1/sources/{reply.json['id']}"
    found: dict[str, Any] = reply.json
    return found


async def test_a_source_is_added_changed_and_removed(api: Api) -> None:
    source = await add(api, tags=[" news "], weight=2, limit=50, pattern="/news/", interval="2h", max_shrink=0.2)
    wanted = {
        "url": MAP,
        "kind": "sitemap",
        "tags": ["news"],
        "weight": 2.0,
        "limit": 50,
        "pattern": "/news/",
        "hosts": "same",
        "interval": 7200.0,
        "max_shrink": 0.2,
        "paused": False,
        "joined": 0,
        "vanished": 0,
        "last_read_at": None,
    }
    assert source.items() >= wanted.items()
    path = f"/sources/{source['id']}"
    assert (await api("GET", path)).json == source
    again = await api("POST", "/sources", {"url": "https://EXAMPLE.org:443/sitemap.xml"})
    assert (again.status, again.json["existing_id"]) == (409, source["id"])
    changed = (await api("PATCH", path, {"pattern": None, "interval": None, "paused": True})).json
    assert (changed["pattern"], changed["interval"], changed["paused"]) == (None, None, True)
    assert (changed["weight"], changed["next_read_at"]) == (2.0, None)
    assert (await api("POST", f"{path}/read")).status == 202
    assert (await api("DELETE", path)).json == {"sites_removed": 0}
    for method, where in (("GET", path), ("PATCH", path), ("DELETE", path), ("POST", f"{path}/read")):
        body: dict[str, Any] | None = {} if method == "PATCH" else None
        assert (await api(method, where, body)).status == 404


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"url": "nowhere"}, "url"),
        ({"kind": "html"}, "kind"),
        ({"pattern": "re:(a"}, "pattern"),
        ({"pattern": ""}, "pattern"),
        ({"limit": 0}, "limit"),
        ({"limit": 1_000_001}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"interval": 59}, "interval"),
        ({"interval": "often"}, "interval"),
        ({"max_shrink": 1.1}, "max_shrink"),
        ({"weight": -1}, "weight"),
        ({"hosts": "all"}, "hosts"),
        ({"tags": ["a;b"]}, "tags"),
        ({"site_limit": 3}, "site_limit"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(api: Api, given: dict[str, Any], field: str) -> None:
    reply = await api("POST", "/sources", {"url": MAP, **given})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field), reply.body
    assert (await api("GET", "/sources")).json["items"] == []


async def test_lists_come_in_pages(api: Api) -> None:
    ids = [(await add(api, url=f"https://example.org/{n}.xml"))["id"] for n in range(5)]
    seen, cursor = [], ""
    while True:
        page = (await api("GET", f"/sources?limit=2{cursor}")).json
        seen += [one["id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == ids
    assert (await api("GET", "/sources?cursor=czEwMA")).status == 422


async def test_the_pages_of_a_source_by_state(api: Api) -> None:
    source = await add(api)
    urls = [f"https://example.org/{n}" for n in range(4)]
    added = await api.control.sites.add([SiteSpec(url) for url in urls], source=source["id"])
    ids = [site_id for site_id, _, _ in added.added]
    assert await api.store.sources.vanish(source["id"], urls[:1], 7.0) == ids[:1]
    path = f"/sources/{source['id']}"
    assert (await api("GET", path)).json.items() >= {"joined": 3, "vanished": 1}.items()
    (gone,) = (await api("GET", f"{path}/sites?state=vanished")).json["items"]
    since = "1970-01-01T00:00:07.000Z"
    assert gone == {"site_id": ids[0], "url": urls[0], "state": "vanished", "since": since, "paused": True}
    first = (await api("GET", f"{path}/sites?limit=3")).json
    rest = (await api("GET", f"{path}/sites?limit=3&cursor={first['next_cursor']}")).json
    assert [one["site_id"] for one in first["items"] + rest["items"]] == ids
    assert (await api("GET", f"{path}/sites?state=lost")).status == 422
    removed = (await api("DELETE", f"{path}?remove_sites=true")).json
    assert removed == {"sites_removed": 4}
    assert await api.store.sites.count() == 0


async def test_sites_are_listed_by_source(api: Api) -> None:
    source, other = await add(api), await add(api, url="https://example.org/other.xml")
    urls = [f"https://example.org/{n}" for n in range(3)]
    await api.add(urls[0])
    await api.control.sites.add([SiteSpec(url) for url in urls[:2]], source=source["id"])
    await api.control.sites.add([SiteSpec(url) for url in urls[1:]], source=other["id"])
    found = (await api("GET", f"/sites?source={source['id']}")).json["items"]
    assert [site["url"] for site in found] == urls[:2]
    found = (await api("GET", f"/sites?source={other['id']}&q=/2")).json["items"]
    assert [site["url"] for site in found] == urls[2:]
    assert (await api("GET", "/sites?source=99")).json["items"] == []
    assert (await api("GET", "/sites?source=x")).status == 422
    listed = await asyncio.to_thread(
        CliRunner().invoke, sites_command(), ["--source", source["url"], "--url", api.root, "--json"]
    )
    assert [site["url"] for site in json.loads(listed.stdout)] == urls[:2], listed.output


def sites_command() -> typer.Typer:
    made = typer.Typer()
    made.command()(list_)
    return made
