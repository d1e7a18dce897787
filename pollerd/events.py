"""Events that users may be told of, and notices of them that wait in the outbox. Values only."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class EventKind(StrEnum):
    """What happened. The value is the `type` of a webhook."""

    CHANGED = "site.changed"
    """A change was found. Its notice names the change; conditions decide whether it matters."""
    FIRST_SEEN = "site.first_seen"
    """A page was read for the first time."""
    FAILING = "site.failing"
    """A site failed for as many polls, or as long, as a rule says."""
    RECOVERED = "site.recovered"
    """A site answers again, of which the same rule told that it fails. Has the id of that event's incident."""
    GONE = "site.gone"
    """The page said that it is gone for good (410)."""
    MOVED = "site.moved"
    """The page redirected permanently often enough that its new URL is proposed."""
    NO_TEXT = "site.no_text"
    """The page has no text that could be compared: a script makes it, or it only leads elsewhere."""
    NOTHING_SELECTED = "site.nothing_selected"
    """A selection of the site matched nothing."""
    BLIND = "daemon.blind"
    """Nothing could be polled for a while: our own link or the database failed, or the daemon did not run."""
    OVER_BUDGET = "daemon.over_budget"
    """The budget cannot hold the sites' longest intervals, or can again."""
    CHANNEL_DOWN = "channel.down"
    """A channel was paused because its receiver refused our credentials, or works again."""
    TEST = "channel.test"
    """A user tries a channel."""


class NoticeState(StrEnum):
    """Where a notice stands. `WAITING` and `SENDING` are open; the others are final until a user sends it again."""

    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    DEAD = "dead"


class Notice(Struct, frozen=True, gc=False):
    """One event, to be told on one channel; written in the transaction of what it tells of."""

    event_id: str
    """Stable: the same for every channel, attempt and restart. Without "."."""
    kind: EventKind
    at: float
    rule_id: int
    channel_id: int
    due_at: float
    """When it may be sent first (epoch s): later than `at` for digests and in quiet hours."""
    digest: str = ""
    """Key of the digest that it belongs to: all of one channel with one key become one message; empty: told alone."""
    site_id: int | None = None
    selection: str | None = None
    """A change: the selection in which it was found. Together with the site it names the change of its record."""
    data: str = "{}"
    """A JSON object with what the kind tells besides; a change tells nothing besides: it is read when it is sent."""


class Incident(Struct, frozen=True, gc=False):
    """A failure of a site that a rule told of and that goes on."""

    rule_id: int
    site_id: int
    id: str
    """NewsTable with the failure and with the recovery."""
    since: float
    """When the site was last seen working, or when it was added (epoch s)."""
