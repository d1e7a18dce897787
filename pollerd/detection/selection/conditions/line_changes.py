"""Which lines a change added and removed: a difference of multisets, linear in both contents.

A line is its text up to the line feed. A modified line is one removed and one added; a line that was only moved is
neither, since whoever watches for new lines has seen it. Lines of nothing but white space are layout and left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineChanges:
    """Lines of the new content that the old one lacks, and the other way round, each in the order of its content.

    A line that is there more often than before was added as often as it is there more.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]


def lines_of(content: str) -> list[str]:
    """Returns the lines of a content, blank ones too; a line feed at the end starts no line."""
    lines = content.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def line_changes(before: str, after: str) -> LineChanges:
    """Returns the lines that a change added and removed."""
    if before == after:
        return LineChanges((), ())
    old, new = lines_of(before), lines_of(after)
    return LineChanges(added=_without(new, old), removed=_without(old, new))


def _without(lines: list[str], others: list[str]) -> tuple[str, ...]:
    """Returns the lines that have no partner among the others; of equal ones the last have none."""
    partners = Counter(others)
    found = []
    for line in lines:
        if partners[line] > 0:
            partners[line] -= 1
        elif line.strip():
            found.append(line)
    return tuple(found)
