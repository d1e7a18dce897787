"""`pollerd values`: what values a site's selections had."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pollerd.cli.client.client import TIMEOUT_SECONDS
from pollerd.cli.client.connection import daemon_at
from pollerd.cli.common.options import Json, Timeout, Token, Url
from pollerd.cli.common.output import show_items, show_json
from pollerd.cli.common.text import clean_line
from pollerd.cli.sites.named import Name, id_of
from pollerd.plots.sparkline import sparkline

_COLUMNS = ("at", "selection", "name", "text", "currency", "problem")


def values(
    site: Name,
    name: Annotated[str | None, typer.Option(help="Only the value of this name.")] = None,
    selection: Annotated[str | None, typer.Option(help="Only of this selection.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest.", min=0)] = 60,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Lists the values of a site as they were read, newest first, and each of the numbers as a line of bars."""
    with daemon_at(url, token, timeout) as daemon:
        query = {"name": name, "selection": selection}
        found = list(daemon.pages(f"/sites/{id_of(daemon, site)}/values", query, limit))
    if as_json:
        show_json(found)
        return
    show_items(_COLUMNS, found)
    for line in _lines(found):
        typer.echo(line)


def _lines(found: list[dict[str, Any]]) -> list[str]:
    """Returns a line of bars for each value that is a number, oldest first."""
    series: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in reversed(found):
        series.setdefault((one["selection"], one["name"]), []).append(one)
    lines = []
    for (selection, name), readings in series.items():
        numbers = [None if one["problem"] else one["number"] for one in readings]
        if any(number is not None for number in numbers):
            last = readings[-1]
            of = "" if selection == "default" else f"{selection}, "
            unit = f" {last['currency']}" if last["currency"] else ""
            lines.append(f"{clean_line(of + name)}  {sparkline(numbers)}  {clean_line(last['text'] + unit)}")
    return lines
