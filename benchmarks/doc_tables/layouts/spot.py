"""A number of a page's table and the place that it has in an experiment's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from doc_tables.pages import DocTable


@dataclass(frozen=True)
class Place:
    """Where a number stands in the table of an experiment."""

    experiment: str
    row: str
    column: str


@dataclass(frozen=True)
class Spot:
    """A number of a page's table.

    row, column: its labels there. text: the cell. place: where the experiment has it, None where `why_not` says why it
    has not. part: which of the cell's numbers it is, from 0. runs: repetitions of the page's number, where it has
    others than the page's command would do; 0: as that. same_draws: as many repetitions have the same random numbers.
    """

    row: str
    column: str
    text: str
    place: Place | None
    part: int = 0
    runs: int = 0
    same_draws: bool = True
    why_not: str = ""


Layout = Callable[[DocTable], Iterable[Spot]]
"""The numbers of a table that an experiment makes; a cell that is left out holds none of ours."""
BLANK = ("", "–")


def filled(table: DocTable, columns: Iterable[str] | None = None) -> Iterator[tuple[str, str, str]]:
    """(row, column, text) of each cell that is filled, but for the labels; columns: in place of the table's own."""
    labels = table.head[1:] if columns is None else tuple(columns)
    for row in table.rows:
        for column, text in zip(labels, row[1:], strict=True):
            if text not in BLANK:
                yield row[0], column, text


def with_groups(labels: Iterable[str]) -> list[tuple[str, str]]:
    """(group, label) of "A, x | y | B, x": what stands before the comma holds until another does."""
    found, group = [], ""
    for label in labels:
        before, comma, after = label.rpartition(", ")
        group = before if comma else group
        found.append((group, after))
    return found


def stretch(label: str) -> str:
    """ "4–10" as experiments write it."""
    return label.replace("–", "-")


def zipf(label: str) -> str:
    """ ".3/1.5" as experiments write it."""
    return "/".join(f"0{part}" if part.startswith(".") else part for part in label.split("/"))
