"""The examples in the help of commands are run, in their order, against a daemon that has what they name."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pollerd.cli.commands import app
from tests.cli.test_help import IN_HELP
from tests.web.conftest import Web

PREPARED = """
sites bulk tag news --all
sites bulk tag old --all
sites bulk untag old --all
sites add https://example.org/feed
channels add mail --kind webhook --set url=https://example.org/hook
""".strip().splitlines()
BEFORE = {"pollerd plan": "sites bulk resume --all"}  # an example before it pauses them
NOT_HERE = ("pollerd run ", "pollerd demo ", "pollerd sites preview ", "pollerd collection ", "pollerd users add ")
"""They end with a signal, fetch from the internet, need a topic, or ask at a terminal; other tests run the commands."""


async def called(words: list[str], root: str, typed: str = "") -> tuple[int, str]:
    """Runs a command; returns its exit code and what it wrote."""
    result = await asyncio.to_thread(
        CliRunner().invoke, app, words, input=typed, env={"POLLERD_URL": root, "COLUMNS": "300"}
    )
    return result.exit_code, f"{result.output}{result.exception or ''}"


async def test_examples_run(busy: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sites.csv").write_text("url,weight\nhttps://new.example/b,2\nhttps://new.example/c,3\n")
    for n in range(3, 9):
        url = f"https://example.org/{n}"
        await busy.poll(await busy.api.add(url, tags=["shop"]), url, ["one\n", "two\n", "three\n"])
    for line in PREPARED:
        code, written = await called(line.split(), busy.root)
        assert code == 0, (line, written)
    refused = {}
    for line in IN_HELP:
        if line.startswith(NOT_HERE):
            continue
        if before := BEFORE.get(" ".join(line.split()[:2])):
            assert (await called(before.split(), busy.root))[0] == 0
        code, written = await called(shlex.split(line.split(" > ")[0])[1:], busy.root, "a long password\n" * 2)
        if code:
            refused[line] = written
    assert refused == {}, "\n".join(f"{k} => {v}" for k, v in refused.items())
