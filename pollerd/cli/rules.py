"""`pollerd rules`: the rules by which a running daemon sends messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd import quantities
from pollerd.cli.channels import RuleName, refuse, rule_named
from pollerd.cli.client import TIMEOUT_SECONDS, ApiClient, daemon_at
from pollerd.cli.options import NONE, Json, Timeout, Token, Url, grouped, table_in, time_in
from pollerd.cli.output import show_done, show_fields, show_json, show_list
from pollerd.cli.sites import id_of
from pollerd.texts import _

# Options of `add` and `edit`, as parts of a rule's document.

EXPRESSION = "re:"
"""Prefix of a pattern that is a regular expression."""
_MORE = "(repeatable)."

RuleFile = Annotated[
    Path | None,
    typer.Option("--file", help="The rule as JSON, .toml or .yaml, as in docs/notifications.md; - is standard input."),
]
Channels = Annotated[list[str] | None, typer.Option("--channel", help=f"Channel that gets the messages {_MORE}")]
Events = Annotated[
    list[str] | None, typer.Option("--event", help=f"Event, for example site.failing {_MORE} Default: site.changed.")
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help=f"Only sites with this tag {_MORE}")]
Hosts = Annotated[list[str] | None, typer.Option("--host", help=f"Only sites of this host {_MORE}")]
Sites = Annotated[list[str] | None, typer.Option("--site", help=f"Only this site: id or URL {_MORE}")]
Media = Annotated[
    list[str] | None, typer.Option("--media", help=f"Only changes of this medium: html, json, feed or text {_MORE}")
]
Selections = Annotated[list[str] | None, typer.Option("--selection", help=f"Only changes of this selection {_MORE}")]
Summary = Annotated[
    list[str] | None, typer.Option(help="Only if the summary contains this text, or matches re:EXPRESSION (RE2).")
]
Added = Annotated[
    list[str] | None, typer.Option(help="Only if an added line contains this text, or matches re:EXPRESSION.")
]
Removed = Annotated[
    list[str] | None, typer.Option(help="Only if a removed line contains this text, or matches re:EXPRESSION.")
]
Matters = Annotated[
    bool | None, typer.Option("--matters/--all-changes", help="Only changes that matter by their conditions, or all.")
]
AfterPolls = Annotated[int | None, typer.Option(help="Failed polls in a row after which a site fails.", min=1)]
After = Annotated[
    str | None,
    typer.Option("--failing-after", help="Time without a successful poll after which a site fails, for example 6h."),
]
Digest = Annotated[str | None, typer.Option(help="none: at once; hourly; or daily@08:00.")]
Days = Annotated[list[str] | None, typer.Option("--day", help=f"Day of a daily digest: mon … sun {_MORE}")]
Quiet = Annotated[
    list[str] | None,
    typer.Option(help=f"Hours without messages, for example 22:00-07:00; none: no quiet hours {_MORE}"),
]
Zone = Annotated[str | None, typer.Option(help="Time zone of digest and quiet hours, for example Europe/Berlin.")]


@dataclass(frozen=True)
class RuleOptions:
    """The options as given; None: left out."""

    channel: Channels = None
    event: Events = None
    tag: Tags = None
    host: Hosts = None
    site: Sites = None
    media: Media = None
    selection: Selections = None
    summary: Summary = None
    added: Added = None
    removed: Removed = None
    matters: Matters = None
    after_polls: AfterPolls = None
    failing_after: After = None
    digest: Digest = None
    day: Days = None
    quiet: Quiet = None
    zone: Zone = None


def with_options(
    document: Mapping[str, Any], options: RuleOptions, site_ids: Sequence[int | str] | None
) -> dict[str, Any]:
    """Returns the rule's document with what the options say; what they leave out stays.

    site_ids: of the sites given, or `none`; None: left out. `none` takes a part away. Raises typer.BadParameter.
    """
    rule = dict(document)
    _put(rule, "channels", options.channel)
    _put(rule, "events", options.event)
    if options.matters is not None:
        rule["matters"] = options.matters
    _put_within(
        rule,
        "sites",
        tags=options.tag,
        hosts=options.host,
        ids=site_ids,
        media=options.media,
        selections=options.selection,
    )
    patterns = {name: _patterns(getattr(options, name)) for name in ("summary", "added", "removed")}
    _put_within(rule, "words", **patterns)
    _put_within(rule, "failing", after_polls=options.after_polls, after=options.failing_after)
    _put_times(rule, options)
    return rule


def _put(document: dict[str, Any], name: str, values: Sequence[Any] | None) -> None:
    if values is not None:
        document[name] = list(values)


def _put_within(document: dict[str, Any], table: str, **fields: Any) -> None:
    """Sets fields of a table of the document; `none` takes one away."""
    named = {name: value for name, value in fields.items() if value is not None}
    if not named:
        return
    before = document.get(table)
    after = dict(before) if isinstance(before, Mapping) else {}
    for name, value in named.items():
        if value in (NONE, [NONE], (NONE,)):
            after.pop(name, None)
        else:
            after[name] = list(value) if isinstance(value, tuple) else value
    document[table] = after
    if not after:
        del document[table]


def _patterns(texts: Sequence[str] | None) -> list[Any] | None:
    if texts is None or list(texts) == [NONE]:
        return None if texts is None else [NONE]
    return [{"re": text.removeprefix(EXPRESSION)} if text.startswith(EXPRESSION) else {"text": text} for text in texts]


_TIMES = "digest", "quiet"
"""Parts of a rule that have a time zone."""


def _put_times(document: dict[str, Any], options: RuleOptions) -> None:
    zones = [table.get("zone") for name in _TIMES if isinstance(table := document.get(name), Mapping)]
    zone = options.zone or next(filter(None, zones), None)  # a new digest keeps the zone of the one before
    if options.digest is not None:
        document["digest"] = _digest(options.digest)
    if options.quiet is not None:
        document["quiet"] = (
            None if list(options.quiet) == [NONE] else {"hours": [_hours(hours) for hours in options.quiet]}
        )
    for name in _TIMES:
        table = document.get(name)
        if table is None or table == NONE:
            document.pop(name, None)
        elif isinstance(table, Mapping):
            document[name] = _with_zone(table, zone, given=options.zone is not None)
    if options.day is not None:
        digest = document.get("digest")
        if not isinstance(digest, Mapping):
            raise typer.BadParameter(_("--day is of a daily digest: give --digest daily@08:00"))
        document["digest"] = {**digest, "days": list(options.day)}
    if options.zone is not None and not {*_TIMES} & document.keys():
        raise typer.BadParameter(_("--zone is of a digest or of quiet hours: give --digest or --quiet"))


def _with_zone(table: Mapping[str, Any], zone: str | None, *, given: bool) -> Mapping[str, Any]:
    """Returns a digest or quiet hours in a zone. given: by an option, so that it replaces another."""
    needs_zone = table.get("every") != "hour"
    if zone is None and needs_zone and "zone" not in table:
        raise typer.BadParameter(_("a daily digest and quiet hours need --zone, for example --zone Europe/Berlin"))
    return {**table, "zone": zone} if given or ("zone" not in table and needs_zone) else table


def _digest(text: str) -> dict[str, Any] | None:
    every, at, clock = text.partition("@")
    if text == NONE:
        return None
    if text == "hourly":
        return {"every": "hour"}
    if every == "daily" and at and clock:
        return {"every": "day", "at": clock}
    raise typer.BadParameter(
        _("--digest must be none, hourly, or a time such as daily@08:00; given: {text!r}", text=text)
    )


_CLOCK = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00")


def _hours(text: str) -> dict[str, str]:
    begin, dash, end = text.partition("-")
    if not dash or not all(_CLOCK.fullmatch(clock.strip()) for clock in (begin, end)):
        raise typer.BadParameter(
            _("--quiet must be two times of day, for example 22:00-07:00; given: {text!r}", text=text)
        )
    return {"from": begin.strip(), "to": end.strip()}


app = typer.Typer(no_args_is_help=True)

_COLUMNS = ("id", "name", "events", "sites", "channels", "digest", "enabled", "muted_until", "origin")
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Switch the rule on or off.")]


@app.command("list")
def list_(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """List rules: which events they send, of which sites, on which channels."""
    with daemon_at(url, token, timeout) as daemon:
        rules = daemon.call("GET", "/rules")["items"]
    show_list(_COLUMNS, rules, as_json=as_json, row=_row)


@app.command()
def show(
    rule: RuleName, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Show a rule."""
    with daemon_at(url, token, timeout) as daemon:
        _show(rule_named(daemon, rule), as_json)


