"""One line on the terminal: what the daemon is doing now."""

from __future__ import annotations

import asyncio

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pollerd.daemon import Control, Status

_EVERY_SECONDS = 0.5


async def watch_status(control: Control) -> None:
    """Keeps the line up to date until cancelled."""
    with Live(console=Console(stderr=True), refresh_per_second=2, transient=True) as live:
        while True:
            live.update(status_line(control.status()))
            await asyncio.sleep(_EVERY_SECONDS)


def status_line(status: Status) -> Text:
    """sites, pace against budget, polls, changes; trouble in red."""
    parts = [
        f"{status.sites:,} sites",
        f"{status.rate:.1f}/{status.budget:g} polls/s",
        f"{status.polls:,} polls",
        f"{status.changes:,} changes",
        f"{status.in_flight} in flight",
    ]
    line = Text(" · ".join(parts), no_wrap=True, overflow="ellipsis")
    if status.offline:
        line.append(" · offline: probing", style="bold red")
    if status.storage_failure:
        line.append(f" · database: {status.storage_failure}", style="bold red")
    return line
