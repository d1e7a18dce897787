"""[B]'s tables and the live allocator, as in papers/gpoks.md."""

from __future__ import annotations

from collections.abc import Iterator

from doc_tables.layouts.spot import BLANK, Spot, TablePlace, filled, stretch, zipf
from doc_tables.pages import DocTable

_THIRTY_RUNS = {("gpoks-8.8", "MAB:TS"), ("gpoks-8.8", "MAB:GP-UCB")}
"""Rows of the page with thirty runs in a table with more runs in other rows."""

_TOGETHER, _OF_THIRTY = "GPOKS", "--runs 30"


def printed_and_ours(table: DocTable) -> Iterator[Spot]:
    """Yields "printed / ours ± error" by the labels of the experiment, whose columns are the paper's."""
    (name,) = table.experiments
    for row, column, text in filled(table):
        thirty = (name, row) in _THIRTY_RUNS
        # Rows that share a generator were run in a batch of thirty; `--runs 30` now runs one of a hundred.
        same_draws = not (row.startswith(_TOGETHER) and _OF_THIRTY in (table.command or ""))
        place = TablePlace(name, row, column)
        yield Spot(row, column, text, place, part=1, runs=30 if thirty else 0, same_draws=same_draws)


def many_pages(table: DocTable) -> Iterator[Spot]:
    """Yields a row for each number of pages and web, with its number of runs in a column of its own."""
    (name,) = table.experiments
    for pages, web, runs, *texts in table.rows:
        row = f"{pages} pages, {zipf(web)}"
        for column, text in zip(table.head[3:], texts, strict=True):
            if text not in BLANK:
                yield Spot(row, column, text, TablePlace(name, row, stretch(column)), runs=int(runs))
