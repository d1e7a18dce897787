"""Values of notifications as stored. Times are epoch seconds, durations seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from pollerd.events import EventKind, NoticeState
from pollerd.model import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRow:
    """A channel as stored. `repr` shows no secret."""

    id: int
    name: str
    kind: str
    settings: str
    """JSON without secrets."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    enabled: bool = True
    origin: str = "api"
    """"api", or "file" where the list of sites names it."""
    created_at: float = 0.0
    changed_at: float = 0.0
    paused_at: float | None = None
    """Since when its receiver refuses us; None: it does not."""
    paused_reason: str = ""
    probe_at: float | None = None
    """When it is tried again."""
    last_sent_at: float | None = None
    last_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """A rule as stored."""

    id: int
    name: str
    settings: str
    """JSON, with the name."""
    origin: str = "api"
    created_at: float = 0.0
    changed_at: float = 0.0


class StoredNotice(Struct, frozen=True, gc=False):
    """A notice in the outbox."""

    id: int
    event_id: str
    kind: EventKind
    at: float
    site_id: int | None
    change_id: int | None
    data: str
    rule_id: int
    channel_id: int
    state: NoticeState
    due_at: float
    digest: str
    attempts: int
    message_id: str | None
    last_detail: str
    ended_at: float | None


class ClaimedMessage(Struct, frozen=True):
    """Notices that are sent now, as one message."""

    id: str
    notices: tuple[StoredNotice, ...]
    attempts: int
    """Number of failed ones."""
    since: float
    """When the first was made, or would have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryEnd:
    """The end of one attempt to send a message."""

    channel_id: int
    message_id: str
    at: float
    outcome: str
    status: int | None
    detail: str
    duration: float
    next_at: float | None = None
    """When it is tried again; None: it was sent, or is dead."""
    dead: bool = False


class Attempt(Struct, frozen=True, gc=False):
    """An attempt as stored."""

    id: int
    at: float
    channel_id: int
    message_id: str
    events: int
    outcome: str
    status: int | None
    detail: str
    duration: float


@dataclass(frozen=True, slots=True)
class NoticeFilter:
    """Which notices to list; None: all."""

    channel_id: int | None = None
    state: NoticeState | None = None
    change_id: int | None = None
    site_id: int | None = None
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class OutboxCounts:
    """What waits, and for how long."""

    waiting: int
    sending: int
    dead: int
    oldest_due_at: float | None
    """When the notice that waits longest was due; None: none is."""
    paused_channels: int


class NamedSite(Struct, frozen=True, gc=False):
    """A site, for messages."""

    id: int
    url: str
    title: str
    tags: tuple[str, ...]


class NoticeContext(Struct, frozen=True):
    """What a message needs to know of a notice besides."""

    site: NamedSite | None = None
    """None: there is none, or it was removed."""
    change: Change | None = None
    before: bytes | None = None
    after: bytes | None = None
    """Contents of the change; None: pruned."""
    values: Mapping[str, str] = {}
    """Values of the change's selection, as read last until then."""
