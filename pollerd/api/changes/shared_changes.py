"""One reading of the newest changes for all event streams: each is read and encoded once, however many follow."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from itertools import takewhile

from fastapi.sse import format_sse_event

from pollerd.api.schemas.polls import ChangeSchema
from pollerd.model import Change
from pollerd.storage import ChangeFilter, HistoryStore

_ALL = ChangeFilter()
_PAGE = 1_000
MOST_EVENTS = 1_000
MOST_BYTES = 1_000_000


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

    async def after(self, history: HistoryStore, wanted: ChangeFilter, position: int, limit: int) -> EventsRead:
        """Returns matching events with ids above `position`, oldest first, at most `limit`.

        Raises `DatabaseUnavailableError`.
        """
        if _needs_database(wanted) or not await self._covers(history, position):
            read = await history.changes_after(wanted, position, limit)
            return EventsRead([encoded(change).event for change in read.items], read.reached, read.whole)
        new = takewhile(lambda one: (one.change.id or 0) > position, reversed(self._newest))
        fitting = [one for one in new if _fits(one.change, wanted)][::-1]
        if len(fitting) <= limit:
            return EventsRead([one.event for one in fitting], max(position, self._reached), whole=True)
        shown = fitting[:limit]
        return EventsRead([one.event for one in shown], shown[-1].change.id or 0, whole=False)

    async def _covers(self, history: HistoryStore, position: int) -> bool:
        """Reads what is new, once for all who wait; returns whether everything after `position` is kept."""
        if self._after is None or self._reached < history.newest_change:
            async with self._reading:
                await self._read(history)
        return self._after is not None and position >= self._after

    async def _read(self, history: HistoryStore) -> None:
        if self._after is None:
            self._after = self._reached = await history.last_change_id()
        missed = history.newest_change - self._reached
        if missed > MOST_EVENTS:  # nobody followed for a while
            self._newest.clear()
            self._bytes = 0
            self._after = self._reached = history.newest_change - MOST_EVENTS
        while self._reached < history.newest_change:
            read = await history.changes_after(_ALL, self._reached, _PAGE)
            for change in read.items:
                one = encoded(change)
                self._newest.append(one)
                self._bytes += len(one.event)
            self._reached = read.reached
            self._drop()
            if read.whole:
                break

    def _drop(self) -> None:
        while len(self._newest) > MOST_EVENTS or self._bytes > MOST_BYTES:
            oldest = self._newest.popleft()
            self._bytes -= len(oldest.event)
            self._after = oldest.change.id


def encoded(change: Change) -> EncodedChange:
    """Returns a change with its event."""
    data = ChangeSchema.model_validate(change).model_dump_json()
    return EncodedChange(change, format_sse_event(event="change", data_str=data, id=str(change.id)))


def _needs_database(wanted: ChangeFilter) -> bool:
    """Returns whether a change itself does not say if it fits."""
    return any(one is not None for one in (wanted.tag, wanted.unseen_by, wanted.words, wanted.rule_id, wanted.after))


def _fits(change: Change, wanted: ChangeFilter) -> bool:
    return (
        (wanted.since is None or change.detected_at >= wanted.since)
        and (wanted.site_id is None or change.site_id == wanted.site_id)
        and (wanted.matters is None or change.matters == wanted.matters)
        and (wanted.selection is None or change.selection == wanted.selection)
    )
