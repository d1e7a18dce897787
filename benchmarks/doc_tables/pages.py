"""Tables in the pages of docs/, each with the command that its page names for it.

A page names a command by a comment `<!-- command: ... -->`. It applies to the tables below it, up to the next such
comment or the next heading. `none: WHY` means that no command of the repository produces a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

COMMAND = re.compile(r"<!-- command: (.+?) -->")
HEADING = re.compile(r"#+ ")
RULE = re.compile(r"\|[-| :]+\|$")
BEGINS_WITH_A_NUMBER = re.compile(r"[*~<(+-]*\.?\d")
WITHOUT_FIGURES = {"settings.md", "glossary.md", "references.md", "api.md", "model.md", "architecture.md"}
"""Pages whose tables hold no measurements."""


@dataclass(frozen=True)
class DocTable:
    """A table of a page.

    page: relative to docs/. line: of its head, from 1. number: index in its section, from 1. above: the last line of
    text before it, "" if another table or the heading precedes it. rows: cells as printed, without emphasis.
    """

    page: str
    line: int
    heading: str
    number: int
    above: str
    command: str | None
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        """Its location, "papers/htraa.md:35"."""
        return f"{self.page}:{self.line}"

    @property
    def experiments(self) -> tuple[str, ...]:
        """Names of the experiments that its command runs; none if it is no `pollerd reproduce`."""
        words = (self.command or "").split()
        if words[:2] != ["pollerd", "reproduce"]:
            return ()
        return tuple(word for word in words[2:] if not word.startswith("-") and not word.isdecimal())

    @property
    def holds_numbers(self) -> bool:
        """Whether two cells or more, without the labels of rows, begin with a number."""
        return sum(bool(BEGINS_WITH_A_NUMBER.match(cell)) for row in self.rows for cell in row[1:]) > 1


def tables_of_numbers(docs: Path) -> list[DocTable]:
    """Returns all tables of numbers of all pages below a folder, without decisions and pages without figures."""
    pages = (page for page in sorted(docs.glob("**/*.md")) if page.name not in WITHOUT_FIGURES)
    return [
        table
        for page in pages
        if "adr" not in page.relative_to(docs).parts
        for table in tables(page, page.relative_to(docs).as_posix())
        if table.holds_numbers
    ]


def tables(page: Path, name: str) -> Iterator[DocTable]:
    """Yields all tables of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    heading, above, number = "", "", 0
    command: str | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        named = COMMAND.search(line)
        if HEADING.match(line):
            heading, above, number, command = line.lstrip("# "), "", 0, None
        elif named:
            command = named[1]
        elif line.startswith("|") and at + 1 < len(lines) and RULE.match(lines[at + 1]):
            number += 1
            body = _body(lines[at + 2 :])
            rows = tuple(_cells(row) for row in body)
            yield DocTable(name, at + 1, heading, number, above, command, _cells(line), rows)
            above = ""
            at += 1 + len(body)
        elif line.strip():
            above = line.strip()
        at += 1


def _body(lines: Sequence[str]) -> list[str]:
    """Returns the lines up to the first that is not a row."""
    end = next((at for at, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return list(lines[:end])


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace("**", "") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1])
