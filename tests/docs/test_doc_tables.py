"""What checks the tables of docs/: it finds them, knows their labels, and sees a number that is altered."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from doc_tables.checks import AGREES, DIFFERS, FAULTY, NOT_COMPARED, beforehand, check, spots
from doc_tables.comparison import RunEstimate, judged
from doc_tables.measured import why_not_compared
from doc_tables.pages import DocTable, tables_of_numbers
from doc_tables.printed_numbers import PrintedNumber, number, numbers_in
from doc_tables.reruns import Estimates, Rerun, reruns_of

from pollerd.lab.experiments.catalogue import experiment

ROOT = Path(__file__).parents[2]
TABLES = tables_of_numbers(ROOT / "docs")
COMPARED = [table for table in TABLES if beforehand(table) is None]
FIGURE = """
# A page
## Figure 5
<!-- command: pollerd reproduce htraa-fig-5 --full -->
Some words.

| | 0–1k | 1–2k |
| --- | --- | --- |
| Reward-Penalty | .232 ± .002 | .450 ± .003 |
| **Inaction-Penalty** | .190 ± .002 | – |
"""
CAME_TO = {
    ("Reward-Penalty", "0-1k"): RunEstimate(0.23151, 0.00152, 30),
    ("Reward-Penalty", "1k-2k"): RunEstimate(0.45049, 0.00349, 30),
    ("Inaction-Penalty", "0-1k"): RunEstimate(0.1896, 0.0016, 30),
}


def page(folder: Path, text: str) -> list[DocTable]:
    (folder / "page.md").write_text(text)
    return tables_of_numbers(folder)


@cache
def columns_of(rerun: Rerun) -> dict[str, set[str]]:
    """Columns, or what they begin with, by row."""
    found = defaultdict(set)
    for cell in experiment(rerun.experiment).cells(rerun.size):
        found[cell.row].add(cell.column)
    return dict(found)


def came_to(numbers: Estimates) -> Callable[[Rerun], Estimates]:
    return lambda wanted: numbers


@pytest.mark.parametrize("table", COMPARED, ids=lambda table: f"{table.page}:{table.heading}:{table.number}")
def test_all_labels_of_a_table_are_places_of_its_experiment(table: DocTable) -> None:
    found = spots(table)
    reruns = reruns_of(table.command or "")
    places = [spot.place for spot in found if spot.place is not None]
    assert places
    for place in places:
        columns = columns_of(reruns[place.experiment])[place.row]
        assert any(place.column.startswith(column) for column in columns), place
    assert len(set(map(str, found))) == len(found)


def test_every_table_is_compared_or_has_a_reason_why_not() -> None:
    assert [table.name for table in TABLES if table not in COMPARED and not why_not_compared(table)] == []
    assert len(COMPARED) > 50


def test_a_page_as_it_came_out_agrees(tmp_path: Path) -> None:
    (table,) = page(tmp_path, FIGURE)
    found = check(table, came_to(CAME_TO))
    assert (found.verdict, found.compared, found.differing) == (AGREES, 3, [])


@pytest.mark.parametrize("altered", [("232", "233"), ("± .003", "± .004"), (".190", ".910")])
def test_an_altered_number_differs_and_is_named(tmp_path: Path, altered: tuple[str, str]) -> None:
    (table,) = page(tmp_path, FIGURE.replace(*altered))
    found = check(table, came_to(CAME_TO))
    assert found.verdict == DIFFERS
    assert len(found.differing) == 1
    assert "page" in found.differing[0]
    assert "now" in found.differing[0]


def test_a_command_holds_up_to_the_next_and_to_the_next_heading(tmp_path: Path) -> None:
    rows = "| | a |\n|---|---|\n| x | 1 |\n| y | 2 |\n"
    text = f"# A\n<!-- command: make bench -->\n{rows}\n{rows}\n<!-- command: none: by hand -->\n{rows}\n## B\n{rows}"
    tables = page(tmp_path, text)
    assert [table.command for table in tables] == ["make bench", "make bench", "none: by hand", None]
    assert [table.number for table in tables] == [1, 2, 3, 1]


def test_a_table_without_a_command_is_reported(tmp_path: Path) -> None:
    (table,) = page(tmp_path, FIGURE.replace("<!-- command", "<!-- words"))
    found = check(table, came_to({}))
    assert found.verdict == FAULTY
    assert "names no command" in "\n".join(found.lines())
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks/check_tables.py", "--all", "--docs", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "names no command" in done.stdout) == (1, True)


def test_a_label_that_nobody_knows_is_reported(tmp_path: Path) -> None:
    (table,) = page(tmp_path, FIGURE.replace("Reward-Penalty", "Reward"))
    assert "the experiment has no 'Reward', '0-1k'" in check(table, came_to(CAME_TO)).differing[0]
    (table,) = page(tmp_path, FIGURE.replace("| | 0–1k", "| every 1,000 polls | 0–1k"))
    assert "is made by htraa-fig-10" in check(table, came_to(CAME_TO)).differing[0]
    updates = "# A\n<!-- command: pollerd reproduce htraa-updates -->\n| | ours |\n|---|---|\n| p | 1 |\n| q | 2 |\n"
    (table,) = page(tmp_path, updates)
    assert check(table, came_to({})).verdict == FAULTY


@pytest.mark.parametrize("command", ["none: measured elsewhere", "benchmarks/scale.py --sites N", "make bench"])
def test_what_was_measured_on_a_machine_is_not_compared(tmp_path: Path, command: str) -> None:
    (table,) = page(tmp_path, FIGURE.replace("pollerd reproduce htraa-fig-5 --full", command))
    found = check(table, came_to({}))
    assert found.verdict == NOT_COMPARED
    assert "measured, not compared: " in next(found.lines())


def test_with_fewer_repetitions_a_number_may_be_four_standard_errors_away() -> None:
    printed = PrintedNumber(".500", ".010")  # of 100 repetitions; of 25 it is .02, the difference .0224
    near, far = (RunEstimate(0.5 + away, 0.02, 25) for away in (0.09, 0.1))
    assert judged(printed, 100, near).verdict == "agrees"
    assert judged(printed, 100, far).verdict == "differs"
    alone = RunEstimate(0.55, math.nan, 1)
    assert judged(printed, 100, alone).verdict == "agrees"
    assert judged(PrintedNumber(".500"), 100, alone).verdict == "unknown"
    assert judged(PrintedNumber(".500"), 100, RunEstimate(0.51, 1e-6, 2)).verdict == "unknown"
    assert judged(PrintedNumber(".500"), 100, RunEstimate(0.51, 0.0, 2)).verdict == "differs"
    assert judged(PrintedNumber(".500"), 100, RunEstimate(0.51, 0.001, 4)).verdict == "agrees"
    assert judged(PrintedNumber(".500"), 100, RunEstimate(0.51, 0.001, 100)).verdict == "differs"
    assert judged(printed, 100, RunEstimate(0.51, 0.01, 100)).verdict == "differs"
    assert judged(printed, 100, RunEstimate(0.51, 0.01, 100), same_draws=False).verdict == "agrees"


def test_commands_say_size_and_repetitions() -> None:
    found = reruns_of("pollerd reproduce gpoks-8.3 gpoks-8.2 --full --runs 30")
    assert found["gpoks-8.2"] == Rerun("gpoks-8.2", "full", 30)
    assert found["gpoks-8.3"].runs_of("GPOKS:TS") == 30
    assert reruns_of("pollerd reproduce gpoks-8.3 --full")["gpoks-8.3"].runs_of("GPOKS") == 100
    assert found["gpoks-8.3"].no_more_than(2).runs == 2
    assert reruns_of("pollerd reproduce robot")["robot"] == Rerun("robot", "quick", None)


def test_numbers_are_read_as_they_are_printed() -> None:
    assert numbers_in("7.0 / 6.5 ± 0.1") == [PrintedNumber("7.0"), PrintedNumber("6.5", "0.1")]
    assert numbers_in("298.6 ± 1.1, 1.74") == [PrintedNumber("298.6", "1.1"), PrintedNumber("1.74")]
    assert numbers_in(".75, .875") == [PrintedNumber(".75"), PrintedNumber(".875")]
    assert numbers_in("3,640 ± 5") == [PrintedNumber("3,640", "5")]
    assert number("3,640") == 3640
    assert numbers_in("never") == []
