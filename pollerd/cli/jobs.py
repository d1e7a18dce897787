"""`pollerd jobs` and `pollerd sites bulk`: actions on many sites of a running daemon, and their undoing."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from pollerd.cli.client import REFUSED, TIMEOUT_SECONDS, ApiClient, daemon_at
from pollerd.cli.options import NONE, Json, Timeout, Token, Url, grouped
from pollerd.cli.output import CallError, show_json, show_list, show_one, showing_progress
from pollerd.cli.setting_options import Settings, with_settings
from pollerd.cli.sites import FilterOptions
from pollerd.model import JobAction, JobState
from pollerd.site_settings import INHERITED
from pollerd.texts import N_, _, n_

# `pollerd sites bulk`: does one thing to all sites that match a filter.

_LOOK_AGAIN_SECONDS = 0.5


_LIMITS = {name: setting for name, setting in INHERITED.items() if setting.bulk == JobAction.LIMITS}


@with_settings(_LIMITS, none="inherited.", before="With limits: ")
@grouped
def bulk(
    action: JobAction,
    value: Annotated[
        str | None, typer.Argument(help="The tag of tag and untag, the weight of weight (none: its tags').")
    ] = None,
    *,
    filters: FilterOptions,
    all_: Annotated[bool, typer.Option("--all", help="All sites: needed without a filter.")] = False,
    settings: Settings,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end.")] = True,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Apply one action to all sites that match a filter.

    It goes on in the daemon if this command is ended. `pollerd jobs undo` takes it back for 24 hours.

    Example: pollerd sites bulk pause --tag news
    """
    body: dict[str, Any] = {"action": action.value}
    if needed := _value(action, value, settings):
        body["value"] = needed
    with daemon_at(url, token, timeout) as daemon:
        body["filter"] = filters.wanted(daemon)
        if bool(body["filter"]) == all_:
            raise CallError(_("give either a filter or --all"))
        job = daemon.call("POST", "/sites/bulk", body)
        show_ended(daemon, job, wait=wait, as_json=as_json)


def _value(action: JobAction, value: str | None, limits: Settings) -> Settings:
    if limits and action is not JobAction.LIMITS:
        *others, last = (f"--{name.replace('_', '-')}" for name in _LIMITS)
        raise CallError(_("{others} and {last} go with limits", others=", ".join(others), last=last))
    match action:
        case JobAction.TAG | JobAction.UNTAG:
            if value is None:
                raise CallError(_("VALUE is missing: the tag"))
            return {"tag": value}
        case JobAction.WEIGHT:
            return {"weight": _number(value)}
        case _ if value is not None:
            raise CallError(_("{action} takes no value; given: {value!r}", action=action, value=value))
        case _:
            return limits


def _number(text: str | None) -> float | None:
    if text == NONE:
        return None
    if text is None:
        raise CallError(_("VALUE is missing: the weight, or none"))
    try:
        return float(text)
    except ValueError:
        raise CallError(_("VALUE: must be a number, or none; given: {text!r}", text=text)) from None


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
        typer.echo(_("job {number}: {said}", number=job["id"], said=_said(job)))
    if job["state"] == JobState.FAILED.value:
        raise typer.Exit(REFUSED)


def _said(job: dict[str, Any]) -> str:
    if job["state"] in (JobState.UNDONE.value, JobState.UNDOING.value):
        return n_(
            "{action} {state} for {count} site",
            "{action} {state} for {count} sites",
            job["restored"],
            action=job["action"],
            state=job["state"],
        )
    if job["refused"]:
        one = N_("{action} {state}, {count} site changed, {refused} refused")
        many = N_("{action} {state}, {count} sites changed, {refused} refused")
    else:
        one, many = N_("{action} {state}, {count} site changed"), N_("{action} {state}, {count} sites changed")
    said = n_(one, many, job["changed"], action=job["action"], state=job["state"], refused=job["refused"])
    return f"{said}: {job['detail']}" if job["detail"] else said


app = typer.Typer()
_COLUMNS = ("id", "action", "state", "total", "seen", "changed", "refused", "created_at", "undo_until", "by")
JobId = Annotated[int, typer.Argument(metavar="ID", help="Id of the bulk action: see `pollerd jobs`.", min=1)]


@app.callback(invoke_without_command=True)
def jobs(
    context: typer.Context,
    limit: Annotated[int, typer.Option(help="Maximum number; the newest are shown.", min=0)] = 20,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """List bulk actions, newest first."""
    if context.invoked_subcommand is not None:
        return
    with daemon_at(url, token, timeout) as daemon:
        rows = daemon.pages("/jobs", {}, limit)
        show_list(_COLUMNS, rows, as_json=as_json)


@app.command()
def show(
    job: JobId, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Show the progress of a bulk action."""
    with daemon_at(url, token, timeout) as daemon:
        details = daemon.call("GET", f"/jobs/{job}")
        show_one(details, as_json=as_json)


@app.command()
def undo(
    job: JobId,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end.")] = True,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Undo a bulk action, except on sites that were changed again since.

    Example: pollerd jobs undo 3
    """
    with daemon_at(url, token, timeout) as daemon:
        show_ended(daemon, daemon.call("POST", f"/jobs/{job}/undo"), wait=wait, as_json=as_json)
