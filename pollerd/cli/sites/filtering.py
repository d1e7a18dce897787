"""Options by which commands choose sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pollerd.cli.client.client import ApiClient
from pollerd.cli.common.options import DURATION, duration
from pollerd.cli.sites.named import source_id_of
from pollerd.model import SiteState

Q = Annotated[str | None, typer.Option("--q", help="Words that are parts of URL or title.")]
Tag = Annotated[str | None, typer.Option(help="Only sites with this tag.")]
State = Annotated[SiteState | None, typer.Option(help="Only sites in this state.")]
Host = Annotated[str | None, typer.Option(help="Only sites of this host, as name:port.")]
Source = Annotated[str | None, typer.Option(help="Only sites of this source, by its id or URL.")]
RateMin = Annotated[float | None, typer.Option(help="Only sites believed to change so often a day, or more.")]
RateMax = Annotated[float | None, typer.Option(help="Only sites believed to change so often a day, or less.")]
Changed = Annotated[
    Any,
    typer.Option(help="Only sites of which a change was found within this time.", parser=duration, metavar=DURATION),
]


def filter_of(daemon: ApiClient, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the filter, as the API takes it, of options by name; those that are not given are left out."""
    wanted = {name: value for name, value in given.items() if value is not None}
    if "source" in wanted:
        wanted["source"] = source_id_of(daemon, wanted["source"])
    if "state" in wanted:
        wanted["state"] = wanted["state"].value
    return wanted
