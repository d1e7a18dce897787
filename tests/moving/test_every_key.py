"""The table of keys in docs/moving-in.md, held against files that use every key that the programs know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pollerd.moving.fields import sendable
from pollerd.moving.moved import Fate, Moved, ReportLine
from pollerd.moving.urlwatch.dialect import URLWATCH, WEBCHANGES, Dialect
from pollerd.moving.urlwatch.directives import DIRECTIVES
from pollerd.moving.urlwatch.filters import KINDS
from pollerd.moving.urlwatch.jobs import read_jobs

DOCUMENT = Path(__file__).parents[2] / "docs" / "moving-in.md"
DIALECTS = (URLWATCH, WEBCHANGES)
ELSEWHERE = {"url", "navigate", "filter", "filters", "http_proxy", "https_proxy", "proxy"}
"""Keys that are read before the directives."""
UNNAMED = {"guid"}
"""Directives of other versions of the programs."""
LATER = ("acts earlier", "a selection reads a document in one way")
"""Lines on a file that holds everything at once, besides what becomes of each filter by itself."""
FILTER = re.compile(r"filters?\[\d+\]\.(.+)")


def read(dialect: Dialect) -> Moved:
    path = Path(__file__).parent / "files" / f"every-key-{dialect.name}.yaml"
    return sendable(read_jobs(path.read_bytes(), dialect))


def rows(table: str) -> Iterator[list[str]]:
    """Yields the cells of a table of the document."""
    text = DOCUMENT.read_text().partition(f"<!-- table: {table} -->\n\n")[2].partition("\n\n")[0]
    for line in text.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def documented(table: str, dialect: Dialect) -> dict[str, list[str]]:
    """Returns the row of each key of a program."""
    found: dict[str, list[str]] = {}
    for row in rows(table):
        if row[1] in ("both", dialect.name):
            for name in names(row[0]):
                assert name not in found, f"{name} stands twice"
                found[name] = row
    return found


def said(lines: list[ReportLine]) -> dict[str, Fate]:
    """Returns the fate of each key of the jobs: what its own line says; a field that is not sent is not carried."""
    found: dict[str, Fate] = {}
    for line in lines:
        key = line.key.split(".")[0].partition("[")[0].partition(" ")[0]
        whole = line.key in (key, f"{key}.X-A")
        if whole and (key not in found or line.fate is Fate.NOT_CARRIED):
            found[key] = line.fate
    found.pop("the", None)  # of the job that is left out as a whole
    return found


def of_filters(lines: list[ReportLine]) -> dict[str, tuple[Fate, set[str]]]:
    """Returns the fate of each filter, and which of its parameters are lost."""
    fates: dict[str, Fate] = {}
    lost: dict[str, set[str]] = {}
    for line in lines:
        match = FILTER.fullmatch(line.key)
        if match is None or line.how.startswith(LATER):
            continue
        kind = max((one for one in KINDS if match[1] == one or match[1].startswith(f"{one}.")), key=len)
        parameter = match[1][len(kind) + 1 :]
        if not parameter:
            fates.setdefault(kind, line.fate)
        elif line.fate is Fate.NOT_CARRIED and parameter != "password":
            lost.setdefault(kind, set()).add(parameter)
    return {kind: (fate, lost.get(kind, set())) for kind, fate in fates.items()}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
def test_the_fate_of_each_key_is_documented(dialect: Dialect) -> None:
    expected = {name: row[2] for name, row in documented("keys", dialect).items()}
    assert {key: str(fate) for key, fate in said(read(dialect).report).items()} == expected


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
def test_the_fate_of_each_filter_is_documented(dialect: Dialect) -> None:
    expected = {name: (row[2], set(names(row[3]))) for name, row in documented("filters", dialect).items()}
    assert {kind: (str(fate), lost) for kind, (fate, lost) in of_filters(read(dialect).report).items()} == expected


def test_every_key_and_filter_that_the_importer_knows_is_documented() -> None:
    keys = {key for dialect in DIALECTS for key in documented("keys", dialect)}
    filters = {kind for dialect in DIALECTS for kind in documented("filters", dialect)}
    assert keys == (set(DIRECTIVES) | ELSEWHERE) - UNNAMED
    assert filters == KINDS
