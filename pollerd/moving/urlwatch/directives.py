"""Directives of a job: each key has its line in one table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from urllib.parse import urlencode

from pollerd.moving.draft import Draft
from pollerd.moving.request import add_header, set_cookies, set_headers, set_tags
from pollerd.moving.urlwatch import browser, diffs
from pollerd.moving.urlwatch.handlers import Directive, lost
from pollerd.texts import N_, _


def apply_directive(draft: Draft, key: str, value: object) -> None:
    """Applies one key of a job; an unknown one is named. Filters, URLs and proxies are applied elsewhere."""
    DIRECTIVES.get(key, _UNKNOWN)(draft, key, value)


# --- kinds of directives ---------------------------------------------------------------------------------------------


def _display(draft: Draft, key: str, value: object) -> None:
    draft.report.display(key)


def _not_needed(why: str) -> Directive:
    return lambda draft, key, value: draft.report.nothing_said(key, why)


_UNKNOWN = lost(N_("pollerd does not know this directive"))
_TLS = lost(N_("certificates and keys are always verified"))
_RULE = lost(N_("belongs to rules of alerts, which are no settings of a site: set a rule on failing"))
_NO_CONTROL = lost(N_("how connections are made is not a setting of a site"))


# --- directives of their own -----------------------------------------------------------------------------------------


def _title(draft: Draft, key: str, value: object) -> None:
    draft.fields["title"] = str(value)
    draft.name = str(value)
    draft.report.carried(key)


def _note(draft: Draft, key: str, value: object) -> None:
    draft.fields["note"] = str(value)
    draft.report.carried(key)


def _shown_url(draft: Draft, key: str, value: object) -> None:
    draft.fields.setdefault("title", str(value))
    draft.report.approximated(key, _("only as title, where the job has no name; the history there does not come along"))


def _tags(draft: Draft, key: str, value: object) -> None:
    set_tags(draft, key, value if isinstance(value, list | tuple | set) else [value])


def _enabled(draft: Draft, key: str, value: object) -> None:
    if not value:
        draft.fields["paused"] = True
    draft.report.carried(key)


def _method(draft: Draft, key: str, value: object) -> None:
    method = str(value).upper()
    if method == "GET" and "body" not in draft.fields:
        draft.report.carried(key)
    elif method in ("GET", "POST"):
        draft.fields["method"] = method
        draft.report.carried(key)
    else:
        draft.fields["method"] = method
        draft.report.not_carried(
            key, _("only GET and POST are sent, not {method}: the whole job is skipped", method=method[:20])
        )
        draft.url = ""


def _data(draft: Draft, key: str, raw: object) -> None:
    """A body makes the request a POST, of a form where it is no JSON."""
    as_json = bool(draft.fields.pop("data_as_json", False))
    if as_json:
        body, kind = json.dumps(raw, default=str), "application/json"
    elif isinstance(raw, Mapping | list):
        pairs = raw if isinstance(raw, Mapping) else [pair for pair in raw if isinstance(pair, list)]
        body, kind = (
            urlencode([(str(name), str(value)) for name, value in _pairs(pairs)]),
            "application/x-www-form-urlencoded",
        )
    else:
        body, kind = str(raw), "application/x-www-form-urlencoded"
    draft.fields["body"] = body
    draft.fields.setdefault("method", "POST")
    named = draft.fields.get("headers")
    if not (isinstance(named, Mapping) and any(str(name).lower() == "content-type" for name in named)):
        add_header(draft, _("{key} (its Content-Type)", key=key), "Content-Type", kind)
    draft.report.carried(key)


def _pairs(fields: Mapping[object, object] | list[list[object]]) -> list[tuple[object, object]]:
    if isinstance(fields, Mapping):
        return list(fields.items())
    return [(pair[0], pair[1]) for pair in fields if len(pair) == 2]


def _as_json(draft: Draft, key: str, value: object) -> None:
    draft.fields["data_as_json"] = bool(value)
    draft.report.carried(key)


def _params(draft: Draft, key: str, raw: object) -> None:
    """Parameters are added to the query of the URL."""
    if isinstance(raw, Mapping):
        added = urlencode({str(name): str(value) for name, value in raw.items()})
    elif isinstance(raw, str):
        added = raw
    else:
        draft.report.not_carried(key, _("must be a table or a text"))
        return
    if draft.url:
        draft.url += ("&" if "?" in draft.url else "?") + added
    draft.report.carried(key)


def _encoding(draft: Draft, key: str, value: object) -> None:
    draft.report.not_carried(key, _("the character set is found from the answer, and cannot be forced"))


def _timeout(draft: Draft, key: str, value: object) -> None:
    draft.report.approximated(key, _("pollerd has one time limit for all sites (--timeout)"))


def _empty(draft: Draft, key: str, value: object) -> None:
    if value:
        draft.report.approximated(key, _("a selection that matches nothing is a separate outcome, never a change"))
    else:
        draft.report.nothing_said(key)


DIRECTIVES: Mapping[str, Directive] = {
    "kind": _display,
    "use_browser": browser.use_browser,
    "name": _title,
    "note": _note,
    "user_visible_url": _shown_url,
    "tags": _tags,
    "enabled": _enabled,
    "data_as_json": _as_json,
    "headers": set_headers,
    "cookies": set_cookies,
    "params": _params,
    "data": _data,
    "method": _method,
    "diff_filter": diffs.apply_diff_filters,
    "diff_filters": diffs.apply_diff_filters,
    "additions_only": diffs.additions_only,
    "deletions_only": diffs.deletions_only,
    "compared_versions": diffs.compared_versions,
    "differ": diffs.differ,
    "diff_tool": lost(N_("pollerd starts no programs")),
    "command": lost(N_("pollerd starts no programs")),
    "stderr": lost(N_("pollerd starts no programs")),
    **dict.fromkeys(
        ("contextlines", "is_markdown", "monospace", "markdown_padded_tables", "index_number", "guid"), _display
    ),
    **dict.fromkeys(("ssl_no_verify", "ignore_https_errors", "ignore_dh_key_too_small"), _TLS),
    **dict.fromkeys(
        ("ignore_cached", "no_conditional_request"),
        _not_needed(N_("nothing is lost: whole bodies are fetched now and then")),
    ),
    **dict.fromkeys(
        (
            *("max_tries", "suppress_errors", "suppress_repeated_errors", "suppress_error_ended"),
            *("ignore_connection_errors", "ignore_timeout_errors", "ignore_too_many_redirects"),
            *("ignore_incomplete_reads", "ignore_http_error_codes", "treat_new_as_changed"),
        ),
        _RULE,
    ),
    **dict.fromkeys(
        (
            *("http_client", "http_version", "impersonate", "fingerprints", "initialization_url", "no_redirects"),
            *("retries", "same_site_delay"),
        ),
        _NO_CONTROL,
    ),
    "encoding": _encoding,
    "timeout": _timeout,
    "empty_as_transient": _empty,
    **browser.DIRECTIVES,
}
"""Key -> what it does. The order is the order in which they are applied."""
_ORDER = {name: number for number, name in enumerate(DIRECTIVES)}


def in_order(job: Mapping[str, object]) -> list[tuple[str, object]]:
    """Returns the keys in the order in which they are applied."""
    return sorted(job.items(), key=partial(_place))


def _place(item: tuple[str, object]) -> int:
    return _ORDER.get(item[0], len(_ORDER))
