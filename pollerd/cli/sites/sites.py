"""`pollerd sites`: the sites of a running daemon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer

from pollerd.cli.client.client import TIMEOUT_SECONDS, ApiClient
from pollerd.cli.client.connection import daemon_at
from pollerd.cli.common.grouped import grouped
from pollerd.cli.common.options import Json, Timeout, Token, Url
from pollerd.cli.common.output import show_fields, show_json, show_list
from pollerd.cli.sites.filtering import FilterOptions
from pollerd.cli.sites.named import Name, Names, for_each, id_of
from pollerd.cli.sites.setting_options import OF_SITES, Settings, with_settings

Tags = Annotated[list[str] | None, typer.Option("--tag", help="May be given more than once.")]
_COLUMNS = ("id", "state", "url", "rate_per_day", "polls", "changes", "last_outcome", "last_poll_at", "tags")


@with_settings(OF_SITES)
def add(
    sites: Annotated[list[str], typer.Argument(metavar="URL...")],
    tag: Tags = None,
    *,
    settings: Settings,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Adds sites; all get the same settings."""
    given = {"tags": tag or [], **settings}
    with daemon_at(url, token, timeout) as daemon:
        added = [daemon.call("POST", "/sites", {"url": site, **given}) for site in sites]
        _show_list(added, as_json)


@grouped
def list_(
    *,
    filters: FilterOptions,
    sort: Annotated[
        str | None,
        typer.Option(
            help="id, url, title, last_change, rate, failures, last_poll or next_poll; with - before it descending."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many.", min=0)] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Lists sites: id, state, URL, changes per day, polls, changes. Also last outcome, last poll, tags."""
    with daemon_at(url, token, timeout) as daemon:
        wanted = {name: str(value) for name, value in filters.wanted(daemon).items()}
        if sort is not None:
            wanted["sort"] = sort
        _show_list(daemon.pages("/sites", wanted, limit), as_json)


def show(
    site: Name, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Shows all of one site, and why it is polled as it is."""
    with daemon_at(url, token, timeout) as daemon:
        site_id = id_of(daemon, site)
        found = daemon.call("GET", f"/sites/{site_id}")
        found["explain"] = daemon.call("GET", f"/sites/{site_id}/explain")
        if as_json:
            show_json(found)
        else:
            show_fields({**found.pop("explain"), **found})


def remove(
    sites: Names, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Removes sites with all that was recorded of them."""
    with daemon_at(url, token, timeout) as daemon:
        removed = for_each(daemon, sites, lambda site_id: daemon.call("DELETE", f"/sites/{site_id}"))
        if as_json:
            show_json({"id": site_id, "removed": True} for site_id, _ in removed)
        else:
            for site_id, _ in removed:
                typer.echo(f"removed {site_id}")


def pause(
    sites: Names, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Stops the polling of sites until they are resumed."""
    with daemon_at(url, token, timeout) as daemon:
        _show_list(_posted(daemon, sites, "pause"), as_json)


def resume(
    sites: Names, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Polls sites again that were paused, back off, or were gone."""
    with daemon_at(url, token, timeout) as daemon:
        _show_list(_posted(daemon, sites, "resume"), as_json)


def poll(
    sites: Names, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Polls sites before all others, as soon as their hosts allow."""
    with daemon_at(url, token, timeout) as daemon:
        _show_list(_posted(daemon, sites, "poll"), as_json)


def _posted(daemon: ApiClient, sites: Sequence[str], what: str) -> Iterator[dict[str, Any]]:
    """Yields the sites after posting `what` for each."""
    done = for_each(daemon, sites, lambda site_id: daemon.call("POST", f"/sites/{site_id}/{what}"))
    return (site for _, site in done)


def _show_list(sites: Iterable[dict[str, Any]], as_json: bool) -> None:
    show_list(_COLUMNS, sites, as_json=as_json)
