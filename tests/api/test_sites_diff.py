"""What a list would change, over REST and as `pollerd sites diff`; afterwards `--sync` does just that."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pollerd.app.url_list import read_list
from pollerd.cli.commands import sites as commands
from pollerd.cli.lists import diff
from tests.api.conftest import Api

A, B, C, D = (f"https://{name}.invalid/" for name in "abcd")
DIFF = "/sites/diff?format=jsonl&sync=true"


@pytest.fixture
def app() -> Any:
    import typer

    made = typer.Typer()
    made.command()(diff)
    return made


async def ask(api: Api, *lines: dict[str, Any], path: str = DIFF) -> Any:
    data = "\n".join(map(json.dumps, lines)).encode()
    reply = await api("POST", path, data=data, headers={"Content-Type": "application/octet-stream"})
    assert reply.status == 200, reply.body
    return reply.json


async def test_settings_are_compared_field_by_field(api: Api) -> None:
    site_id = await api.add(A, weight=2, tags=["x", "y"], max_interval=60)
    await api.add(B)
    found = await ask(api, {"url": A, "tags": ["y", "x"], "paused": True, "half_life": 5}, {"url": C})
    assert found["changed"] == [
        {
            "id": site_id,
            "url": A,
            "fields": [
                {"field": "weight", "before": 2.0, "after": None, "note": None},
                {"field": "tags", "before": ["x", "y"], "after": ["y", "x"], "note": None},
                {"field": "max_interval", "before": 60.0, "after": None, "note": None},
                {"field": "half_life", "before": None, "after": 5.0, "note": None},
                {"field": "paused", "before": False, "after": True, "note": None},
            ],
        }
    ]
    assert (found["added"], found["removed"], found["existing"]) == ([C], [B], 1)
    without = await ask(api, {"url": A, "weight": 9}, {"url": C}, path="/sites/diff?format=jsonl")
    assert (without["added"], without["removed"], without["changed"]) == ([C], [], [])
    assert len((await api("GET", "/sites")).json["items"]) == 2


async def test_secrets_are_compared_and_never_shown(api: Api) -> None:
    secret = {
        "headers": {"Cookie": "id=hush"},
        "credentials": {"username": "me", "password": "hush"},
        "proxy": "http://me:hush@proxy.invalid:3128",
    }
    for url in (A, B, C):
        await api.add(url, **secret)
    other = json.loads(json.dumps(secret).replace("hush", "mum"))
    found = await ask(api, {"url": A, **secret}, {"url": B, **other}, {"url": C})
    assert "hush" not in json.dumps(found)
    assert "mum" not in json.dumps(found)
    assert [site["url"] for site in found["changed"]] == [B, C]
    note = "another value, which is not shown"
    assert found["changed"][0]["fields"] == [
        {"field": "headers", "before": ["Cookie"], "after": ["Cookie"], "note": note},
        {"field": "credentials", "before": "set", "after": "set", "note": note},
        {"field": "proxy", "before": "http://proxy.invalid:3128", "after": "http://proxy.invalid:3128", "note": note},
    ]
    assert [(f["field"], f["after"], f["note"]) for f in found["changed"][1]["fields"]] == [
        ("headers", None, None),
        ("credentials", None, None),
        ("proxy", None, None),
    ]


async def test_what_was_deleted_by_hand_comes_back_with_sync_only(api: Api) -> None:
    await api("DELETE", f"/sites/{await api.add(A)}")
    found = await ask(api, {"url": A}, {"url": B}, path="/sites/diff?format=jsonl")
    assert (found["added"], found["left_out_as_deleted"]) == ([B], [A])
    assert (await ask(api, {"url": A}))["added"] == [A]


async def test_lines_that_cannot_be_used_are_named_and_a_list_of_them_removes_nothing(api: Api) -> None:
    await api.add(A)
    found = await ask(api, {"url": "nonsense"}, {"url": B, "weight": -1})
    assert [line["line"] for line in found["rejected"]] == [1, 2]
    assert (found["rejected_count"], found["removed_count"]) == (2, 0)
    slip = await ask(api, {"url": A, "weight": -1}, {"url": B})
    assert (slip["added_count"], slip["removed_count"], slip["rejected_count"]) == (1, 0, 1)
    twice = await ask(api, {"url": A}, {"url": A, "weight": 2})
    assert "is in the list already" in twice["rejected"][0]["reason"]
    assert twice["changed_count"] == 0


async def run(app: Any, api: Api, *words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, [*words, "--url", api.root])


LISTS = {
    "txt": f"{A}\n{D}\n",
    "csv": f"url,weight,tags\n{A},3,x\n{D},,\n",
    "jsonl": f'{{"url": "{A}", "weight": 3}}\n{{"url": "{D}"}}\n',
    "opml": f'<opml version="2.0"><body><outline text="x" xmlUrl="{A}"/><outline xmlUrl="{D}"/></body></opml>',
    "toml": f'[defaults]\nweight=3\n[[sites]]\nurl = "{A}"\ncredentials={{token_file="t"}}\n[[sites]]\nurl = "{D}"\n',
    "yml": f"defaults: {{min_interval: 1h}}\nsites:\n- {{url: '{A}', tags: [x, y]}}\n- {D}\n",
}


@pytest.mark.parametrize("suffix", LISTS)
async def test_the_command_says_what_sync_then_does(app: Any, api: Api, tmp_path: Path, suffix: str) -> None:
    await api.add(A, weight=7, credentials={"token": "hush"})
    await api.add(B)
    (tmp_path / "t").write_text("another\n")
    file = tmp_path / f"sites.{suffix}"
    file.write_text(LISTS[suffix])
    told = await run(app, api, str(file), "--sync")
    assert told.exit_code == 1, told.output
    assert (
        f"+ {D}\n- {B}\n~ {A}\n    weight: 7 -> {3 if suffix in ('csv', 'jsonl', 'toml') else 'unset'}\n" in told.stdout
    )
    note = "another value, which is not shown" if suffix == "toml" else "unset"
    assert f"    credentials: set -> {note}\n" in told.stdout
    assert told.stdout.endswith("1 added, 1 changed, 1 removed, 0 rejected\n")
    assert "hush" not in told.output
    assert "another\n" not in told.output
    await read_list(file, api.control, sync=True)
    after = await run(app, api, str(file), "--sync", "--json")
    assert after.exit_code == 0, after.output
    assert json.loads(after.stdout)["existing"] == 2


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("x.txt", "nonsense", "x.txt, line 1: url: must be"),
        ("x.toml", "[[sites]\n", "x.toml: no TOML"),
        ("x.toml", "sites = [7, 'https://a.invalid', 'x']", "x.toml, entry 1: site: must be a URL, or a table"),
        ("x.toml", "sites = [7, 'https://a.invalid', 'x']", "x.toml, entry 3: url: must be"),
        ("x.docx", "x", "unknown format .docx; known: .txt"),
        ("x.csv", "nonsense", "header: unknown column"),
    ],
)
async def test_what_cannot_be_told_ends_with_2(
    app: Any, api: Api, tmp_path: Path, name: str, text: str, told: str
) -> None:
    (tmp_path / name).write_text(text)
    result = await run(app, api, str(tmp_path / name))
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize(
    ("url", "told"), [("http://127.0.0.1:1", "no daemon answers"), ("nonsense", "url: must be an address")]
)
async def test_no_daemon_is_no_difference(app: Any, tmp_path: Path, url: str, told: str) -> None:
    (tmp_path / "x.txt").write_text(A)
    result = await asyncio.to_thread(CliRunner().invoke, app, [str(tmp_path / "x.txt"), "--url", url])
    assert result.exit_code == 2
    assert told in result.stderr


MAP, FEED = "https://a.invalid/map.xml", "https://a.invalid/feed"
DOCUMENT = f"""
sites: []
tags:
  new: {{weight: 2}}
  same: {{weight: 3}}
  news:
    weight: 2
    headers: {{X-Key: another}}
    body: new
    selections: {{default: {{steps: [{{keep: {{css: main}}}}]}}}}
