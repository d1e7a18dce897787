"""`pollerd sites preview` and `pollerd values`: the parts of a page that selections keep, and their recorded values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from pollerd.cli.client import TIMEOUT_SECONDS, daemon_at
from pollerd.cli.options import NONE, Json, Timeout, Token, Url
from pollerd.cli.output import clean, clean_line, show_items, show_json
from pollerd.cli.setting_options import Select
from pollerd.cli.sites import Name, id_of
from pollerd.plots import sparkline
from pollerd.texts import _

_PATIENCE_SECONDS = 60.0
_REMOVED_SHOWN = 20


def preview(
    page: Annotated[str, typer.Argument(metavar="URL", help="The page; with --stored a site: its id or URL.")],
    select: Select = NONE,
    stored: Annotated[
        bool, typer.Option("--stored", help="Use the site's stored content, which is text, instead of a fetch.")
    ] = False,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Preview a selection: watched and ignored parts, values and conditions. Nothing is changed.

    Example: pollerd sites preview https://example.org/ --select css=#price
    """
    chosen = None if select == NONE else select
    with daemon_at(url, token, max(timeout, _PATIENCE_SECONDS)) as daemon:
        place = {"site_id": id_of(daemon, page)} if stored else {"url": page}
        page_preview = daemon.call("POST", "/preview", {**place, "selections": chosen})
        if as_json:
            show_json(page_preview)
        else:
            for line in _lines(page_preview):
                typer.echo(clean(line))


def _lines(page_preview: dict[str, Any]) -> Iterator[str]:
    if page_preview["outcome"] is not None and not page_preview["selections"]:
        yield f"{page_preview['url']}: {page_preview['outcome']}" + (
            f" ({page_preview['detail']})" if page_preview["detail"] else ""
        )
    yield from _recognised(page_preview["recognised"])
    for selection in page_preview["selections"]:
        yield f"[{selection['name']}] {selection['kind']}"
        if selection["missing"]:
            yield _("  nothing is selected: {missing}", missing=selection["missing"])
        for warning in selection["warnings"]:
            yield _("  warning: {warning}", warning=warning)
        yield from (f"  {line}" for line in selection["kept"].split("\n") if line)
        if selection["cut"]:
            yield "  …"
        for value in selection["values"]:
            yield f"  {value['name']} = {value['text']}" + (f" ({value['problem']})" if value["problem"] else "")
        if selection["removed"]:
            yield _("  removed: {count} lines", count=len(selection["removed"]))
            yield from (f"    - {line}" for line in selection["removed"][:_REMOVED_SHOWN])
        if selection["now"] is not None:
            yield _("  against the stored content: {said}", said=_said(selection["now"]))
        for earlier in selection["earlier"]:
            yield _(
                "  change {change_id} of {detected_at}: {said}",
                change_id=earlier["change_id"],
                detected_at=earlier["detected_at"],
                said=_said(earlier),
            )


def _recognised(recognised: dict[str, Any] | None) -> Iterator[str]:
    """Yields what the address is, and what is in the way; None: a stored content was taken."""
    if recognised is None:
        return
    if recognised["kind"]:
        yield " · ".join(filter(None, (recognised["kind"], recognised["title"], recognised["price"])))
    if recognised["obstacle"]:
        yield _("In the way: {reason}.", reason=recognised["reason"])
    if recognised["cure"]:
        yield _("What helps: {cure}.", cure=recognised["cure"])
    for feed in recognised["feeds"]:
        yield _("A feed says what is new for less: {feed}", feed=feed)


def _said(judged: dict[str, Any]) -> str:
    if not judged["counts"]:
        return _("too small to be a change")
    verdict = _("would be announced") if judged["matters"] else _("would not be announced")
    return f"{verdict} ({judged['why']})" if judged["why"] else verdict


# `pollerd values`.

_COLUMNS = ("at", "selection", "name", "text", "currency", "problem")


def values(
    site: Name,
    name: Annotated[str | None, typer.Option(help="Only the value of this name.")] = None,
    selection: Annotated[str | None, typer.Option(help="Only of this selection.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number; the newest are shown.", min=0)] = 60,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """List the values read from a site, newest first."""
    with daemon_at(url, token, timeout) as daemon:
        query = {"name": name, "selection": selection}
        readings = list(daemon.pages(f"/sites/{id_of(daemon, site)}/values", query, limit))
    if as_json:
        show_json(readings)
        return
    show_items(_COLUMNS, readings)
    for line in _bar_lines(readings):
        typer.echo(line)


def _bar_lines(newest_first: list[dict[str, Any]]) -> list[str]:
    """Returns a line of bars for each value that is a number, oldest first."""
    series: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for value in reversed(newest_first):
        series.setdefault((value["selection"], value["name"]), []).append(value)
    lines = []
    for (selection, name), readings in series.items():
        numbers = [None if reading["problem"] else reading["number"] for reading in readings]
        if any(number is not None for number in numbers):
            last = readings[-1]
            of = "" if selection == "default" else f"{selection}, "
            unit = f" {last['currency']}" if last["currency"] else ""
            lines.append(f"{clean_line(of + name)}  {sparkline(numbers)}  {clean_line(last['text'] + unit)}")
    return lines
