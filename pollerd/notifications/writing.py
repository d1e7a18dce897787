"""Messages written for a medium, up to a length: rows of events as text, Markdown or HTML, with their data inert.

Rows that do not fit are counted, and the message says so with the link.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from enum import Enum, StrEnum
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import xxhash
from msgspec import Struct

from pollerd.events import EventKind
from pollerd.notifications.message import Event, EventSite, Message
from pollerd.notifications.messages import LONGEST_NAME, describe, moment, one_line, plain_line
from pollerd.texts import _, n_

# Rows of a message, before it is written for a medium: each row is shown whole or not at all.

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
    described = describe(event, zone)
    yield MessageRow(RowKind.SUMMARY, described.summary)
    if event.site is not None:
        yield _site_row(event.site)
    yield from _difference(event, most_lines)
    yield _SPACE
    for label, value in described.facts:
        yield MessageRow(RowKind.FACT, value, label)
    if event.link:
        yield _SPACE
        yield MessageRow(RowKind.LINK, _("See it"), url=event.link)


def rows_of_group(events: Sequence[Event]) -> Iterator[MessageRow]:
    """Yields a row for each event, in their order."""
    for event in events:
        described = describe(event, with_facts=False)
        yield MessageRow(RowKind.ITEM, f"{described.title}: {described.summary}", url=event.link or _url(event))


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
            described = describe(event, with_facts=False)
            title = "" if event.change is not None else f"{described.title}: "
            yield MessageRow(RowKind.ITEM, f"{moment(event.at, zone)} · {title}{described.summary}", url=event.link)
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
        yield MessageRow(RowKind.NOTE, _("The difference is cut."))


def _site_row(site: EventSite) -> MessageRow:
    return MessageRow(RowKind.SITE, one_line(site.title, LONGEST_NAME), url=site.url)


def _url(event: Event) -> str:
    return "" if event.site is None else event.site.url


# Data is made inert in each medium: it is shown, never obeyed.
#
# HTML is escaped. Chat services share no way to escape: a backslash is shown by Slack, an entity by Discord and
# Telegram. So in Markdown each character that some service acts on becomes one that looks like it, and text recognised
# by its shape (mentions, links, emoji names, commands) is split by a space of no width. The result contains none of the
# signs of Markdown, so it is the same in all of them, and escaping it again changes nothing.

GAP = "\u200b"
"""A space of no width."""
_LOOK_ALIKES = str.maketrans(
    {
        "*": "\N{ASTERISK OPERATOR}",
        "_": "\N{MODIFIER LETTER LOW MACRON}",
        "`": "\N{MODIFIER LETTER GRAVE ACCENT}",
        "~": "\N{TILDE OPERATOR}",
        "|": "\N{DIVIDES}",
        "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
        ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
        "[": "\N{FULLWIDTH LEFT SQUARE BRACKET}",
        "]": "\N{FULLWIDTH RIGHT SQUARE BRACKET}",
        "\\": "\N{FULLWIDTH REVERSE SOLIDUS}",
    }
)
_SHAPES = re.compile(
    r"""
    [@\#](?!\u200b)                     # mentions, tags, numbers of issues, headings
    | :(?=//|[\w+-]+:)                  # https://, :emoji:
    | (?<=\w)\.(?=[^\W\d_])             # names of hosts
    | &(?=\#?\w+;)                      # entities
    | (?<!\S)/(?=\w)                    # commands
    """,
    re.VERBOSE,
)
_AT_START = re.compile(r"[-+=:>\s]|\d+[.)](?:\s|\Z)")
_SAFE_IN_URLS = "/?#:@!&'()+,;=%-.[]"
_IN_MARKDOWN = str.maketrans({sign: f"%{ord(sign):02X}" for sign in "_~@*'()!"})


class Medium(StrEnum):
    """What a text is written for."""

    TEXT = "text"
    HTML = "html"
    MARKDOWN = "markdown"


def escaped(text: str, medium: Medium) -> str:
    """Returns a plain line (see `plain`) so that the medium shows it and does nothing else."""
    if medium is Medium.HTML:
        return html.escape(text)
    return inert_in_chats(text) if medium is Medium.MARKDOWN else text


def inert_in_chats(text: str) -> str:
    """Returns a line that Markdown of GitHub, Slack, Discord and Telegram shows as text."""
    parted = _SHAPES.sub(_with_gap, text.translate(_LOOK_ALIKES))
    return GAP + parted if _AT_START.match(parted) else parted


def _with_gap(match: re.Match[str]) -> str:
    return match[0] + GAP


def web_url(url: str) -> str:
    """Returns a URL of http or https in ASCII without signs of HTML or Markdown; empty if it is none."""
    try:
        parts = urlsplit(url.strip())
        # A name in other letters stays as it is: to be clicked it is written for people.
        host = parts.netloc
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or any(map(str.isspace, url.strip())):
        return ""
    return quote(url.strip(), safe=_SAFE_IN_URLS + "~") if url.isascii() else _quoted(url.strip(), host)


def _quoted(url: str, host: str) -> str:
    before, after = url.split(host, 1)
    return before + host + quote(after, safe=_SAFE_IN_URLS + "~")


def link(url: str, medium: Medium) -> str:
    """Returns a URL as the medium shows it: as a link if it is one of http or https, else as text."""
    target = web_url(url)
    if not target:
        return escaped(url, medium)
    if medium is Medium.HTML:
        safe = html.escape(target)
        return f'<a href="{safe}" rel="noopener noreferrer">{safe}</a>'
    return f"<{target.translate(_IN_MARKDOWN)}>" if medium is Medium.MARKDOWN else target


_SHELL = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">'
    '<title>{title}</title></head>\n<body style="margin:0;padding:16px;font:15px/1.5 system-ui,sans-serif;'
    'overflow-wrap:anywhere">\n<h1 style="font-size:18px;margin:0 0 12px">{title}</h1>\n'
)
_END = "</body></html>\n"
_LINE = (
    '<div dir="auto" style="font:13px/1.5 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;'
    'padding:1px 8px;border-left:4px solid {edge};background:{back};color:{ink}">{sign} {text}</div>\n'
)
"""Says ink and paper, so that a client in dark mode changes both or none; the sign says it without colours."""
_ADDED = {"edge": "#1a7f37", "back": "#dafbe1", "ink": "#0a3d18", "sign": "+"}
_REMOVED = {"edge": "#cf222e", "back": "#ffebe9", "ink": "#5c0f14", "sign": "−"}
_NOTE_CHARACTERS = 100


class Written(NamedTuple):
    """A body, and how many items it leaves out."""

    text: str
    items_cut: int


def write(rows: Iterable[MessageRow], medium: Medium, most: int, title: str = "", more_at: str = "") -> Written:
    """Returns the rows in a medium, in at most about `most` characters.

    title: of the HTML document. more_at: URL where all of it is, told where some does not fit.
    """
    begins, ends = (_SHELL.format(title=html.escape(title)), _END) if medium is Medium.HTML else ("", "")
    writer = _WRITERS[medium]
    tail = writer(MessageRow(RowKind.LINK, _("See all"), url=more_at)) if more_at else ""
    left = most - len(begins) - len(ends) - len(tail) - _NOTE_CHARACTERS
    pieces, cut = _fitting(list(rows), writer, left)
    if cut:
        pieces.append(writer(MessageRow(RowKind.NOTE, _what_is_missing(cut))) + tail)
    text = begins + "".join(pieces) + ends
    items_cut = sum(row.kind is RowKind.ITEM for row in cut)
    return Written(text if medium is Medium.HTML else text.strip() + "\n", items_cut)


def _fitting(
    rows: list[MessageRow], writer: Callable[[MessageRow], str], left: int
) -> tuple[list[str], list[MessageRow]]:
    """Returns the first rows, written, and those that did not fit. The first always does."""
    pieces: list[str] = []
    for number, row in enumerate(rows):
        piece = writer(row)
        if len(piece) > left and pieces:
            return pieces, rows[number:]
        left -= len(piece)
        pieces.append(piece)
    return pieces, []


def _what_is_missing(rows: Iterable[MessageRow]) -> str:
    kinds = [row.kind for row in rows]
    items = kinds.count(RowKind.ITEM)
    if items:
        return _("and {items:,} more", items=items)
    lines = kinds.count(RowKind.ADDED) + kinds.count(RowKind.REMOVED)
    return n_("and {count} more line", "and {count} more lines", lines) if lines else _("and more")


def _text(row: MessageRow) -> str:
    match row.kind:
        case RowKind.SPACE:
            return "\n"
        case RowKind.SITE:
            return f"{_named(row.text, row.url, Medium.TEXT)}\n"
        case RowKind.ITEM:
            return f"* {row.text}\n" + (f"  {link(row.url, Medium.TEXT)}\n" if row.url else "")
        case RowKind.FACT:
            return f"{row.label}: {row.text}\n"
        case RowKind.ADDED | RowKind.REMOVED:
            return f"{'+' if row.kind is RowKind.ADDED else '-'} {row.text}\n"
        case RowKind.LINK:
            return f"{row.text}: {link(row.url, Medium.TEXT)}\n"
        case _:
            return f"{row.text}\n"


def _named(name: str, url: str, medium: Medium) -> str:
    shown = link(url, medium)
    return shown if not name else f"{escaped(name, medium)} {shown}"


def _markdown(row: MessageRow) -> str:
    """Ends lines with two spaces, a line break in all Markdown, and begins none with what a page says."""
    text = escaped(row.text, Medium.MARKDOWN)
    match row.kind:
        case RowKind.SPACE:
            return "\n"
        case RowKind.SITE:
            return f"{_named(row.text, row.url, Medium.MARKDOWN)}  \n"
        case RowKind.ITEM:
            return f"• {text}" + (f" {link(row.url, Medium.MARKDOWN)}" if row.url else "") + "  \n"
        case RowKind.FACT:
            return f"{escaped(row.label, Medium.MARKDOWN)}: {text}  \n"
        case RowKind.ADDED | RowKind.REMOVED:
            sign = "\N{FULLWIDTH PLUS SIGN}" if row.kind is RowKind.ADDED else "\N{FULLWIDTH HYPHEN-MINUS}"
            return f"{sign} {text}  \n"
        case RowKind.LINK:
            return f"{text}: {link(row.url, Medium.MARKDOWN)}  \n"
        case _:
            return f"{text}  \n"


def _html(row: MessageRow) -> str:
    text = escaped(row.text, Medium.HTML)
    match row.kind:
        case RowKind.SPACE:
            return '<div style="height:10px"></div>\n'
        case RowKind.SITE:
            return f'<div dir="auto" style="font-weight:600">{_named(row.text, row.url, Medium.HTML)}</div>\n'
        case RowKind.ITEM:
            shown = f'<div style="font-size:13px">{link(row.url, Medium.HTML)}</div>' if row.url else ""
            return f'<div dir="auto" style="margin:6px 0">{text}{shown}</div>\n'
        case RowKind.FACT:
            return f'<div dir="auto" style="font-size:13px">{escaped(row.label, Medium.HTML)}: {text}</div>\n'
        case RowKind.ADDED:
            return _LINE.format(text=text, **_ADDED)
        case RowKind.REMOVED:
            return _LINE.format(text=text, **_REMOVED)
        case RowKind.LINK:
            return f"<div>{text}: {link(row.url, Medium.HTML)}</div>\n"
        case _:
            return f'<div dir="auto">{text}</div>\n'


_WRITERS: Mapping[Medium, Callable[[MessageRow], str]] = {
    Medium.TEXT: _text,
    Medium.HTML: _html,
    Medium.MARKDOWN: _markdown,
}


# Messages: of one event, of a group of events that came at once, of a digest.


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
    described = describe(event, look.zone)
    rows = rows_of_one(event, look.limits.lines, look.zone)
    thread = "" if event.site is None else f"site-{event.site.id}"
    return _written(event.id, (event,), described.title, rows, look, event.link or look.overview_url, thread)


def message_of_group(events: Sequence[Event], look: Look = _DEFAULT_LOOK) -> Message:
    """Returns one message of many events, at least one, in the order in which they happened."""
    ordered = _in_order(events)
    rows = rows_of_group(ordered)
    return _written(group_id(events), ordered, count(events), rows, look, look.overview_url)


def message_of_digest(events: Sequence[Event], look: Look = _DEFAULT_LOOK) -> Message:
    """Returns the digest of events, at least one: by site, in the order in which they happened."""
    ordered = _in_order(events)
    rows = rows_of_digest(ordered, look.limits.digest_lines, look.zone)
    return _written(group_id(events), ordered, _("Digest: {count}", count=count(events)), rows, look, look.overview_url)


def group_id(events: Sequence[Event]) -> str:
    """Returns the id of a message of several events: a hash of their ids, whatever their order."""
    return ids_hash([event.id for event in events])


def ids_hash(ids: Sequence[str]) -> str:
    """Returns the id of a message of the events with these ids."""
    parts = (f"{len(event_id.encode())}:{event_id}" for event_id in sorted(set(ids)))
    return "g" + xxhash.xxh3_128_hexdigest("".join(parts).encode())


def count(events: Sequence[Event]) -> str:
    """Returns "137 changes at 12 sites"; events, if there are others among them."""
    sites = len({event.site.id for event in events if event.site is not None})
    if all(event.kind is EventKind.CHANGED for event in events):
        number = n_("{count} change", "{count} changes", len(events))
    else:
        number = n_("{count} event", "{count} events", len(events))
    return n_("{number} at {count} site", "{number} at {count} sites", sites, number=number) if sites else number


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
