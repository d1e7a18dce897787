"""Settings of an installation: only what its watches need is looked at, never its password, keys and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pollerd.moving.changedetection.instance import Item, table, texts
from pollerd.moving.moved import SourceReport
from pollerd.texts import N_, _

_USED = N_("written into each site: later changes reach none of them")
_APPLICATION = {
    "global_ignore_text": _USED,
    "global_subtractive_selectors": _USED,
    "ignore_whitespace": N_("white space is collapsed here, never deleted: 1 0 and 10 differ"),
    "scheduler_timezone_default": _USED,
    "fetch_backend": _USED,
}
_REQUESTS = {
    "time_between_check": N_("the default of 3 hours is not carried over: pollerd learns how often; another is"),
    "time_schedule_limit": _USED,
    "extra_proxies": N_("the URL is written into each site that names one"),
    "proxy": _USED,
    "headers": _USED,
}
_UI = "ui-0"
"""Put by the program before the name of a proxy that was entered in its settings."""
_OTHER = N_("settings of the program are not settings of a site")
_SECRET = N_("secrets of the program are not read")
_CHANNELS = N_("channels and their texts are not carried over: set up a channel and a rule")
_LOST = {
    **dict.fromkeys(("notification_urls", "notification_title", "notification_body", "notification_format"), _CHANNELS),
    "empty_pages_are_a_change": N_("a page without text is a separate outcome"),
    "rss_reader_mode": N_("feeds are read by their items"),
    "render_anchor_tag_content": N_("links are part of a text where a selection says so"),
    "ignore_status_codes": N_("an error is a separate outcome here, never a content"),
    "all_paused": N_("pause sites by hand: pollerd sites pause"),
    "all_muted": N_("nothing is sent before a rule is set up"),
    "timeout": N_("pollerd has one time limit for all sites (--timeout)"),
    "default_ua": N_("pollerd says who it is itself"),
    "webdriver_delay": N_("a wait in the browser is a setting of each site"),
}
_DISPLAY = frozenset(
    {
        *("pager_size", "ui", "schema_version", "active_base_url", "base_url", "ssim_threshold", "shared_diff_access"),
        *("api_access_token_enabled", "history_snapshot_max_length", "strip_ignored_lines", "workers"),
        *("filter_failure_notification_threshold_attempts", "jitter_seconds"),
    }
)
"""How the program itself works and looks."""
_SECRETS = frozenset({"password", "api_access_token", "rss_access_token", "llm"})


@dataclass(frozen=True, slots=True)
class Settings:
    """What the settings add to watches."""

    known: bool = False
    """Whether they could be read."""
    ignore_text: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    collapse: bool = False
    interval: Item = field(default_factory=dict)
    windows: Item = field(default_factory=dict)
    zone: str | None = None
    headers: Mapping[str, object] = field(default_factory=dict, repr=False)
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Key -> URL."""
    browser: bool = False
    """Whether pages are rendered where a watch says nothing."""


def report_settings(item: Item | None, told: SourceReport) -> Settings:
    """Returns what the settings add to watches, and says of each key what becomes of it."""
    if item is None:
        told.not_carried(
            "all", _("the API does not show settings: global filters, default interval, headers, schedule")
        )
        return Settings()
    application, requests = table(item.get("application")), table(item.get("requests"))
    for key, value in application.items():
        _report(told, f"application.{key}", value, _APPLICATION.get(key), secret=key in _SECRETS)
    for key, value in requests.items():
        _report(told, f"requests.{key}", value, _REQUESTS.get(key), secret=False)
    for key, value in item.items():
        if key not in ("application", "requests"):
            _report(told, key, value, _(_USED) if key == "headers" else None, secret=False)
    zone = application.get("scheduler_timezone_default")
    return Settings(
        known=True,
        ignore_text=texts(application.get("global_ignore_text")),
        remove=texts(application.get("global_subtractive_selectors")),
        collapse=bool(application.get("ignore_whitespace", True)),
        interval=table(requests.get("time_between_check")),
        windows=table(requests.get("time_schedule_limit")),
        zone=zone if isinstance(zone, str) and zone else None,
        headers=table(item.get("headers")),
        proxies=_proxies(requests.get("extra_proxies")),
        browser="webdriver" in str(application.get("fetch_backend")),
    )


def _report(told: SourceReport, key: str, value: object, used: str | None, *, secret: bool) -> None:
    name = key.rpartition(".")[2]
    if not value:
        told.nothing_said(key)
    elif secret:
        told.not_carried(key, _(_SECRET))
    elif used is not None:
        told.approximated(key, used)
    elif name in _DISPLAY or (name.startswith("rss_") and name not in _LOST):
        told.display(key)
    else:
        told.not_carried(key, _LOST.get(name, _(_OTHER)))


def _proxies(value: object) -> dict[str, str]:
    proxies = dict[str, str]()
    for entry in value if isinstance(value, list) else []:
        proxy = table(entry)
        name, url = str(proxy.get("proxy_name") or ""), proxy.get("proxy_url")
        if name and isinstance(url, str):
            proxies[f"{_UI}{name}"] = url
    return proxies
