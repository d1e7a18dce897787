"""Status line on the terminal: what the daemon is doing, and what limits it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from pollerd.daemon import Control, Status
from pollerd.quantities import counted
from pollerd.telemetry.terminal import Part, StatusTerminal

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
    yield f"{counted(status.sites, 'site')} · ", False
    yield f"{status.rate:.1f}/{status.budget:g} polls/s", False
    yield f" ({reason})" if reason is not None else "", False
    polls, changes = counted(status.polls, "poll"), counted(status.changes, "change")
    yield f" · {polls} · {changes} · {status.in_flight} in flight", False
    if status.offline:
        yield " · offline: probing", True
    if status.storage_failure:
        yield f" · database: {status.storage_failure}", True
