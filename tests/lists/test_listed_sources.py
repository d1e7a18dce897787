"""Sources in a TOML or YAML list: what a list adds, what --sync sets, and which sites go with a source."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pollerd.app.url_list import check_list, read_list
from pollerd.errors import ConfigError
from pollerd.site_settings import SiteSpec
from pollerd.storage.sources import SourceSpec
from tests.daemon.conftest import Running, Start

A, B, C = "https://a.invalid/", "https://b.invalid/", "https://c.invalid/"
MAP, FEED, OTHER = "https://a.invalid/map.xml", "https://a.invalid/feed", "https://b.invalid/map.xml"
TOML = f"""
[[sites]]
url = "{A}"

[[sources]]
url = "{MAP}"
tags = ["news"]
interval = "2h"
limit = 50

[[sources]]
url = "{FEED}"
kind = "feed"
"""
WANTED = {
    MAP: SourceSpec(MAP, tags=("news",), site_limit=50, interval=7200.0),
    FEED: SourceSpec(FEED, "feed", hosts="any"),
}


async def sources_of(running: Running) -> dict[str, SourceSpec]:
    return {source.spec.url: source.spec for source in await running.store.sources.all()}


async def sites_of(running: Running) -> set[str]:
    return {site.spec.url async for site in running.store.sites.iterate()}


async def take(running: Running, file: Path, text: str, *, sync: bool) -> None:
    file.write_text(text)
    await asyncio.to_thread(check_list, file)
    await read_list(file, running.control, sync=sync)


async def test_without_sync_a_list_adds_what_is_not_there(start: Start, any_database: str, tmp_path: Path) -> None:
    async with start(url=any_database) as running:
        await running.control.sources.add(SourceSpec(MAP, weight=5.0))
        await take(running, tmp_path / "x.toml", TOML, sync=False)
        assert await sources_of(running) == {MAP: SourceSpec(MAP, weight=5.0), FEED: WANTED[FEED]}


async def test_with_sync_the_list_is_the_truth(start: Start, any_database: str, tmp_path: Path) -> None:
    """A source that is not in it goes, with the sites that it added; those of other sources stay."""
    async with start(url=any_database) as running:
        await running.control.sources.add(SourceSpec(FEED))  # of another kind, which cannot be changed
        drifted = await running.control.sources.add(SourceSpec(MAP, weight=5.0, paused=False))
        gone = await running.control.sources.add(SourceSpec(OTHER))
        await running.control.sites.add([SiteSpec(A), SiteSpec(B)])
        await running.control.sites.add([SiteSpec(f"{A}page"), SiteSpec(B)], source=drifted.id)
        await running.control.sites.add([SiteSpec(f"{B}page"), SiteSpec(f"{A}page")], source=gone.id)
        await take(running, tmp_path / "x.toml", TOML, sync=True)
        assert await sources_of(running) == WANTED
        assert await sites_of(running) == {A, f"{A}page"}
        again = {source.spec.url: source.id for source in await running.store.sources.all()}
        assert again[MAP] == drifted.id
        await take(running, tmp_path / "x.toml", TOML, sync=True)
        assert {source.spec.url: source.id for source in await running.store.sources.all()} == again
        await take(running, tmp_path / "x.txt", f"{C}\n", sync=True)
        assert await sources_of(running) == WANTED, "a format that cannot name sources leaves them alone"
        assert await sites_of(running) == {C, f"{A}page"}
        await take(running, tmp_path / "x.yaml", f"sites: [{C}]\nsources: []\n", sync=True)
        assert await sources_of(running) == {}
        assert await sites_of(running) == {C}


async def test_a_line_that_cannot_be_used_removes_no_source(start: Start, tmp_path: Path) -> None:
    async with start() as running:
        await running.control.sources.add(SourceSpec(OTHER))
        text = f"sites: [{{url: '{A}', weight: -1}}]\nsources: ['{MAP}']\n"
        await take(running, tmp_path / "x.yml", text, sync=True)
        assert (await sources_of(running)).keys() == {OTHER, MAP}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sources: 7", "sources must be a list of tables; given: a number"),
        ("sources: [7]", r"sources\[0\] must be a URL, or a table with a url"),
        (f"sources: ['{MAP}', 'x']", r"sources\[1\]\.url: must be an absolute http"),
        (f"sources: [{{url: '{MAP}', kind: rss}}]", r"sources\[0\]\.kind: must be"),
        (f"sources: [{{url: '{MAP}', wat: 1}}]", r"sources\[0\]\.wat: must be"),
        (f"sources: [{{url: '{MAP}', pattern: 're:('}}]", r"sources\[0\]\.pattern: must be"),
        (f"sources: ['{MAP}', '{MAP}']", r"sources\[1\]\.url: .* is listed twice"),
        ("sources: [{kind: feed}]", r"sources\[0\]\.url: must be"),
    ],
)
def test_a_mistake_refuses_the_list_as_a_whole(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=told):
        check_list(file)
