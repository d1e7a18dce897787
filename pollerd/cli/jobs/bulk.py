"""`pollerd sites bulk`: does one thing to all sites that fit a filter."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from pollerd.cli.client.client import TIMEOUT_SECONDS, ApiClient
from pollerd.cli.client.connection import REFUSED, daemon_at
from pollerd.cli.common.call_errors import CallError
from pollerd.cli.common.grouped import grouped
from pollerd.cli.common.options import DURATION, NONE, TRUST, Json, Timeout, Token, Url, duration, trust
from pollerd.cli.common.output import show_json
from pollerd.cli.common.progress import showing_progress
from pollerd.cli.sites.filtering import FilterOptions
from pollerd.model import JobAction, JobState
from pollerd.quantities import counted

_LOOK_AGAIN_SECONDS = 0.5


def _seconds_or_none(text: str) -> str | float:
    return NONE if text == NONE else duration(text)


def _interval(help_: str) -> Any:
    return typer.Option(help=help_, parser=_seconds_or_none, metavar=f"{DURATION}|{NONE}")


@grouped
def bulk(
    action: JobAction,
    value: Annotated[
        str | None, typer.Argument(help="The tag of tag and untag, the weight of weight (none: its tags').")
    ] = None,
    *,
    filters: FilterOptions,
    all_: Annotated[bool, typer.Option("--all", help="Every site: needed where no filter is given.")] = False,
    min_interval: Annotated[Any, _interval("With limits: shortest time between two polls.")] = None,
    max_interval: Annotated[Any, _interval("With limits: longest time between two polls.")] = None,
    respect_ttl: Annotated[
        Any,
        typer.Option(help="With limits: how far a TTL is believed.", parser=trust, metavar=f"{TRUST}|{NONE}"),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end.")] = True,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Does one thing to all sites that fit a filter.

    It goes on in the daemon if this command is ended. `pollerd jobs undo` takes it back for 24 hours.
    """
    limits = {"min_interval": min_interval, "max_interval": max_interval, "respect_ttl": respect_ttl}
    body: dict[str, Any] = {"action": action.value}
    if needed := _value(action, value, limits):
        body["value"] = needed
    with daemon_at(url, token, timeout) as daemon:
        body["filter"] = filters.wanted(daemon)
        if bool(body["filter"]) == all_:
            raise CallError("give a filter, or --all: one of the two")
        job = daemon.call("POST", "/sites/bulk", body)
        show_ended(daemon, job, wait=wait, as_json=as_json)


def _value(action: JobAction, value: str | None, limits: dict[str, Any]) -> dict[str, Any]:
    intervals = {name: None if v == NONE else v for name, v in limits.items() if v is not None}
    if intervals and action is not JobAction.LIMITS:
        raise CallError("--min-interval, --max-interval and --respect-ttl go with limits")
    match action:
        case JobAction.TAG | JobAction.UNTAG:
            return {"tag": value or ""}
        case JobAction.WEIGHT:
            return {"weight": _number(value)}
        case _ if value is not None:
            raise CallError(f"{action} takes no value; given: {value!r}")
        case _:
            return intervals


def _number(text: str | None) -> float | None:
    if text == NONE:
        return None
    try:
        return float(text or "")
    except ValueError:
        raise CallError(f"weight: must be a number, or none; given: {text!r}") from None


def show_ended(daemon: ApiClient, job: dict[str, Any], *, wait: bool, as_json: bool) -> None:
    """Waits for a job, if that is wanted, and shows it. Raises Exit if it failed."""
    if wait and job["ended_at"] is None:
        with showing_progress(job["action"], "sites") as report:
            while job["ended_at"] is None:
                time.sleep(_LOOK_AGAIN_SECONDS)
                job = daemon.call("GET", f"/jobs/{job['id']}")
                undoing = job["state"] == JobState.UNDOING.value
                done, of = (job["restored"], job["changed"]) if undoing else (job["seen"], job["total"])
                report(min(done, of), of)
    if as_json:
        show_json(job)
    else:
        typer.echo(f"job {job['id']}: {_said(job)}")
    if job["state"] == JobState.FAILED.value:
        raise typer.Exit(REFUSED)


def _said(job: dict[str, Any]) -> str:
    if job["state"] in (JobState.UNDONE.value, JobState.UNDOING.value):
        return f"{job['action']} {job['state']} for {counted(job['restored'], 'site')}"
    refused = f", {job['refused']} refused" if job["refused"] else ""
    why = f": {job['detail']}" if job["detail"] else ""
    return f"{job['action']} {job['state']}, {counted(job['changed'], 'site')} changed{refused}{why}"
