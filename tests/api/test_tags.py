"""Settings of tags over REST and by the command: what sites inherit, where it comes from, and what is never shown."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pollerd.api.formats import Format
from pollerd.app.url_list import check_list, read_list
from pollerd.cli.tags import app as tags_command
from pollerd.errors import ConfigError
from tests.api.conftest import Api
from tests.api.test_transfer import PASSPHRASE, daemon_at, get, put, two_databases

__all__ = ["two_databases"]
URL, OTHER = "https://a.invalid/", "https://b.invalid/"
OFFICE = {"zone": "Europe/Berlin", "open": [{"days": ["mon", "tue"], "from": "08:00", "to": "18:00"}]}
SECRETS: dict[str, Any] = {
    "headers": {"X-Key": "hush"},
    "credentials": {"username": "me", "password": "hush"},
    "proxy": "http://me:hush@proxy.invalid:3128",
}


async def tag(api: Api, name: str, **settings: Any) -> Any:
    """Gives the tag these settings."""
    reply = await api("PUT", f"/tags/{name}", settings)
    assert reply.status == 200, reply.body
    return reply.json


async def test_sites_inherit_and_explain_says_from_where(api: Api) -> None:
    site_id = await api.add(URL, tags=["news", "slow"], weight=1)
    await api.add(OTHER)
    await tag(api, "news", weight=3, min_interval="15m", windows=OFFICE)
    await tag(api, "slow", min_interval=7200, max_interval=86_400, headers={"X-A": "1"})
    site = (await api("GET", f"/sites/{site_id}")).json
    assert (site["weight"], site["cost"], site["min_interval"], site["max_interval"]) == (1.0, 1.0, 900.0, 86_400.0)
    assert (site["windows"], site["header_names"]) == (OFFICE, ["X-A"])
    origins = (await api("GET", f"/sites/{site_id}/explain")).json["origins"]
    assert origins == {
        "weight": "site",
        "cost": "default",
        "min_interval": "tag news",
        "max_interval": "tag slow",
        "min_saving": "default",
        "min_yield": "default",
        "respect_ttl": "default",
        "half_life": "default",
        "deadline": "default",
        "windows": "tag news",
        "selections": "default",
        "render": "default",
        "keep_screenshots": "default",
        "headers.X-A": "tag slow",
    }
    await api("PATCH", f"/sites/{site_id}", {"tags": ["slow", "news"], "weight": None})
    site = (await api("GET", f"/sites/{site_id}")).json
    assert (site["weight"], site["min_interval"], site["tags"]) == (3.0, 7200.0, ["slow", "news"])
    assert (await api("DELETE", "/tags/news")).status == 204
    site = (await api("GET", f"/sites/{site_id}")).json
    assert (site["weight"], site["windows"], site["tags"]) == (1.0, None, ["slow", "news"])


async def test_tags_are_listed_shown_and_taken_away(api: Api) -> None:
    assert (await api("GET", "/tags")).json == {"items": [], "next_cursor": None}
    assert (await api("GET", "/tags/news")).status == 404
    assert (await api("DELETE", "/tags/news")).status == 404
    await tag(api, "b%2Fc", weight=2)
    made = await tag(api, "a", windows=OFFICE)
    assert (await api("GET", "/tags/a")).json == made
    assert [one["name"] for one in (await api("GET", "/tags")).json["items"]] == ["a", "b/c"]
    assert (await tag(api, "a", windows=OFFICE))["changed_at"] == made["changed_at"], "nothing is changed by the same"
    assert (await tag(api, "a"))["windows"] is None, "what is left out is taken away"


async def test_secrets_of_a_tag_are_kept_and_never_shown(api: Api) -> None:
    site_id = await api.add(URL, tags=["club"])
    made = await tag(api, "club", **SECRETS)
    assert (made["header_names"], made["has_credentials"], made["proxy"]) == (
        ["X-Key"],
        True,
        "http://proxy.invalid:3128",
    )
    await tag(api, "club", weight=2)
    site = (await api("GET", f"/sites/{site_id}")).json
    assert (site["header_names"], site["has_credentials"], site["proxy"]) == (["X-Key"], True, made["proxy"])
    shown = [
        await api("GET", path) for path in ("/tags", "/tags/club", f"/sites/{site_id}", f"/sites/{site_id}/explain")
    ]
    assert not any(b"hush" in reply.body for reply in shown)
    (context,) = (await api.store.sites.contexts([site_id])).values()
    assert context.access.headers == (("X-Key", "hush"),)
    bare = await tag(api, "club", headers={}, credentials=None, proxy=None)
    assert (bare["header_names"], bare["has_credentials"], bare["proxy"]) == ([], False, None)


@pytest.mark.parametrize(
    ("name", "body", "field", "told"),
    [
        ("a", {"weight": -1}, "weight", "0 to"),
        ("a", {"min_interval": 60, "max_interval": 5}, "max_interval", "min_interval"),
        ("a", {"windows": {**OFFICE, "zone": "Europe/Belin"}}, "windows.zone", "nearest: Europe/Berlin"),
        ("a", {"url": URL}, "url", "unknown field"),
        ("a", {"tags": ["b"]}, "tags", "unknown field"),
        ("a;b", {"weight": 1}, "name", "printable"),
        ("a", {"headers": {"Host": "x"}}, "headers.Host", "the daemon sets this header itself"),
    ],
)
async def test_what_cannot_be_said_is_refused(api: Api, name: str, body: Any, field: str, told: str) -> None:
    reply = await api("PUT", f"/tags/{name}", body)
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)
    assert told in reply.json["errors"][0]["allowed"]
    assert (await api("GET", "/tags")).json["items"] == []


async def test_an_allocator_for_equal_weights_refuses_a_tag_that_makes_them_differ(api: Api) -> None:
    for url, tags in ((URL, ["news"]), (OTHER, [])):
        await api.add(url, tags=tags)
    body = {"allocator": "htraa", "objective": "changes", "budget": 5}
    assert (await api("PUT", "/allocation", body)).status == 200
    reply = await api("PUT", "/tags/news", {"weight": 2})
    assert reply.status == 422
    assert (await api("GET", "/tags")).json["items"] == []
    assert (await api("PUT", "/tags/news", {"min_interval": 2})).status == 200


async def test_a_site_that_moves_elsewhere_leaves_tags_with_secrets_behind(api: Api) -> None:
    await tag(api, "club", credentials={"token": "hush"})
    await tag(api, "slow", min_interval=60)
    site_id = await api.add(URL, tags=["club", "slow"])
    same = await api("PATCH", f"/sites/{site_id}", {"url": URL + "else"})
    assert same.json["tags"] == ["club", "slow"]
    moved = await api("PATCH", f"/sites/{site_id}", {"url": OTHER})
    assert (moved.json["tags"], moved.json["has_credentials"]) == (["slow"], False)
    meant = await api("PATCH", f"/sites/{site_id}", {"url": "https://c.invalid/", "tags": ["club"]})
    assert meant.json["has_credentials"]


async def test_an_export_takes_tags_along(two_databases: tuple[str, str]) -> None:
    async with daemon_at(two_databases[0]) as one, daemon_at(two_databases[1]) as two:
        await tag(one, "club", weight=2, windows=OFFICE, respect_ttl=False, **SECRETS)
        await one.add(URL, tags=["x", "club"], windows=OFFICE)
        bare = await get(one)
        assert b"hush" not in bare
        report = (await put(two, bare)).json
        kinds = ["headers", "credentials", "proxy"]
        assert report["secrets_missing"] == [{"url": None, "tag": "club", "channel": None, "kinds": kinds}]
        document = await get(one, PASSPHRASE)
        planned = (await put(two, document, PASSPHRASE, "?dry_run=true")).json
        assert [(s["section"], s["changed"]) for s in planned["sections"]][1] == ("tags", 1)
        assert (await put(two, document, PASSPHRASE)).json["complete"]
        assert two.store.sites.tags.in_force["club"].access == one.store.sites.tags.in_force["club"].access
        assert (await put(two, bare)).json["sections"][1]["unchanged"] == 1, "secrets that were left out stay"
        assert await get(two) == bare
        spoiled = bare.replace(b"Europe/Berlin", b"Europe/Bierlin", 1)
        assert (await put(two, spoiled)).status == 422


def command(api: Api, *arguments: str) -> Any:
    """The command against that daemon, in a thread."""
    return asyncio.to_thread(CliRunner().invoke, tags_command, [*arguments, "--url", api.root])


async def test_the_command(api: Api) -> None:
    await tag(api, "club", credentials={"token": "hush"})
    made: Result = await command(api, "set", "club", "--weight", "2", "--min-interval", "15m", "--json")
    assert made.exit_code == 0, made.output
    found = json.loads(made.stdout[made.stdout.index("{") :])  # behind what the daemon logs
    assert (found["weight"], found["min_interval"], found["has_credentials"]) == (2.0, 900.0, True)
    assert (await command(api, "set", "club", "--weight", "none", "--windows", json.dumps(OFFICE))).exit_code == 0
    shown: Result = await command(api, "show", "club")
    assert "min_interval\t15m" in shown.stdout
    assert "Europe/Berlin" in shown.stdout
    assert "weight\t\n" in shown.stdout
    listed: Result = await command(api, "list")
    assert listed.stdout.startswith("name\t")
    assert "club\t" in listed.stdout
    for wrong in (("set", "club"), ("set", "club", "--weight", "x"), ("set", "club", "--windows", "{")):
        assert (await command(api, *wrong)).exit_code != 0
    assert (await command(api, "remove", "club")).exit_code == 0
    assert (await command(api, "remove", "club")).exit_code != 0


LIST = """
[tags.news]
min_interval = "15m"
credentials = {token_file = "news.token"}
windows = {zone = "Europe/Berlin", open = [{from = "08:00", to = "18:00"}]}

