"""[B]'s tables and the live allocator, as papers/gpoks.md shows them."""

from __future__ import annotations

from collections.abc import Iterator

from doc_tables.layouts.spot import BLANK, Place, Spot, filled, stretch, zipf
from doc_tables.pages import DocTable

_THIRTY_RUNS = {("gpoks-8.8", "MAB:TS"), ("gpoks-8.8", "MAB:GP-UCB")}
"""Rows that the page has with thirty runs in a table with more of others."""


def printed_and_ours(table: DocTable) -> Iterator[Spot]:
    """ "printed / ours ± error" by the labels of the experiment, whose columns are the paper's."""
    (name,) = table.experiments
    for row, column, text in filled(table):
        runs = 30 if (name, row) in _THIRTY_RUNS else 0
        yield Spot(row, column, text, Place(name, row, column), part=1, runs=runs)


def many_pages(table: DocTable) -> Iterator[Spot]:
    """A row for each number of pages and web, with its number of runs in a column of its own."""
    (name,) = table.experiments
    for pages, web, runs, *texts in table.rows:
        row = f"{pages} pages, {zipf(web)}"
        for column, text in zip(table.head[3:], texts, strict=True):
            if text not in BLANK:
                yield Spot(row, column, text, Place(name, row, stretch(column)), runs=int(runs))
