"""Follows a daemon's changes over its event stream, across its restarts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pollerd.cli.client.client import ApiClient
from pollerd.cli.client.connection import say_wrong
from pollerd.cli.common.call_errors import UnansweredError

_SILENCE_SECONDS = 45.0
"""Timeout of the stream: three of the daemon's keepalive periods of 15 s."""
_AGAIN_SECONDS = (0.5, 1.0, 2.0, 5.0)
"""Delays before the first, second … consecutive reconnection; then always the last."""


def followed(daemon: ApiClient, query: Mapping[str, str | None], last: int | None) -> Iterator[dict[str, Any]]:
    """Yields the changes after the one with id `last` (None: from now on), each once, endlessly.

    On interruption, reports it once on standard error, reconnects and continues. Raises `CallError` if the daemon
    cannot be reached at first, or refuses.
    """
    given = {name: value for name, value in query.items() if value is not None}
    breaks, position = 0, None if last is None else str(last)
    begun = False
    while True:
        try:
            for event in _events(daemon, given, position):
                begun, breaks, position = True, 0, event.id or position
                if event.data:
                    yield json.loads(event.data)
            broken = UnansweredError("the daemon ended the stream")
        except UnansweredError as error:
            if not begun:
                raise
            broken = error
        if not breaks:
            say_wrong(UnansweredError(f"{broken}; trying again"))
        time.sleep(_AGAIN_SECONDS[min(breaks, len(_AGAIN_SECONDS) - 1)])
        breaks += 1


class _Event(NamedTuple):
    id: str
    """Position for reconnection; empty: unchanged."""
    data: str
    """JSON of a change; empty: none."""


def _events(daemon: ApiClient, query: Mapping[str, str], position: str | None) -> Iterator[_Event]:
    headers = {"Accept": "text/event-stream"}
    if position is not None:
        headers["Last-Event-ID"] = position
    fields: dict[str, str] = {}
    for raw in daemon.lines(f"/events?{urlencode(query)}", headers, timeout=max(_SILENCE_SECONDS, daemon.timeout)):
        name, _, value = raw.decode("utf-8", "replace").rstrip("\r\n").partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
        elif fields:  # an empty line ends an event; an incomplete event is sent again
            yield _Event(fields.get("id", ""), fields.get("data", ""))
            fields = {}
