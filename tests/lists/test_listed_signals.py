"""Signal sources in a TOML or YAML list: the list is the truth about its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pollerd.app.url_list import check_list
from pollerd.cli.lists import list_of
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.site_settings import SiteSpec
from pollerd.storage.signals import SignalOrigin, SignalSourceSpec
from tests.daemon.conftest import Running, Start
from tests.lists.test_listed_sources import sites_of, take

A, MAP, FEED = "https://a.invalid/", "https://a.invalid/map.xml", "https://a.invalid/feed"
TOML = f"""
[[sites]]
url = "{FEED}"
tags = ["news"]

[[signal_sources]]
url = "{MAP}"
hosts = "any"

[[signal_sources]]
url = "{FEED}"
kind = "feed"

[[signal_sources]]
name = "cms"
kind = "push"
"""


async def signal_sources_of(running: Running) -> dict[str, tuple[str, str, SignalOrigin]]:
    found = await running.store.signals.all()
    return {one.key: (one.spec.kind, one.spec.hosts, one.origin) for one in found}


@pytest.mark.parametrize("sync", [False, True])
async def test_a_list_adds_takes_over_and_removes_its_own(
    start: Start, any_database: str, tmp_path: Path, sync: bool
) -> None:
    async with start(url=any_database) as running:
        (site_id,) = await running.add(FEED)
        await running.control.signals.add(SignalSourceSpec("links", site_id))
        kept = await running.control.signals.add(SignalSourceSpec("push", name="mine", hosts="any"))
        by_list = {
            MAP: ("sitemap", "any", SignalOrigin.FILE),
            FEED: ("feed", "same", SignalOrigin.FILE),
            "cms": ("push", "any", SignalOrigin.FILE),
        }
        mine = {"mine": ("push", "any", SignalOrigin.API)}
        for _ in range(2):
            await take(running, tmp_path / "x.toml", TOML, sync=sync)
            assert await signal_sources_of(running) == by_list | mine
            # The site of a signal source belongs to the list, too.
            assert await sites_of(running) == {MAP, FEED}
        spec = running.daemon.parts.signals.of_site(site_id)
        assert spec is not None
        assert spec.spec.kind == "feed"
        # What the list names it says; what it does not, the API may remove.
        listed = next(one.id for one in await running.store.signals.all() if one.key == "cms")
        with pytest.raises(InvalidValueError, match="source_id"):
            await running.control.signals.delete(listed)
        await take(running, tmp_path / "x.yaml", f"sites: [{A}]\nsignal_sources: [{MAP}]", sync=sync)
        assert await signal_sources_of(running) == {MAP: ("sitemap", "same", SignalOrigin.FILE)} | mine
        assert await sites_of(running) == ({A, MAP} if sync else {A, MAP, FEED})
        await running.control.signals.delete(kept.id)


async def test_other_formats_leave_signal_sources_alone(start: Start, tmp_path: Path) -> None:
    async with start() as running:
        await take(running, tmp_path / "x.toml", TOML, sync=False)
        before = await signal_sources_of(running)
        await take(running, tmp_path / "x.txt", f"{MAP}\n{FEED}\n", sync=True)
        assert await signal_sources_of(running) == before
        await running.control.sites.add([SiteSpec(A)])


def test_an_import_adds_the_site_of_a_signal_source_once_however_it_is_written(tmp_path: Path) -> None:
    text = "sites: [{url: 'HTTPS://A.invalid:443/map.xml', weight: 5}]\nsignal_sources: [https://a.invalid/map.xml]"
    assert list_of(text.encode(), "yaml", tmp_path).numbers == [1]
    text = f"sites: [x]\nsignal_sources: [y, {MAP}, 'HTTPS://A.invalid/map.xml']"
    assert list_of(text.encode(), "yaml", tmp_path).numbers == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('signal_sources = "x"', "signal_sources must be a list"),
        ("signal_sources = [1]", r"signal_sources\[0\] must be a URL"),
        ('signal_sources = ["ftp://x"]', r"signal_sources\[0\]\.url"),
        ('[[signal_sources]]\nkind = "push"', r"signal_sources\[0\]\.name"),
        (f'[[signal_sources]]\nkind = "push"\nname = "x"\nurl = "{A}"', r"signal_sources\[0\]\.url"),
        ('[[signal_sources]]\nkind = "feed"', r"signal_sources\[0\]\.url"),
        (f'[[signal_sources]]\nkind = "rumour"\nurl = "{A}"', r"signal_sources\[0\]\.kind"),
        (f'[[signal_sources]]\nurl = "{A}"\nextra = 1', r"signal_sources\[0\]\.extra"),
        (f'signal_sources = ["{A}", "{A}"]', r"signal_sources\[1\]"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        check_list(file)
