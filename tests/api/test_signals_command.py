"""`pollerd signals` against a served API."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner, Result

from pollerd.cli.signals import app
from tests.api.conftest import Api

URL = "https://a.invalid/map.xml"


async def invoke(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, list(words))


async def test_sources_are_added_listed_and_removed_and_changes_reported(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLLERD_URL", api.root)
    site = (await api("POST", "/sites", {"url": URL})).json
    added = json.loads((await invoke("add", URL, "--hosts", "any", "--json")).stdout)
    assert (added["site_id"], added["kind"], added["hosts"]) == (site["id"], "sitemap", "any")
    assert (await invoke("add", "cms", "--kind", "push")).exit_code == 0
    reported = await invoke("report", "cms", URL, "--at", "2026-01-31T12:00:00Z", "--json")
    assert json.loads(reported.stdout) == {"signals": 1, "ignored": 0}
    lines = [line.split("\t") for line in (await invoke("list")).stdout.splitlines()]
    assert [(line[1], line[-1]) for line in lines[1:]] == [
        ("sitemap", "no track record yet"),
        ("push", "no track record yet"),
    ]
    said = json.loads((await invoke("site", URL, "--json")).stdout)
    assert [(one["date"], one["waiting"]) for one in said] == [("2026-01-31T12:00:00.000Z", True)]
    assert json.loads((await invoke("show", str(added["id"]), "--json")).stdout)["url"] == URL
    assert (await invoke("remove", str(added["id"]))).stdout == f"removed {added['id']}\n"
    assert len(json.loads((await invoke("list", "--json")).stdout)) == 1


@pytest.mark.parametrize("words", [("add", "https://none.invalid"), ("show", "99"), ("report", "cms", URL)])
async def test_what_is_not_there_is_said(api: Api, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("POLLERD_URL", api.root)
    result = await invoke(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("pollerd: ")
