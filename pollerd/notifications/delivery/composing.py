"""Composes messages: reads what claimed notices tell of, compares contents, and writes it for one channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from msgspec.structs import replace

from pollerd.events import EventKind
from pollerd.model import Media
from pollerd.notifications.message import Event, EventChange, EventSite, Message
from pollerd.notifications.messages.build import Look, message_of_digest, message_of_group, message_of_one
from pollerd.notifications.messages.lines import CutLines, changed_lines, cut_lines
from pollerd.storage import ClaimedMessage, NoticeContext, NotificationStore, StoredNotice

Work = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments in a worker process."""
_HERE_BYTES = 64 * 1024
_WITH_LINES = 20
"""Number of events up to which differences are shown."""
_NO_LINES = CutLines((), (), cut=False)


@dataclass(frozen=True, kw_only=True)
class Composer:
    """What all messages share.

    public_url: where users reach the daemon, without a slash at its end; empty: nowhere.
    """

    store: NotificationStore
    work: Work
    public_url: str = ""

    async def compose(self, claimed: ClaimedMessage, look: Look) -> Message:
        """Returns the message of these notices, under their id. Raises DatabaseUnavailableError."""
        notices = claimed.notices
        with_lines = len(notices) <= _WITH_LINES
        contexts = await self.store.contexts(notices, with_contents=with_lines)
        events = [await self._event(one, known) for one, known in zip(notices, contexts, strict=True)]
        return replace(_message(events, notices, look), id=claimed.id)

    async def _event(self, notice: StoredNotice, known: NoticeContext) -> Event:
        data: dict[str, Any] = orjson.loads(notice.data)
        url = str(data.pop("url", ""))
        site = known.site
        told = None
        if site is not None:
            told = EventSite(site.id, site.url, site.title, site.tags)
        elif notice.site_id is not None:
            told = EventSite(notice.site_id, url)
        change = await self._change(notice, known, data) if notice.kind is EventKind.CHANGED else None
        link = f"{self.public_url}/changes/{change.id}" if self.public_url and change is not None else ""
        return Event(notice.event_id, notice.kind, notice.at, told, change, data, link)

    async def _change(self, notice: StoredNotice, known: NoticeContext, data: dict[str, Any]) -> EventChange:
        summary, media = str(data.pop("summary", "")), Media(data.pop("kind", Media.TEXT.value))
        change = known.change
        if change is None:
            return EventChange(notice.change_id or 0, media, summary, detected_at=notice.at)
        lines = await self._lines(known, change.kind)
        return EventChange(
            id=change.id or 0,
            kind=change.kind,
            summary=change.summary,
            selection=change.selection,
            detected_at=change.detected_at,
            previous_poll_at=change.previous_poll_at,
            matters=change.matters,
            why=change.why,
            added=lines.added,
            removed=lines.removed,
            cut=lines.cut,
            values=known.values,
        )

    async def _lines(self, known: NoticeContext, media: Media) -> CutLines:
        before, after = known.before, known.after
        if before is None or after is None:
            return _NO_LINES
        if len(before) + len(after) <= _HERE_BYTES:
            return lines_shown(before, after, media)
        try:
            found: CutLines = await self.work(lines_shown, before, after, media)
        except TimeoutError:
            return _NO_LINES
        return found


def lines_shown(before: bytes, after: bytes, media: Media) -> CutLines:
    """Returns the lines of a change as a message shows them."""
    return cut_lines(changed_lines(before, after, media))


def _message(events: Sequence[Event], notices: Sequence[StoredNotice], look: Look) -> Message:
    if notices[0].digest:
        return message_of_digest(events, look)
    return message_of_one(events[0], look) if len(events) == 1 else message_of_group(events, look)
