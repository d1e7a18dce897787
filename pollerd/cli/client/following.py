"""Follows what a daemon finds, over its event stream, and lists that grow, by asking again; across its restarts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pollerd.cli.client.client import ApiClient
from pollerd.cli.client.connection import say_wrong
from pollerd.cli.common.call_errors import UnansweredError

_SILENCE_SECONDS = 45.0
"""Timeout of the stream: three of the daemon's keepalive periods of 15 s."""
_ASK_SECONDS = 2.0
"""Delay between two looks at a list that grows."""
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


def grown(daemon: ApiClient, path: str, query: Mapping[str, str | None], last: int) -> Iterator[dict[str, Any]]:
    """Yields the items of a list with ids above `last`, oldest first, each once, endlessly; asks every two seconds.

    `query`: without order. On interruption, reports it once on standard error and goes on. Raises `CallError` if the
    daemon refuses.
    """
    breaks = 0
    while True:
        newest = daemon.pages(path, {**query, "order": "newest"})
        try:
            new = list(takewhile(lambda item, known=last: item["id"] > known, newest))  # type: ignore[misc]
        except UnansweredError as error:
            if not breaks:
                say_wrong(UnansweredError(f"{error}; trying again"))
            breaks += 1
        else:
            breaks = 0
            yield from reversed(new)
            last = new[0]["id"] if new else last
        time.sleep(_ASK_SECONDS)


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
