"""Server-sent events. Changes are read from the database, so that a client can resume where it stopped."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.types import Receive, Scope, Send

from pollerd.api.changes.live_state import HEALTH_SECONDS, TICK_SECONDS, LiveState
from pollerd.api.changes.shared_changes import EventsRead, SharedChanges
from pollerd.api.http.caller import caller_of
from pollerd.api.http.context import ApiPorts, Daemon
from pollerd.api.http.parameters import MAX_ID, Announced
from pollerd.api.http.problems import RETRY_SECONDS, problem
from pollerd.api.http.routing import api_router
from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.storage import ChangeFilter, HistoryStore

router = api_router("/events", tag="changes")
MAX_STREAMS, MAX_STREAMS_OF_CALLER = 64, 8
"""Most streams, and most of one caller."""
HEARTBEAT_SECONDS = 15.0
_PAGE = 100
_PACE_SECONDS = 0.5
"""Least time between two reads of a stream that is up to date: commits are more frequent."""
_RETRY_MILLISECONDS = 2_000
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "events `change`, each with the change as JSON; its id is the change's",
        "content": {"text/event-stream": {"example": 'event: change\ndata: {"id":7,"site_id":1}\nid: 7\n\n'}},
    },
}
TYPES = ("change", "polls", "health")
Types = Annotated[
    str,
    Query(
        max_length=50,
        description="which events, separated by commas: change, polls (as they happen; above 20 a second a sample), "
        "health (how the daemon is, every 5 s)",
        examples=["change,polls,health"],
        json_schema_extra={"pattern": "^(change|polls|health)(,(change|polls|health)){0,2}$"},
    ),
]
LastId = Annotated[int | None, Query(ge=0, le=MAX_ID, description="as Last-Event-ID, for readers without headers")]
LastIdHeader = Annotated[
    int | None, Header(alias="Last-Event-ID", ge=0, le=MAX_ID, description="the last event that was seen")
]


class Streams:
    """The open event streams, which can be ended together."""

    def __init__(self) -> None:
        self._ending = asyncio.Event()
        self._open = Counter[str]()
        """By caller."""

    @property
    def under_way(self) -> int:
        """Number of open streams."""
        return self._open.total()

    def refusal(self, caller: str) -> str | None:
        """Returns why the caller cannot open another stream now; None: it can."""
        if self.ending:
            return "the daemon ends"
        if self._open[caller] >= MAX_STREAMS_OF_CALLER:
            return f"this caller has as many event streams as it may: {MAX_STREAMS_OF_CALLER}"
        return f"there are {MAX_STREAMS} event streams already" if self.under_way >= MAX_STREAMS else None

    @property
    def ending(self) -> bool:
        """Whether all streams must end."""
        return self._ending.is_set()

    @contextmanager
    def counted(self, caller: str) -> Iterator[None]:
        """Counts one stream of the caller while the block runs."""
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

    def end(self) -> None:
        """Ends all streams at once; clients reconnect and resume."""
        self._ending.set()

    async def wait(self, seconds: float, until: Coroutine[Any, Any, None] | None = None) -> bool:
        """Waits for `until`, at most `seconds` and not beyond the end. Returns whether it completed."""
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(self._ending.wait())]
        if until is not None:
            tasks.append(asyncio.create_task(until))
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return tasks[-1].done()
        finally:
            for task in tasks:
                task.cancel()


class _EventStream(EventSourceResponse):
    """An event stream until the client or the daemon ends it."""

    def __init__(self, events: AsyncIterator[bytes], streams: Streams, caller: str) -> None:
        super().__init__(events, headers=_HEADERS)
        self._streams, self._caller = streams, caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events."""
        with self._streams.counted(self._caller):
            await super().__call__(scope, receive, send)


