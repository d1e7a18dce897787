"""`pollerd sources`: sitemaps and feeds whose pages become sites of a running daemon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pollerd.cli.client import REFUSED, TIMEOUT_SECONDS, daemon_at
from pollerd.cli.options import DURATION, Json, Timeout, Token, Url, duration, grouped
from pollerd.cli.output import show_done, show_list, show_one
from pollerd.cli.sites import source_id_of
from pollerd.texts import _

app = typer.Typer(no_args_is_help=True)

SourceName = Annotated[str, typer.Argument(metavar="SOURCE", help="Id or URL.")]
_COLUMNS = ("id", "kind", "url", "joined", "vanished", "failures", "last_read_at", "last_detail", "tags")
_PAGE_COLUMNS = ("site_id", "state", "since", "paused", "url")
_NONE = "none"


def _seconds_or_none(text: str | float) -> str | float:
    return _NONE if text == _NONE else duration(text)


Interval = Annotated[
    Any,
    typer.Option(help="Between two readings; none: learned.", parser=_seconds_or_none, metavar=f"{DURATION}|{_NONE}"),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Tag of new sites (repeatable).")]
Weight = Annotated[float | None, typer.Option(help="Weight of new sites: the importance of a change.")]
MostSites = Annotated[int | None, typer.Option("--limit", help="Maximum sites of the source.")]
UrlPattern = Annotated[
    str | None, typer.Option(help="Only URLs with this part, or re: and an RE2 expression; none: all.")
]
Hosts = Annotated[str | None, typer.Option(help="same: the list's own host; any: pages of all hosts.")]
MaxShrink = Annotated[float | None, typer.Option(help="Largest share by which the list can shrink, 0 to 1.")]


@dataclass(frozen=True)
class SourceOptions:
    """The options as given; None: left out."""

    tag: Tags = None
    weight: Weight = None
    limit: MostSites = None
    pattern: UrlPattern = None
    hosts: Hosts = None
    interval: Interval = None
    max_shrink: MaxShrink = None

    def given(self) -> dict[str, Any]:
        """Returns the settings that were given, as the API names them; `none` takes one away."""
        named = {"tags" if name == "tag" else name: value for name, value in vars(self).items() if value is not None}
        return {name: None if value == _NONE else value for name, value in named.items()}


@app.command("list")
def list_(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """List sources: id, kind, URL, pages listed and vanished, failures, last reading."""
    with daemon_at(url, token, timeout) as daemon:
        show_list(_COLUMNS, daemon.pages("/sources", {}), as_json=as_json)


@app.command()
@grouped
def add(
    source: Annotated[str, typer.Argument(metavar="URL")],
    kind: Annotated[str, typer.Option(help="sitemap (also an index of sitemaps, also gzipped) or feed.")] = "sitemap",
    *,
    options: SourceOptions,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Add a sitemap or feed: its pages become sites, and follow it.

    Example: pollerd sources add https://example.org/sitemap.xml --tag news
    """
    with daemon_at(url, token, timeout) as daemon:
        show_one(daemon.call("POST", "/sources", {"url": source, "kind": kind, **options.given()}), as_json=as_json)


@app.command()
def show(
    source: SourceName,
    pages: Annotated[bool, typer.Option("--pages", help="Lists its pages instead.")] = False,
    state: Annotated[str | None, typer.Option(help="With --pages: only joined, or only vanished ones.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Show a source, or its pages."""
    with daemon_at(url, token, timeout) as daemon:
        source_id = source_id_of(daemon, source)
        if not (pages or state):
            show_one(daemon.call("GET", f"/sources/{source_id}"), as_json=as_json)
            return
        members = daemon.pages(f"/sources/{source_id}/sites", {"state": state})
        show_list(_PAGE_COLUMNS, members, as_json=as_json)


@app.command()
@grouped
def edit(
    source: SourceName,
    *,
    options: SourceOptions,
    paused: Annotated[bool | None, typer.Option("--pause/--resume", help="Whether it is not read.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Change settings of a source. Other settings stay."""
    patch = options.given()
    if paused is not None:
        patch["paused"] = paused
    if not patch:
        typer.echo(_("pollerd: nothing to change: give a setting, as --limit 500"), err=True)
        raise typer.Exit(REFUSED)
    with daemon_at(url, token, timeout) as daemon:
        show_one(daemon.call("PATCH", f"/sources/{source_id_of(daemon, source)}", patch), as_json=as_json)


@app.command()
def remove(
    source: SourceName,
    remove_sites: Annotated[bool, typer.Option("--remove-sites", help="Also the sites that it added.")] = False,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Remove a source. Its sites stay, unless --remove-sites is given."""
    with daemon_at(url, token, timeout) as daemon:
        source_id = source_id_of(daemon, source)
        query = "?remove_sites=true" if remove_sites else ""
        removed = daemon.call("DELETE", f"/sources/{source_id}{query}")
    line = _(
        "removed the source {source_id} and {sites_removed} of its sites",
        source_id=source_id,
        sites_removed=removed["sites_removed"],
    )
    show_done(line, {"id": source_id, **removed}, as_json=as_json)


@app.command()
def read(
    source: SourceName, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Read a source as soon as its host and the budget allow."""
    with daemon_at(url, token, timeout) as daemon:
        show_one(daemon.call("POST", f"/sources/{source_id_of(daemon, source)}/read"), as_json=as_json)
