"""Compares a table of a page with the current output of its command, number by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from doc_tables.comparison import judged
from doc_tables.layouts.catalogue import layout_of
from doc_tables.layouts.spot import Spot
from doc_tables.measured import why_not_compared
from doc_tables.pages import DocTable
from doc_tables.printed_numbers import numbers_in
from doc_tables.reruns import Estimates, Rerun, reruns_of
from pollerd.quantities import counted

AGREES, DIFFERS, NOT_COMPARED, FAULTY = "agrees", "differs", "not compared", "faulty"
BAD = (DIFFERS, FAULTY)


@dataclass
class TableCheck:
    """Result of one table.

    reason: why it was not compared. faulty: the page is at fault: it names no command, or has unknown labels.
    differing: the numbers that differ, a line each. left_out: how many were not compared for which reason.
    """

    table: DocTable
    reason: str = ""
    faulty: bool = False
    compared: int = 0
    differing: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def verdict(self) -> str:
        """One of the four words above."""
        if self.faulty:
            return FAULTY
        if self.differing:
            return DIFFERS
        return AGREES if self.compared else NOT_COMPARED

    def lines(self) -> Iterator[str]:
        """Yields a line for the table, then one for each number that differs and each reason for leaving some out."""
        told = self.reason or f"{self.compared} numbers by `{self.table.command}`"
        if self.differing:
            told = f"{len(self.differing)} of {told}"
        yield f"{self.verdict}: docs/{self.table.name} ({self.table.heading}): {told}"
        yield from (f"    {line}" for line in self.differing)
        yield from (f"    {number} not compared: {why}" for why, number in self.left_out.items())


def check(table: DocTable, conduct: Callable[[Rerun], Estimates], runs: int | None = None) -> TableCheck:
    """Compares a table; `conduct` runs an experiment or returns a cached result. runs: limit of repetitions."""
    found = beforehand(table)
    if found is not None:
        return found
    try:
        wanted = spots(table)
    except ValueError as error:
        return TableCheck(table, str(error), faulty=True)
    found, reruns = TableCheck(table), reruns_of(table.command or "")
    for spot in wanted:
        _compare(spot, reruns, conduct, runs, found)
    if not found.compared and not found.differing:
        found.reason = "; ".join(found.left_out) or "it has no number that the experiment makes"
        found.left_out.clear()
    return found


def beforehand(table: DocTable) -> TableCheck | None:
    """Returns the result for a table that cannot be compared with a run; None for all others."""
    if table.command is None:
        return TableCheck(table, "the page names no command for it", faulty=True)
    if why := why_not_compared(table):
        command = "" if table.command.startswith("none:") else f" (`{table.command}`)"
        return TableCheck(table, f"measured, not compared: {why}{command}")
    if layout_of(table) is None:
        return TableCheck(table, f"no layout says which numbers `{table.command}` has for it", faulty=True)
    return None


def spots(table: DocTable) -> list[Spot]:
    """Returns the numbers of a table with their places; raises ValueError for labels unknown to its layout."""
    layout = layout_of(table)
    if layout is None:
        raise ValueError(f"no layout says which numbers `{table.command}` has for it")
    try:
        return list(layout(table))
    except (KeyError, ValueError) as error:
        raise ValueError(f"a label that its layout does not know: {error}") from error


def _compare(
    spot: Spot,
    reruns: dict[str, Rerun],
    conduct: Callable[[Rerun], Estimates],
    runs: int | None,
    found: TableCheck,
) -> None:
    """Adds the comparison of one number to the result of its table."""
    if spot.place is None:
        found.left_out[spot.why_not] += 1
        return
    label = f"{spot.row} | {spot.column}"
    numbers = numbers_in(spot.text)
    if len(numbers) <= spot.part:
        found.differing.append(f"{label}: page {spot.text!r}, where a number is expected")
        return
    of_page = reruns.get(spot.place.experiment)
    if of_page is None:
        found.differing.append(f"{label}: is made by {spot.place.experiment}, which the page's command does not run")
        return
    now = conduct(of_page.no_more_than(runs)).get((spot.place.row, spot.place.column))
    if now is None:
        found.differing.append(f"{label}: the experiment has no {spot.place.row!r}, {spot.place.column!r}")
        return
    printed = numbers[spot.part]
    page_runs = spot.runs or of_page.runs_of(spot.place.row)
    judgement = judged(printed, page_runs, now, same_draws=spot.same_draws)
    if judgement.verdict == "unknown":
        found.left_out[judgement.why] += 1
        return
    found.compared += 1
    if judgement.verdict == "differs":
        told = ", ".join(filter(None, (counted(now.runs, "run"), judgement.why)))
        found.differing.append(f"{label}: page {printed}, now {judgement.now} ({told})")
