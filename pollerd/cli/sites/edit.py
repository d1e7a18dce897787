"""`pollerd sites edit`: changes settings of existing sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pollerd.cli.client.client import TIMEOUT_SECONDS, ApiClient
from pollerd.cli.client.connection import REFUSED, daemon_at
from pollerd.cli.common.options import Json, Rebase, Timeout, Token, Url
from pollerd.cli.common.output import show_list
from pollerd.cli.sites.named import Names, for_each
from pollerd.cli.sites.setting_options import OF_SITES, Settings, with_settings

_COLUMNS = ("id", "url", "weight", "cost", "tags", "min_interval", "max_interval", "min_yield", "half_life", "deadline")


@with_settings(OF_SITES, none="inherited.")
def edit(
    sites: Names,
    tag: Annotated[list[str] | None, typer.Option(help="In place of all tags; may be given more than once.")] = None,
    add_tag: Annotated[list[str] | None, typer.Option(help="One more tag; may be given more than once.")] = None,
    remove_tag: Annotated[list[str] | None, typer.Option(help="One tag less; may be given more than once.")] = None,
    *,
    settings: Settings,
    rebase: Rebase = None,
    new_url: Annotated[str | None, typer.Option(help="Moves the site there: for one site only.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Changes settings of sites. What is left out stays, and so does what was learned, but for a new URL."""
    patch = {
        **settings,
        **{name: v for name, v in (("url", new_url), ("tags", tag), ("rebase", rebase)) if v is not None},
    }
    more, less = add_tag or (), remove_tag or ()
    _check(sites, patch, more, less)
    with daemon_at(url, token, timeout) as daemon:
        edited = (
            site for _, site in for_each(daemon, sites, lambda site_id: _edited(daemon, site_id, patch, more, less))
        )
        show_list(_COLUMNS, edited, as_json=as_json)


def _check(sites: Sequence[str], patch: dict[str, Any], more: Sequence[str], less: Sequence[str]) -> None:
    wrong = None
    if not patch and not more and not less:
        wrong = "nothing to change: give a setting, as --weight 2"
    elif "url" in patch and len(sites) > 1:
        wrong = "--new-url moves one site, and several are named"
    elif "tags" in patch and (more or less):
        wrong = "--tag sets all tags: it goes with neither --add-tag nor --remove-tag"
    if wrong is not None:
        typer.echo(f"pollerd: {wrong}", err=True)
        raise typer.Exit(REFUSED)


def _edited(
    daemon: ApiClient, site_id: int, patch: dict[str, Any], more: Sequence[str], less: Sequence[str]
) -> dict[str, Any]:
    if more or less:
        tags = daemon.call("GET", f"/sites/{site_id}")["tags"]
        kept = [tag for tag in dict.fromkeys((*tags, *more)) if tag not in less]
        patch = {**patch, "tags": kept}
    site: dict[str, Any] = daemon.call("PATCH", f"/sites/{site_id}", patch)
    return site
