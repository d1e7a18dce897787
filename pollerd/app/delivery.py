"""The delivery of notifications, built with the first channel."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial

from pollerd.daemon.announcer import Announcer
from pollerd.daemon.notifier import DaemonEvents, DeliveryWatch
from pollerd.daemon.runtime import Runtime
from pollerd.errors import ConfigError, file_fault
from pollerd.fetching.guard import Guard
from pollerd.fetching.poster import Poster
from pollerd.fetching.settings import FetchSettings
from pollerd.notifications.channels.channel import ChannelEnvironment
from pollerd.notifications.channels.mail_settings import MAIL
from pollerd.notifications.channels.settings import make_channel
from pollerd.notifications.composing import Composer
from pollerd.notifications.delivery import ChannelSender, DeliveryLoop, Pace
from pollerd.notifications.settings import NotificationSettings
from pollerd.notifications.stored_channels import look_of, opened, template_of
from pollerd.storage.notification_values import StoredChannel
from pollerd.storage.notifications import NotificationStore
from pollerd.texts import _

_CONNECTIONS = 64


def delivery_loop(
    store: NotificationStore,
    events: DaemonEvents,
    announcer: Announcer,
    filled: asyncio.Event,
    settings: NotificationSettings,
    runtime: Runtime,
) -> DeliveryLoop:
    """Returns the loop that delivers on all channels. `filled`: set when there is something new to send.

    A channel takes the public URL of the settings when it begins to deliver.
    """
    work, render = runtime.workers.do, runtime.templates.do
    watch = DeliveryWatch(events=events, announcer=announcer, instruments=runtime.instruments)
    fetching = FetchSettings(
        allow_private=settings.allow_private_channels,
        max_connections=_CONNECTIONS,
        ca_file=settings.ca_file,
        contact=settings.contact,
        proxy=settings.proxy,
    )
    poster = Poster(fetching)
    guard, tls = Guard(settings.allow_private_channels), tls_context(settings.ca_file)

    def make_sender(row: StoredChannel) -> ChannelSender:
        known, link = opened(row.spec), settings.base_url
        composer = Composer(store=store, work=work, render=render, public_url=link)
        environment = ChannelEnvironment(guard=guard, poster=poster, host=settings.host, link=link, tls=tls)
        return ChannelSender(
            row,
            make_channel(known.channel.settings, known.channel.secrets, environment),
            pace=Pace(group_from=known.options.group_from, per_minute=known.options.per_minute),
            store=store,
            compose=partial(
                composer.compose,
                look=look_of(known, link),
                template=template_of(known),
                has_links=row.spec.kind == MAIL,
            ),
            watch=watch,
            clock=runtime.clock,
        )

    return DeliveryLoop(
        store=store,
        make_sender=make_sender,
        filled=filled,
        close=poster.close,
        clock=runtime.clock,
    )


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Returns how servers of mail and NATS are verified. Raises ConfigError for a file that cannot be loaded."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as error:
            raise ConfigError(_("ca_file: {fault}", fault=file_fault(ca_file, error))) from error
    return context
