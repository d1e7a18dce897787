"""Builds the delivery loop, with the first channel."""

from __future__ import annotations

DELIVERY_SECONDS = 2.0
"""Timeout of one template."""
TEMPLATE_MEMORY_BYTES = 512 * 1024**2


def delivery_loop(
    store: NotificationStore,
    events: DaemonEvents,
    filled: asyncio.Event,
    settings: NotificationSettings,
    runtime: Runtime,
) -> DeliveryLoop:
    """Returns the loop that delivers on all channels. `filled`: set when there is something new to send."""
    composer = Composer(store=store, work=runtime.workers.do, public_url=settings.base_url)
    watch = DeliveryWatch(events, runtime.instruments)
    environment = ChannelEnvironment(
        fetching=FetchSettings(
            allow_private=settings.allow_private_channels, max_connections=64, ca_file=settings.ca_file
        ),
        overview_url=settings.base_url,
    )

    def make_sender(row: ChannelRow) -> ChannelSender:
        parsed = stored_channel(row)
        own = parsed.settings
        return ChannelSender(
            row,
            make_channel(parsed, environment),
            pace=Pace(group_from=own.group_from, per_minute=own.per_minute),
            store=store,
            compose=partial(composer.compose, look=look_of(parsed, settings.base_url)),
            watch=watch,
            clock=runtime.clock,
        )

    return DeliveryLoop(store=store, make_sender=make_sender, filled=filled, holds=holds_channel, clock=runtime.clock)


def holds_channel(channel_id: int) -> bool:
    """Whether this process delivers on the channel: one process holds the database, so it always does."""
    return True
