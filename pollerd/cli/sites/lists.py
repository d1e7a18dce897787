"""`pollerd sites import` and `export`: lists of sites to and from a running daemon."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from pollerd.api.http.format_names import SUFFIXES, Format
from pollerd.cli.client.client import TIMEOUT_SECONDS, ApiClient
from pollerd.cli.client.connection import WRONG, daemon_at
from pollerd.cli.common.call_errors import CallError
from pollerd.cli.common.files import by_suffix
from pollerd.cli.common.options import Json, Timeout, Token, Url
from pollerd.cli.common.output import show_json, write
from pollerd.cli.common.text import clean
from pollerd.cli.sites.importing import REJECTED_ENOUGH, list_of, send_list
from pollerd.cli.sites.moved_from import MovedFrom
from pollerd.list_document import FORMATS

if TYPE_CHECKING:
    from pollerd.cli.sites.moving import MovingSource

_REJECTED_SHOWN = 20
_WITHOUT_SETTINGS = frozenset({"text"})
_HELP = "By the file's name where left out, else text."
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
    max_rejected: Annotated[int, typer.Option(help="Stop after so many bad lines.", min=1)] = REJECTED_ENOUGH,
    program: Annotated[MovedFrom | None, typer.Option("--from", help="The file is of this other program.")] = None,
    config: Annotated[Path | None, typer.Option(help="With --from: settings of urlwatch or webchanges.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="With --from: compare sources of pages as it does.")] = False,
    source_url: Annotated[str | None, typer.Option(help="With --from changedetection: read its API in place.")] = None,
    source_key_file: Annotated[Path | None, typer.Option(help="File that holds the key of that API.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --from: show the sites, add none.")] = False,
    report: Annotated[Path | None, typer.Option(help="With --from: write what becomes of each key there.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Adds the sites of a file, in any format that run reads: text, CSV, JSON lines, OPML, TOML or YAML.

    With --from, what urlwatch, webchanges or changedetection.io have been told to watch is converted; what becomes of
    each key is reported. It only adds: sites that exist keep their settings. Exit code 1 where a line was rejected; the
    others are added all the same.
    """
    with daemon_at(url, token, timeout) as daemon:
        if program is not None:
            from pollerd.cli.sites.moving import MovingSource

            data = None if file is None else file.read()
            source = MovingSource(program, data, config, source_url, source_key_file, timeout, exact)
            result = _moved_in(daemon, source, report, max_rejected, show_only=dry_run, as_json=as_json)
            form, place = "jsonl", "entry"
        else:
            _refuse_alone(config, exact, source_url, source_key_file, dry_run, report)
            result, form, place = _listed(daemon, file, format_, max_rejected)
    _tell(result, form, place, as_json)
    raise typer.Exit(WRONG if result["rejected_count"] else 0)


def _refuse_alone(*given: object) -> None:
    """Refuses options that go with --from only."""
    if any(given):
        raise CallError("--config, --exact, --source-url, --source-key-file, --dry-run and --report go with --from")


def _listed(
    daemon: ApiClient, file: BinaryIO | None, form: ListForm | None, max_rejected: int
) -> tuple[dict[str, Any], str, str]:
    """Sends a list; returns the answer, its format and the unit of its numbers."""
    if file is None:
        raise CallError("which file? - is standard input")
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
    from pollerd.cli.sites import moving

    moved = moving.moved_from(source)
    moving.say_report(moved, report)
    if show_only:
        show_json(iter([moving.without_secrets(site) for site in moved.sites]))
        raise typer.Exit
    result = send_list(daemon, moving.as_list(moved), max_rejected)
    return {**result, "report": moving.report_of(moved)} if as_json else result


def _tell(result: dict[str, Any], form: str, place: str, as_json: bool) -> None:
    if as_json:
        show_json(result)
        return
    _say(result, place)
    if result.get("not_read"):
        instead = "`pollerd run FILE` takes in those of its list; or use `pollerd channels add`, `pollerd rules add`"
        typer.echo(clean(f"pollerd: not read: {', '.join(result['not_read'])}: {instead}"), err=True)
    if result["existing"] and form not in _WITHOUT_SETTINGS:
        diff = "`pollerd sites diff FILE --sync` tells where the list has others, `pollerd run FILE --sync` sets them"
        typer.echo(f"pollerd: what existed already keeps its settings: {diff}", err=True)


def export(
    file: Annotated[Path | None, typer.Argument(help="Standard output where left out.")] = None,
    format_: FormatOption = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> None:
    """Writes all sites with their settings, as `import` reads them. Plain text keeps the URLs only."""
    with daemon_at(url, token, timeout) as daemon:
        chosen = format_ or by_suffix(file, SUFFIXES, Format.TEXT)
        write(daemon.download(f"/sites/export?format={chosen}"), file)


def _name(file: BinaryIO) -> str | None:
    """Returns the file's name; None for standard input, which has none."""
    name = getattr(file, "name", None)
    return name if isinstance(name, str) and not name.startswith("<") else None


def _say(result: dict[str, Any], place: str) -> None:
    for line in result["rejected"][:_REJECTED_SHOWN]:
        typer.echo(f"{place} {line['line']}: {clean(line['reason'])}", err=True)
    count = result["rejected_count"]
    typer.echo(f"{result['added']} added, {result['existing']} existed already, {count} rejected")
    if result["stopped"] is not None:
        typer.echo(f"pollerd: stopped: {clean(result['stopped'])}", err=True)
