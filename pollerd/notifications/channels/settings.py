"""Settings of channels: parsed from a JSON object, split into public and secret ones, and made into a channel.

The public ones are stored as they are; secrets are encrypted by storage. An object that was stored is parsed again,
with nothing secret in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from pollerd.errors import InvalidValueError, refusal, unknown_name
from pollerd.masking import NOT_SHOWN
from pollerd.notifications.channels.apprise import APPRISE, SCHEMES, AppriseSettings, apprise_settings
from pollerd.notifications.channels.channel import ChannelEnvironment, MessageChannel
from pollerd.notifications.channels.jetstream_settings import JETSTREAM, JetStreamSettings, jetstream_settings
from pollerd.notifications.channels.mail_settings import MAIL, MailSettings, mail_settings
from pollerd.notifications.channels.webhook import WEBHOOK, WebhookSettings, webhook_settings
from pollerd.texts import N_, _

ChannelSettings: TypeAlias = WebhookSettings | MailSettings | JetStreamSettings | AppriseSettings
KINDS: dict[str, Callable[[Mapping[str, Any]], tuple[ChannelSettings, dict[str, str]]]] = {
    WEBHOOK: webhook_settings,
    MAIL: mail_settings,
    JETSTREAM: jetstream_settings,
    APPRISE: apprise_settings,
}
"""Kind -> what parses its settings."""


class ParsedChannel(NamedTuple):
    """Settings and secrets of a channel."""

    settings: ChannelSettings
    secrets: dict[str, str]

    def __repr__(self) -> str:
        return f"ParsedChannel(settings={self.settings!r}, secrets={sorted(self.secrets)})"


_BY_APPRISE = frozenset(["slack", "telegram", "discord", "teams", "matrix", "ntfy", "pushover", "signal", "gotify"])
"""Services that people try as kinds."""


def parse_channel(kind: str, fields: Mapping[str, Any]) -> ParsedChannel:
    """Returns settings and secrets of what a user gave. Raises `InvalidValueError`."""
    if kind not in KINDS:
        if str(kind).lower() in _BY_APPRISE | SCHEMES:
            raise refusal("kind", _("{kind} is a service of Apprise: use kind apprise", kind=kind))
        raise unknown_name("kind", N_("kind of channel"), str(kind), list(KINDS))
    settings, secrets = KINDS[kind](fields)
    return ParsedChannel(settings, secrets)


def shown_settings(settings: ChannelSettings) -> dict[str, Any]:
    """Returns the settings as a JSON object that `parse_channel` takes again: nothing in it is secret."""
    return {name: value for name, value in msgspec.to_builtins(settings).items() if value is not None}


def change_channel(old: ParsedChannel, new: ParsedChannel) -> ParsedChannel:
    """Returns the new settings, with those secrets of the old ones that were not given again and still serve.

    Raises `InvalidValueError` if they would be sent to another address than the one they were given for.
    """
    if type(old.settings) is not type(new.settings):
        return new
    kept = {name: value for name, value in old.secrets.items() if new.settings.uses(name, new.secrets)}
    missing = sorted(kept.keys() - new.secrets.keys())
    if missing and old.settings.address() != new.settings.address():
        allowed = _("given again, because the address changes: secrets are sent only where they were given for")
        raise InvalidValueError(missing[0], allowed, NOT_SHOWN)
    return ParsedChannel(new.settings, kept | new.secrets)


# Channels made of settings. The library of a kind is imported when a channel of that kind is made.


def complete_channel(parsed: ParsedChannel) -> ParsedChannel:
    """Returns the channel ready to be stored: a webhook without a secret gets a new one.

    Raises `InvalidValueError` if something is missing.
    """
    settings, secrets = parsed
    match settings:
        case WebhookSettings():
            from pollerd.notifications.channels.webhook import complete_webhook

            return ParsedChannel(settings, complete_webhook(secrets))
        case AppriseSettings() if "url" not in secrets:
            raise refusal("url", _("is needed"))
        case MailSettings(username=str()) | JetStreamSettings(username=str()) if "password" not in secrets:
            raise refusal("password", _("a username needs a password"))
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
        from pollerd.notifications.channels.webhook import Webhook

        if "secret" not in secrets:
            raise refusal("secret", _("is needed"))
        return Webhook(settings, complete.secrets, environment)
    if isinstance(settings, MailSettings):
        from pollerd.notifications.channels.mail import MailChannel

        return MailChannel(settings, complete.secrets, environment)
    if isinstance(settings, JetStreamSettings):
        from pollerd.notifications.channels.jetstream import JetStreamChannel

        return JetStreamChannel(settings, complete.secrets, environment)
    from pollerd.notifications.channels.apprise import AppriseChannel

    return AppriseChannel(settings, complete.secrets, environment)
