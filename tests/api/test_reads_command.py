"""`pollerd reads` and `pollerd sites show` against a served API."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from typer.testing import CliRunner, Result

from pollerd.cli import reads, sites
from pollerd.timestamps import rfc3339
from tests.api.conftest import Api
from tests.storage.samples import poll_all

URL = "https://a.invalid/x"
DAY = 86_400.0


async def invoke(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, reads.app, list(words))


async def test_reads_are_reported_shown_and_forgotten(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLERD_URL", api.root)
    site, now = await api.add(URL), time.time()
    for i in range(8, 0, -1):
        await poll_all(api.store, [site], now - DAY * i, f"{i}".encode(), changed=True)
    changes = (await api("GET", f"/sites/{site}/changes?order=oldest")).json["items"]
    for i, change in enumerate(changes):
        at = rfc3339(now - DAY * (8 - i) + 600.0)
        words = ("report", URL, "--at", at, "--count", "20", "--change", str(change["id"]), "--name", f"r{i}", "--json")
        assert json.loads((await invoke(*words)).stdout)["reads"] == 20
        assert json.loads((await invoke(*words)).stdout)["repeated"]
    shown = json.loads((await invoke("site", URL, "--json")).stdout)
    assert (shown["reads"], shown["changes"]) == (160, 8)
    assert shown["half_life"] < 3_600
    assert (await api("GET", f"/sites/{site}")).json["learned_half_life"] == shown["learned_half_life"]
    explained = (await api("GET", f"/sites/{site}/explain")).json
    assert explained["half_life_in_force"] == shown["learned_half_life"]
    assert explained["origins"]["half_life"] == "reads"
    listed = (await api("GET", "/sites")).json["items"]
    assert [one["learned_half_life"] for one in listed] == [shown["learned_half_life"]]
    lines = (await invoke("site", str(site))).stdout
    assert "160 reads of 8 changes: interest halves in " in lines
    late = await invoke("report", str(site), "--at", rfc3339(now + DAY))
    assert late.exit_code != 0
    assert "reads[0].at" in late.stderr
    assert (await invoke("report", str(site))).exit_code == 0
    assert (await invoke("forget", URL)).stdout == f"forgot the reads of {site}\n"
    assert (await invoke("forget", URL)).exit_code != 0
    assert (await api("GET", f"/sites/{site}")).json["learned_half_life"] is None


async def test_a_site_is_shown_with_what_reads_taught(
    api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLLERD_URL", api.root)
    site = await api.add(URL)
    await asyncio.to_thread(sites.show, str(site))
    shown = dict(line.split("\t")[:2] for line in capsys.readouterr().out.splitlines())
    assert (shown["half_life_in_force"], shown["learned_half_life"]) == ("1d", "")
