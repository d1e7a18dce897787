"""What a template is given: texts, numbers, lists and tables of one message. Texts are single lines, not escaped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Any

from pollerd.notifications.message import Event, EventChange, EventSite, Message
from pollerd.notifications.messages.build import count
from pollerd.notifications.messages.describe import describe
from pollerd.notifications.messages.plain import one_line, plain_line
from pollerd.timestamps import rfc3339

NAMES = ("subject", "summary", "count", "kind", "events", "event", "site", "change", "link")
"""Names of the values that every template has. event, site, change: none in a message of several events."""
MOST_EVENTS = 500
_LONGEST = 2_000
_DEEPEST = 5


def context_of(message: Message, link: str = "", zone: tzinfo = UTC) -> dict[str, Any]:
    """Returns the values of a message. link: where all events of a group are."""
    events = [_event(event, zone) for event in message.events[:MOST_EVENTS]]
    only = events[0] if len(message.events) == 1 else None
    return {
        "subject": message.subject,
        "summary": count(message.events) if only is None else only["summary"],
        "count": len(message.events),
        "kind": "group" if only is None else only["kind"],
        "events": events,
        "event": only,
        "site": None if only is None else only["site"],
        "change": None if only is None else only["change"],
        "link": link if only is None else only["link"] or link,
    }


def _event(event: Event, zone: tzinfo) -> dict[str, Any]:
    said = describe(event, zone)
    return {
        "id": event.id,
        "kind": event.kind.value,
        "at": rfc3339(event.at),
        "title": said.title,
        "summary": said.summary,
        "facts": [{"name": name, "value": value} for name, value in said.facts],
        "site": None if event.site is None else _site(event.site),
        "change": None if event.change is None else _change(event.change),
        "data": _plain(event.data, 0),
        "link": event.link,
    }


def _site(site: EventSite) -> dict[str, Any]:
    return {
        "id": site.id,
        "url": site.url,
        "title": one_line(site.title, _LONGEST),
        "tags": [one_line(tag, _LONGEST) for tag in site.tags],
    }


def _change(change: EventChange) -> dict[str, Any]:
    before = change.previous_poll_at
    return {
        "id": change.id,
        "kind": change.kind.value,
        "selection": one_line(change.selection, _LONGEST),
        "summary": one_line(change.summary, _LONGEST),
        "matters": change.matters,
        "why": one_line(change.why, _LONGEST),
        "detected_at": rfc3339(change.detected_at),
        "previous_poll_at": None if before is None else rfc3339(before),
        "added": [plain_line(line, _LONGEST) for line in change.added],
        "removed": [plain_line(line, _LONGEST) for line in change.removed],
        "cut": change.cut,
        "values": {one_line(name, _LONGEST): one_line(value, _LONGEST) for name, value in change.values.items()},
    }


def _plain(value: Any, depth: int) -> Any:
    """Returns a value as plain texts, numbers, lists and tables."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {one_line(str(key), _LONGEST): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return [_plain(item, depth + 1) for item in value]
    return plain_line(str(value), _LONGEST)
