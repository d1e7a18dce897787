"""[B]'s tables and the live allocator, as in papers/gpoks.md."""

from __future__ import annotations

from collections.abc import Iterator

from doc_tables.layouts.spot import BLANK, Spot, TablePlace, filled, stretch, zipf
from doc_tables.pages import DocTable
from pollerd.lab.experiments.gpoks.readings import DEVIATIONS, LAKG_EVEN, TIES_BY_CHANCE
from pollerd.lab.experiments.gpoks.switching import WEBS

_RUNS = {
    ("gpoks-8.8", "MAB:GP-UCB"): 30,
    **dict.fromkeys(((table, "LA:LAKG, by 5.1") for table in ("gpoks-8.8", "gpoks-8.10")), 300),
    ("gpoks-8.10", LAKG_EVEN): 300,
    **dict.fromkeys((("gpoks-8.8", row) for row in ("MAB:TS", DEVIATIONS, TIES_BY_CHANCE)), 300),
}
"""Rows of the page with other numbers of runs than its command has."""

_TOGETHER, _OF_THIRTY = "GPOKS", "--runs 30"


def printed_and_ours(table: DocTable) -> Iterator[Spot]:
    """Yields "printed / ours ± error" by the labels of the experiment, whose columns are the paper's."""
    (name,) = table.experiments
    for row, column, text in filled(table):
        # Rows that share a generator were run in a batch of thirty; `--runs 30` now runs one of a hundred.
        same_draws = not (row.startswith(_TOGETHER) and _OF_THIRTY in (table.command or ""))
        place = TablePlace(name, row, column)
        yield Spot(row, column, text, place, part=1, runs=_RUNS.get((name, row), 0), same_draws=same_draws)


def many_pages(table: DocTable) -> Iterator[Spot]:
    """Yields a row for each number of pages and web, with its number of runs in a column of its own."""
    (name,) = table.experiments
    for pages, web, runs, *texts in table.rows:
        row = f"{pages} pages, {zipf(web)}"
        for column, text in zip(table.head[3:], texts, strict=True):
            if text not in BLANK:
                yield Spot(row, column, text, TablePlace(name, row, stretch(column)), runs=int(runs))


def switching(table: DocTable) -> Iterator[Spot]:
    """Yields a row for each web and a column for each policy: the share in the web's last interval."""
    (name,) = table.experiments
    for row, column, text in filled(table):
        begin, end = [0, *WEBS[row].ends("full")][-2:]
        yield Spot(row, column, text, TablePlace(name, f"{row}: {column}", f"{begin}-{end}"))
