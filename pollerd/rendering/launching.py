"""How a Chromium of ours is started: no way out but our proxy, a home of its own that is removed, nothing of our
environment.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pollerd.errors import ConfigError
from pollerd.rendering.settings import RenderingSettings

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
        raise ConfigError(f"browser: {path} is not a program; install Chromium, or name where it is")
    if os.geteuid() == 0 and not settings.browser_no_sandbox:
        raise ConfigError(
            "browser: Chromium has no sandbox when it runs as root; run pollerd as another user,"
            " or say browser_no_sandbox where something else fences it"
        )
