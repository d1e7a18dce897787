"""`pollerd sites import`, `export` and `diff`: lists of sites to and from a running daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO
from urllib.parse import quote

import typer

from pollerd.api.formats import SUFFIXES, Format, MovedFrom
from pollerd.app.rooms import MOVING
from pollerd.cli.client import TIMEOUT_SECONDS, WRONG, ApiClient, daemon_at
from pollerd.cli.options import Json, Timeout, Token, Url, by_suffix, existing_file
from pollerd.cli.output import CallError, clean, show_json, showing_progress, write
from pollerd.cli.sites import id_of
from pollerd.errors import ConfigError, InvalidValueError, file_fault
from pollerd.lists.list_document import DOCUMENTS, FORMATS, NOT_SHOWN, Entry, as_utf_8, format_of, read_document
from pollerd.texts import N_, _, n_
from pollerd.urls import normalise_url

if TYPE_CHECKING:
    from pollerd.cli.moving import MovingSource


# Sending of a list of sites or a document to the daemon: in blocks, so that it is never silent for long.

REJECTED_ENOUGH = 1_000
_MAX_REJECTED = 100_000
"""Maximum number of rejected lines that the daemon reports in one answer."""
BLOCK_LINES = 5_000
"""Lines that the daemon stores in one transaction: a fraction of a second."""
_BYTES_A_SECOND = 100_000
"""Minimum processing speed of an indivisible document on a slow machine."""


@dataclass(frozen=True, slots=True)
class SentList:
    """A list in the form that is sent to the daemon.

    Documents are sent as JSON lines: they name secret files that exist only on this machine, and that no daemon should
    read for a caller.
    """

    form: Format
    data: bytes
    numbers: Sequence[int] | None = None
    """Of a document: the number of the site in each line."""
    refused: Sequence[dict[str, Any]] = ()
    """Of a document: sites that cannot be sent, in the form of the daemon's rejections."""
    tags: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Of a document: the settings of tags."""
    sources: Sequence[dict[str, Any]] = ()
    """Of a document: its sources."""
    signal_sources: Sequence[dict[str, Any]] = ()
    """Of a document: its signal sources."""
    channels: Sequence[dict[str, Any]] = ()
    rules: Sequence[dict[str, Any]] = ()

    @property
    def not_sent(self) -> list[str]:
        """The channels and rules it names: an import takes them only from the list a daemon runs with."""
        named = {"channel": self.channels, "rule": self.rules}
        return [f"{kind} {item.get('name', '?')}" for kind, items in named.items() for item in items]

    @property
    def place(self) -> str:
        """The unit of its numbers."""
        return "line" if self.numbers is None else "entry"

    def number(self, line: int) -> int:
        """Returns the number in the list of a sent line, from 1; 0 stays 0."""
        return line if self.numbers is None or not 0 < line <= len(self.numbers) else self.numbers[line - 1]


def list_of(data: bytes, form: str, folder: Path) -> SentList:
    """Converts the list in `data`, in format `form`; names of secret files are relative to `folder`.

    Raises `CallError` for a document that cannot be parsed as a whole.
    """
    if form not in DOCUMENTS:
        return SentList(Format(form), as_utf_8(data))
    try:
        document = read_document(data, form, folder)
        entries = list(document.entries)
        entries += _sites_of(document.signal_sources, entries)
    except ConfigError as error:
        raise CallError(str(error)) from error
    lines, numbers, refused = list[str](), list[int](), list[dict[str, Any]]()
    for number, entry in entries:
        try:
            line = _line(entry)
        except InvalidValueError as error:
            refused.append({"line": number, "reason": str(error)})
        else:
            lines.append(line)
            numbers.append(number)
    return SentList(
        Format.JSON_LINES,
        "\n".join(lines).encode(),
        numbers,
        refused,
        tags=document.tags,
        sources=document.sources,
        signal_sources=document.signal_sources,
        channels=document.channels,
        rules=document.rules,
    )


def _sites_of(signal_sources: Sequence[dict[str, Any]], entries: Sequence[Entry]) -> list[Entry]:
    """Returns the sites of signal sources that the list does not name: they belong to it."""
    named = {_normalised(str(entry["url"])) for _number, entry in entries if isinstance(entry, dict) and "url" in entry}
    urls = {
        _normalised(signal_source["url"]): None
        for signal_source in signal_sources
        if isinstance(signal_source.get("url"), str)
    }
    missing = [url for url in urls if url not in named]
    return [(len(entries) + place, {"url": url}) for place, url in enumerate(missing, 1)]


def _normalised(url: str) -> str:
    """Returns the normalised URL; as it is one that cannot be: the daemon refuses it."""
    try:
        return normalise_url(url)
    except InvalidValueError:
        return url


def _line(entry: dict[str, Any] | InvalidValueError) -> str:
    """Returns a site of a document as a JSON line. Raises `InvalidValueError` if that is impossible."""
    if isinstance(entry, InvalidValueError):
        raise entry
    try:
        return json.dumps(entry, default=str, allow_nan=False)
    except (TypeError, ValueError) as error:  # dates may be field names, and YAML has .nan
        raise InvalidValueError("site", _("texts, numbers and tables with names that are texts"), NOT_SHOWN) from error


def send_list(daemon: ApiClient, sent: SentList, max_rejected: int = REJECTED_ENOUGH) -> dict[str, Any]:
    """Imports the list; returns the answer of `POST /sites/import`, with the line numbers of the whole list.

    Stops sending after `max_rejected` bad lines. Raises `CallError`; what was sent before stays, and sending the list
    again adds nothing twice.
    """
    send_tags(daemon, sent.tags)
    if sent.form is Format.OPML:  # a tree, which cannot be divided
        return _sent(daemon, sent.data, sent.form, max_rejected, patience_for(daemon, len(sent.data)))
    lines = sent.data.splitlines(keepends=True)
    total: dict[str, Any] = {"added": 0, "existing": 0, "rejected": list(sent.refused)}
    total |= {"rejected_count": len(sent.refused), "lines_read": 0, "stopped": None}
    with showing_progress("import", "lines") as report_progress:
        for before, block in _blocks(lines, with_header=sent.form is Format.CSV):
            left = max_rejected - total["rejected_count"]
            result = _sent(daemon, b"".join(block), sent.form, left, None) if left > 0 else None
            if result is not None:
                _add(total, result, before, sent)
            if result is None or result["stopped"] is not None:
                total["stopped"] = _stopped(total, sent.place)
                break
            report_progress(min(before + len(block), len(lines)), len(lines))
    total["rejected"].sort(key=lambda rejection: int(rejection["line"]))
    if total["stopped"] is None:
        send_sources(daemon, sent.sources)
        send_signal_sources(daemon, sent.signal_sources)
    return {**total, "not_read": sent.not_sent} if sent.not_sent else total


def send_sources(daemon: ApiClient, sources: Sequence[dict[str, Any]]) -> None:
    """Adds those of the sources that are not there."""
    new = daemon.call("POST", "/sources/diff", {"sources": sendable(sources)})["added"] if sources else []
    for source in sources:
        if normalise_url(source["url"]) in new:
            daemon.call("POST", "/sources", source)


def send_signal_sources(daemon: ApiClient, listed: Sequence[dict[str, Any]]) -> None:
    """Adds those of the signal sources that are not there, after their sites: a list that is imported only adds."""
    body = {"signal_sources": sendable(listed)}
    new = daemon.call("POST", "/signal-sources/diff", body)["added"] if listed else []
    for source in body["signal_sources"]:
        url = source.pop("url", None)
        if url is None and source.get("name") in new:
            daemon.call("POST", "/signal-sources", source)
        elif url is not None and normalise_url(url) in new:
            daemon.call("POST", "/signal-sources", {"kind": "sitemap", **source, "site_id": id_of(daemon, url)})


def sendable(value: Any) -> Any:
    """Returns tags or sources as JSON holds them: texts in place of dates."""
    return json.loads(json.dumps(value, default=str))


def send_tags(daemon: ApiClient, tags: Mapping[str, dict[str, Any]]) -> None:
    """Gives settings to those of the tags that have none: as with sites, a list only adds."""
    known = {tag["name"] for tag in daemon.call("GET", "/tags")["items"]} if tags else set[str]()
    for name, settings in tags.items():
        if name not in known:
            daemon.call("PUT", f"/tags/{quote(name, safe='')}", settings)


def _add(total: dict[str, Any], result: dict[str, Any], before: int, sent: SentList) -> None:
    """Adds the result of one block that begins after `before` further lines of what is sent."""
    for rejected in result["rejected"]:
        rejected["line"] = sent.number(before + rejected["line"])
    for name in ("added", "existing", "rejected", "rejected_count"):
        total[name] += result[name]
    total["lines_read"] = sent.number(before + result["lines_read"])


def _stopped(total: dict[str, Any], place: str) -> str:
    if place == "line":
        return n_(
            "{count} bad line: read up to line {lines_read}, no further; sites already added were kept",
            "{count} bad lines: read up to line {lines_read}, no further; sites already added were kept",
            total["rejected_count"],
            lines_read=total["lines_read"],
        )
    return n_(
        "{count} bad entry: read up to entry {lines_read}, no further; sites already added were kept",
        "{count} bad entries: read up to entry {lines_read}, no further; sites already added were kept",
        total["rejected_count"],
        lines_read=total["lines_read"],
    )


def patience_for(daemon: ApiClient, size: int) -> float:
    """Returns the seconds that the daemon may be silent after a document of `size` bytes sent whole."""
    return daemon.timeout + size / _BYTES_A_SECOND


def _blocks(lines: list[bytes], *, with_header: bool) -> Iterator[tuple[int, list[bytes]]]:
    """Yields (offset of its line numbers, lines) of each block, with the header before each. At least one block."""
    head = lines[: _header_length(lines)] if with_header else []
    rest = lines[len(head) :]
    for start in range(0, max(len(rest), 1), BLOCK_LINES):
        yield start, [*head, *rest[start : start + BLOCK_LINES]]


def _header_length(lines: list[bytes]) -> int:
    """Returns the number of lines up to the first that is not blank: the header."""
    return next((n for n, line in enumerate(lines, 1) if line.removeprefix(b"\xef\xbb\xbf").strip()), 0)


def _sent(daemon: ApiClient, data: bytes, form: Format, max_rejected: int, patience: float | None) -> dict[str, Any]:
    path = f"/sites/import?max_rejected={min(max_rejected, _MAX_REJECTED)}"
    result: dict[str, Any] = daemon.upload(path, data, form.media, timeout=patience)
    return result


_REJECTED_SHOWN = 20
_WITHOUT_SETTINGS = frozenset({"text"})
_HELP = "Default: by the file's name, else text."
FormatOption = Annotated[Format | None, typer.Option("--format", help=_HELP)]


class ListForm(StrEnum):
    """Formats of a list that is read."""

    TEXT = "text"
    CSV = "csv"
    JSON_LINES = "jsonl"
    OPML = "opml"
    TOML = "toml"
    YAML = "yaml"


def import_(
    file: Annotated[typer.FileBinaryRead | None, typer.Argument(help="- for standard input.")] = None,
    format_: Annotated[ListForm | None, typer.Option("--format", help=_HELP)] = None,
    max_rejected: Annotated[
        int, typer.Option(help="Number of bad lines at which reading stops.", min=1)
    ] = REJECTED_ENOUGH,
    program: Annotated[MovedFrom | None, typer.Option("--from", help="The file is of this other program.")] = None,
    config: Annotated[Path | None, typer.Option(help="With --from: settings of urlwatch or webchanges.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="With --from: compare sources of pages as it does.")] = False,
    source_url: Annotated[str | None, typer.Option(help="With --from changedetection: read its API in place.")] = None,
    source_key_file: Annotated[Path | None, typer.Option(help="File that holds the key of that API.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --from: check and show the sites, add none.")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="With --from: file for the report on each key.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Add the sites of a file, in any format that run reads: text, CSV, JSON lines, OPML, TOML or YAML.

    With --from, the jobs of urlwatch, webchanges or changedetection.io are converted, with a report on each key. It
    only adds: sites that exist keep their settings. Exit code 1 where a line was rejected; the others are added all the
    same.

    Example: pollerd sites import sites.csv
    """
    with daemon_at(url, token, timeout) as daemon:
        if program is not None:
            with MOVING.needed():
                from pollerd.cli.moving import MovingSource

            data = None if file is None else file.read()
            source = MovingSource(program, data, config, source_url, source_key_file, timeout, exact)
            result = _moved_in(daemon, source, report, max_rejected, show_only=dry_run, as_json=as_json)
            form, place = "jsonl", "entry"
        else:
            _refuse_alone(config, exact, source_url, source_key_file, dry_run, report)
            result, form, place = _listed(daemon, file, format_, max_rejected)
    _tell(result, form, place, as_json)
    raise typer.Exit(WRONG if result["rejected_count"] else 0)


