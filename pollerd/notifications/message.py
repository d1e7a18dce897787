"""Values between what happened and a channel: events in full, messages that are sent, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from pollerd.events import EventKind
from pollerd.model import Media


class EventSite(Struct, frozen=True):
    """A site as messages show it. Never with credentials: `url` has none."""

    id: int
    url: str
    title: str = ""
    """What users call it; empty: they did not say."""
    tags: tuple[str, ...] = ()


class EventChange(Struct, frozen=True):
    """A change as messages show it."""

    id: int
    kind: Media
    summary: str
    selection: str = "default"
    detected_at: float = 0.0
    previous_poll_at: float | None = None
    matters: bool = True
    why: str = ""
    """What the conditions of its selection say."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """Lines that came and went, in their order, cut to a number and a length. What a page contains is data: it is
    escaped for each medium.
    """
    cut: bool = False
    """Whether there are more such lines."""
    values: Mapping[str, str] = {}
    """Values of the selection at the change, as read."""


class Event(Struct, frozen=True):
    """One event, with all that a message may show of it."""

    id: str
    kind: EventKind
    at: float
    site: EventSite | None = None
    change: EventChange | None = None
    data: Mapping[str, Any] = {}
    """What other kinds tell, for example `failures`, `detail`, `incident`, `from`, `to`, `new_url`, `selection`."""
    link: str = ""
    """Where to see it; empty: the daemon has no public address."""


class Message(Struct, frozen=True):
    """One message, for one channel: a single event, or several as a group or digest. The same at every attempt."""

    id: str
    """The event's id, or a hash of those of its events. Without "."."""
    events: tuple[Event, ...]
    subject: str
    """One line without control characters."""
    text: str
    """Plain text."""
    html: str
    """A whole HTML document in which all data is escaped."""
    markdown: str
    """As `text`, in Markdown in which all data is escaped, mentions of chat services included."""
    thread: str = ""
    """What belongs together in a mailbox, for example `site-17`; empty: nothing does."""
    unsubscribe_url: str = ""
    """An https or http URL that mutes the rule by one POST; empty: there is none."""
    listed: int = 1
    """How many of the events, from the first on, both `text` and `html` list."""


class AnswerKind(StrEnum):
    """What became of one attempt to send."""

    SENT = "sent"
    RETRY = "retry"
    """It may succeed later: no answer, a refusal for now, an unknown result."""
    DEAD = "dead"
    """It will never succeed: this message is given up, the next may pass."""
    REFUSED = "refused"
    """Our credentials, or the whole address, are refused (401, 403, 410, SMTP 535): the channel is paused, and this
    message waits.
    """


class Receipt(Struct, frozen=True):
    """Result of one attempt."""

    kind: AnswerKind
    status: int | None = None
    """HTTP or SMTP code."""
    detail: str = ""
    """One line for users, at most 500 characters, without any secret of the channel."""
    retry_after: float | None = None
    """Seconds that the receiver asked us to wait, not limited."""
