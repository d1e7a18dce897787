"""`pollerd sites diff`: what a list would change of channels and rules."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pollerd.app.url_list import read_list
from pollerd.cli.commands import app
from tests.api.conftest import Api

TEXT = """
channels:
  - {name: hook, kind: webhook, url: "https://example.org/hook", secret_file: hook.key}
rules:
  - {name: all, channels: [hook]}
"""


async def test_what_a_list_would_change(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLERD_URL", api.root)
    key, file = tmp_path / "hook.key", tmp_path / "list.yaml"
    key.write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    async def diff(text: str, *words: str) -> Result:
        file.write_text(text)
        return await asyncio.to_thread(CliRunner().invoke, app, ["sites", "diff", str(file), *words])

    first = await diff(TEXT)
    assert (first.exit_code, first.stdout.splitlines()[:2]) == (1, ["+ channel hook", "+ rule all"])
    await read_list(file, api.control, sync=False)
    assert (await diff(TEXT)).exit_code == 0
    key.write_text("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
    found = json.loads((await diff(TEXT.replace("/hook", "/other"), "--json")).stdout)
    [one] = found["channels"]["changed"]
    assert [(field["field"], field["note"]) for field in one["fields"]] == [
        ("url", None),
        ("secrets", "secrets differ"),
    ]
    assert "whsec" not in json.dumps(found)
    assert (await diff("sites: []\n")).stdout.splitlines()[:2] == ["- channel hook", "- rule all"]
    answer = await api("POST", "/rules/diff", {"rules": [{"name": "all", "channels": []}]})
    assert (answer.status, "rules[0].channels" in answer.body.decode()) == (422, True)
