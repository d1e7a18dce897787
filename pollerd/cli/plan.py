"""`pollerd plan`: the budget that is needed to find changes in time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
import typer

from pollerd.cli.client import TIMEOUT_SECONDS, daemon_at
from pollerd.cli.options import DURATION, Json, Timeout, Token, Url
from pollerd.cli.output import CallError, clean_line, show_json, show_rows
from pollerd.planning import BudgetPlan, MeasuredDelays, TagPlan, about, in_percent, sentences, two_digits
from pollerd.texts import N_, _

_COLUMNS = (
    N_("tag"),
    N_("sites"),
    N_("changes per day"),
    N_("in time"),
    N_("half within"),
    N_("90 % within"),
    N_("measured"),
)


def plan(
    share: Annotated[str, typer.Option(help="Share of the changes to learn of: 0.9 or 90%.")] = "90%",
    within: Annotated[str, typer.Option(help="How soon after them.", metavar=DURATION)] = "30m",
    tag: Annotated[str | None, typer.Option(help="Only changes of sites with this tag count.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Estimate the budget you need to find changes in time.

    Example: pollerd plan --share 90% --within 30m --tag news
    """
    query = {"share": share, "within": within} | ({} if tag is None else {"tag": tag})
    with daemon_at(url, token, timeout) as daemon:
        body: dict[str, Any] = daemon.call("GET", f"/plan?{urlencode(query)}")
        if as_json:
            show_json(body)
            return
        try:
            answer = msgspec.convert(body, BudgetPlan)
        except msgspec.ValidationError as error:
            raise CallError(_("the daemon's plan cannot be read: it is of another version")) from error
    for sentence in sentences(answer):
        typer.echo(clean_line(sentence))
    if answer.by_tag:
        typer.echo()
        show_rows(map(_, _COLUMNS), map(_row, answer.by_tag))


def _row(of: TagPlan) -> Iterable[str | int]:
    daily = "" if of.changes_per_day is None else two_digits(of.changes_per_day) if of.changes_per_day else "0"
    share = "" if of.share is None else in_percent(of.share)
    delays = (
        "" if share == "" else "never" if delay is None else about(delay) for delay in (of.delay_median, of.delay_p90)
    )
    return (of.tag, of.sites, daily, share, *delays, _measured(of.measured))


def _measured(delays: MeasuredDelays | None) -> str:
    if delays is None:
        return ""
    half, most = about(delays.delay_median), about(delays.delay_p90)
    return _("{half}, {most} (of {changes:,})", half=half, most=most, changes=delays.changes)