@app.command()
@grouped
def add(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name; it can be in the file instead.")] = None,
    file: RuleFile = None,
    *,
    options: RuleOptions,
    enabled: Enabled = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Add a rule: from a file, by options, or both; options win. It applies to events from now on.

    Example: pollerd rules add prices --channel mail --tag shop --digest daily@08:00 --zone UTC
    """
    with daemon_at(url, token, timeout) as daemon:
        document = _named(with_options(table_in(file), options, _ids(daemon, options.site)), name, enabled)
        if "name" not in document or "channels" not in document:
            refuse(_("a rule needs a name and a channel: pollerd rules add NAME --channel CHANNEL, or --file FILE"))
        _show(daemon.call("POST", "/rules", document), as_json)


@app.command()
@grouped
def edit(
    rule: RuleName,
    new_name: Annotated[str | None, typer.Option(help="Renames it.")] = None,
    file: RuleFile = None,
    *,
    options: RuleOptions,
    enabled: Enabled = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Change a rule. A file replaces all of it, an option one part; `none` removes the part."""
    with daemon_at(url, token, timeout) as daemon:
        if (
            file is None
            and new_name is None
            and enabled is None
            and all(value is None for value in vars(options).values())
        ):
            refuse(_("nothing to change: give an option, as --channel mail, or --file FILE"))
        stored = rule_named(daemon, rule)
        before = stored["rule"] if file is None else {"name": stored["name"], **table_in(file)}
        document = _named(with_options(before, options, _ids(daemon, options.site)), new_name, enabled)
        _show(daemon.call("PUT", f"/rules/{stored['id']}", document), as_json)


@app.command()
def remove(
    rule: RuleName, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Remove a rule. Its queued messages are still sent."""
    with daemon_at(url, token, timeout) as daemon:
        stored = rule_named(daemon, rule)
        daemon.call("DELETE", f"/rules/{stored['id']}")
    gone = {"id": stored["id"], "name": stored["name"], "removed": True}
    show_done(_("removed the rule {name}", name=stored["name"]), gone, as_json=as_json)


def _moment(text: str) -> str:
    """Converts a time for the API: `2h` is in two hours. Raises typer.BadParameter."""
    try:
        return repr(datetime.now(UTC).timestamp() + quantities.seconds(text))
    except ValueError:
        return time_in(text, _("in two hours"))


@app.command()
def mute(
    rule: RuleName,
    until: Annotated[
        str,
        typer.Option(
            help="End: 2h (in two hours), or a time such as 2026-01-31T12:00:00Z.", parser=_moment, metavar="TIME"
        ),
    ],
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Mute a rule for a while. Events in this time are recorded, and never sent.

    Example: pollerd rules mute prices --until 2h
    """
    with daemon_at(url, token, timeout) as daemon:
        _show(_muted(daemon, rule, until), as_json)


@app.command()
def unmute(
    rule: RuleName, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """End the muting of a rule."""
    with daemon_at(url, token, timeout) as daemon:
        _show(_muted(daemon, rule, None), as_json)


def _muted(daemon: ApiClient, rule: str, until: str | None) -> dict[str, Any]:
    muted: dict[str, Any] = daemon.call("POST", f"/rules/{rule_named(daemon, rule)['id']}/mute", {"until": until})
    return muted


def _named(document: dict[str, Any], name: str | None, enabled: bool | None) -> dict[str, Any]:
    named = document if name is None else {**document, "name": name}
    return named if enabled is None else {**named, "enabled": enabled}


def _ids(daemon: ApiClient, sites: list[str] | None) -> list[int | str] | None:
    return None if sites is None else [site if site == NONE else id_of(daemon, site) for site in sites]


def _row(stored: dict[str, Any]) -> dict[str, Any]:
    """Returns the row of a rule in the table."""
    rule = stored["rule"]
    return {
        **stored,
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


def _show(stored: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(stored)
        return
    rule = {
        name: value if isinstance(value, str | bool) else _text(value)
        for name, value in stored["rule"].items()
        if name not in ("name", "enabled")
    }
    show_fields({**{name: value for name, value in stored.items() if name != "rule"}, **rule})


def _text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ";".join(value)
    return json.dumps(value, ensure_ascii=False)
