"""Makes messages of events: one alone, a group of what came at once, a digest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo

import xxhash
from msgspec import Struct

from pollerd.events import EventKind
from pollerd.notifications.message import Event, Message
from pollerd.notifications.messages.describe import describe
from pollerd.notifications.messages.escaping import Medium
from pollerd.notifications.messages.plain import one_line
from pollerd.notifications.messages.rows import MessageRow, rows_of_digest, rows_of_group, rows_of_one
from pollerd.notifications.messages.writing import Written, write
from pollerd.quantities import counted


class Limits(Struct, frozen=True, gc=False):
    """How long the parts of a message may be, in characters; what is longer is cut, and says so with the link."""

    subject: int = 150
    text: int = 16_000
    html: int = 90_000
    """Gmail cuts what is longer than 102 kB."""
    markdown: int = 3_500
    """Telegram takes 4,096 characters, Discord 2,000."""
    lines: int = 40
    """Lines shown as added, and as removed, of a change that is told alone."""
    digest_lines: int = 3
    """The same in a digest."""


class Look(Struct, frozen=True):
    """What messages of a channel have in common."""

    limits: Limits = Limits()
    zone: tzinfo = UTC
    """In its time moments are shown."""
    overview_url: str = ""
    """Where all changes are; empty: the daemon has no public address."""
    unsubscribe_url: str = ""
    """As of `Message`."""
    media: frozenset[Medium] = frozenset(Medium)
    """What is written at all: a webhook needs none of them, a chat only Markdown; the others are empty."""


_DEFAULT_LOOK = Look()
_NOTHING = Written("", 0)


def message_of_one(event: Event, look: Look = _DEFAULT_LOOK) -> Message:
    """Returns the message of one event. It has the id of the event."""
    said = describe(event, look.zone)
    rows = rows_of_one(event, look.limits.lines, look.zone)
    thread = "" if event.site is None else f"site-{event.site.id}"
    return _written(event.id, (event,), said.title, rows, look, event.link or look.overview_url, thread)


def message_of_group(events: Sequence[Event], look: Look = _DEFAULT_LOOK) -> Message:
    """Returns one message of many events, at least one, in the order in which they happened."""
    ordered = _in_order(events)
    rows = rows_of_group(ordered)
    return _written(group_id(events), ordered, count(events), rows, look, look.overview_url)


def message_of_digest(events: Sequence[Event], look: Look = _DEFAULT_LOOK) -> Message:
    """Returns the digest of events, at least one: by site, in the order in which they happened."""
    ordered = _in_order(events)
    rows = rows_of_digest(ordered, look.limits.digest_lines, look.zone)
    return _written(group_id(events), ordered, f"Digest: {count(events)}", rows, look, look.overview_url)


def group_id(events: Sequence[Event]) -> str:
    """Returns the id of a message of several events: a hash of their ids, whatever their order."""
    return ids_hash([event.id for event in events])


def ids_hash(ids: Sequence[str]) -> str:
    """Returns the id of a message of the events with these ids."""
    parts = (f"{len(one.encode())}:{one}" for one in sorted(set(ids)))
    return "g" + xxhash.xxh3_128_hexdigest("".join(parts).encode())


def count(events: Sequence[Event]) -> str:
    """Returns "137 changes at 12 sites"; events, if there are others among them."""
    sites = len({event.site.id for event in events if event.site is not None})
    thing = "change" if all(event.kind is EventKind.CHANGED for event in events) else "event"
    return counted(len(events), thing) + (f" at {counted(sites, 'site')}" if sites else "")


def _in_order(events: Sequence[Event]) -> tuple[Event, ...]:
    return tuple(sorted(events, key=lambda event: (event.at, event.id)))


def _written(
    id: str,
    events: tuple[Event, ...],
    subject: str,
    rows: Iterable[MessageRow],
    look: Look,
    more_at: str,
    thread: str = "",
) -> Message:
    limits = look.limits
    title = one_line(subject, limits.subject)
    all_rows = list(rows) if look.media else []

    def written(medium: Medium, most: int) -> Written:
        return write(all_rows, medium, most, title, more_at) if medium in look.media else _NOTHING

    text, html = written(Medium.TEXT, limits.text), written(Medium.HTML, limits.html)
    return Message(
        id=id,
        events=events,
        subject=title,
        text=text.text,
        html=html.text,
        markdown=written(Medium.MARKDOWN, limits.markdown).text,
        thread=thread,
        unsubscribe_url=look.unsubscribe_url,
        listed=max(len(events) - max(text.items_cut, html.items_cut), 1),
    )
