"""Writes rows for a medium, up to a length: what does not fit is counted, and said with the link."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from pollerd.notifications.messages.escaping import Medium, escaped, link
from pollerd.notifications.messages.rows import MessageRow, RowKind
from pollerd.quantities import counted

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
    tail = writer(MessageRow(RowKind.LINK, "See all", url=more_at)) if more_at else ""
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
        return f"and {items:,} more"
    lines = kinds.count(RowKind.ADDED) + kinds.count(RowKind.REMOVED)
    return f"and {counted(lines, 'more line', 'more lines')}" if lines else "and more"


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
