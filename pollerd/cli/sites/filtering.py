"""Options by which commands choose sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pollerd.cli.client.client import ApiClient
from pollerd.cli.common.options import DURATION, duration
from pollerd.cli.sites.named import source_id_of
from pollerd.model import SiteState


@dataclass(frozen=True)
class FilterOptions:
    """The options as given; None: left out."""

    q: Annotated[str | None, typer.Option("--q", help="Words that are parts of URL or title.")] = None
    tag: Annotated[str | None, typer.Option(help="Only sites with this tag.")] = None
    state: Annotated[SiteState | None, typer.Option(help="Only sites in this state.")] = None
    host: Annotated[str | None, typer.Option(help="Only sites of this host, as name:port.")] = None
    source: Annotated[str | None, typer.Option(help="Only sites of this source, by its id or URL.")] = None
    rate_min: Annotated[float | None, typer.Option(help="Only sites believed to change so often a day, or more.")] = (
        None
    )
    rate_max: Annotated[float | None, typer.Option(help="Only sites believed to change so often a day, or less.")] = (
        None
    )
    changed: Annotated[
        Any,
        typer.Option(
            help="Only sites of which a change was found within this time.", parser=duration, metavar=DURATION
        ),
    ] = None

    def wanted(self, daemon: ApiClient) -> dict[str, Any]:
        """Returns the filter, as the API takes it; what was not given is left out."""
        wanted = {name: value for name, value in vars(self).items() if value is not None}
        if self.source is not None:
            wanted["source"] = source_id_of(daemon, self.source)
        if self.state is not None:
            wanted["state"] = self.state.value
        return wanted
