"""Freshness and interest by every allocator, as in papers/ephemeral.md."""

from __future__ import annotations

from collections.abc import Iterator

from doc_tables.layouts.spot import BLANK, Spot, TablePlace, stretch
from doc_tables.pages import DocTable

_MIXED = "1 min to 3 d"
_PAGES = {1: 512, 2: 512, 3: 512, 4: 30, 5: 30, 6: 2}
"""Number of pages by the number of the table in its section, as in the text above it."""
_STRETCH = {4: "10–20", 6: "20–40"}
_ROWS = {"optimal on learned rates": "optimal"}


def shares(table: DocTable) -> Iterator[Spot]:
    """Yields allocators in rows; webs in columns, and below them, if the second row has them, intervals."""
    pages = _PAGES[table.number]
    columns, rows = _columns(table)
    for label, *texts in rows:
        row = f"{label[:-1]} (changes)" if label.endswith("°") else _ROWS.get(label, label)
        for (web, polls), text in zip(columns, texts, strict=True):
            if text not in BLANK:
                experiment, own = _web(web)
                place = TablePlace(experiment, f"{pages} pages, {own}: {row}", stretch(polls))
                yield Spot(label, f"{web}, {polls}", text, place)


def _columns(table: DocTable) -> tuple[list[tuple[str, str]], tuple[tuple[str, ...], ...]]:
    """Returns (web, interval) of each column, and the remaining rows."""
    objective, *webs = table.head
    if objective == "polls a page":
        return [("interest 0.9/1.5, switching", polls) for polls in webs], table.rows
    if table.number in _STRETCH:
        return [(web, _STRETCH[table.number]) for web in webs], table.rows
    found: list[tuple[str, str]] = []
    for web, polls in zip(webs, table.rows[0][1:], strict=True):
        found.append((f"{objective or 'interest'} {web}" if web else found[-1][0], polls))
    return found, table.rows[1:]


def _web(label: str) -> tuple[str, str]:
    """Returns (experiment, web) of "interest 0.3/1.5, mixed"."""
    objective, _, web = label.partition(" ")
    web = {"10 min": "0.3/1.5, 10 min", "switching": "0.9/1.5, switching"}.get(web, web).removesuffix(", mixed")
    if objective == "interest" and not web.endswith("10 min"):
        zipf, _, how = web.partition(", ")
        web = ", ".join(part for part in (zipf, _MIXED, how) if part)
    return f"ours-{objective}", web
