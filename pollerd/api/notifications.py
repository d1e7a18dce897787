"""Channels, rules and deliveries.

Routes of rules: who is told of what.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

import orjson
from fastapi import Depends, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.common import Given, Listing
from pollerd.api.http import MAX_ID, ApiPorts, Cursor, Daemon, GivenOrder, Limit, Words, api_router, json_body
from pollerd.events import EventKind, NoticeState
from pollerd.shown import Moment
from pollerd.storage import notification_values
from pollerd.storage.notification_values import Attempt, NoticeFilter, QueueCounts, StoredChannel
from pollerd.timestamps import parse_moment

# Rules, channels and deliveries: input and output.

Origin = Literal["api", "file"]
Name = Annotated[str, Field(min_length=1, max_length=100, description="unique among those of its kind")]
Document = dict[str, Any]
_ORIGIN = "file: the list of sites names it, and says how it is"


class NewRule(BaseModel):
    """A rule: which events, of which sites, are sent to which channels. Missing fields have defaults.

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
    muted_until: Moment | None = Field(description="until then it sends nothing")
    origin: Origin = Field(description=_ORIGIN)
    created_at: Moment
    changed_at: Moment

    @classmethod
    def of(cls, row: notification_values.StoredRule) -> RuleSchema:
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
    """Time until which a rule sends nothing."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"until": "2026-12-24T18:00:00Z"}]})

    until: str | None = Field(description="RFC 3339 or epoch seconds; null: no longer", max_length=100)


class NewChannel(Given):
    """A channel: where events are sent. Its secrets are stored encrypted and never shown again."""

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
    """New values for a channel; missing fields stay. `settings` are replaced as a whole, apart from secrets: missing
    ones stay, unless the address changes.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": False}]})

    name: Name | None = None
    enabled: bool | None = None
    settings: Document = Field({}, description="by kind, as when it was made")


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
    queue: QueueCounts
    not_fenced: str | None = Field(
        None,
        description="of Apprise: why the kernel does not fence its plugins; null: it does, or needs not",
    )
    secret: str | None = Field(None, description="of a webhook: shown once, when it was made")

    @classmethod
    def of(
        cls,
        row: notification_values.StoredChannel,
        shown: Document,
        counts: notification_values.QueueCounts,
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
            queue=counts,
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
    """Number of deliveries that are queued again."""

    resent: int


class Delivery(BaseModel):
    """One event for one channel: sent, or queued."""

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
    def of(cls, notice: notification_values.StoredNotice) -> Delivery:
        """Returns the delivery in the API's words."""
        return cls(
            id=notice.id,
            event_id=notice.event_id,
            kind=notice.kind,
            at=notice.at,
            rule_id=notice.rule_id,
            channel_id=notice.channel_id,
            site_id=notice.site_id,
            change_id=notice.change_id,
            state=notice.state,
            due_at=notice.due_at,
            digest=notice.digest,
            attempts=notice.attempts,
            message_id=notice.message_id,
            detail=notice.last_detail,
            ended_at=notice.ended_at,
        )


router = api_router("/rules", tag="notifications")
RuleId = Annotated[int, Path(ge=1, le=MAX_ID, description="the rule's id")]
_JSON = [Depends(json_body)]


@router.get("", summary="List rules")
async def list_rules(daemon: Daemon) -> Listing[RuleSchema]:
    """All rules, by id."""
    return Listing.of(map(RuleSchema.of, await daemon.store.notifications.rules.all()), None)


@router.post("", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Add a rule")
async def add_rule(daemon: Daemon, rule: NewRule, response: Response) -> RuleSchema:
    """It applies to events from now on. 409 with `existing_id` where the name is taken."""
    async with daemon.turn:
        added = await daemon.control.notifications.add_rule(rule.document())
    response.headers["Location"] = f"/api/v1/rules/{added.id}"
    return RuleSchema.of(added)


@router.get("/{rule_id:id}", summary="One rule")
async def get_rule(daemon: Daemon, rule_id: RuleId) -> RuleSchema:
    """The rule as it stands."""
    return RuleSchema.of(await daemon.store.notifications.rules.get(rule_id))


@router.put("/{rule_id:id}", dependencies=_JSON, summary="Replace a rule")
async def replace_rule(daemon: Daemon, rule_id: RuleId, rule: NewRule) -> RuleSchema:
    """All of it: missing fields get their defaults. Its queued messages are sent as before."""
    async with daemon.turn:
        return RuleSchema.of(await daemon.control.notifications.change_rule(rule_id, rule.document()))


@router.post("/{rule_id:id}/mute", dependencies=_JSON, summary="Mute a rule for a while")
async def mute_rule(daemon: Daemon, rule_id: RuleId, body: Mute) -> RuleSchema:
    """Until then it sends nothing; events in this time are never sent."""
    until = None if body.until is None else parse_moment("until", body.until)
    async with daemon.turn:
        return RuleSchema.of(await daemon.control.notifications.mute_rule(rule_id, until))


@router.delete("/{rule_id:id}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="Remove a rule")
async def delete_rule(daemon: Daemon, rule_id: RuleId) -> None:
    """Its queued messages are still sent."""
    async with daemon.turn:
        await daemon.control.notifications.delete_rule(rule_id)


# Routes of channels: where events are told.

channels_router = api_router("/channels", tag="notifications")
ChannelId = Annotated[int, Path(ge=1, le=MAX_ID, description="the channel's id")]
_NOTHING = QueueCounts()


@channels_router.get("", summary="List channels")
async def list_channels(daemon: Daemon) -> Listing[ChannelSchema]:
    """All channels, by id, with the number of queued messages."""
    return Listing.of(await shown_channels(daemon), None)


async def shown_channels(daemon: ApiPorts) -> list[ChannelSchema]:
    """Returns all channels, by id, without secrets."""
    store, control = daemon.store.notifications, daemon.control.notifications
    rows, counts = await store.channels.all(), await store.outbox.counts()
    return [
        ChannelSchema.of(row, control.shown(row), counts.get(row.id, _NOTHING), not_fenced=control.not_fenced(row))
        for row in rows
    ]


@channels_router.post("", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Add a channel")
async def add_channel(daemon: Daemon, channel: NewChannel, response: Response) -> ChannelSchema:
    """A webhook without a secret gets one, which is shown this once. 409 with `existing_id` where the name is taken."""
    async with daemon.turn:
        added = await daemon.control.notifications.add_channel(
            channel.name, channel.kind, channel.settings, enabled=channel.enabled
        )
    response.headers["Location"] = f"/api/v1/channels/{added.id}"
    has_secret = "secret" in channel.settings
    return await _shown(daemon, added, with_secret=not has_secret)


@channels_router.get("/{channel_id:id}", summary="One channel")
async def get_channel(daemon: Daemon, channel_id: ChannelId) -> ChannelSchema:
    """The channel as it stands, without secrets."""
    return await _shown(daemon, await daemon.store.notifications.channels.get(channel_id))


@channels_router.patch("/{channel_id:id}", dependencies=_JSON, summary="Change a channel")
async def change_channel(daemon: Daemon, channel_id: ChannelId, patch: ChannelPatch) -> ChannelSchema:
    """Ends its pause: what waits is tried at once. With a new address its secrets must be given again."""
    async with daemon.turn:
        changed = await daemon.control.notifications.change_channel(
            channel_id,
            patch.settings if "settings" in patch.model_fields_set else None,
            name=patch.name,
            enabled=patch.enabled,
        )
    return await _shown(daemon, changed)


@channels_router.delete(
    "/{channel_id:id}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="Remove a channel"
)
async def delete_channel(
    daemon: Daemon,
    channel_id: ChannelId,
    from_rules: Annotated[bool, Query(description="also where rules name it")] = False,
) -> None:
    """Its queued messages fail. 422 while rules name it, unless `from_rules` is given."""
    async with daemon.turn:
        await daemon.control.notifications.delete_channel(channel_id, from_rules=from_rules)


@channels_router.post("/{channel_id:id}/test", summary="Try a channel")
async def try_channel(daemon: Daemon, channel_id: ChannelId) -> TestAnswer:
    """Sends a test message at once, without the queue; returns the result."""
    answer = await daemon.control.notifications.try_channel(channel_id)
    return TestAnswer(outcome=answer.kind.value, status=answer.status, detail=answer.detail)


@channels_router.post("/{channel_id:id}/rotate", dependencies=_JSON, summary="Give a webhook a new secret")
async def rotate_secret(daemon: Daemon, channel_id: ChannelId, body: Rotation) -> ChannelSchema:
    """It is shown this once. For `overlap` seconds messages are signed with the previous secret, too."""
    async with daemon.turn:
        rotated = await daemon.control.notifications.rotate_secret(channel_id, body.overlap)
    return await _shown(daemon, rotated, with_secret=True)


@channels_router.post("/{channel_id:id}/resend", summary="Retry failed messages")
async def resend_channel(daemon: Daemon, channel_id: ChannelId) -> Resent:
    """All failed messages of this channel are queued again."""
    await daemon.store.notifications.channels.get(channel_id)
    return Resent(resent=await daemon.control.notifications.resend(channel_id=channel_id))


async def _shown(daemon: ApiPorts, row: StoredChannel, *, with_secret: bool = False) -> ChannelSchema:
    counts = (await daemon.store.notifications.outbox.counts()).get(row.id, _NOTHING)
    control = daemon.control.notifications
    secret = control.signing_secret(row) if with_secret else None
    return ChannelSchema.of(row, control.shown(row), counts, not_fenced=control.not_fenced(row), secret=secret)


# Routes of deliveries: what was told to whom, and when.

deliveries_router = api_router("/deliveries", tag="notifications")
OfChannel = Annotated[int | None, Query(alias="channel", ge=1, le=MAX_ID, description="a channel's id")]
OfMessage = Annotated[Words | None, Query(alias="message", max_length=200, description="a message's id")]


async def _wanted(
    channel: OfChannel = None,
    state: Annotated[NoticeState | None, Query(description="only those in this state")] = None,
    change: Annotated[int | None, Query(ge=1, le=MAX_ID, description="a change's id: the deliveries of it")] = None,
    site: Annotated[int | None, Query(ge=1, le=MAX_ID, description="a site's id")] = None,
    message: OfMessage = None,
) -> NoticeFilter:
    return NoticeFilter(state, channel, change, site, message)


@deliveries_router.get("", summary="Delivery log")
async def list_deliveries(
    daemon: Daemon,
    notice_filter: Annotated[NoticeFilter, Depends(_wanted)],
    limit: Limit = 100,
    cursor: Cursor = None,
    order: GivenOrder = None,
) -> Listing[Delivery]:
    """Each event for each channel: sent, queued, or failed (`dead`)."""
    page = await daemon.store.notifications.log.notices(notice_filter, limit, cursor, order)
    return Listing.of(map(Delivery.of, page.items), page.next_cursor)


@deliveries_router.get("/attempts", summary="Attempts to send")
async def list_attempts(
    daemon: Daemon,
    channel: OfChannel = None,
    message: OfMessage = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    order: GivenOrder = None,
) -> Listing[Attempt]:
    """Every attempt with its answer, without secrets."""
    page = await daemon.store.notifications.log.attempts(channel, message, limit, cursor, order)
    return Listing.of(page.items, page.next_cursor)


@deliveries_router.post("/resend", dependencies=[Depends(json_body)], summary="Send dead deliveries again")
async def resend(daemon: Daemon, body: Resend) -> Resent:
    """Those of these that failed are queued again."""
    return Resent(resent=await daemon.control.notifications.resend(ids=body.ids))


ROUTERS = (router, channels_router, deliveries_router)