@router.get("", response_class=StreamingResponse, responses=_ANSWERS, summary="Follow the changes")
async def follow_changes(
    request: Request,
    daemon: Daemon,
    wanted: Announced,
    types: Types = "change",
    last_event_id: LastId = None,
    last_event_id_header: LastIdHeader = None,
) -> Response:
    """Events `change` as soon as they are committed, each once and in the order found; and others by `types`.

    A reader that comes again with the last id it saw (`Last-Event-ID`, which browsers send by themselves, or
    `last_event_id`; the header wins) gets what it missed, then what comes. Without one it gets what comes from now
    on, or what was found since `since`. A slow reader holds nothing up: it is served from the database.
    """
    kinds = _kinds(types)
    streams: Streams = request.app.state.streams
    caller = _name_of(request)
    if (why := streams.refusal(caller)) is not None:
        headers = {"Retry-After": str(RETRY_SECONDS)}
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, why, kind="no-stream", headers=headers)
    last = last_event_id if last_event_id_header is None else last_event_id_header
    start = await _start(daemon.store.history, wanted, last)
    source = _Source(request.app.state.shared_changes, request.app.state.live_state, daemon, streams)
    return _EventStream(_events(source, wanted, start, kinds), streams, caller)


def _name_of(request: Request) -> str:
    """Returns a name for the caller: the user or token, or the address of one who did not have to sign in."""
    caller = caller_of(request)
    if caller is None:
        return "" if request.client is None else request.client.host
    return f"{caller.by.value}:{caller.name}" if caller.user_id is None else f"user:{caller.user_id}"


def _kinds(types: str) -> frozenset[str]:
    """Returns the kinds of events. Raises `InvalidValueError`."""
    kinds = frozenset(one.strip() for one in types.split(","))
    if not kinds <= set(TYPES):
        raise InvalidValueError("types", "some of " + ", ".join(TYPES), types)
    return kinds


@dataclass(frozen=True, slots=True)
class _Source:
    """What a stream tells from."""

    changes: SharedChanges
    state: LiveState
    ports: ApiPorts
    streams: Streams


async def _start(store: HistoryStore, wanted: ChangeFilter, last: int | None) -> int:
    """Returns the id to start after, read before the answer begins, so that no later commit is missed."""
    if last is None and wanted.since is not None:
        return 0
    newest = await store.last_change_id()
    # An id from another, deleted database would hide all new changes.
    return newest if last is None else min(last, newest)


async def _events(source: _Source, wanted: ChangeFilter, position: int, kinds: frozenset[str]) -> AsyncIterator[bytes]:
    """Yields the events of the wanted kinds until the streams end."""
    # An id without data is no event; a client resumes from it if it receives none.
    yield format_sse_event(id=str(position), retry=_RETRY_MILLISECONDS)
    with source.ports.control.poll_feed.watching() if kinds & {"polls", "health"} else contextlib.nullcontext():
        sent, read = (b"", b""), EventsRead([], position, whole=True)
        while not source.streams.ending:
            if "change" in kinds:
                try:
                    read = await source.changes.after(source.ports.store.history, wanted, position, _PAGE)
                except DatabaseUnavailableError:
                    yield format_sse_event(comment="the database does not answer")
                    await source.streams.wait(RETRY_SECONDS)
                    continue
                position = read.reached
            new = (
                source.state.polls() if "polls" in kinds else b"",
                source.state.health() if "health" in kinds else b"",
            )
            others = b"".join(one for one, before in zip(new, sent, strict=True) if one is not before)
            sent = new
            if read.events or others:
                yield b"".join(read.events) + others
            if not read.whole:
                continue
            if not await _pause(source, position, kinds):
                yield format_sse_event(comment="nothing new", id=str(position))


async def _pause(source: _Source, position: int, kinds: frozenset[str]) -> bool:
    """Waits for the next event; returns False where none came for `HEARTBEAT_SECONDS`."""
    if "polls" in kinds:
        # All streams wake at the same moments, so that an event is made once for all.
        await source.streams.wait(TICK_SECONDS - time.monotonic() % TICK_SECONDS)
        return True
    news = source.ports.store.history.news(position) if "change" in kinds else None
    most = HEALTH_SECONDS - time.monotonic() % HEALTH_SECONDS if "health" in kinds else HEARTBEAT_SECONDS
    came = await source.streams.wait(most, news)
    if came and news is not None:
        await source.streams.wait(_PACE_SECONDS)
    return came or "health" in kinds
