"""The size of a change in characters, its added and removed lines, and hashes of lines that recognise new ones later.

Characters are counted in time that grows little faster than the contents. Lines in a gap between the contents (`edits`)
were added, removed, or, where there are lines on both sides, replaced. In a replaced stretch the same is done with
words, and in words that differ the common beginning and end do not count. A moved line counts as removed and added: it
stands elsewhere now. Line feeds count nothing. A replaced stretch of more than `MAX_COMPARED` characters is compared by
its beginning and end alone, so its size is an upper bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import xxhash

from pollerd.detection.edits import gaps, unmatched
from pollerd.detection.summary import common_affix_length

# Lines that a change added and removed: a difference of multisets, linear in both contents.
#
# A line is its text up to the line feed. A modified line is one removed and one added; a line that was only moved is
# neither, since a user who watches for new lines has seen it. Lines of nothing but white space are layout and left out.


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
    return tuple(lines[n] for n in unmatched(lines, others) if lines[n].strip())


MAX_COMPARED = 1_000_000
"""Characters, old and new together, that are compared word by word in one change."""
_WORD = re.compile(r"\w+|[^\w\n]|\n")


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """Characters that a change added and removed, and those of the larger content, without line feeds."""

    added: int
    removed: int
    larger: int

    @property
    def chars(self) -> int:
        """Added and removed characters together; at least 1 where any line differs."""
        return self.added + self.removed

    @property
    def share(self) -> float:
        """The larger of what was added and removed, as a share of the larger content: 0 to 1."""
        return min(1.0, max(self.added, self.removed) / self.larger) if self.larger else float(self.chars > 0)


def change_size(before: str, after: str) -> ChangeSize:
    """Returns the size of the change between two contents."""
    old, new = lines_of(before), lines_of(after)
    larger = max(_characters(old), _characters(new))
    if old == new:
        return ChangeSize(0, 0, larger)
    keys: dict[str, int] = {}
    a, b = ([keys.setdefault(line, len(keys)) for line in lines] for lines in (old, new))
    removed = added = 0
    work_left = MAX_COMPARED
    for gap in gaps(a, b):
        ours, theirs = "\n".join(old[gap.a_start : gap.a_end]), "\n".join(new[gap.b_start : gap.b_end])
        if gap.a_start < gap.a_end and gap.b_start < gap.b_end:
            parts, work_left = _replaced(ours, theirs, work_left)
        else:
            parts = (_visible(ours), _visible(theirs))
        removed, added = removed + parts[0], added + parts[1]
    # Blank lines alone have no character to count.
    return ChangeSize(added or int(not removed), removed, larger)


def _replaced(ours: str, theirs: str, work_left: int) -> tuple[tuple[int, int], int]:
    """Returns the differing characters of two chunks, removed and added, and how many may still be compared."""
    ours, theirs = _without_affix(ours, theirs)
    work = len(ours) + len(theirs)
    if not ours or not theirs or work > work_left:
        return (_visible(ours), _visible(theirs)), work_left
    keys: dict[str, int] = {}
    a, b = ([keys.setdefault(match[0], len(keys)) for match in _WORD.finditer(text)] for text in (ours, theirs))
    words = list(keys)
    removed = added = 0
    for gap in gaps(a, b):
        spans = a[gap.a_start : gap.a_end], b[gap.b_start : gap.b_end]
        parts = _without_affix(*("".join(words[key] for key in span) for span in spans))
        removed, added = removed + _visible(parts[0]), added + _visible(parts[1])
    return (removed, added), work_left - work


def _characters(lines: Iterable[str]) -> int:
    return sum(map(len, lines))


def _visible(text: str) -> int:
    return len(text) - text.count("\n")


def _without_affix(a: str, b: str) -> tuple[str, str]:
    """Returns two texts without their common beginning and end."""
    start = common_affix_length(a, b, 1)
    a, b = a[start:], b[start:]
    end = common_affix_length(a, b, -1)
    return a[: len(a) - end], b[: len(b) - end]


# Hashes of a version's lines, kept to decide later whether a line is new.
#
# 64 bits a line, without its letter case and the white space around it, so that a line that returns in capitals is the
# same line. Blank lines have no hash.


def line_hash(line: str) -> int:
    """Returns the hash of one line, 0 to 2**64 - 1."""
    return xxhash.xxh3_64_intdigest(line.strip().casefold().encode("utf-8", "surrogatepass"))


def line_hashes(content: str) -> frozenset[int]:
    """Returns the hashes of the lines of a content. The set for several versions is the union of theirs."""
    return frozenset(line_hash(line) for line in set(lines_of(content)) if line.strip())
