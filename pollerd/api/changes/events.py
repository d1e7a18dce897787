"""Changes as server-sent events, read from the database, so that a client can resume where it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.types import Receive, Scope, Send

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import MAX_ID, Announced
from pollerd.api.http.problems import RETRY_SECONDS, problem
from pollerd.api.schemas.polls import ChangeSchema
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage import ChangeFilter, HistoryStore

router = APIRouter(prefix="/events", tags=["changes"])
MAX_STREAMS = 64
"""Most streams: each reads the database separately."""
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
LastId = Annotated[int | None, Query(ge=0, le=MAX_ID, description="as Last-Event-ID, for readers without headers")]
LastIdHeader = Annotated[
    int | None, Header(alias="Last-Event-ID", ge=0, le=MAX_ID, description="the last event that was seen")
]


class Streams:
    """The open event streams, which can be ended together."""

    def __init__(self) -> None:
        self._ending = asyncio.Event()
        self._open = 0

    @property
    def under_way(self) -> int:
        """Number of open streams."""
        return self._open

    @property
    def full(self) -> bool:
        """Whether no more may be opened."""
        return self._open >= MAX_STREAMS

    @property
    def ending(self) -> bool:
        """Whether all streams must end."""
        return self._ending.is_set()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts one stream while the block runs."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

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

    def __init__(self, events: AsyncIterator[bytes], streams: Streams) -> None:
        super().__init__(events, headers=_HEADERS)
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events."""
        with self._streams.counted():
            await super().__call__(scope, receive, send)


@router.get("", response_class=StreamingResponse, responses=_ANSWERS, summary="Follow the changes")
async def follow_changes(
    request: Request,
    daemon: Daemon,
    wanted: Announced,
    last_event_id: LastId = None,
    last_event_id_header: LastIdHeader = None,
) -> Response:
    """Events `change` as soon as they are committed, each once and in the order found.

    A reader that comes again with the last id it saw (`Last-Event-ID`, which browsers send by themselves, or
    `last_event_id`; the header wins) gets what it missed, then what comes. Without one it gets what comes from now
    on, or what was found since `since`. A slow reader holds nothing up: it is served from the database.
    """
    streams: Streams = request.app.state.streams
    if streams.full or streams.ending:
        why = "the daemon ends" if streams.ending else f"there are {MAX_STREAMS} event streams already"
        headers = {"Retry-After": str(RETRY_SECONDS)}
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, why, kind="no-stream", headers=headers)
    last = last_event_id if last_event_id_header is None else last_event_id_header
    start = await _start(daemon.store.history, wanted, last)
    return _EventStream(_events(daemon.store.history, wanted, start, streams), streams)


async def _start(store: HistoryStore, wanted: ChangeFilter, last: int | None) -> int:
    """Returns the id to start after, read before the answer begins, so that no later commit is missed."""
    if last is None and wanted.since is not None:
        return 0
    newest = await store.last_change_id()
    # An id from another, deleted database would hide all new changes.
    return newest if last is None else min(last, newest)


async def _events(store: HistoryStore, wanted: ChangeFilter, position: int, streams: Streams) -> AsyncIterator[bytes]:
    # An id without data is no event; a client resumes from it if it receives none.
    yield format_sse_event(id=str(position), retry=_RETRY_MILLISECONDS)
    while not streams.ending:
        try:
            read = await store.changes_after(wanted, position, _PAGE)
        except DatabaseUnavailableError:
            yield format_sse_event(comment="the database does not answer")
            await streams.wait(RETRY_SECONDS)
            continue
        position = read.reached
        if read.items:
            shown = map(ChangeSchema.model_validate, read.items)
            yield b"".join(_event(change) for change in shown)
        if not read.whole:
            continue
        if await streams.wait(HEARTBEAT_SECONDS, store.news(position)):
            await streams.wait(_PACE_SECONDS)
        else:
            yield format_sse_event(comment="nothing new", id=str(position))


def _event(change: ChangeSchema) -> bytes:
    return format_sse_event(event="change", data_str=change.model_dump_json(), id=str(change.id))
