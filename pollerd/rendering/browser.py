"""The browser: started or connected to when a page needs it; once lost, again after a growing wait."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog
from playwright.async_api import Browser, Error, Playwright, async_playwright

from pollerd.errors import ConfigError
from pollerd.fetching.client import user_agent
from pollerd.quantities import soon
from pollerd.rendering.outcome import browser_fault
from pollerd.rendering.settings import RenderingSettings
from pollerd.texts import _

if TYPE_CHECKING:
    from playwright.async_api import CDPSession


# The start of our own Chromium: no way out but our proxy, its own home that is removed, nothing of our environment.

_FEATURES_OFF = (
    # Pages are asked for as their site's URL says, and by nobody else.
    *(
        "HttpsUpgrades",
        "HttpsFirstBalancedModeAutoEnable",
        "PreconnectToSearch",
        "Prerender2",
        "NetworkTimeServiceQuerying",
    ),
    *("OptimizationHints", "AimEnabled", "MediaRouter", "LensOverlay", "Translate", "AutofillServerCommunication"),
    # A process that waits for a next page of the same profile: there is none.
    "SpareRendererForSitePerProcess",
    # What Playwright turns off so that it works.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "PaintHolding"),
    "AvoidCorsURLLoaderRestartOnRedirect",
)
_SWITCHES = (
    f"--disable-features={','.join(_FEATURES_OFF)}",  # the last such switch counts: Playwright's comes before
    # WebRTC by TCP through the proxy, or not at all.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    # Nothing that no page asked for: prefetch, prerendering, pings, updates, reports.
    "--dns-prefetch-disable",
    "--disable-blink-features=Prerender2,SpeculationRulesPrefetchFuture",
    "--no-pings",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-notifications",
    "--disable-speech-api",
    "--disable-file-system",
    "--disable-remote-fonts",
    "--disable-gpu",
    "--deny-permission-prompts",
    # A script that takes more memory ends its own page.
    "--js-flags=--max-old-space-size=512",
)
UNWANTED_DEFAULTS = ("--disable-popup-blocking", "--disable-ipc-flooding-protection", "--enable-unsafe-swiftshader")
"""Playwright's switches for tests of one's own pages."""
LAUNCH_SECONDS = 30.0


def switches(proxy_host: str) -> list[str]:
    """Returns Chromium's switches beside those of Playwright: headless, its pipe, its profile, our proxy.

    What would not ask the proxy finds no address: Chromium looks up no name, and dials no host but `proxy_host`.
    """
    return [f"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE {proxy_host}", *_SWITCHES]


def new_home() -> Path:
    """Returns a new folder for all that a browser writes; its maker removes it."""
    return Path(tempfile.mkdtemp(prefix="pollerd-browser-"))


def environment(home: Path) -> dict[str, str | float | bool]:
    """Returns the browser's whole environment: ours may hold secrets."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }


def check_startable(settings: RenderingSettings) -> None:
    """Raises `ConfigError` where the browser cannot be started: no such program, or root without having said so."""
    path = Path(settings.browser or "")
    if not path.is_file() or not os.access(path, os.X_OK):
        raise ConfigError(_("browser: {path} is not a program; install Chromium, or name where it is", path=path))
    if os.geteuid() == 0 and not settings.browser_no_sandbox:
        raise ConfigError(
            _(
                "browser: Chromium has no sandbox when it runs as root; run pollerd as another user,"
                " or say browser_no_sandbox where something else fences it"
            )
        )


_log = structlog.get_logger("pollerd.browser")

_CLOSE_SECONDS = 5.0
_REMOVALS, _REMOVAL_SECONDS = 50, 0.2
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class OpenBrowser:
    """A browser that answers."""

    browser: Browser
    user_agent: str
    """Its own, with ours behind it."""
    pid: int | None = None
    folders: tuple[Path, ...] = ()
    """What it, and Playwright for it, writes to: removed when it ends."""


