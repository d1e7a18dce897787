"""A message as rows, before it is written for a medium: each row is shown whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo
from enum import Enum

from msgspec import Struct

from pollerd.notifications.message import Event, EventSite
from pollerd.notifications.messages.describe import LONGEST_NAME, describe, moment
from pollerd.notifications.messages.plain import one_line, plain_line

_LONGEST_LINE = 400


class RowKind(Enum):
    """What a row shows."""

    SUMMARY = "summary"
    SITE = "site"
    ITEM = "item"
    """One event of several."""
    FACT = "fact"
    ADDED = "added"
    REMOVED = "removed"
    LINK = "link"
    SPACE = "space"
    NOTE = "note"


class MessageRow(Struct, frozen=True):
    """One row: plain text, not escaped. label: the name of a fact. url: where a site or link leads."""

    kind: RowKind
    text: str = ""
    label: str = ""
    url: str = ""


_SPACE = MessageRow(RowKind.SPACE)


def rows_of_one(event: Event, most_lines: int, zone: tzinfo = UTC) -> Iterator[MessageRow]:
    """Yields the rows of an event that is told alone."""
    said = describe(event, zone)
    yield MessageRow(RowKind.SUMMARY, said.summary)
    if event.site is not None:
        yield _site_row(event.site)
    yield from _difference(event, most_lines)
    yield _SPACE
    for label, value in said.facts:
        yield MessageRow(RowKind.FACT, value, label)
    if event.link:
        yield _SPACE
        yield MessageRow(RowKind.LINK, "See it", url=event.link)


def rows_of_group(events: Sequence[Event]) -> Iterator[MessageRow]:
    """Yields a row for each event, in their order."""
    for event in events:
        said = describe(event, with_facts=False)
        yield MessageRow(RowKind.ITEM, f"{said.title}: {said.summary}", url=event.link or _url(event))


def rows_of_digest(events: Sequence[Event], most_lines: int, zone: tzinfo = UTC) -> Iterator[MessageRow]:
    """Yields the events by site, sites in the order of their first events; those of no site come first."""
    by_site: dict[int, list[Event]] = {0: []}
    for event in events:
        by_site.setdefault(0 if event.site is None else event.site.id, []).append(event)
    for some in by_site.values():
        if some and some[0].site is not None:
            yield _SPACE
            yield _site_row(some[0].site)
        for event in some:
            said = describe(event, with_facts=False)
            title = "" if event.change is not None else f"{said.title}: "
            yield MessageRow(RowKind.ITEM, f"{moment(event.at, zone)} · {title}{said.summary}", url=event.link)
            yield from _difference(event, most_lines)


def _difference(event: Event, most_lines: int) -> Iterator[MessageRow]:
    change = event.change
    if change is None or not (change.added or change.removed) or not most_lines:
        return
    yield _SPACE
    for kind, lines in ((RowKind.REMOVED, change.removed), (RowKind.ADDED, change.added)):
        for line in lines[:most_lines]:
            yield MessageRow(kind, plain_line(line, _LONGEST_LINE))
    longest = max(len(change.added), len(change.removed))
    if change.cut or longest > most_lines:
        yield MessageRow(RowKind.NOTE, "The difference is cut.")


def _site_row(site: EventSite) -> MessageRow:
    return MessageRow(RowKind.SITE, one_line(site.title, LONGEST_NAME), url=site.url)


def _url(event: Event) -> str:
    return "" if event.site is None else event.site.url
