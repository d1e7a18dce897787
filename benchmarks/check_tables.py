"""Checks that the tables of docs/ agree with the current output of their commands.

Each table of numbers names its command in the page. Those of `pollerd reproduce` are run again and compared number by
number, by the labels of rows and columns; a table measured on a machine or on data that is not here is listed with the
reason. A number agrees if it is the same in the page's digits; with fewer repetitions than the page's (--runs), if it
is within four standard errors of the difference (`doc_tables/comparison.py`).

    python benchmarks/check_tables.py --list               # which table is checked by what, and which is not and why
    python benchmarks/check_tables.py --spot               # a few tables that take seconds
    python benchmarks/check_tables.py htraa gpoks-8.9      # those of a page, those of an experiment
    python benchmarks/check_tables.py --all --runs 2       # all, with two repetitions; without --runs it takes days

Exits with 1 if a table differs or names no command. `--out FOLDER` keeps the runs, so that the same call continues
after an interruption; runs of older code would be used, too, so empty it after a change.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from doc_tables.checks import BAD, TableCheck, beforehand, check
from doc_tables.pages import DocTable, tables_of_numbers
from doc_tables.reruns import Estimates, Rerun, rerun

DOCS = Path(__file__).resolve().parents[1] / "docs"
SPOT = ("htraa-updates", "robot-fetchers", "robot-unseen")
"""Experiments of the spot checks."""
SPOT_RUNS = 1


class Rerunner:
    """Runs each experiment once, however many tables it has."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self._folder, self._jobs = folder, jobs
        self._done: dict[Rerun, Estimates] = {}

    def __call__(self, wanted: Rerun) -> Estimates:
        if wanted not in self._done:
            self._done[wanted] = rerun(wanted, self._folder, self._jobs)
        return self._done[wanted]


def chosen(tables: Sequence[DocTable], names: Sequence[str]) -> list[DocTable]:
    """Returns the tables of pages or experiments by name; raises ValueError for a name that is neither."""
    found = []
    for name in names:
        page = name.removeprefix("docs/").removesuffix(".md")
        of_name = [table for table in tables if page in _page_names(table) or name in table.experiments]
        if not of_name:
            raise ValueError(f"{name!r} is neither a page of docs/ with a table of numbers nor an experiment of one")
        found += of_name
    return list(dict.fromkeys(found))


def _page_names(table: DocTable) -> tuple[str, str]:
    path = Path(table.page).with_suffix("")
    return path.as_posix(), path.name


def listed(table: DocTable) -> str:
    """Returns a line with the check of a table, or why there is none."""
    found = beforehand(table)
    told = found.reason if found else f"checked by `{table.command}`"
    return f"docs/{table.name} ({table.heading}): {told}"


def show(checks: Sequence[TableCheck]) -> None:
    """Prints the number of tables by verdict."""
    counts = Counter(each.verdict for each in checks)
    print(", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items())) or "no tables")


def main() -> int:
    """Returns 0 if nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="pages (papers/htraa.md, htraa) or experiments (htraa-fig-5)")
    parser.add_argument("--all", action="store_true", help="all tables")
    parser.add_argument("--spot", action="store_true", help=f"{', '.join(SPOT)}: seconds")
    parser.add_argument("--list", action="store_true", help="shows what checks each table, or why nothing does")
    parser.add_argument("--runs", type=int, help="at most so many repetitions; without it as many as the page has")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=Path, help="keeps the runs in a folder")
    parser.add_argument("--docs", type=Path, default=DOCS, help="another folder of pages")
    options = parser.parse_args()
    if sum((options.all, options.spot, options.list, bool(options.names))) != 1:
        parser.error("give names, or one of --all, --spot and --list")
    if options.runs is not None and options.runs < 1:
        parser.error("--runs: at least 1")
    tables = tables_of_numbers(options.docs)
    if options.list:
        print("\n".join(map(listed, tables)))
        return int(any(table.command is None for table in tables))
    try:
        wanted = tables if options.all else chosen(tables, options.names or SPOT)
    except ValueError as error:
        parser.error(str(error))
    runs = options.runs or (SPOT_RUNS if options.spot else None)
    with tempfile.TemporaryDirectory() as folder:
        conduct, checks = Rerunner(options.out or Path(folder), options.jobs), []
        for table in wanted:
            try:
                checks.append(check(table, conduct, runs))
            except subprocess.CalledProcessError as error:
                parser.exit(2, f"docs/{table.name}: {error}\n")
            print("\n".join(checks[-1].lines()), flush=True)
    show(checks)
    return int(any(each.verdict in BAD for each in checks))


if __name__ == "__main__":
    sys.exit(main())