class BrowserLink:
    """Our connection to the browser; must be closed. Used inside one event loop."""

    def __init__(self, settings: RenderingSettings, *, proxy_url: str, contact: str | None) -> None:
        self._settings = settings
        self._proxy_url, self.contact = proxy_url, contact
        self._connecting = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._open: OpenBrowser | None = None
        self._failures = 0
        self._retry_at = 0.0
        self.starts = 0
        """How many times a browser was started or connected to."""

    async def browser(self) -> OpenBrowser:
        """Returns the browser, started or connected to where needed. Raises `PageRefusedError`, at once while a wait
        after a failure lasts.
        """
        async with self._connecting:
            if self._open is not None and self._open.browser.is_connected():
                return self._open
            loop = asyncio.get_running_loop()
            if loop.time() < self._retry_at:
                raise browser_fault(_("it is tried again {soon}", soon=soon(self._retry_at - loop.time())))
            await self._drop()
            self.starts += 1
            try:
                async with asyncio.timeout(LAUNCH_SECONDS * 2):
                    self._open = await self._opened()
            except (Error, OSError, TimeoutError) as error:
                await self._drop()
                raise browser_fault(_reason(error)) from error
            finally:
                self._waits(loop)  # before the next try, unless this one has rendered a page until then
            return self._open

    def worked(self) -> None:
        """Notes that the browser has rendered: its next loss is followed by the shortest wait."""
        self._failures = 0
        self._retry_at = 0.0

    async def discard(self, lost: OpenBrowser) -> None:
        """Ends a browser that does not answer any more; the next page gets another one."""
        async with self._connecting:
            if self._open is lost:
                await self._drop()

    async def close(self) -> None:
        """Ends the browser that we started, or our connection to it, and Playwright's process."""
        async with self._connecting:
            await self._drop()

    def _waits(self, loop: asyncio.AbstractEventLoop) -> None:
        self._retry_at = loop.time() + min(_FIRST_WAIT_SECONDS * 2**self._failures, _LONGEST_WAIT_SECONDS)
        self._failures = min(self._failures + 1, 10)

    async def _opened(self) -> OpenBrowser:
        if self._playwright is None:
            self._playwright = await async_playwright().start()
        home = new_home()
        try:
            if self._settings.starts_browser:
                return await self._started(self._playwright, home)
            return await self._connected(self._playwright, home)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
            raise

    async def _connected(self, playwright: Playwright, home: Path) -> OpenBrowser:
        address = await _by_address(self._settings.browser or "")
        browser = await playwright.chromium.connect_over_cdp(address, artifacts_dir=home, timeout=LAUNCH_SECONDS * 1000)
        session = await browser.new_browser_cdp_session()
        try:
            return OpenBrowser(browser, await self._agent(session), folders=(home,))
        finally:
            await session.detach()

    async def _started(self, playwright: Playwright, home: Path) -> OpenBrowser:
        artifacts = home / "artifacts"
        artifacts.mkdir()
        browser = await playwright.chromium.launch(
            executable_path=self._settings.browser,
            chromium_sandbox=not self._settings.browser_no_sandbox,
            args=switches(urlsplit(self._proxy_url).hostname or ""),
            ignore_default_args=list(UNWANTED_DEFAULTS),
            env=environment(home),
            artifacts_dir=artifacts,  # else in a folder of the driver's, which is left behind when it ends early
            proxy={"server": self._proxy_url},  # without credentials: what no page asks for gets nowhere
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=LAUNCH_SECONDS * 1000,
        )
        session = await browser.new_browser_cdp_session()
        try:
            processes = await session.send("SystemInfo.getProcessInfo")
            command = str((await session.send("SystemInfo.getInfo")).get("commandLine", ""))
            pid = next(
                (int(process["id"]) for process in processes["processInfo"] if process["type"] == "browser"), None
            )
            agent = await self._agent(session)
        finally:
            await session.detach()
        profile = command.partition("--user-data-dir=")[2].partition(" --")[0]
        return OpenBrowser(browser, agent, pid, (home, Path(profile)) if profile else (home,))

    async def _agent(self, session: CDPSession) -> str:
        version = await session.send("Browser.getVersion")
        return f"{version['userAgent']} {user_agent(self.contact)}"

    async def _drop(self) -> None:
        """Ends whatever there is of browser and driver."""
        lost, self._open = self._open, None
        playwright, self._playwright = self._playwright, None
        closed = lost is None or await _ended(lost.browser.close())
        if playwright is not None:
            await _ended(playwright.stop())
        if lost is not None:
            await asyncio.to_thread(_clean_up, lost, closed)


async def _ended(closing: Awaitable[None]) -> bool:
    """Waits for an end; returns whether it came."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await closing
    except (Error, OSError, TimeoutError):
        return False
    return True


def _clean_up(lost: OpenBrowser, closed: bool) -> None:
    """Ends a process of ours that is still there, and removes its folders; it may write to them until it has ended."""
    if lost.pid is not None and (not closed or _is_ours(lost.pid, lost.folders)):
        with suppress(ProcessLookupError):
            os.kill(lost.pid, signal.SIGKILL)
    for _attempt in range(_REMOVALS):
        for folder in lost.folders:
            shutil.rmtree(folder, ignore_errors=True)
        if not any(folder.exists() for folder in lost.folders):
            return
        time.sleep(_REMOVAL_SECONDS)
    _log.warning("browser_folders_left", folders=[str(folder) for folder in lost.folders if folder.exists()])


def _is_ours(pid: int, folders: tuple[Path, ...]) -> bool:
    """Whether the process still is the browser with these folders; unknown (false) without /proc."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(str(folder).encode() in command for folder in folders)


async def _by_address(address: str) -> str:
    """Returns the browser's address with a number for its name: Chromium answers /json/version to no other."""
    parts = urlsplit(address)
    if parts.scheme.lower() != "http" or parts.hostname is None:
        return address
    addresses = await asyncio.get_running_loop().getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    host = str(addresses[0][4][0])
    userinfo, at, _place = parts.netloc.rpartition("@")
    place = f"[{host}]" if ":" in host else host
    return parts._replace(netloc=f"{userinfo}{at}{place}:{parts.port or 80}").geturl()


def _reason(error: Exception) -> str:
    """Returns the first line of a failure, without an address, which may hold a token."""
    if isinstance(error, TimeoutError):
        return _("it does not answer in time")
    if isinstance(error, OSError):
        return error.strerror or _("it is not reached")
    text = str(error).strip().partition("\n")[0]
    return _("it is not reached") if "://" in text else text or _("it does not start")
