"""How messages are sent on a channel, whatever its kind: how many, grouped from when, in which words and zone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from pollerd.detection.selection.document import known_table, text, whole_number
from pollerd.scheduling.times.local_time import zone_of

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


def delivery_options(given: Mapping[str, Any] | None, field: str = "delivery") -> DeliveryOptions:
    """Returns the options of a plain object; None: the defaults. Raises InvalidValueError.

    The template is not checked: that may take long, and is a worker's.
    """
    if given is None:
        return DEFAULT_OPTIONS
    found = {
        name: value
        for name, value in known_table(field, given, DeliveryOptions.__struct_fields__).items()
        if value is not None
    }
    usual = DEFAULT_OPTIONS
    return DeliveryOptions(
        per_minute=whole_number(f"{field}.per_minute", found.get("per_minute", usual.per_minute), 1, 6_000),
        group_from=whole_number(f"{field}.group_from", found.get("group_from", usual.group_from), 2, 1_000),
        zone=_zone(f"{field}.zone", found.get("zone", usual.zone)),
        template=text(f"{field}.template", found["template"], LONGEST_TEMPLATE) if found.get("template") else "",
    )


def _zone(field: str, given: object) -> str:
    name = text(field, given)
    zone_of(name, field)
    return name