[[sites]]
url = "https://a.invalid/"
tags = ["news"]
"""


async def test_a_list_gives_tags_settings(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    file.write_text(LIST)
    (tmp_path / "news.token").write_text("hush\n")
    await tag(api, "old", weight=5)
    await read_list(file, api.control, sync=False)
    news = api.store.sites.tags.in_force["news"]
    assert (news.settings["min_interval"], news.access.credentials is not None) == (900.0, True)
    file.write_text(LIST.replace("15m", "30m"))
    await read_list(file, api.control, sync=False)
    assert api.store.sites.tags.in_force["news"].settings["min_interval"] == 900.0, "without sync what there is stays"
    await read_list(file, api.control, sync=True)
    assert {name: one.settings["min_interval"] for name, one in api.store.sites.tags.in_force.items()} == {
        "news": 1800.0
    }
    file.write_text(LIST.replace("15m", "-1"))
    with pytest.raises(ConfigError, match=r"tags\.news\.min_interval"):
        await asyncio.to_thread(check_list, file)


@pytest.mark.parametrize(
    ("given", "shown"), [(True, True), (False, False), ("strict", True), ("off", False), ("hint", "hint"), (None, None)]
)
async def test_whether_a_ttl_is_respected_takes_words_and_what_it_took_before(api: Api, given: Any, shown: Any) -> None:
    """Programs outside read true and false where they wrote them."""
    site = (await api("POST", "/sites", {"url": URL, "tags": ["news"], "respect_ttl": given})).json
    assert site["respect_ttl"] is shown or site["respect_ttl"] == shown == "hint"
    assert (await tag(api, "news", respect_ttl=given))["respect_ttl"] == shown
    await api("PATCH", f"/sites/{site['id']}", {"respect_ttl": None})
    assert (await api("GET", f"/sites/{site['id']}")).json["respect_ttl"] == shown, "its tag's"
    refused = await api("PATCH", f"/sites/{site['id']}", {"respect_ttl": "perhaps"})
    assert refused.status == 422
    assert "off, hint or strict" in str(refused.json)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("csv", "url,respect_ttl\nhttp://a/,true\nhttp://b/,HINT\nhttp://c/,off\nhttp://d/,\n"),
        (
            "jsonl",
            '{"url": "http://a/", "respect_ttl": true}\n{"url": "http://b/", "respect_ttl": "hint"}\n'
            '{"url": "http://c/", "respect_ttl": "off"}\n{"url": "http://d/", "respect_ttl": null}\n',
        ),
    ],
)
async def test_lists_take_words_and_exports_can_be_read_again(api: Api, form: str, text: str) -> None:
    for _ in range(2):
        reply = await api("POST", "/sites/import", data=text.encode(), headers={"Content-Type": Format(form).media})
        assert reply.json["rejected"] == []
        sites = (await api("GET", "/sites?sort=url")).json["items"]
        assert [site["respect_ttl"] for site in sites] == [True, "hint", False, None]
        text = (await api("GET", f"/sites/export?format={form}")).body.decode()
        for site in sites:
            await api("DELETE", f"/sites/{site['id']}")
