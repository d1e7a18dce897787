"""The user's settings of rendering."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pollerd.errors import InvalidValueError
from pollerd.ranges import RENDERING
from pollerd.texts import N_, _

DEFAULT_RENDER_COST = 20.0
"""Cost of a rendered poll, in polls: docs/rendering.md says how it was measured. An explicit `cost` wins."""

_SCHEMES = ("ws://", "wss://", "http://", "https://")
_PLACE = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_BROWSER = N_("the path of an installed Chromium, or the ws://, wss://, http:// or https:// address of a browser")
_BROWSER_PROXY = N_("HOST:PORT of this machine, as the browser reaches it")


@dataclass(frozen=True)
class RenderingSettings:
    """Settings of the renderer. Raises `InvalidValueError` naming the field that is out of range."""

    browser: str | None = field(default=None, repr=False)
    """Path of a Chromium that is started, or the address of a running browser (CDP), which is trusted; None: none."""
    browser_pages: int = 2
    """Most pages that are rendered at once."""
    browser_deadline_seconds: float = 60.0
    """Deadline of a rendered poll, from its request to its text."""
    browser_page_bytes: int = 64 * 1024 * 1024
    """Most bytes that one page may load, and send, with all that belongs to it."""
    browser_no_sandbox: bool = False
    """Starts Chromium without its sandbox; root cannot have one."""
    browser_proxy: str | None = None
    """HOST:PORT where a browser elsewhere reaches our proxy; None: a free port of loopback."""

    def __post_init__(self) -> None:
        for allowed in RENDERING.values():
            value = getattr(self, allowed.name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidValueError(allowed.name, allowed.allowed, value)
            allowed.check(value)
        if self.browser is not None:
            _check_browser(self.browser)
        if self.browser_proxy is not None:
            place_of(self.browser_proxy)

    @property
    def starts_browser(self) -> bool:
        """Whether `browser` is a program that is to be started."""
        return self.browser is not None and not is_address(self.browser)


def is_address(browser: str) -> bool:
    """Returns whether `browser` is the address of a running browser; otherwise it is the path of a program."""
    return browser.lower().startswith(_SCHEMES)


def browser_shown(browser: str) -> str:
    """Returns the path of a browser, or its address without user name, path and query, which may hold a token."""
    if not is_address(browser):
        return browser
    parts = urlsplit(browser)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def place_of(text: str) -> tuple[str, int]:
    """Returns host and port of HOST:PORT. Raises `InvalidValueError(field="browser_proxy")`."""
    place = _PLACE.fullmatch(text)
    if place is None or not 1 <= int(place["port"]) <= 65_535:
        raise InvalidValueError("browser_proxy", _(_BROWSER_PROXY), text)
    return place["host"].strip("[]"), int(place["port"])


def _check_browser(browser: str) -> None:
    if is_address(browser):
        try:
            parts = urlsplit(browser)
            known = bool(parts.hostname) and parts.port != 0
        except ValueError:
            known = False
        if not known:
            raise InvalidValueError("browser", _(_BROWSER), "(not shown)")
    elif "://" in browser or not browser.strip() or not Path(browser).is_absolute():
        shown = "(not shown)" if "://" in browser else browser
        raise InvalidValueError("browser", _("{browser}; a path is absolute", browser=_(_BROWSER)), shown)