sources:
- {MAP}
- {{url: "{FEED}", kind: feed, weight: 2}}
"""


async def test_tags_and_sources_are_compared(app: Any, api: Api, tmp_path: Path) -> None:
    await api("PUT", "/tags/same", {"weight": 3})
    await api("PUT", "/tags/news", {"weight": 1, "headers": {"X-Key": "hush"}, "render": "browser"})
    await api("PUT", "/tags/old", {"weight": 1})
    await api("POST", "/sources", {"url": FEED, "kind": "feed"})
    await api("POST", "/sources", {"url": f"{B}map.xml"})
    file = tmp_path / "x.yaml"
    file.write_text(DOCUMENT)
    told = await run(app, api, str(file), "--sync")
    assert told.exit_code == 1, told.output
    for line in (
        "+ tag new",
        "- tag old",
        "~ tag news",
        "    weight: 1 -> 2",
        "    cost: 20 -> unset",
        "    headers: X-Key -> another value, which is not shown",
        "    body: unset -> set",
        "    render: browser -> unset",
        '    selections: unset -> {"default": {"steps": [{"keep": {"css": "main"}}]}}',
        f"+ source {MAP}",
        f"- source {B}map.xml, with the sites that it added and that are not in the list",
        f"~ source {FEED}",
    ):
        assert f"{line}\n" in told.stdout, (line, told.stdout)
    assert "tag same" not in told.stdout
    assert told.stdout.endswith(
        "0 rejected; tags: 1 added, 1 changed, 1 removed; sources: 1 added, 1 changed, 1 removed\n"
    )
    assert "hush" not in told.output
    without = json.loads((await run(app, api, str(file), "--json")).stdout)
    assert without["tags"] == {"added": ["new"], "changed": [], "removed": []}
    assert without["sources"] == {"added": [MAP], "changed": [], "removed": []}
    await read_list(file, api.control, sync=True)
    after = await run(app, api, str(file), "--sync")
    assert (after.exit_code, after.stdout) == (0, "0 added, 0 changed, 0 removed, 0 rejected\n")


async def test_tags_and_sources_that_cannot_be_are_refused(app: Any, api: Api, tmp_path: Path) -> None:
    reply = await api("POST", "/tags/diff", {"tags": {"a": {"weight": -1}}})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "tags.a.weight")
    reply = await api("POST", "/sources/diff", {"sources": [{"url": MAP, "limit": 0}]})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "sources[0].limit")
    file = tmp_path / "x.toml"
    file.write_text('[[sources]]\nurl = "x"\n')
    told = await run(app, api, str(file))
    assert (told.exit_code, "sources[0].url" in told.stderr) == (2, True)


async def test_bodies_of_sites_are_compared_and_never_shown(api: Api) -> None:
    await api.add(A, body="hush")
    [found] = (await ask(api, {"url": A, "body": "another"}))["changed"]
    note = "another value, which is not shown"
    assert found["fields"] == [{"field": "body", "before": "set", "after": "set", "note": note}]


async def test_signal_sources_are_compared_and_imported(
    app: Any, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(f"signal_sources: [{MAP}, {{url: '{FEED}', kind: feed}}, {{name: cms, kind: push}}]")
    told = await run(app, api, str(file))
    assert told.exit_code == 1, told.output
    for line in (f"+ {MAP}", f"+ {FEED}", f"+ signal source {MAP}", f"+ signal source {FEED}", "+ signal source cms"):
        assert f"{line}\n" in told.stdout, (line, told.stdout)
    monkeypatch.setenv("POLLERD_URL", api.root)
    imported = await asyncio.to_thread(CliRunner().invoke, commands, ["import", str(file)])
    assert imported.exit_code == 0, imported.output
    shown = (await api("GET", "/signal-sources")).json["items"]
    assert [(one["kind"], one["url"] or one["name"], one["origin"]) for one in shown] == [
        ("sitemap", MAP, "api"),
        ("feed", FEED, "api"),
        ("push", "cms", "api"),
    ]
    changed = await run(app, api, str(file))
    assert f"~ signal source {MAP}\n    origin: api -> file\n" in changed.stdout
    await read_list(file, api.control, sync=True)
    after = await run(app, api, str(file), "--sync")
    assert (after.exit_code, after.stdout) == (0, "0 added, 0 changed, 0 removed, 0 rejected\n")
    file.write_text("sites: []")
    assert "- signal source cms\n" in (await run(app, api, str(file))).stdout
