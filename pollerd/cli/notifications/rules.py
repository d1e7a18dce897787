"""`pollerd rules`: who is told of what by a running daemon."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from pollerd import quantities
from pollerd.cli.client.client import TIMEOUT_SECONDS, ApiClient
from pollerd.cli.client.connection import daemon_at
from pollerd.cli.common.grouped import grouped
from pollerd.cli.common.options import NONE, Json, Timeout, Token, Url
from pollerd.cli.common.output import show_done, show_fields, show_json, show_list
from pollerd.cli.common.settings_file import table_in
from pollerd.cli.notifications.named import RuleName, refuse, rule_named
from pollerd.cli.notifications.rule_options import RuleFile, RuleOptions, with_options
from pollerd.cli.sites.named import id_of

app = typer.Typer(help="Who is told of what.", no_args_is_help=True)

_COLUMNS = ("id", "name", "events", "sites", "channels", "digest", "enabled", "muted_until", "origin")
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Whether it tells anything.")]


@app.command("list")
def list_(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """Lists rules: what they tell, of which sites, on which channels."""
    with daemon_at(url, token, timeout) as daemon:
        found = daemon.call("GET", "/rules")["items"]
    show_list(_COLUMNS, found, as_json=as_json, row=_row)


@app.command()
def show(
    rule: RuleName, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Shows all of one rule."""
    with daemon_at(url, token, timeout) as daemon:
        _show(rule_named(daemon, rule), as_json)


@app.command()
@grouped
def add(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="May stand in the file instead.")] = None,
    file: RuleFile = None,
    *,
    given: RuleOptions,
    enabled: Enabled = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Adds a rule: from a file, by options, or both; options win. It tells what happens from now on."""
    with daemon_at(url, token, timeout) as daemon:
        document = _named(with_options(table_in(file), given, _ids(daemon, given.site)), name, enabled)
        if "name" not in document or "channels" not in document:
            refuse("a rule needs a name and a channel: pollerd rules add NAME --channel CHANNEL, or --file FILE")
        _show(daemon.call("POST", "/rules", document), as_json)


@app.command()
@grouped
def edit(
    rule: RuleName,
    new_name: Annotated[str | None, typer.Option(help="Renames it.")] = None,
    file: RuleFile = None,
    *,
    given: RuleOptions,
    enabled: Enabled = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Changes a rule: a file replaces all of it, options what they name; none takes a part away."""
    with daemon_at(url, token, timeout) as daemon:
        if file is None and new_name is None and enabled is None and all(one is None for one in vars(given).values()):
            refuse("nothing to change: give an option, as --channel mail, or --file FILE")
        there = rule_named(daemon, rule)
        before = there["rule"] if file is None else {"name": there["name"], **table_in(file)}
        document = _named(with_options(before, given, _ids(daemon, given.site)), new_name, enabled)
        _show(daemon.call("PUT", f"/rules/{there['id']}", document), as_json)


@app.command()
def remove(
    rule: RuleName, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Removes a rule. What it has put into the outbox is still told."""
    with daemon_at(url, token, timeout) as daemon:
        there = rule_named(daemon, rule)
        daemon.call("DELETE", f"/rules/{there['id']}")
    gone = {"id": there["id"], "name": there["name"], "removed": True}
    show_done(f"removed the rule {there['name']}", gone, as_json=as_json)


@app.command()
def mute(
    rule: RuleName,
    until: Annotated[str, typer.Option(help="As 2h from now, or a moment as in 2026-01-31T12:00:00Z.")],
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Mutes a rule for a while. What happens meanwhile is recorded, and not told later."""
    with daemon_at(url, token, timeout) as daemon:
        _show(_muted(daemon, rule, _moment(until)), as_json)


@app.command()
def unmute(
    rule: RuleName, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Has a muted rule tell again what happens."""
    with daemon_at(url, token, timeout) as daemon:
        _show(_muted(daemon, rule, None), as_json)


def _muted(daemon: ApiClient, rule: str, until: str | None) -> dict[str, Any]:
    found: dict[str, Any] = daemon.call("POST", f"/rules/{rule_named(daemon, rule)['id']}/mute", {"until": until})
    return found


def _moment(text: str) -> str:
    """Converts a time for the API: `2h` is in two hours, other text is passed unchanged."""
    try:
        ahead = quantities.seconds(text)
    except ValueError:
        return text
    return repr(datetime.now(UTC).timestamp() + ahead)


def _named(document: dict[str, Any], name: str | None, enabled: bool | None) -> dict[str, Any]:
    found = document if name is None else {**document, "name": name}
    return found if enabled is None else {**found, "enabled": enabled}


def _ids(daemon: ApiClient, sites: list[str] | None) -> list[int | str] | None:
    return None if sites is None else [site if site == NONE else id_of(daemon, site) for site in sites]


def _row(one: dict[str, Any]) -> dict[str, Any]:
    """Returns the row of a rule in the table."""
    rule = one["rule"]
    return {
        **one,
        "events": rule.get("events", ()),
        "sites": _short(rule.get("sites")) or "all",
        "channels": rule["channels"],
        "digest": _when(rule.get("digest")),
    }


def _when(digest: dict[str, Any] | None) -> str:
    if digest is None:
        return "none"
    return "hourly" if digest["every"] == "hour" else f"daily@{digest['at']}"


def _short(table: dict[str, Any] | None) -> str:
    return " ".join(f"{name}={','.join(map(str, some))}" for name, some in (table or {}).items())


def _show(one: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(one)
        return
    rule = {
        name: value if isinstance(value, str | bool) else _text(value)
        for name, value in one["rule"].items()
        if name not in ("name", "enabled")
    }
    show_fields({**{name: value for name, value in one.items() if name != "rule"}, **rule})


def _text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ";".join(value)
    return json.dumps(value, ensure_ascii=False)
