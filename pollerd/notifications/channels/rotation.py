"""Replaces the secret of a webhook without a gap: for a while messages are signed with both."""

from __future__ import annotations

from msgspec.structs import replace

from pollerd.errors import InvalidValueError
from pollerd.notifications.channels.settings import ParsedChannel, WebhookSettings, new_webhook_secret


def rotated(channel: ParsedChannel, *, until: float) -> ParsedChannel:
    """Returns the channel with a new secret; the previous one holds until `until` (epoch s).

    Raises InvalidValueError for a channel that is no webhook.
    """
    if not isinstance(channel.settings, WebhookSettings):
        raise InvalidValueError("kind", "webhook: other channels have secrets that their receivers give", "another")
    secrets = {**channel.secrets, "secret": new_webhook_secret(), "previous_secret": channel.secrets["secret"]}
    return ParsedChannel(replace(channel.settings, previous_until=until), secrets)
