"""The user's settings of rendering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pollerd.errors import ConfigError, InvalidValueError
from pollerd.fetching.settings import FetchSettings
from pollerd.rendering.renderer import Renderer
from pollerd.rendering.settings import RenderingSettings, browser_shown, place_of


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("browser", "chromium"),
        ("browser", "ftp://browser:21"),
        ("browser", "ws://"),
        ("browser", "http://browser:99999"),
        ("browser", ""),
        ("browser_pages", 0),
        ("browser_pages", 65),
        ("browser_pages", True),
        ("browser_deadline_seconds", 0),
        ("browser_deadline_seconds", 601),
        ("browser_page_bytes", 0),
        ("browser_proxy", "pollerd"),
        ("browser_proxy", "pollerd:0"),
        ("browser_proxy", "pollerd:70000"),
    ],
)
def test_what_cannot_be_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        RenderingSettings(**{field: value})
    assert refused.value.field == field


def test_paths_are_started_and_addresses_connected_to() -> None:
    assert RenderingSettings(browser="/usr/bin/chromium").starts_browser
    for address in ("ws://browser:9222/devtools/browser/x", "http://browser:9222", "wss://b.example/?token=x"):
        assert not RenderingSettings(browser=address).starts_browser
    assert not RenderingSettings().starts_browser


def test_what_is_shown_of_an_address_is_no_secret() -> None:
    assert browser_shown("wss://user:pass@b.example:443/x?token=abc") == "wss://b.example:443"
    assert browser_shown("/usr/bin/chromium") == "/usr/bin/chromium"
    assert "token" not in repr(RenderingSettings(browser="wss://b.example/?token=abc"))


def test_places() -> None:
    assert place_of("pollerd:3129") == ("pollerd", 3129)
    assert place_of("[::1]:80") == ("::1", 80)


async def test_without_a_browser_there_is_no_renderer(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    for browser in (None, str(program)):
        with pytest.raises(ConfigError, match="browser"):
            await Renderer(RenderingSettings(browser=browser), FetchSettings()).__aenter__()


async def test_root_has_to_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(ConfigError, match="browser_no_sandbox"):
        await Renderer(RenderingSettings(browser=str(program)), FetchSettings()).__aenter__()
