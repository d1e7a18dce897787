"""Values of notifications as they are stored. Times are epoch seconds, durations seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, StrEnum
from typing import NamedTuple

from msgspec import Struct

from pollerd.events import EventKind, NoticeState
from pollerd.model import Change, StoredReading
from pollerd.shown import SHOWN, Moment


class Origin(StrEnum):
    """Who said what a channel or rule is."""

    API = "api"
    FILE = "file"
    """The configuration file; it wins."""


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """What a user says of a channel. Both texts are JSON objects, which storage does not read."""

    name: str
    kind: str
    settings: str = "{}"
    """Nothing secret."""
    secrets: str | None = field(default=None, repr=False)
    """Stored encrypted."""
    enabled: bool = True
    origin: Origin = Origin.API


@dataclass(frozen=True, slots=True)
class StoredChannel:
    """A channel as stored."""

    id: int
    spec: ChannelSpec
    created_at: float
    changed_at: float
    paused_at: float | None = None
    """Since when nothing but one message now and then is sent; None: it is not paused."""
    paused_reason: str = ""
    probe_at: float | None = None
    """A paused channel: when one message may be tried."""
    last_sent_at: float | None = None
    last_error: str = ""
    """Of the last attempt; empty: it was sent, or there was none."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a channel is paused, and when one message may be tried."""

    reason: str
    probe_at: float | None


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """What a user says of a rule. `settings` is a JSON object; its "channels" has the names of channels."""

    name: str
    settings: str
    enabled: bool = True
    origin: Origin = Origin.API


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A rule as stored."""

    id: int
    spec: RuleSpec
    created_at: float
    changed_at: float
    muted_until: float | None = None


class StoredNotice(Struct, frozen=True, gc=False):
    """A notice in the outbox. Its fields are the columns, in their order."""

    id: int
    event_id: str
    kind: EventKind
    at: float
    rule_id: int
    channel_id: int
    site_id: int | None
    url: str | None
    """The site's when it happened; the site may be gone."""
    change_id: int | None
    selection: str | None
    data: str
    digest: str
    waits_since: float
    """When it was first to be sent, or was made waiting anew."""
    due_at: float
    state: NoticeState
    message_id: str | None
    """The message that it went into; None: no attempt was made."""
    attempts: int
    """Ended ones."""
    last_detail: str
    ended_at: float | None


class NewMessages(Flag):
    """Which messages a channel may begin. Those that were tried before go on in any case."""

    NONE = 0
    FIRST_SEEN = 1
    """Of first sights alone: a list of new sites floods a channel with them, so they give way to all others."""
    OTHERS = 2
    ALL = 3


class DueTimes(NamedTuple):
    """When a channel has something to send (epoch s; inf: nothing); it may be past."""

    again: float = math.inf
    """A message that was tried before."""
    others: float = math.inf
    first_seen: float = math.inf


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """One message to send now: it is noted as being sent."""

    channel_id: int
    message_id: str
    """The event's id of a single notice; else a hash of those of all. The same at each attempt."""
    notices: tuple[StoredNotice, ...]
    """By id; the same at each attempt."""
    attempts: int
    """Earlier ones."""
    digest: str = ""
    """Key of the digest; empty: it is none."""
    facts: tuple[NoticeFacts, ...] = ()
    """What it may show, of a single notice; of several `NotificationStore.facts` reads it."""

    @property
    def only_first_seen(self) -> bool:
        """Whether it tells of first sights alone."""
        return all(notice.kind is EventKind.FIRST_SEEN for notice in self.notices)


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt to send a claimed message ended."""

    state: NoticeState
    """Of its notices: sent, dead, or waiting for the next attempt."""
    outcome: str
    """Kind of the answer, for the delivery log."""
    status: int | None = None
    detail: str = ""
    """One line without secrets."""
    duration: float = 0.0
    due_at: float | None = None
    """When to try again; required if its notices wait."""
    pause: Pause | None = None
    """Pauses the channel."""
    resumes: bool = False
    """Ends a pause of the channel."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to send one message, in the delivery log."""

    __pydantic_config__ = SHOWN
    id: int
    at: Moment
    """When it ended."""
    channel_id: int
    message_id: str
    events: int
    """Number of events in the message."""
    outcome: str
    status: int | None
    """HTTP or SMTP."""
    detail: str
    duration: float


@dataclass(frozen=True, slots=True)
class NoticeFilter:
    """A filter on notices: all fields that are not None must match."""

    state: NoticeState | None = None
    channel_id: int | None = None
    change_id: int | None = None
    site_id: int | None = None
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """What a channel has in the outbox, without what was sent."""

    __pydantic_config__ = SHOWN
    waiting: int = 0
    """Those that are due later included."""
    sending: int = 0
    dead: int = 0
    """Could not be sent; `resend` queues them again."""
    oldest: Moment | None = None
    """Since when the oldest open notice waits; later than now for one that is due later. None: none is open."""


@dataclass(frozen=True, slots=True)
class FileResult:
    """What the configuration file changed: names of channels and rules."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoticeSite:
    """The site of a notice, as it is now."""

    id: int
    url: str
    title: str
    """The user's, else the page's own; empty: it has none."""
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoticeFacts:
    """What a message may show of a notice."""

    notice: StoredNotice
    site: NoticeSite | None
    """None: it is gone, or the event is no site's."""
    change: Change | None = None
    """None: there is none, or it is gone."""
    before: bytes | None = None
    """The content before and after the change; None: there is none, it was pruned, or it was not asked for."""
    after: bytes | None = None
    values: Mapping[str, StoredReading] = field(default_factory=dict)
    """Values of the change's selection, as read at the change."""
