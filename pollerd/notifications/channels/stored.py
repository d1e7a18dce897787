"""Channels as stored, and what messages for them look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from pollerd.notifications.channels.settings import AppriseSettings, EmailSettings, ParsedChannel, parse_channel
from pollerd.notifications.messages.build import Look
from pollerd.notifications.messages.escaping import Medium
from pollerd.scheduling.times.local_time import zone_of
from pollerd.storage import ChannelRow


def stored_channel(row: ChannelRow) -> ParsedChannel:
    """Returns the settings of a stored channel. Raises InvalidValueError where they cannot be used."""
    return parse_channel(row.kind, {**orjson.loads(row.settings), **row.secrets})


def stored_settings(parsed: ParsedChannel) -> str:
    """Returns what is stored of a channel besides its secrets."""
    shown: dict[str, Any] = parsed.shown()
    del shown["secrets"]
    return orjson.dumps(shown).decode()


def look_of(parsed: ParsedChannel, overview_url: str) -> Look:
    """Returns how messages of the channel look, and which bodies it needs."""
    zone = zone_of(parsed.settings.zone, "zone")
    return Look(zone=zone, overview_url=overview_url, media=_media(parsed))


def template_of(parsed: ParsedChannel) -> tuple[str, Medium] | None:
    """Returns the channel's template, and what it writes; None: it has none."""
    if not parsed.settings.template:
        return None
    medium = Medium.TEXT if isinstance(parsed.settings, EmailSettings) else Medium.MARKDOWN
    return parsed.settings.template, medium


def _media(parsed: ParsedChannel) -> frozenset[Medium]:
    media: Mapping[type, frozenset[Medium]] = {
        EmailSettings: frozenset({Medium.TEXT, Medium.HTML}),
        AppriseSettings: frozenset({Medium.MARKDOWN, Medium.TEXT, Medium.HTML}),
    }
    return media.get(type(parsed.settings), frozenset())
