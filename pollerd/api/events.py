"""Server-sent events. Changes are read from the database, so that a client can resume where it stopped."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import takewhile
from typing import Annotated, Any

import orjson
from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.types import Receive, Scope, Send

from pollerd.api.common import shown_json
from pollerd.api.http import MAX_ID, Announced, ApiPorts, Daemon, api_router, caller_of
from pollerd.api.problems import RETRY_SECONDS, problem
from pollerd.daemon.control.control import Control
from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.model import Change, OutcomeKind, Poll
from pollerd.storage.changes import ChangeFilter, ChangeStore
from pollerd.storage.store import Store
from pollerd.texts import _

# Events beside changes: polls as they happen, and how the daemon is. Encoded once for all streams.

TICK_SECONDS = 0.5
HEALTH_SECONDS = 5.0
MAX_POLLS = 10
"""Most polls in one event: 20 a second."""
_SHOWN = 80


class LiveState:
    """Makes the events `polls` and `health`."""

    def __init__(self, control: Control, store: Store, version: str) -> None:
        self._control, self._store, self._version = control, store, version
        self.build = ""
        """Names this state of the web pages; empty without them."""
        self._polls: tuple[int, int, bytes] = (-1, 0, b"")
        self._reading = asyncio.Lock()
        self._health: tuple[int, bytes] = (-1, b"")

    async def polls(self) -> bytes:
        """Returns the event of the polls of the last tick; empty without any. The same for all who ask within it."""
        tick = int(time.monotonic() / TICK_SECONDS)
        if tick != self._polls[0]:
            async with self._reading:
                if tick > self._polls[0]:
                    self._polls = await self._polls_of(tick)
        return self._polls[2]

    async def _polls_of(self, tick: int) -> tuple[int, int, bytes]:
        feed = self._control.poll_feed
        # After a pause without watchers only what comes from now on is shown.
        known = self._polls[0] >= tick - 2
        recent = feed.since(self._polls[1] if known else feed.position, MAX_POLLS)
        if not recent.polls:
            return tick, recent.position, b""
        titles: dict[int, str] = {}
        with contextlib.suppress(DatabaseUnavailableError):  # then addresses name them
            titles = await self._store.sites.titles({poll.site_id for poll, _url in recent.polls})
        polls = [_shown(poll, url, titles.get(poll.site_id, "")) for poll, url in recent.polls]
        data = {"polls": polls, "skipped": recent.skipped}
        return tick, recent.position, format_sse_event(event="polls", data_str=orjson.dumps(data).decode())

    def health(self) -> bytes:
        """Returns the event of the daemon's state. The same for all who ask within some seconds."""
        tick = int(time.monotonic() / HEALTH_SECONDS)
        if tick != self._health[0]:
            self._health = (tick, format_sse_event(event="health", data_str=orjson.dumps(self.state()).decode()))
        return self._health[1]

    def state(self) -> dict[str, Any]:
        """Returns the daemon's state, as the event has it."""
        status = self._control.health.status()
        return {
            "polling": not status.offline and status.storage_failure is None,
            "offline": status.offline,
            "database": status.storage_failure,
            "rate": round(status.rate, 3),
            "budget": status.budget,
            "sites": status.sites,
            "by_state": {state.value: count for state, count in status.by_state.items()},
            "version": self._version,
            "build": self.build,
        }


def _shown(poll: Poll, url: str, title: str) -> list[Any]:
    """Returns [site, time, outcome, ms, place, title]; the place is the URL's without its scheme, cut."""
    if poll.changed:
        outcome = "changed"
    elif poll.outcome.failed:
        outcome = "failed"
    else:
        outcome = "proving" if poll.outcome is OutcomeKind.PROVING else "same"
    place = url.partition("://")[2][:_SHOWN]
    return [poll.site_id, round(poll.at, 3), outcome, round(poll.duration * 1000), place, title[:_SHOWN]]


# One reading of the newest changes for all event streams: each is read and encoded once, however many follow.

_ALL = ChangeFilter()
_SHARED_CHANGES_PAGE = 1_000
MAX_EVENTS = 1_000
MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class EncodedChange:
    """A change, and its event."""

    change: Change
    event: bytes


@dataclass(frozen=True, slots=True)
class EventsRead:
    """Events of changes after an id."""

    events: list[bytes]
    reached: int
    """Id to continue from."""
    whole: bool
    """Whether there are no more."""


