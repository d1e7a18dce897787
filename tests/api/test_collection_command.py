"""`pollerd collection` against a served API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from typer.testing import CliRunner, Result

from pollerd.cli.collection import app
from pollerd.storage.store import Store
from tests.api.conftest import Api
from tests.support.collections import LEADS, SEEDS, fill

Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def run(api: Api, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`await run("status")` runs the command against the API."""
    monkeypatch.setenv("POLLERD_URL", api.root)

    async def invoke(*words: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, list(words))

    return invoke


async def test_status_and_pages(run: Run, store: Store) -> None:
    await fill(store)
    shown = dict(line.split("\t") for line in (await run("status")).stdout.splitlines())
    assert (shown["topic"], shown["size"], shown["harvest_rate"], shown["pages fringe"]) == ("mills", "1", "0.5", "2")
    assert json.loads((await run("status", "--json")).stdout)["pages"]["rejected"] == 1
    lines = [line.split("\t") for line in (await run("pages", "--state", "fringe")).stdout.splitlines()]
    assert [line[2] for line in lines] == ["url", *(lead.url for lead in LEADS)]
    found = json.loads((await run("pages", "--min-relevance", "0.3", "--json")).stdout)
    assert [page["url"] for page in found] == [SEEDS[0]]


async def test_exports(run: Run, store: Store, tmp_path: Path) -> None:
    await fill(store)
    graph = tmp_path / "mills.graphml"
    assert (await run("export", str(graph))).exit_code == 0
    assert fromstring(graph.read_bytes()).tag.endswith("graphml")
    links = tmp_path / "links.csv"
    assert (await run("export", str(links), "--part", "links")).exit_code == 0
    assert links.read_text().splitlines()[0] == "source_id,target_id,anchor"
    assert [json.loads(line)["url"] for line in (await run("export")).stdout.splitlines()][:2] == list(SEEDS)
    assert (await run("export", "--format", "csv")).stdout.startswith("id,url,")


@pytest.mark.parametrize("words", [("status",), ("pages",), ("export",)])
async def test_without_a_topic_it_says_so(run: Run, words: tuple[str, ...]) -> None:
    result = await run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no topic was ever set" in result.stderr
