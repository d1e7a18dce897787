"""Routes of channels: where events are told."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Query, Response

from pollerd.api.http.context import ApiPorts, Daemon
from pollerd.api.http.parameters import MAX_ID, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing
from pollerd.api.schemas.notifications import ChannelPatch, ChannelSchema, NewChannel, Resent, Rotation, TestAnswer
from pollerd.storage import QueueCounts, StoredChannel

router = api_router("/channels", tag="notifications")
ChannelId = Annotated[int, Path(ge=1, le=MAX_ID, description="the channel's id")]
_JSON = [Depends(json_body)]
_NOTHING = QueueCounts()


@router.get("", summary="List channels")
async def list_channels(daemon: Daemon) -> Listing[ChannelSchema]:
    """All channels, by id, with what each has still to tell."""
    return Listing.of(await shown_channels(daemon), None)


async def shown_channels(daemon: ApiPorts) -> list[ChannelSchema]:
    """Returns all channels, by id, without secrets."""
    store, control = daemon.store.notifications, daemon.control.notifications
    rows, counts = await store.channels(), await store.counts()
    return [
        ChannelSchema.of(row, control.shown(row), counts.get(row.id, _NOTHING), not_fenced=control.not_fenced(row))
        for row in rows
    ]


@router.post("", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Add a channel")
async def add_channel(daemon: Daemon, channel: NewChannel, response: Response) -> ChannelSchema:
    """A webhook without a secret gets one, which is shown this once. 409 with `existing_id` where the name is taken."""
    async with daemon.turn:
        added = await daemon.control.notifications.add_channel(
            channel.name, channel.kind, channel.settings, enabled=channel.enabled
        )
    response.headers["Location"] = f"/api/v1/channels/{added.id}"
    given = "secret" in channel.settings
    return await _shown(daemon, added, with_secret=not given)


@router.get("/{channel_id:id}", summary="One channel")
async def get_channel(daemon: Daemon, channel_id: ChannelId) -> ChannelSchema:
    """The channel as it stands, without secrets."""
    return await _shown(daemon, await daemon.store.notifications.channel(channel_id))


@router.patch("/{channel_id:id}", dependencies=_JSON, summary="Change a channel")
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


@router.delete(
    "/{channel_id:id}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="Remove a channel"
)
async def delete_channel(
    daemon: Daemon,
    channel_id: ChannelId,
    from_rules: Annotated[bool, Query(description="also where rules name it")] = False,
) -> None:
    """What it had still to tell is dead. 422 while rules name it, unless `from_rules` is given."""
    async with daemon.turn:
        await daemon.control.notifications.delete_channel(channel_id, from_rules=from_rules)


@router.post("/{channel_id:id}/test", summary="Try a channel")
async def try_channel(daemon: Daemon, channel_id: ChannelId) -> TestAnswer:
    """Sends a test message at once, beside what waits; tells what came of it."""
    answer = await daemon.control.notifications.try_channel(channel_id)
    return TestAnswer(outcome=answer.kind.value, status=answer.status, detail=answer.detail)


@router.post("/{channel_id:id}/rotate", dependencies=_JSON, summary="Give a webhook a new secret")
async def rotate_secret(daemon: Daemon, channel_id: ChannelId, body: Rotation) -> ChannelSchema:
    """It is shown this once. For `overlap` seconds messages are signed with the previous secret, too."""
    async with daemon.turn:
        rotated = await daemon.control.notifications.rotate_secret(channel_id, body.overlap)
    return await _shown(daemon, rotated, with_secret=True)


@router.post("/{channel_id:id}/resend", summary="Send what is dead again")
async def resend_channel(daemon: Daemon, channel_id: ChannelId) -> Resent:
    """All that could not be told on this channel waits anew."""
    await daemon.store.notifications.channel(channel_id)
    return Resent(resent=await daemon.control.notifications.resend(channel_id=channel_id))


async def _shown(daemon: ApiPorts, row: StoredChannel, *, with_secret: bool = False) -> ChannelSchema:
    counts = (await daemon.store.notifications.counts()).get(row.id, _NOTHING)
    control = daemon.control.notifications
    secret = control.signing_secret(row) if with_secret else None
    return ChannelSchema.of(row, control.shown(row), counts, not_fenced=control.not_fenced(row), secret=secret)
