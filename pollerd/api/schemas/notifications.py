"""Rules, channels and deliveries: input and output."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from pollerd import storage
from pollerd.api.schemas.common import Given, Moment
from pollerd.events import EventKind, NoticeState

Origin = Literal["api", "file"]
Name = Annotated[str, Field(min_length=1, max_length=100, description="unique among those of its kind")]
Document = dict[str, Any]
_ORIGIN = "file: the list of sites names it, and says how it is"


class NewRule(BaseModel):
    """A rule: which events, of which sites, are told on which channels. Fields that are left out have defaults.

    docs/notifications.md describes each field; a wrong one is refused with its place.
    """

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {"name": "prices", "channels": ["mail"], "sites": {"tags": ["shop"]}},
                {
                    "name": "down",
                    "channels": ["mail"],
                    "events": ["site.failing", "site.recovered"],
                    "failing": {"after_polls": 3},
                },
            ]
        },
    )

    name: Name
    channels: list[str] = Field(min_length=1, description="names of channels")

    def document(self) -> Document:
        """Returns the rule as it was given."""
        return self.model_dump()


class RuleSchema(BaseModel):
    """A rule as it stands."""

    id: int
    name: str
    rule: Document = Field(description="the rule, without what it leaves to defaults")
    enabled: bool
    muted_until: Moment | None = Field(description="until then it tells nothing")
    origin: Origin = Field(description=_ORIGIN)
    created_at: Moment
    changed_at: Moment

    @classmethod
    def of(cls, row: storage.StoredRule) -> RuleSchema:
        """Returns the rule in the API's words."""
        return cls(
            id=row.id,
            name=row.spec.name,
            rule=orjson.loads(row.spec.settings),
            enabled=row.spec.enabled,
            muted_until=row.muted_until,
            origin=row.spec.origin.value,
            created_at=row.created_at,
            changed_at=row.changed_at,
        )


class Mute(Given):
    """Until when a rule tells nothing."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"until": "2026-12-24T18:00:00Z"}]})

    until: str | None = Field(description="RFC 3339 or epoch seconds; null: no longer", max_length=100)


class NewChannel(Given):
    """A channel: where events are told. Its secrets are stored encrypted and never shown again."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "hook", "kind": "webhook", "settings": {"url": "https://example.org/hook"}},
                {
                    "name": "mail",
                    "kind": "email",
                    "settings": {
                        "host": "mail.example.org",
                        "sender": "pollerd@example.org",
                        "recipients": ["me@example.org"],
                    },
                },
            ]
        }
    )

    name: Name
    kind: str = Field(max_length=50, description="webhook, email, nats or apprise")
    enabled: bool = True
    settings: Document = Field(description="by kind, with its secrets; `delivery`: how messages are sent")


class ChannelPatch(Given):
    """New values for a channel; what is left out stays. `settings` are replaced as a whole.

    But for secrets: those that are left out stay, unless the address changes, which asks for them anew.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": False}]})

    name: Name | None = None
    enabled: bool | None = None
    settings: Document = Field({}, description="by kind, as when it was made")


class QueueSchema(BaseModel):
    """What a channel has still to tell."""

    waiting: int
    sending: int
    dead: int = Field(description="could not be told; `resend` makes them wait anew")
    oldest: Moment | None = Field(description="since when the first of them waits")

    @classmethod
    def of(cls, counts: storage.QueueCounts) -> QueueSchema:
        """Returns the counts."""
        return cls(waiting=counts.waiting, sending=counts.sending, dead=counts.dead, oldest=counts.oldest)


class ChannelSchema(BaseModel):
    """A channel as it stands, without secrets."""

    id: int
    name: str
    kind: str
    enabled: bool
    settings: Document = Field(description="without secrets; `secrets` has their names")
    origin: Origin = Field(description=_ORIGIN)
    created_at: Moment
    changed_at: Moment
    paused_at: Moment | None = Field(description="since when its receiver refuses us; null: it does not")
    paused_reason: str
    probe_at: Moment | None = Field(description="when one message is tried")
    last_sent_at: Moment | None
    last_error: str = Field(description="of the last attempt; empty: it was sent, or there was none")
    queue: QueueSchema
    not_fenced: str | None = Field(
        None,
        description="of Apprise: why the kernel does not fence its plugins; null: it does, or needs not",
    )
    secret: str | None = Field(None, description="of a webhook: shown once, when it was made")

    @classmethod
    def of(
        cls,
        row: storage.StoredChannel,
        shown: Document,
        counts: storage.QueueCounts,
        *,
        not_fenced: str | None = None,
        secret: str | None = None,
    ) -> ChannelSchema:
        """Returns the channel in the API's words. `shown`: its settings without secrets."""
        return cls(
            id=row.id,
            name=row.spec.name,
            kind=row.spec.kind,
            enabled=row.spec.enabled,
            settings=shown,
            origin=row.spec.origin.value,
            created_at=row.created_at,
            changed_at=row.changed_at,
            paused_at=row.paused_at,
            paused_reason=row.paused_reason,
            probe_at=row.probe_at,
            last_sent_at=row.last_sent_at,
            last_error=row.last_error,
            queue=QueueSchema.of(counts),
            not_fenced=not_fenced,
            secret=secret,
        )


class TestAnswer(BaseModel):
    """What came of a test message."""

    __test__ = False

    outcome: str = Field(description="sent, retry, dead or refused")
    status: int | None
    detail: str


class Rotation(Given):
    """How long the previous secret of a webhook signs, too."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"overlap": 86400.0}]})

    overlap: float = Field(86_400.0, ge=0, le=30 * 86_400.0, description="s")


class Resend(Given):
    """Which dead deliveries are sent again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": [17, 18]}]})

    ids: list[Annotated[int, Field(ge=1, le=2**63 - 1)]] = Field(min_length=1, max_length=1_000)


class Resent(BaseModel):
    """How many deliveries wait anew."""

    resent: int


class Delivery(BaseModel):
    """One event for one channel: told, or still to be told."""

    id: int
    event_id: str
    kind: EventKind
    at: Moment = Field(description="when it happened")
    rule_id: int
    channel_id: int
    site_id: int | None
    change_id: int | None
    state: NoticeState
    due_at: Moment
    digest: str = Field(description="key of the digest that it belongs to; empty: none")
    attempts: int
    message_id: str | None = Field(description="the message that it was sent in")
    detail: str = Field(description="of the last attempt")
    ended_at: Moment | None

    @classmethod
    def of(cls, one: storage.StoredNotice) -> Delivery:
        """Returns the delivery in the API's words."""
        return cls(
            id=one.id,
            event_id=one.event_id,
            kind=one.kind,
            at=one.at,
            rule_id=one.rule_id,
            channel_id=one.channel_id,
            site_id=one.site_id,
            change_id=one.change_id,
            state=one.state,
            due_at=one.due_at,
            digest=one.digest,
            attempts=one.attempts,
            message_id=one.message_id,
            detail=one.last_detail,
            ended_at=one.ended_at,
        )


class AttemptSchema(BaseModel):
    """One attempt to send one message."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    at: Moment
    channel_id: int
    message_id: str
    events: int = Field(description="how many the message tells of")
    outcome: str
    status: int | None = Field(description="HTTP or SMTP")
    detail: str
    duration: float
