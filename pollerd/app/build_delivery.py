"""Builds the delivery of notifications, with the first channel."""

from __future__ import annotations

import asyncio
from functools import partial

from pollerd.daemon.notifying.daemon_events import DaemonEvents
from pollerd.daemon.notifying.delivery_watch import DeliveryWatch
from pollerd.daemon.process.workers import WorkerPool
from pollerd.daemon.state.runtime import Runtime
from pollerd.fetching import FetchSettings
from pollerd.notifications.channels.making import ChannelEnvironment, make_channel
from pollerd.notifications.channels.stored import look_of, stored_channel, template_of
from pollerd.notifications.delivery.composing import Composer
from pollerd.notifications.delivery.loop import DeliveryLoop
from pollerd.notifications.delivery.pace import Pace
from pollerd.notifications.delivery.sender import ChannelSender
from pollerd.notifications.settings import NotificationSettings
from pollerd.storage import NotificationStore, StoredChannel

TEMPLATE_SECONDS = 2.0
"""Timeout of one template."""
TEMPLATE_MEMORY_BYTES = 1024**3
_CONNECTIONS = 64


def delivery_loop(
    store: NotificationStore,
    events: DaemonEvents,
    filled: asyncio.Event,
    settings: NotificationSettings,
    runtime: Runtime,
) -> DeliveryLoop:
    """Returns the loop that delivers on all channels. `filled`: set when there is something new to send."""
    templates = WorkerPool(1, patience_seconds=TEMPLATE_SECONDS, memory_bytes=TEMPLATE_MEMORY_BYTES, name="templates")
    composer = Composer(store=store, work=runtime.workers.do, render=templates.do, public_url=settings.base_url)
    watch = DeliveryWatch(events, runtime.instruments)
    environment = ChannelEnvironment(
        fetching=FetchSettings(
            allow_private=settings.allow_private_channels,
            max_connections=_CONNECTIONS,
            ca_file=settings.ca_file,
            contact=settings.contact,
            proxy=settings.proxy,
        ),
        overview_url=settings.base_url,
    )

    def make_sender(row: StoredChannel) -> ChannelSender:
        parsed = stored_channel(row)
        own = parsed.settings
        return ChannelSender(
            row,
            make_channel(parsed, environment),
            pace=Pace(group_from=own.group_from, per_minute=own.per_minute),
            store=store,
            compose=partial(composer.compose, look=look_of(parsed, settings.base_url), template=template_of(parsed)),
            watch=watch,
            clock=runtime.clock,
        )

    return DeliveryLoop(
        store=store,
        make_sender=make_sender,
        filled=filled,
        holds=holds_channel,
        close=templates.close,
        clock=runtime.clock,
    )


def holds_channel(channel_id: int) -> bool:
    """Whether this process delivers on the channel: one process holds the database, so it always does."""
    return True
