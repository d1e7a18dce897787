"""The list of `pollerd run`: every format, and what --sync sets back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import CapturingLogger

from pollerd.app.url_list import check_list, list_at_once, read_list
from pollerd.errors import ConfigError
from pollerd.model import Site
from pollerd.site_settings import Access, Credentials, SiteSpec
from pollerd.storage.keys import new_key
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from tests.daemon.conftest import Running, Start

A, B, C = "https://a.invalid/", "https://b.invalid/", "https://c.invalid/"
LISTS = {
    "txt": f"{A}\n# none\n{B}\n",
    "csv": f"url,weight,tags\n{A},2,x;y\n{B},,\n",
    "jsonl": f'{{"url": "{A}", "weight": 2, "tags": ["x", "y"]}}\n{{"url": "{B}"}}\n',
    "opml": f'<opml version="2.0"><body><outline text="x" xmlUrl="{A}"/><outline xmlUrl="{B}"/></body></opml>',
    "toml": f'[[sites]]\nurl = "{A}"\nweight = 2\ntags = ["x", "y"]\n[[sites]]\nurl = "{B}"\n',
    "yaml": f"sites:\n- {{url: '{A}', weight: 2, tags: [x, y]}}\n- {B}\n",
}


@pytest.fixture
def said() -> Iterator[CapturingLogger]:
    logger, before = CapturingLogger(), structlog.get_config()
    structlog.configure(processors=[structlog.processors.add_log_level], logger_factory=lambda *_: logger)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield logger
    structlog.configure(**before)
    root.handlers[:], root.level = handlers, level


async def sites_of(store: Store) -> dict[str, Site]:
    return {site.spec.url: site async for site in store.sites.iterate()}


def events(said: CapturingLogger, name: str) -> list[dict[str, Any]]:
    return [call.kwargs for call in said.calls if call.kwargs.get("event") == name]


@pytest.mark.parametrize("suffix", LISTS)
async def test_every_format(start: Start, tmp_path: Path, said: CapturingLogger, suffix: str) -> None:
    file = tmp_path / f"sites.{suffix}"
    file.write_text(LISTS[suffix])
    await asyncio.to_thread(check_list, file)
    assert (await asyncio.to_thread(list_at_once, file)).getvalue() == file.read_bytes()
    async with start() as running:
        await read_list(file, running.control, sync=False)
        found = await sites_of(running.store)
    assert list(found) == [A, B]
    if suffix not in ("txt", "opml"):
        assert (found[A].spec.weight, found[A].spec.tags) == (2.0, ("x", "y"))
    assert events(said, "list_read")[0]["added"] == 2


@pytest.mark.parametrize("name", ["sites.json", "sites.xlsx", "list.conf"])
def test_an_unknown_format_names_the_known(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(A)
    with pytest.raises(ConfigError, match=r"unknown format \.\w+; known: \.txt, \.csv, .*\.yml"):
        check_list(file)


def test_what_is_broken_as_a_whole_is_told_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    file.write_text("[[sites]\n")
    with pytest.raises(ConfigError, match=r"sites\.toml: no TOML"):
        check_list(file)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sites.txt", "example.org\nhtps://a.invalid/\n"),
        ("sites.csv", "url,weight\nhttps://a.invalid/,much\n"),
        ("sites.yaml", "sites: [example.org]\n"),
        ("sites.opml", '<opml><outline xmlUrl="nonsense"/></opml>'),
    ],
)
def test_a_list_of_which_nothing_can_be_used_is_refused_at_the_start(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=r"names no site that can be used; (line|entry) [12]: "):
        check_list(tmp_path / name)


@pytest.mark.parametrize(("text", "said_so"), [("# later\n\n", True), (f"{A}\n", False)])
async def test_a_list_without_sites_says_so(
    start: Start, tmp_path: Path, said: CapturingLogger, text: str, said_so: bool
) -> None:
    file = tmp_path / "sites.txt"
    file.write_text(text)
    check_list(file)
    async with start() as running:
        await read_list(file, running.control, sync=False)
    assert [event["reason"] for event in events(said, "list_without_sites")] == ["it names no site"] * said_so


async def test_a_list_in_utf_16_of_a_pipe_or_a_document(start: Start, tmp_path: Path) -> None:
    for name in ("sites.txt", "sites.toml", "sites.yaml", "sites.csv"):
        (tmp_path / name).write_bytes(LISTS[name.rpartition(".")[2]].encode("utf-16"))
        async with start() as running:
            await read_list(tmp_path / name, running.control, sync=False)
            assert list(await sites_of(running.store)) == [A, B]


async def settled(running: Running, file: Path, text: str) -> dict[str, Site]:
    file.write_text(text)
    await read_list(file, running.control, sync=True)
    return await sites_of(running.store)


async def test_sync_makes_the_file_the_whole_truth(
    start: Start, any_database: str, tmp_path: Path, said: CapturingLogger
) -> None:
    """Settings, tags, pauses and secrets come to be the file's; what it leaves out goes back to its default."""
    secret = Access((("Cookie", "id=7"),), Credentials("reader", "hush"), "http://proxy.invalid:3128")
    async with start(url=any_database, storage=StorageSettings(secret_key=new_key())) as running:
        drifted = SiteSpec(A, 9.0, 2.0, ("hand",), 5.0, 50.0, half_life=500.0, access=secret, paused=True)
        await running.control.sites.add([drifted, SiteSpec(B, tags=("x",)), SiteSpec(C)])
        stored = await running.store.sites.find(C)
        assert stored is not None
        gone = stored.id
        file = tmp_path / "sites.yaml"
        text = f"defaults: {{weight: 3}}\nsites:\n- {{url: '{A}', max_interval: 1h, tags: [file]}}\n- {B}\n- {A}\n"
        found = await settled(running, file, text)
        assert found.keys() == {A, B}
        assert found[A].spec == SiteSpec(A, 3.0, tags=("file",), max_interval=3600.0)
        assert found[B].spec == SiteSpec(B, 3.0)
        table = running.daemon.parts.scheduler.sites
        slot = table.slot_of(found[A].id)
        assert slot is not None
        assert (table.weight[slot], table.max_interval[slot], bool(table.paused[slot])) == (3.0, 3600.0, False)
        assert table.slot_of(gone) is None
        read = events(said, "list_read")[-1]
        assert (read["changed"], read["existing"], read["removed"], read["rejected"]) == (2, 2, 1, 1)
        assert "is in the list already" in events(said, "line_rejected")[-1]["reason"]
        again = await settled(running, file, text)
        assert events(said, "list_read")[-1]["changed"] == 0
        assert {url: site.spec for url, site in again.items()} == {url: site.spec for url, site in found.items()}


