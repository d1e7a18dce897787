"""Makes the channel of parsed settings; each kind loads its library then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pollerd.fetching import FetchSettings, Poster
from pollerd.notifications.channels.channel import Channel
from pollerd.notifications.channels.settings import (
    AppriseSettings,
    EmailSettings,
    NatsSettings,
    ParsedChannel,
    WebhookSettings,
)


@dataclass(frozen=True, kw_only=True)
class ChannelEnvironment:
    """What channels need of the daemon. `fetching`: with `allow_private` as it holds for channels."""

    fetching: FetchSettings
    overview_url: str = ""
    """Where users see all changes; empty: nowhere."""
    name: Callable[[], str] = lambda: "pollerd"
    """Name of this daemon, for Message-IDs and lists."""


def make_channel(parsed: ParsedChannel, environment: ChannelEnvironment) -> Channel:
    """Returns the channel. Raises InvalidValueError for settings that cannot be used."""
    match parsed.settings:
        case WebhookSettings() as settings:
            from pollerd.notifications.channels.webhook import WebhookChannel

            return WebhookChannel(settings, parsed.secrets, Poster(environment.fetching), environment.overview_url)
        case EmailSettings() as settings:
            from pollerd.notifications.channels.email import EmailChannel

            return EmailChannel(settings, parsed.secrets, environment.fetching)
        case NatsSettings() as settings:
            from pollerd.notifications.channels.nats import NatsChannel

            return NatsChannel(settings, parsed.secrets, environment.fetching, environment.overview_url)
        case AppriseSettings() as settings:
            from pollerd.notifications.channels.apprise import AppriseChannel

            return AppriseChannel(settings, parsed.secrets, environment.fetching)
