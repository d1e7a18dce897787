"""A number of a page's table and its place in an experiment's table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from doc_tables.pages import DocTable


@dataclass(frozen=True)
class TablePlace:
    """Place of a number in the table of an experiment."""

    experiment: str
    row: str
    column: str


@dataclass(frozen=True)
class Spot:
    """A number of a page's table.

    row, column: its labels there. text: the cell. place: its place in the experiment, None with the reason in
    `why_not`. part: index of the number in the cell, from 0. runs: repetitions of the page's number, if they differ
    from the page's command; 0: as that. same_draws: the same number of repetitions has the same random numbers.
    """

    row: str
    column: str
    text: str
    place: TablePlace | None
    part: int = 0
    runs: int = 0
    same_draws: bool = True
    why_not: str = ""


Layout = Callable[[DocTable], Iterable[Spot]]
"""Returns the numbers of a table that an experiment produces; omitted cells have none of ours."""
BLANK = ("", "–")


def filled(table: DocTable, columns: Iterable[str] | None = None) -> Iterator[tuple[str, str, str]]:
    """Yields (row, column, text) of each filled cell, without the labels; columns: replaces the table's own."""
    labels = table.head[1:] if columns is None else tuple(columns)
    for row in table.rows:
        for column, text in zip(labels, row[1:], strict=True):
            if text not in BLANK:
                yield row[0], column, text


def as_labelled(table: DocTable) -> Iterator[Spot]:
    """Yields the numbers of a table whose labels are those of its experiment."""
    (name,) = table.experiments
    for row, column, text in filled(table):
        yield Spot(row, column, text, TablePlace(name, row, column))


def with_groups(labels: Iterable[str]) -> list[tuple[str, str]]:
    """Returns (group, label) of "A, x | y | B, x": the text before the comma applies until another follows."""
    found, group = [], ""
    for label in labels:
        before, comma, after = label.rpartition(", ")
        group = before if comma else group
        found.append((group, after))
    return found


def stretch(label: str) -> str:
    """Converts "4–10" to the experiments' form."""
    return label.replace("–", "-")


def zipf(label: str) -> str:
    """Converts ".3/1.5" to the experiments' form."""
    return "/".join(f"0{part}" if part.startswith(".") else part for part in label.split("/"))