def _refuse_alone(*options: object) -> None:
    """Refuses options that go with --from only."""
    if any(options):
        raise CallError(_("--config, --exact, --source-url, --source-key-file, --dry-run and --report go with --from"))


def _listed(
    daemon: ApiClient, file: BinaryIO | None, form: ListForm | None, max_rejected: int
) -> tuple[dict[str, Any], str, str]:
    """Sends a list; returns the answer, its format and the unit of its numbers."""
    if file is None:
        raise CallError(_("give a file, or - for standard input"))
    name = _name(file)
    chosen = form or by_suffix(name, FORMATS, "text")
    sent = list_of(file.read(), chosen, Path("." if name is None else name).parent)
    return send_list(daemon, sent, max_rejected), chosen, sent.place


def _moved_in(
    daemon: ApiClient,
    source: MovingSource,
    report: Path | None,
    max_rejected: int,
    *,
    show_only: bool,
    as_json: bool,
) -> dict[str, Any]:
    """Converts and sends what another program watches; returns the answer with the report."""
    from pollerd.cli import moving
    from pollerd.moving.files import without_secrets

    moved = moving.moved_from(source)
    refused = moving.refused_sites(moved)
    moving.say_report(moved, refused if show_only else (), report)
    if show_only:
        show_json(iter([without_secrets(site) for site in moved.sites]))
        raise typer.Exit(WRONG if refused else 0)
    result = send_list(daemon, moving.as_list(moved), max_rejected)
    return {**result, "report": moving.report_of(moved)} if as_json else result


