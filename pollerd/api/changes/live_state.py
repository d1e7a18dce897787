"""Events beside changes: polls as they happen, and how the daemon is. Encoded once for all streams."""

from __future__ import annotations

import time
from typing import Any

import orjson
from fastapi.sse import format_sse_event

from pollerd.api.http.ports.control import ControlPort
from pollerd.model import OutcomeKind, Poll

TICK_SECONDS = 0.5
HEALTH_SECONDS = 5.0
MOST_POLLS = 10
"""Most polls in one event: 20 a second."""
_SHOWN = 80


class LiveState:
    """Makes the events `polls` and `health`."""

    def __init__(self, control: ControlPort, version: str) -> None:
        self._control, self._version = control, version
        self.build = ""
        """Names this state of the web pages; empty without them."""
        self._polls: tuple[int, int, bytes] = (-1, 0, b"")
        self._health: tuple[tuple[int, int], bytes] = ((-1, 0), b"")

    def polls(self) -> bytes:
        """Returns the event of the polls of the last tick; empty without any. The same for all who ask within it."""
        tick, feed = int(time.monotonic() / TICK_SECONDS), self._control.poll_feed
        if tick != self._polls[0]:
            # After a pause without watchers only what comes from now on is shown.
            known = self._polls[0] >= tick - 2
            found = feed.since(self._polls[1] if known else feed.position, MOST_POLLS)
            event = b""
            if found.polls:
                data = {"polls": [_shown(poll, url) for poll, url in found.polls], "skipped": found.skipped}
                event = format_sse_event(event="polls", data_str=orjson.dumps(data).decode())
            self._polls = (tick, found.position, event)
        return self._polls[2]

    def health(self) -> bytes:
        """Returns the event of the daemon's state. The same for all who ask within some seconds."""
        tick = int(time.monotonic() / HEALTH_SECONDS), len(self._control.poll_feed.others())
        if tick != self._health[0]:
            self._health = (tick, format_sse_event(event="health", data_str=orjson.dumps(self.state()).decode()))
        return self._health[1]

    def state(self) -> dict[str, Any]:
        """Returns the daemon's state, as the event has it: with the other nodes, where there are several."""
        status, others = self._control.health.status(), self._control.poll_feed.others()
        return {
            "polling": not status.offline and status.storage_failure is None,
            "offline": status.offline,
            "database": status.storage_failure,
            "rate": round(status.rate + sum(one.rate for one in others), 3),
            "budget": status.budget + sum(one.budget for one in others),
            "sites": status.sites + sum(one.sites for one in others),
            "by_state": {
                state.value: count + sum(one.by_state.get(state, 0) for one in others)
                for state, count in status.by_state.items()
            },
            "version": self._version,
            "build": self.build,
        }


def _shown(poll: Poll, url: str) -> list[Any]:
    """Returns [site, time, outcome, ms, place]; the place is the URL's without its scheme, cut."""
    if poll.changed:
        outcome = "changed"
    elif poll.outcome.failed:
        outcome = "failed"
    else:
        outcome = "proving" if poll.outcome is OutcomeKind.PROVING else "same"
    return [poll.site_id, round(poll.at, 3), outcome, round(poll.duration * 1000), url.partition("://")[2][:_SHOWN]]
