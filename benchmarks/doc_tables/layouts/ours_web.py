"""Every allocator on webs of 512 pages and of few, as in papers/ours.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doc_tables.layouts.spot import Spot, TablePlace, filled, stretch, with_groups, zipf
from doc_tables.pages import DocTable

_ALPHA_BETA = re.compile(r"α = ([\d.]+), β = ([\d.]+)")
_STATIC = "static"
_FEW = {
    1: ("2 pages", 2, _STATIC),
    2: ("2 pages", 2, "switching every 100 polls"),
    3: ("p", 2, _STATIC),
    4: ("p", 2, "switching every 100 polls"),
    5: ("α/β", 8, _STATIC),
    6: ("α/β", 8, "switching every 400 polls"),
    7: ("polls a page", 30, _STATIC),
    8: ("polls a page", 30, _STATIC),
    9: ("polls a page", 30, _STATIC),
    10: ("30 pages", 30, "switching every 1,000 polls"),
}
"""First head, pages and rank switches by the number of the table in the section on few pages, as in its text."""


def shares(table: DocTable) -> Iterator[Spot]:
    """Yields allocators in rows; intervals of polls a page in columns, after the web if a table has several."""
    pages, order, switching = _environment(table)
    of_all = _ALPHA_BETA.search(table.above)
    groups = [(of_all[0], label) for label in table.head[1:]] if of_all else with_groups(table.head[1:])
    webs = {f"{group}, {label}": (group, label) for group, label in groups}
    for row, column, text in filled(table, webs):
        group, label = webs[column]
        place = TablePlace(
            "ours-web", f"{pages} {order} pages, {_web(group, table)}, {switching}: {row}", stretch(label)
        )
        yield Spot(row, column, text, place)


def _environment(table: DocTable) -> tuple[int, str, str]:
    """Returns number of pages, their order, and whether ranks switch."""
    if table.heading == "Few pages":
        head, pages, switching = _FEW[table.number]
        if table.head[0] != head:
            raise ValueError(f"{table.name}: table {table.number} of the section should begin with {head!r}")
        return pages, "shuffled", switching
    switches = table.heading == "Switching ranks" or table.above.endswith("switching")
    order = "sorted" if table.heading == "Sorted pages" else "shuffled"
    return 512, order, "switching every 1,000 polls" if switches else _STATIC


def _web(group: str, table: DocTable) -> str:
    """Returns α and β, or both p, in the experiment's form."""
    if found := _ALPHA_BETA.search(group):
        return f"α {found[1]}, β {found[2]}"
    if table.head[0] == "p":
        return f"p {zipf(group)}"
    alpha, beta = zipf(group).split("/")
    return f"α {alpha}, β {beta}"
