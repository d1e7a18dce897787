"""`pollerd sites` against a served API."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from pollerd.api import ApiSettings
from pollerd.cli.sites import app

from .conftest import Api, NewApi

URL = "https://example.org/news"
Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def run(api: Api, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`await run("list", "--json")` runs the command against the API."""
    monkeypatch.setenv("POLLERD_URL", api.root + "/")
    return invoke


async def invoke(*words: str, stdin: bytes | None = None) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, list(words), input=stdin)


async def test_sites_are_added_listed_shown_and_removed(run: Run, api: Api) -> None:
    added = await run("add", URL, "https://b.org", "--weight", "2", "--tag", "x", "--tag", "y", "--max-interval", "60")
    assert added.exit_code == 0, added.output
    sites = json.loads((await run("list", "--json")).stdout)
    assert [(s["url"], s["weight"], s["tags"], s["max_interval"]) for s in sites] == [
        (URL, 2.0, ["x", "y"], 60.0),
        ("https://b.org/", 2.0, ["x", "y"], 60.0),
    ]
    lines = (await run("list", "--tag", "x", "--q", "b.org")).stdout.splitlines()
    assert [line.split("\t")[:3] for line in lines] == [[str(sites[1]["id"]), "active", "https://b.org/"]]
    shown = json.loads((await run("show", URL, "--json")).stdout)
    assert (shown["id"], shown["explain"]["site_id"]) == (sites[0]["id"], sites[0]["id"])
    plain = dict(line.split("\t") for line in (await run("show", str(shown["id"]))).stdout.splitlines())
    assert (plain["url"], plain["allocator"]) == (URL, "whittle")
    removed = await run("remove", URL, str(sites[1]["id"]))
    assert removed.exit_code == 0, removed.output
    assert (await run("list")).stdout == ""


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "opml", "txt"])
async def test_what_is_exported_can_be_imported(run: Run, api: Api, tmp_path: Path, suffix: str) -> None:
    await run("add", URL, "--tag", "x", "--min-interval", "5", "--weight", "3")
    await run("add", "https://b.org/?a=1,2")
    before = json.loads((await run("list", "--json")).stdout)
    file = tmp_path / f"sites.{suffix}"
    assert (await run("export", str(file))).exit_code == 0
    await run("remove", URL, "https://b.org/?a=1,2")
    imported = await run("import", str(file))
    assert (imported.exit_code, imported.stdout) == (0, "2 added, 0 existed already, 0 rejected\n")
    after = json.loads((await run("list", "--json")).stdout)
    kept = ("url",) if suffix == "txt" else ("url", "weight", "cost", "tags", "min_interval", "max_interval")
    assert [[s[name] for name in kept] for s in after] == [[s[name] for name in kept] for s in before]


async def test_standard_input_and_output(run: Run) -> None:
    imported = await run("import", "-", stdin=b"https://a.org/\nnonsense\n")
    assert imported.exit_code == 1
    assert "line 2: url:" in imported.stderr
    assert imported.stdout == "1 added, 0 existed already, 1 rejected\n"
    assert (await run("export")).stdout == "https://a.org/\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "nonsense"), "url: must be"),
        (("add", URL, "--weight", "-1"), "weight: must be"),
        (("show", "77"), "no such site: 77"),
        (("remove", "https://nowhere.org"), "no such site: https://nowhere.org/"),
        (("show", "nonsense"), "url: must be"),
        (("list", "--url", "127.0.0.1:8080"), "url: must be as in http://"),
        (("export", "/nowhere/sites.csv"), "cannot be written"),
    ],
)
async def test_mistakes_end_with_one_clear_line(run: Run, words: tuple[str, ...], told: str) -> None:
    result = await run(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


async def test_no_daemon_answers(run: Run) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        result = await run("list", "--url", url)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"pollerd: no daemon answers at {url}: ")


async def test_a_token_is_asked_for_and_given(new_api: NewApi, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = await new_api(ApiSettings.listening("127.0.0.1:0", token="full", read_token="read"))
    without = await invoke("list", "--url", guarded.root)
    assert (without.exit_code, "POLLERD_TOKEN" in without.stderr) == (1, True)
    assert (await invoke("add", URL, "--url", guarded.root, "--token", "full")).exit_code == 0
    monkeypatch.setenv("POLLERD_TOKEN", "read")
    assert URL in (await invoke("list", "--url", guarded.root)).stdout
    refused = await invoke("remove", URL, "--url", guarded.root)
    assert (refused.exit_code, "does not allow to write" in refused.stderr) == (1, True)