async def test_without_sync_what_is_there_stays_as_it_is(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "sites.csv"
    file.write_text(f"url,weight\n{A},7\n{B},7\n")
    async with start() as running:
        await running.control.sites.add([SiteSpec(A, 2.0), SiteSpec(C)])
        await read_list(file, running.control, sync=False)
        assert {url: site.spec.weight for url, site in (await sites_of(running.store)).items()} == {A: 2, B: 7, C: None}


async def test_a_slip_of_the_pen_removes_no_site(start: Start, tmp_path: Path, said: CapturingLogger) -> None:
    """A site whose line cannot be used is not gone from the list; what is no URL was never a site."""
    file = tmp_path / "sites.jsonl"
    async with start() as running:
        await running.control.sites.add([SiteSpec(A), SiteSpec(B), SiteSpec(C)])
        for broken in (f'{{"url": "{A}", "weight": -1}}', f'{{"url": "{A}", "wieght": 1}}', f'{{"url": "{A}"'):
            assert (await settled(running, file, f'{broken}\n{{"url": "{B}"}}\n')).keys() == {A, B, C}
            assert events(said, "sync_refused")[-1]["effect"] == "nothing is removed"
        assert (await settled(running, file, f'{{"url": "nonsense"}}\n{{"url": "{B}"}}\n')).keys() == {B}
