"""Directives of jobs that a browser renders."""

from __future__ import annotations

from collections.abc import Mapping

from pollerd.moving.draft import Draft
from pollerd.moving.request import add_header
from pollerd.moving.urlwatch.handlers import Directive, lost
from pollerd.texts import N_, _

_IDLE = frozenset({"networkidle", "networkidle0", "networkidle2"})
_NO_CSS = ("/", "(", "..", "xpath=", "text=", "role=", "id=", "css=")
"""Beginnings of selectors in other languages that its browser understands."""
_TYPES = frozenset({"image", "media", "font", "stylesheet", "script", "xhr", "fetch", "websocket", "other"})


def use_browser(draft: Draft, key: str, value: object) -> None:
    """The page is rendered."""
    if value:
        draft.fields["render"] = "browser"
    draft.report.carried(key)


def _set(draft: Draft, name: str, value: object) -> None:
    known = draft.fields.get("browser")
    draft.fields["browser"] = {**(known if isinstance(known, dict) else {}), name: value}


def _selector(draft: Draft, key: str, value: object) -> None:
    selector = value.get("selector") if isinstance(value, Mapping) else value
    if not isinstance(selector, str) or not selector.strip():
        draft.report.not_carried(key, _("only a selector can be waited for"))
    elif selector.lstrip().startswith(_NO_CSS):
        draft.report.not_carried(key, _("only a CSS selector can be waited for"))
    else:
        _set(draft, "wait_for", selector)
        more = isinstance(value, Mapping) and len(value) > 1
        (draft.report.approximated(key, _("options of waiting are skipped")) if more else draft.report.carried(key))


def _wait_time(draft: Draft, key: str, raw: object) -> None:
    value = raw.get("timeout") if isinstance(raw, Mapping) else raw
    if isinstance(value, int | float) and not isinstance(value, bool):
        _set(draft, "wait_seconds", value)
        draft.report.carried(key)
    else:
        _selector(draft, key, raw)


def _until(draft: Draft, key: str, value: object) -> None:
    if str(value) in _IDLE:
        _set(draft, "wait_until", "idle")
        draft.report.carried(key)
    else:
        draft.report.approximated(key, _("pollerd waits until the page has loaded"))


def _blocked(draft: Draft, key: str, value: object) -> None:
    types = [str(kind) for kind in value] if isinstance(value, list) else [str(value)]
    known = [kind for kind in types if kind in _TYPES]
    if known:
        _set(draft, "block", known)
    if known == types:
        draft.report.carried(key)
    else:
        draft.report.not_carried(key, _("kinds that a browser does not know are skipped"))


def _referer(draft: Draft, key: str, value: object) -> None:
    add_header(draft, key, "Referer", value)


def _http_credentials(draft: Draft, key: str, value: object) -> None:
    if isinstance(value, Mapping) and {"username", "password"} <= value.keys() and "credentials" not in draft.fields:
        draft.fields["credentials"] = {name: str(value[name]) for name in ("username", "password")}
        draft.report.carried(key)
    else:
        draft.report.not_carried(key, _("must hold username and password, and the URL none"))


_SCRIPT = lost(N_("its scripts and expressions are not carried over"))
_BROWSER = lost(N_("which browser is used, and how it starts, is not a setting of a site (--browser)"))

DIRECTIVES: Mapping[str, Directive] = {
    "wait_for_selector": _selector,
    "wait_for": _wait_time,
    "wait_for_timeout": _wait_time,
    "wait_until": _until,
    "block_elements": _blocked,
    "referer": _referer,
    "http_credentials": _http_credentials,
    **dict.fromkeys(("evaluate", "init_script", "initialization_js", "wait_for_function"), _SCRIPT),
    **dict.fromkeys(
        ("wait_for_url", "wait_for_navigation"), lost(N_("only a selector, idleness or time is waited for"))
    ),
    **dict.fromkeys(
        ("switches", "user_data_dir", "ignore_default_args", "connect_over_cdp", "browser", "useragent"), _BROWSER
    ),
}
