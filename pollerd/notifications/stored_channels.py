"""Channels as stored: one JSON object of settings, with the options of delivery, and one of secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import orjson
from msgspec import Struct

from pollerd.detection.selection.document import known_table, text, whole_number
from pollerd.errors import InvalidValueError
from pollerd.notifications.channels.apprise import AppriseSettings
from pollerd.notifications.channels.mail_settings import MailSettings
from pollerd.notifications.channels.settings import (
    ParsedChannel,
    change_channel,
    complete_channel,
    parse_channel,
    shown_settings,
)
from pollerd.notifications.channels.webhook import HEADER
from pollerd.notifications.writing import Limits, Look, Medium
from pollerd.scheduling.windows import zone_of
from pollerd.storage.notification_values import ChannelSpec
from pollerd.texts import _

# Options of delivery on a channel, whatever its kind: pace, grouping, template and time zone.

LONGEST_TEMPLATE = 20_000


class DeliveryOptions(Struct, frozen=True):
    """`per_minute`: messages a minute at most; `group_from`: events in a minute from which they are told together."""

    per_minute: int = 30
    group_from: int = 10
    zone: str = "UTC"
    """In its time moments are shown."""
    template: str = ""
    """Jinja2 template of the body; empty: the built-in message."""


DEFAULT_OPTIONS = DeliveryOptions()


def delivery_options(fields: Mapping[str, Any] | None, field: str = "delivery") -> DeliveryOptions:
    """Returns the options of a plain object; None: the defaults. Raises InvalidValueError.

    The template is not checked: that may take long, and is a worker's.
    """
    if fields is None:
        return DEFAULT_OPTIONS
    options = {
        name: value
        for name, value in known_table(field, fields, DeliveryOptions.__struct_fields__).items()
        if value is not None
    }
    usual = DEFAULT_OPTIONS
    return DeliveryOptions(
        per_minute=whole_number(f"{field}.per_minute", options.get("per_minute", usual.per_minute), 1, 6_000),
        group_from=whole_number(f"{field}.group_from", options.get("group_from", usual.group_from), 2, 1_000),
        zone=_zone(f"{field}.zone", options.get("zone", usual.zone)),
        template=text(f"{field}.template", options["template"], LONGEST_TEMPLATE) if options.get("template") else "",
    )


def _zone(field: str, value: object) -> str:
    name = text(field, value)
    zone_of(name, field)
    return name


_DELIVERY = "delivery"
_MAIL_LIMITS = Limits(text=Limits().html)
"""Mails list in plain text what they list in HTML."""


class OpenedChannel(NamedTuple):
    """A channel, parsed: where messages go, and how they are sent."""

    channel: ParsedChannel
    options: DeliveryOptions


def opened(spec: ChannelSpec) -> OpenedChannel:
    """Returns a stored channel. Raises InvalidValueError where it cannot be used."""
    settings: dict[str, Any] = orjson.loads(spec.settings)
    options = delivery_options(settings.pop(_DELIVERY, None))
    secrets: dict[str, str] = orjson.loads(spec.secrets) if spec.secrets else {}
    return OpenedChannel(ParsedChannel(parse_channel(spec.kind, settings).settings, secrets), options)


def with_settings(spec: ChannelSpec, fields: Mapping[str, Any], before: ChannelSpec | None = None) -> ChannelSpec:
    """Returns the channel with settings and secrets from a plain object, checked.

    before: the channel as it is; secrets that are not given stay, unless its address changes, and without `delivery`
    how messages are sent. Raises InvalidValueError.
    """
    rest = dict(fields)
    own = rest.pop(_DELIVERY, None)
    options = delivery_options(own)
    parsed = parse_channel(spec.kind, rest)
    if before is not None and before.kind == spec.kind:
        known = opened(before)
        parsed = change_channel(known.channel, parsed)
        options = known.options if own is None else options
    return _closed(spec, OpenedChannel(complete_channel(parsed), options))


def without_secrets(spec: ChannelSpec, settings: Mapping[str, Any]) -> ChannelSpec:
    """Returns a channel whose secrets are to be given yet: disabled. Raises InvalidValueError."""
    rest = dict(settings)
    options = delivery_options(rest.pop(_DELIVERY, None))
    parsed = ParsedChannel(parse_channel(spec.kind, rest).settings, {})
    return _closed(replace(spec, enabled=False), OpenedChannel(parsed, options))


def given_again(settings: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """Returns stored settings and secrets as a user gives them, for `with_settings`."""
    merged = dict(settings)
    headers = {name.removeprefix(HEADER): value for name, value in secrets.items() if name.startswith(HEADER)}
    merged |= {name: value for name, value in secrets.items() if not name.startswith(HEADER)}
    if headers:
        merged["headers"] = headers
    query = merged.pop("query", None)
    return merged if query is None else {**merged, "url": f"{merged.get('url')}?{query}"}


def with_new_secret(spec: ChannelSpec, *, until: float) -> ChannelSpec:
    """Returns a webhook with a new secret; until `until` (epoch s) messages are signed with the previous one, too.

    Raises InvalidValueError for a channel of another kind.
    """
    from pollerd.notifications.channels.webhook import WebhookSettings, new_secret

    known = opened(spec)
    settings, secrets = known.channel
    if not isinstance(settings, WebhookSettings):
        raise InvalidValueError("kind", _("webhook: secrets of other channels are given by their receivers"), spec.kind)
    fresh = {**secrets, "secret": new_secret()}
    if "secret" in secrets:  # else it came without, by an import
        settings, fresh["previous_secret"] = msgspec.structs.replace(settings, previous_until=until), secrets["secret"]
    rotated = ParsedChannel(settings, fresh)
    return _closed(spec, OpenedChannel(rotated, known.options))


def shown(spec: ChannelSpec) -> dict[str, Any]:
    """Returns the settings of a stored channel as JSON values; of secrets only the names."""
    known = opened(spec)
    settings = shown_settings(known.channel.settings)
    return {**settings, _DELIVERY: msgspec.to_builtins(known.options), "secrets": sorted(known.channel.secrets)}


def look_of(known: OpenedChannel, overview_url: str) -> Look:
    """Returns how messages of the channel look, and which bodies it needs."""
    limits = _MAIL_LIMITS if isinstance(known.channel.settings, MailSettings) else Limits()
    zone = zone_of(known.options.zone, "zone")
    return Look(limits=limits, zone=zone, overview_url=overview_url, media=_media(known))


def template_of(known: OpenedChannel) -> tuple[str, Medium] | None:
    """Returns the channel's template, and what it writes; None: it has none."""
    if not known.options.template or not _media(known):
        return None
    medium = Medium.TEXT if isinstance(known.channel.settings, MailSettings) else Medium.MARKDOWN
    return known.options.template, medium


def _closed(spec: ChannelSpec, known: OpenedChannel) -> ChannelSpec:
    parsed = known.channel
    settings = {**shown_settings(parsed.settings), _DELIVERY: msgspec.to_builtins(known.options)}
    secrets = orjson.dumps(parsed.secrets, option=orjson.OPT_SORT_KEYS).decode() if parsed.secrets else None
    return replace(spec, settings=orjson.dumps(settings).decode(), secrets=secrets)


def _media(known: OpenedChannel) -> frozenset[Medium]:
    """Returns the bodies that the channel needs: a payload is made of the events themselves."""
    settings = known.channel.settings
    if isinstance(settings, MailSettings):
        return frozenset({Medium.TEXT, Medium.HTML})
    return frozenset(Medium) if isinstance(settings, AppriseSettings) else frozenset()