class SharedChanges:
    """The newest changes as events. A reader that is behind them is served from the database."""

    def __init__(self) -> None:
        self._newest: deque[EncodedChange] = deque()
        self._bytes = 0
        self._after: int | None = None
        """The kept ones are all with ids above this; None: nothing was read yet."""
        self._reached = 0
        self._reading = asyncio.Lock()

    async def after(self, changes: ChangeStore, change_filter: ChangeFilter, position: int, limit: int) -> EventsRead:
        """Returns matching events with ids above `position`, oldest first, at most `limit`.

        Raises `DatabaseUnavailableError`.
        """
        if _needs_database(change_filter) or not await self._covers(changes, position):
            read = await changes.after(change_filter, position, limit)
            return EventsRead([encoded(change).event for change in read.items], read.reached, read.whole)
        new = takewhile(lambda entry: (entry.change.id or 0) > position, reversed(self._newest))
        fitting = [entry for entry in new if _fits(entry.change, change_filter)][::-1]
        if len(fitting) <= limit:
            return EventsRead([entry.event for entry in fitting], max(position, self._reached), whole=True)
        shown = fitting[:limit]
        return EventsRead([entry.event for entry in shown], shown[-1].change.id or 0, whole=False)

    async def _covers(self, changes: ChangeStore, position: int) -> bool:
        """Reads what is new, once for all who wait; returns whether everything after `position` is kept."""
        if self._after is None or self._reached < changes.newest:
            async with self._reading:
                await self._read(changes)
        return self._after is not None and position >= self._after

    async def _read(self, changes: ChangeStore) -> None:
        if self._after is None:
            self._after = self._reached = await changes.last_id()
        missed = changes.newest - self._reached
        if missed > MAX_EVENTS:  # nobody followed for a while
            self._newest.clear()
            self._bytes = 0
            self._after = self._reached = changes.newest - MAX_EVENTS
        while self._reached < changes.newest:
            read = await changes.after(_ALL, self._reached, _SHARED_CHANGES_PAGE)
            for change in read.items:
                entry = encoded(change)
                self._newest.append(entry)
                self._bytes += len(entry.event)
            self._reached = read.reached
            self._drop()
            if read.whole:
                break

    def _drop(self) -> None:
        while len(self._newest) > MAX_EVENTS or self._bytes > MAX_BYTES:
            oldest = self._newest.popleft()
            self._bytes -= len(oldest.event)
            self._after = oldest.change.id


def encoded(change: Change) -> EncodedChange:
    """Returns a change with its event."""
    data = shown_json(change).decode()
    return EncodedChange(change, format_sse_event(event="change", data_str=data, id=str(change.id)))


def _needs_database(change_filter: ChangeFilter) -> bool:
    """Returns whether a change itself does not say if it fits."""
    return any(
        condition is not None
        for condition in (
            change_filter.tag,
            change_filter.unseen_by,
            change_filter.words,
            change_filter.rule_id,
            change_filter.after,
        )
    )


def _fits(change: Change, change_filter: ChangeFilter) -> bool:
    return (
        (change_filter.since is None or change.detected_at >= change_filter.since)
        and (change_filter.site_id is None or change.site_id == change_filter.site_id)
        and (change_filter.matters is None or change.matters == change_filter.matters)
        and (change_filter.selection is None or change.selection == change_filter.selection)
    )


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
            return _(
                "this caller has as many event streams as it may: {max_streams_of_caller}",
                max_streams_of_caller=MAX_STREAMS_OF_CALLER,
            )
        return (
            _("there are {max_streams} event streams already", max_streams=MAX_STREAMS)
            if self.under_way >= MAX_STREAMS
            else None
        )

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
    change_filter: Announced,
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
    start = await _start(daemon.store.changes, change_filter, last)
    source = _Source(request.app.state.shared_changes, request.app.state.live_state, daemon, streams)
    return _EventStream(_events(source, change_filter, start, kinds), streams, caller)


def _name_of(request: Request) -> str:
    """Returns a name for the caller: the user or token, or the address of one who did not have to sign in."""
    caller = caller_of(request)
    if caller is None:
        return "" if request.client is None else request.client.host
    return f"{caller.by.value}:{caller.name}" if caller.user_id is None else f"user:{caller.user_id}"


def _kinds(types: str) -> frozenset[str]:
    """Returns the kinds of events. Raises `InvalidValueError`."""
    kinds = frozenset(kind.strip() for kind in types.split(","))
    if not kinds <= set(TYPES):
        raise InvalidValueError("types", _("some of {names}", names=", ".join(TYPES)), types)
    return kinds


@dataclass(frozen=True, slots=True)
class _Source:
    """What a stream tells from."""

    changes: SharedChanges
    state: LiveState
    ports: ApiPorts
    streams: Streams


async def _start(store: ChangeStore, change_filter: ChangeFilter, last: int | None) -> int:
    """Returns the id to start after, read before the answer begins, so that no later commit is missed."""
    if last is None and change_filter.since is not None:
        return 0
    newest = await store.last_id()
    # An id from another, deleted database would hide all new changes.
    return newest if last is None else min(last, newest)


async def _events(
    source: _Source, change_filter: ChangeFilter, position: int, kinds: frozenset[str]
) -> AsyncIterator[bytes]:
    """Yields the events of the wanted kinds until the streams end."""
    # An id without data is no event; a client resumes from it if it receives none.
    yield format_sse_event(id=str(position), retry=_RETRY_MILLISECONDS)
    with source.ports.control.poll_feed.watching() if kinds & {"polls", "health"} else contextlib.nullcontext():
        sent, read = (b"", b""), EventsRead([], position, whole=True)
        while not source.streams.ending:
            if "change" in kinds:
                try:
                    read = await source.changes.after(source.ports.store.changes, change_filter, position, _PAGE)
                except DatabaseUnavailableError:
                    yield format_sse_event(comment="the database does not answer")
                    await source.streams.wait(RETRY_SECONDS)
                    continue
                position = read.reached
            new = (
                await source.state.polls() if "polls" in kinds else b"",
                source.state.health() if "health" in kinds else b"",
            )
            others = b"".join(event for event, before in zip(new, sent, strict=True) if event is not before)
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
    news = source.ports.store.changes.news(position) if "change" in kinds else None
    most = HEALTH_SECONDS - time.monotonic() % HEALTH_SECONDS if "health" in kinds else HEARTBEAT_SECONDS
    came = await source.streams.wait(most, news)
    if came and news is not None:
        await source.streams.wait(_PACE_SECONDS)
    return came or "health" in kinds


ROUTERS = (router,)
