"""[A]'s figures and the numbers of its text, as in papers/htraa.md."""

from __future__ import annotations

from collections.abc import Iterator

from doc_tables.layouts.spot import Spot, TablePlace, filled
from doc_tables.pages import DocTable

_ROWS = {
    "… 10³ swaps": "H-TRAA, 10^3 swaps",
    "… 10⁴ swaps": "H-TRAA, 10^4 swaps",
    "… 10⁵ swaps": "H-TRAA, 10^5 swaps",
    "… 10⁶ swaps": "H-TRAA, 10^6 swaps",
    "… 10⁶ swaps, N doubling": "H-TRAA, N doubling, 10^6 swaps",
    "LAKG, 10⁶ swaps": "LAKG, 10^6 swaps",
}
_BY_HEAD = {
    "every 80,000 polls": "htraa-fig-9",
    "every 1,000 polls": "htraa-fig-10",
    "LAKG: pages": "htraa-fig-11",
    "H-TRAA: pages": "htraa-fig-12",
}
_UPDATES = {
    "q = .5, polled every second, every third step": (
        ("q = 0.5, polled every 2 steps", "chance that a poll finds a change"),
        ("q = 0.5, polled every 3 steps", "chance that a poll finds a change"),
    ),
    "Σp of .3/1.5, .3/1.0, .9/1.5": (
        ("α = 0.3, β = 1.5", "Σp"),
        ("α = 0.3, β = 1.0", "Σp"),
        ("α = 0.9, β = 1.5", "Σp"),
    ),
}


def figure(table: DocTable) -> Iterator[Spot]:
    """Yields schemes, or numbers of pages, in rows; intervals of polls in columns."""
    name = _BY_HEAD.get(table.head[0], table.experiments[0])
    scheme, _, of_pages = table.head[0].partition(": ")
    for row, column, text in filled(table):
        if column == "60 % after":
            yield Spot(row, column, text, None, why_not="read from the mean curve, which no table holds")
        else:
            own = f"{scheme}, {row} pages" if of_pages else _ROWS.get(row, row)
            yield Spot(row, column, text, TablePlace(name, own, _stretch(column)))


def updates(table: DocTable) -> Iterator[Spot]:
    """Yields the numbers of the text, a few in a cell."""
    for row, column, text in filled(table):
        if column == "ours":
            for part, (own, of) in enumerate(_UPDATES[row]):
                yield Spot(row, column, text, TablePlace("htraa-updates", own, of), part)


def _stretch(label: str) -> str:
    """Converts "10–20k" to the experiments' form, "10k-20k"."""
    begin, _, end = label.partition("–")
    return f"{begin}-{end}" if begin == "0" or begin.endswith("k") else f"{begin}k-{end}"
