"""`pollerd sites noise`: what of a page is masked as noise, and what is to be shown again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pollerd.cli.client import TIMEOUT_SECONDS, daemon_at
from pollerd.cli.options import Json, Timeout, Token, Url
from pollerd.cli.output import show_list
from pollerd.cli.sites import Name, id_of
from pollerd.texts import _

_COLUMNS = ("id", "hides", "known_by", "differed", "state")


def noise(
    site: Name,
    show: Annotated[
        str | None, typer.Option(metavar="ID", help="Show this part again: its changes count from now on.")
    ] = None,
    hide: Annotated[str | None, typer.Option(metavar="ID", help="Hide this part again, which is shown.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Show the parts of a site that are hidden as noise; show a part again, or hide it. Also how often each part
    differed.
    """
    if show is not None and hide is not None:
        raise typer.BadParameter(_("give either --show or --hide"))
    with daemon_at(url, token, timeout) as daemon:
        place = f"/sites/{id_of(daemon, site)}/noise"
        rule = show or hide
        if rule is None:
            listing = daemon.call("GET", place)
        else:
            listing = daemon.call("PATCH", f"{place}/{rule}", {"hidden": show is None})
        show_list(_COLUMNS, listing["items"], as_json=as_json, row=_row)


def _row(item: dict[str, Any]) -> dict[str, Any]:
    differed = (
        ""
        if item["polls"] is None
        else _("{differed} of {polls} polls", differed=item["differed"], polls=item["polls"])
    )
    selection = "" if item["selection"] is None else f"{item['selection']}: "
    state = "hidden" if item["hidden"] else _("shown again")
    return {**item, "hides": selection + item["hides"], "differed": differed, "state": state}
