"""The JSON of webhooks and NATS: `{type, timestamp, data}` by Standard Webhooks, below 20 kB.

Of a single event `type` is its kind; of several it is "group", and `data.events` holds each as it would be alone. A
message of more events than `events_carried` is split before it is sent. Should one still not fit (its facts grew
between two attempts), the last events are left out, `cut` says so, and `link` leads to all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from pollerd.notifications.message import Event, EventChange, EventSite, Message
from pollerd.timestamps import rfc3339

MAX_BYTES = 20_000
GROUP = "group"
_LONGEST_TEXT = 500
_MAX_TAGS, _MAX_VALUES = 20, 20
_MAX_DATA_BYTES = 4_000
_LINES = (1_000, 100, 40, 15, 5, 0)
"""How many lines of a difference are tried, of either kind."""
_LINES_IN_GROUP = 5
_ENVELOPE_BYTES = 600


def payload_of(message: Message, most: int = MAX_BYTES, link: str = "") -> bytes:
    """Returns the body, at most `most` bytes (at least 4,000) for messages with links of usual length.

    link: where all events of a group are.
    """
    if len(message.events) == 1:
        return _single(message.events[0], most)
    return _group(message.events, most, link)


def events_carried(message: Message, most: int = MAX_BYTES, link: str = "") -> int:
    """Returns how many of the message's events, from the first on, a payload of `most` bytes holds; 1 at least."""
    if len(message.events) == 1:
        return 1
    return max(len(_fitting(message.events, 0, _room(most, link))), 1)


def _single(event: Event, most: int) -> bytes:
    body = b""
    for lines in _LINES:
        body = _dumped(_enveloped(event, lines))
        if len(body) <= most:
            break
    else:
        body = _dumped(_enveloped(event, 0, bare=True))
    return body


def _group(events: Sequence[Event], most: int, link: str) -> bytes:
    """Keeps the differences, if all fit with a few lines each; then as many events as fit without."""
    latest = max((event.at for event in events), default=0.0)
    sites = len({event.site.id for event in events if event.site is not None})
    left = _room(most, link)
    members = _fitting(events, _LINES_IN_GROUP, left)
    if len(members) < len(events):
        members = _fitting(events, 0, left)
    data = {"count": len(events), "sites": sites, "cut": len(members) < len(events), "link": link}
    data["events"] = [orjson.Fragment(member) for member in members]
    return _dumped({"type": GROUP, "timestamp": rfc3339(latest), "data": data})


def _room(most: int, link: str) -> int:
    """Returns the bytes that the events of a group may take."""
    return most - _ENVELOPE_BYTES - len(link)


def _fitting(events: Sequence[Event], lines: int, left: int) -> list[bytes]:
    """Returns the first events, as many as fit."""
    members: list[bytes] = []
    for event in events:
        member = _dumped(_enveloped(event, lines))
        left -= len(member) + 1
        if left < 0:
            break
        members.append(member)
    return members


def _enveloped(event: Event, lines: int, bare: bool = False) -> dict[str, Any]:
    """Returns one event. bare: without what may be long."""
    data: dict[str, Any] = {"id": event.id, "link": event.link}
    if event.site is not None:
        data["site"] = _site(event.site, bare)
    if event.change is not None:
        data["change"] = _change(event.change, lines, bare)
    if event.data:
        details = _dumped(dict(event.data))
        fits = not bare and len(details) <= _MAX_DATA_BYTES
        data["details"] = orjson.Fragment(details) if fits else {"cut": True}
    return {"type": event.kind.value, "timestamp": rfc3339(event.at), "data": data}


def _site(site: EventSite, bare: bool) -> dict[str, Any]:
    tags = [] if bare else [tag[:_LONGEST_TEXT] for tag in site.tags[:_MAX_TAGS]]
    return {"id": site.id, "url": site.url, "title": site.title[:_LONGEST_TEXT], "tags": tags}


def _change(change: EventChange, lines: int, bare: bool) -> dict[str, Any]:
    values = [] if bare else list(change.values.items())
    kept = {name: value[:_LONGEST_TEXT] for name, value in values[:_MAX_VALUES]}
    before = change.previous_poll_at
    return {
        "id": change.id,
        "kind": change.kind.value,
        "selection": change.selection,
        "summary": change.summary[:_LONGEST_TEXT],
        "matters": change.matters,
        "why": change.why[:_LONGEST_TEXT],
        "detected_at": rfc3339(change.detected_at),
        "previous_poll_at": None if before is None else rfc3339(before),
        "added": change.added[:lines],
        "removed": change.removed[:lines],
        "cut": change.cut or max(len(change.added), len(change.removed)) > lines,
        "values": kept,
    }


def _dumped(value: object) -> bytes:
    """Returns JSON. Halves of surrogate pairs, which UTF-8 cannot hold, become U+FFFD; longer integers become texts."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:
        return orjson.dumps(_clean(value), default=str, option=orjson.OPT_NON_STR_KEYS)


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {str(_clean(str(key))): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset | set):
        return [_clean(item) for item in value]
    return str(value) if isinstance(value, int) and abs(value) >= 2**63 else value
