"""Makes channels of settings. What a kind needs is imported when a channel of that kind is made."""

from __future__ import annotations

from collections.abc import Mapping

from pollerd.errors import InvalidValueError
from pollerd.masking import NOT_SHOWN
from pollerd.notifications.channels.apprise.settings import AppriseSettings
from pollerd.notifications.channels.channel import ChannelEnvironment, MessageChannel
from pollerd.notifications.channels.jetstream.settings import JetStreamSettings
from pollerd.notifications.channels.mail.settings import MailSettings
from pollerd.notifications.channels.settings import ChannelSettings, ParsedChannel
from pollerd.notifications.channels.webhook.settings import WebhookSettings


def complete_channel(parsed: ParsedChannel) -> ParsedChannel:
    """Returns the channel ready to be stored: a webhook without a secret gets a new one.

    Raises `InvalidValueError` if something is missing.
    """
    settings, secrets = parsed
    match settings:
        case WebhookSettings():
            from pollerd.notifications.channels.webhook.webhook import complete_webhook

            return ParsedChannel(settings, complete_webhook(secrets))
        case AppriseSettings() if "url" not in secrets:
            raise InvalidValueError("url", "given", None)
        case MailSettings(username=str()) | JetStreamSettings(username=str()) if "password" not in secrets:
            raise InvalidValueError("password", "given with a username", None)
        case _:
            return parsed


def make_channel(
    settings: ChannelSettings, secrets: Mapping[str, str], environment: ChannelEnvironment
) -> MessageChannel:
    """Returns the channel; nothing is dialled yet. Made inside the running loop.

    Raises `InvalidValueError` if a secret is missing.
    """
    complete = complete_channel(ParsedChannel(settings, dict(secrets)))
    if isinstance(settings, WebhookSettings):
        from pollerd.notifications.channels.webhook.webhook import Webhook

        if "secret" not in secrets:
            raise InvalidValueError("secret", "given", NOT_SHOWN)
        return Webhook(settings, complete.secrets, environment)
    if isinstance(settings, MailSettings):
        from pollerd.notifications.channels.mail.mail import MailChannel

        return MailChannel(settings, complete.secrets, environment)
    if isinstance(settings, JetStreamSettings):
        from pollerd.notifications.channels.jetstream.jetstream import JetStreamChannel

        return JetStreamChannel(settings, complete.secrets, environment)
    from pollerd.notifications.channels.apprise.apprise import AppriseChannel

    return AppriseChannel(settings, complete.secrets, environment)
