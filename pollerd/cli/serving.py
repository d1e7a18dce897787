"""The daemon as run by `pollerd run`: settings, logs, status line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pollerd.app import serve as application
from pollerd.app.config import load
from pollerd.app.url_list import check_list
from pollerd.daemon.control.control import Control
from pollerd.daemon.views import Status
from pollerd.logs import Part, StatusTerminal, redraws, set_up_logs
from pollerd.texts import _, n_

# The status line on the terminal: the daemon's activity, and the limit of its polling.

_EVERY_SECONDS = 0.5


async def watch_status(control: Control, terminal: StatusTerminal) -> None:
    """Updates the line until cancelled."""
    await control.explainer.binding.ready()
    try:
        while True:
            terminal.show(status_parts(control.health.status(), control.explainer.binding.now().in_short()))
            await asyncio.sleep(_EVERY_SECONDS)
    finally:
        terminal.show(())


def status_parts(status: Status, reason: str | None) -> Iterator[Part]:
    """Yields sites, pace against budget with its limit, polls, changes, and problems."""
    yield f"{n_('{count} site', '{count} sites', status.sites)} · ", False
    yield _("{rate:.1f}/{budget:g} polls/s", rate=status.rate, budget=status.budget), False
    yield f" ({reason})" if reason is not None else "", False
    polls, changes = (
        n_("{count} poll", "{count} polls", status.polls),
        n_("{count} change", "{count} changes", status.changes),
    )
    in_flight = _("{count} in flight", count=status.in_flight)
    yield f" · {polls} · {changes} · {in_flight}", False
    if status.offline:
        yield " · " + _("offline: probing"), True
    if status.storage_failure:
        yield " · " + _("database: {failure}", failure=status.storage_failure), True


def serve(flags: Mapping[str, Any], config: Path | None) -> None:
    """Runs the daemon until it is stopped. Raises PollerdError for invalid settings or an invalid list."""
    again = partial(load, flags, file=config)
    settings = again()
    set_up_logs(settings.options.log_format, settings.options.log_level)
    if settings.options.urls is not None:
        check_list(settings.options.urls)
    application.mission(settings.options)
    if not redraws(sys.stderr):
        application.run(settings, None, again)
        return
    with StatusTerminal(sys.stderr).as_stream() as terminal:
        set_up_logs(settings.options.log_format, settings.options.log_level)
        application.run(settings, partial(watch_status, terminal=terminal), again)