def _tell(result: dict[str, Any], form: str, place: str, as_json: bool) -> None:
    if as_json:
        show_json(result)
        return
    _say(result, place)
    if result.get("not_read"):
        instead = _("`pollerd run FILE` takes in those of its list; or use `pollerd channels add`, `pollerd rules add`")
        typer.echo(
            clean(
                _("pollerd: not read: {not_read}: {instead}", not_read=", ".join(result["not_read"]), instead=instead)
            ),
            err=True,
        )
    if result["existing"] and form not in _WITHOUT_SETTINGS:
        diff = _("`pollerd sites diff FILE --sync` shows where the list differs, `pollerd run FILE --sync` applies it")
        typer.echo(_("pollerd: what existed already keeps its settings: {diff}", diff=diff), err=True)


def export(
    file: Annotated[Path | None, typer.Argument(help="Default: standard output.")] = None,
    format_: FormatOption = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> None:
    """Export all sites with their settings, for `import`. Plain text keeps the URLs only.

    Example: pollerd sites export sites.csv
    """
    with daemon_at(url, token, timeout) as daemon:
        chosen = format_ or by_suffix(file, SUFFIXES, Format.TEXT)
        write(daemon.download(f"/sites/export?format={chosen}"), file)


def _name(file: BinaryIO) -> str | None:
    """Returns the file's name; None for standard input, which has none."""
    name = getattr(file, "name", None)
    return name if isinstance(name, str) and not name.startswith("<") else None


def _rejected(place: str, rejection: dict[str, Any]) -> str:
    text = N_("line {number}: {reason}") if place == "line" else N_("entry {number}: {reason}")
    return _(text, number=rejection["line"], reason=clean(rejection["reason"]))


def _say(result: dict[str, Any], place: str) -> None:
    for line in result["rejected"][:_REJECTED_SHOWN]:
        typer.echo(_rejected(place, line), err=True)
    count = result["rejected_count"]
    typer.echo(
        _(
            "{added} added, {existing} existed already, {count} rejected",
            added=result["added"],
            existing=result["existing"],
            count=count,
        )
    )
    if result["stopped"] is not None:
        typer.echo(_("pollerd: stopped: {stopped}", stopped=clean(result["stopped"])), err=True)


# `pollerd sites diff`: compares a list with the sites of a running daemon.

_SAME, _DIFFERENT, _ERROR = 0, 1, 2
_OCTETS = "application/octet-stream"
_KINDS = ("added", "changed", "removed")
_BESIDES = {
    "tags": N_("tag"),
    "sources": N_("source"),
    "signal_sources": N_("signal source"),
    "channels": N_("channel"),
    "rules": N_("rule"),
}
"""What a document has besides sites -> one of them."""
_OWN = frozenset({"channels", "rules", "signal_sources"})
"""Of these a document is the truth about its own, with --sync or without."""


def diff(
    file: Annotated[Path, typer.Argument(help="The list, in any format that run reads.", parser=existing_file)],
    sync: Annotated[bool, typer.Option("--sync", help="As with run --sync: the list is authoritative.")] = False,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Show the changes that a list would make, without making them.

    Exit code 0: nothing, 1: something, 2: unknown, or lines of the list cannot be used.

    Example: pollerd sites diff sites.csv
    """
    try:
        with daemon_at(url, token, timeout) as daemon:
            difference = _asked(daemon, file, sync)
    except typer.Exit as ended:  # the error was already reported
        raise typer.Exit(_ERROR) from ended
    show_json(difference) if as_json else _show(difference, file)
    raise typer.Exit(_code(difference))


def _asked(daemon: ApiClient, file: Path, sync: bool) -> dict[str, Any]:
    try:
        sent = list_of(file.read_bytes(), format_of(file), file.parent)
    except OSError as error:
        raise CallError(file_fault(file, error)) from error
    except (CallError, ConfigError) as error:
        raise CallError(f"{file}: {error}") from error
    path, patience = f"/sites/diff?format={sent.form}&sync={str(sync).lower()}", patience_for(daemon, len(sent.data))
    difference: dict[str, Any] = daemon.upload(path, sent.data, _OCTETS, timeout=patience)
    if format_of(file) in DOCUMENTS:
        difference |= {what: _settings(daemon, what, getattr(sent, what), sync) for what in _BESIDES}
    for rejection in difference["rejected"]:
        rejection["line"] = sent.number(rejection["line"])
    difference["rejected"] = sorted([*sent.refused, *difference["rejected"]], key=lambda refusal: int(refusal["line"]))
    difference["rejected_count"] += len(sent.refused)
    return difference


def _settings(daemon: ApiClient, what: str, listed: Any, sync: bool) -> dict[str, Any]:
    """Returns what the list would change of tags, sources, signal sources, channels or rules."""
    if not (listed or sync or what in _OWN):
        return {"added": [], "changed": [], "removed": []}
    query = "" if what in _OWN else f"?sync={str(sync).lower()}"
    difference: dict[str, Any] = daemon.call("POST", f"/{what.replace('_', '-')}/diff{query}", {what: sendable(listed)})
    return difference


def _code(difference: dict[str, Any]) -> int:
    if difference["rejected_count"]:
        return _ERROR
    same = not any(difference[f"{kind}_count"] for kind in _KINDS)
    same = same and not any(difference[what][kind] for what in _BESIDES if what in difference for kind in _KINDS)
    return _SAME if same else _DIFFERENT


def _show(difference: dict[str, Any], file: Path) -> None:
    for rejection in difference["rejected"]:
        typer.echo(f"{file}, {_rejected(_place(file), rejection)}", err=True)
    for sign, kind in (("+", "added"), ("-", "removed"), ("!", "left_out_as_deleted")):
        for site in difference[kind]:
            shown = _("{site} (deleted by hand; only --sync brings it back)", site=clean(site))
            typer.echo(f"{sign} {shown if sign == '!' else clean(site)}")
    for site in difference["changed"]:
        _show_changed(site["url"], site["fields"])
    for what, word in _BESIDES.items():
        _show_besides(difference.get(what, {}), _(word), of_sites=what == "sources")
    counts = _(
        "{added} added, {changed} changed, {removed} removed, {rejected} rejected",
        **{kind: difference[f"{kind}_count"] for kind in (*_KINDS, "rejected")},
    )
    besides = [_counted(difference[what], what) for what in _BESIDES if what in difference]
    typer.echo("; ".join([counts, *filter(None, besides)]))


def _show_changed(name: str, fields: list[dict[str, Any]]) -> None:
    typer.echo(f"~ {clean(name)}")
    for changed in fields:
        typer.echo(f"    {changed['field']}: {_value(changed['before'])} -> {_after(changed)}")


def _show_besides(difference: dict[str, Any], word: str, *, of_sites: bool) -> None:
    for name in difference.get("added", ()):
        typer.echo(f"+ {word} {clean(name)}")
    for name in difference.get("removed", ()):
        with_sites = N_("{source}, with the sites that it added and that are not in the list")
        gone = f"{word} {clean(name)}"
        typer.echo(f"- {_(with_sites, source=gone) if of_sites else gone}")
    for change in difference.get("changed", ()):
        _show_changed(f"{word} {change['name']}", change["fields"])


_COUNTED = {"added": N_("{count} added"), "changed": N_("{count} changed"), "removed": N_("{count} removed")}


def _counted(difference: dict[str, Any], what: str) -> str:
    counts = [_(_COUNTED[kind], count=len(difference[kind])) for kind in _KINDS if difference[kind]]
    return f"{what}: {', '.join(counts)}" if counts else ""


def _place(file: Path) -> str:
    return "entry" if format_of(file) in DOCUMENTS else "line"


def _after(field: dict[str, Any]) -> str:
    return str(field["note"]) if field["note"] else _value(field["after"])


def _value(value: Any) -> str:
    if value is None:
        return _("unset")
    if isinstance(value, dict):
        return clean(json.dumps(value, ensure_ascii=False))
    if isinstance(value, list):
        return clean(";".join(map(str, value))) or _("none")
    return clean(f"{value:g}" if isinstance(value, float) else str(value).lower() if value in (True, False) else value)
