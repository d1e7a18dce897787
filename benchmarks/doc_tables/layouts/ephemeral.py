"""[E]'s table and [D]'s learner on the four sources, as in papers/ephemeral.md."""

from __future__ import annotations

from collections.abc import Iterator

from doc_tables.layouts.spot import Spot, TablePlace, filled
from doc_tables.pages import DocTable
from doc_tables.printed_numbers import numbers_in

_POLICIES = {
    "optimum (value iteration)": "optimum, exact",
    "upper bound (relaxation)": "optimum, bound",
    "Whittle index, +inf from u* on": "whittle",
    "same, x/C from u* on": "whittle, x/C from u* on",
    "same, 0 from u* on": "whittle, 0 from u* on",
    "same, on mean states": "whittle on means",
    "x/C, 1 and 3 observed": "whittle, 1 and 3 observed",
    "x/C, 2 and 4 observed": "whittle, 2 and 4 observed",
    "greedy, by X/C": "greedy",
}
_STARTS = {"thresholds start at u": "", "at half of u*": " from half of u*", "at u*": " from u*"}
_LEARNERS = {
    "printed reward, drawn polls": "lspe, printed reward, drawn polls",
    "printed reward, drawn polls, b(n)": "lspe, printed reward, drawn polls, b(n)",
    "collected reward, drawn polls": "lspe, collected reward, drawn polls",
    "printed reward, the largest margin polled": "lspe, printed reward, one poll",
    "collected reward, the largest margin polled": "lspe, collected reward, one poll",
    "collected reward, one poll drawn by the shared law": "lspe, collected reward, one poll drawn",
}
_KNOWN = "index (optimum), source 1 alone, source 2 alone"
_MEASURES = ("collected", "polls")


def table_1(table: DocTable) -> Iterator[Spot]:
    """Yields policies in rows, the limit and the dynamics in columns."""
    for row, column, text in filled(table):
        if not column.endswith("printed"):
            own = "costs 2, 1, 1, 1/2" if column == "costs" else column
            yield Spot(row, column, text, TablePlace("ephemeral-table-1", _POLICIES.get(row, row), own))


def four_sources(table: DocTable) -> Iterator[Spot]:
    """Yields learners in rows, their starts in columns; a cell has the collected interest and the number of polls."""
    name = "lspe-four-sources"
    for row, column, text in filled(table):
        if row == _KNOWN:
            for part, policy in enumerate(("whittle", "source 1 alone", "source 2 alone")):
                yield Spot(row, column, text, TablePlace(name, policy, "collected"), part)
            continue
        learner = _LEARNERS[row.partition(" (")[0]] + _STARTS[column]
        for part, measure in enumerate(_MEASURES[: len(numbers_in(text))]):
            yield Spot(row, column, text, TablePlace(name, learner, measure), part)
