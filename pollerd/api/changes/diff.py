"""Compares two texts in bounded time: `difflib` alone is quadratic, and cubic in bad cases.

First matches lines that occur once in either text (patience diff, after Bram Cohen): these anchors are found in linear
time. The gaps between anchors go to `difflib`, within a fixed budget of steps. The result is deterministic.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal

WORK = 200_000_000
"""Step budget of `difflib` for one comparison: under a second."""
_DEPTH = 8
_MARKED_CHARACTERS = 4_000
_MARKED_WORK = 2_000_000
_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Kind = Literal["equal", "insert", "delete", "replace"]
Span = tuple[int, int]
"""A range, end exclusive."""


@dataclass(frozen=True, slots=True)
class Block:
    """A range of lines `left` that is equal to, or replaced by, the lines `right` of the other text."""

    kind: Kind
    left: Span
    right: Span


@dataclass(frozen=True, slots=True)
class LineDiff:
    """All blocks in order; together they cover both texts. `coarse`: some could not be compared by line."""

    blocks: tuple[Block, ...]
    coarse: bool


@dataclass(frozen=True, slots=True)
class _Gap:
    left: Span
    right: Span
    depth: int

    @property
    def empty(self) -> bool:
        return self.left[0] == self.left[1] or self.right[0] == self.right[1]


class StepBudget:
    """The remaining budget of steps."""

    def __init__(self, work: int = WORK) -> None:
        self._left = work

    def spend(self, left: Sequence[str], right: Sequence[str], most: int = WORK) -> bool:
        """Returns whether `difflib` may compare these; spends its worst case if that is within `most` and the rest."""
        others = Counter(right)
        pairs = sum(count * others[item] for item, count in Counter(left).items() if item in others)
        cost = (min(len(left), len(right)) + 1) * (len(left) + pairs)
        if cost > min(self._left, most):
            return False
        self._left -= cost
        return True


def compare(left: Sequence[str], right: Sequence[str], budget_left: StepBudget) -> LineDiff:
    """Compares the lines of two texts."""
    matches: list[tuple[int, int]] = []
    coarse = False
    gaps = [_Gap((0, len(left)), (0, len(right)), 0)]
    while gaps:
        gap = _trimmed(gaps.pop(), left, right, matches)
        if gap.empty:
            continue
        anchors = _anchors(gap, left, right) if gap.depth < _DEPTH else []
        if anchors:
            matches += anchors
            gaps += _between(gap, anchors)
        elif not _fine(gap, left, right, budget_left, matches):
            coarse = True
    return LineDiff(tuple(_blocks(sorted(matches), len(left), len(right))), coarse)


def _trimmed(gap: _Gap, left: Sequence[str], right: Sequence[str], matches: list[tuple[int, int]]) -> _Gap:
    """Returns the gap without the equal lines at either end."""
    (i, i_end), (j, j_end) = gap.left, gap.right
    while i < i_end and j < j_end and left[i] == right[j]:
        matches.append((i, j))
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and left[i_end - 1] == right[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
        matches.append((i_end, j_end))
    return _Gap((i, i_end), (j, j_end), gap.depth)


def _anchors(gap: _Gap, left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Returns lines that occur once on either side, as many as keep their order."""
    single = _single(right, gap.right)
    pairs = [(i, single[line]) for line, i in _single(left, gap.left).items() if line in single]
    pairs.sort()
    return _increasing(pairs)


def _single(lines: Sequence[str], span: Span) -> dict[str, int]:
    where: dict[str, int] = {}
    for n in range(*span):
        where[lines[n]] = -1 if lines[n] in where else n
    return {line: n for line, n in where.items() if n >= 0}


def _increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the longest subsequence with increasing second numbers."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for n, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        before.append(last[at - 1] if at else -1)
        ends[at : at + 1] = [j]
        last[at : at + 1] = [n]
    chain: list[tuple[int, int]] = []
    n = last[-1] if last else -1
    while n >= 0:
        chain.append(pairs[n])
        n = before[n]
    return chain[::-1]


def _between(gap: _Gap, anchors: list[tuple[int, int]]) -> Iterator[_Gap]:
    start = (gap.left[0] - 1, gap.right[0] - 1)
    for (i, j), (next_i, next_j) in pairwise([start, *anchors, (gap.left[1], gap.right[1])]):
        yield _Gap((i + 1, next_i), (j + 1, next_j), gap.depth + 1)


def _fine(
    gap: _Gap, left: Sequence[str], right: Sequence[str], budget_left: StepBudget, matches: list[tuple[int, int]]
) -> bool:
    """Compares with `difflib`; returns False if that exceeds the budget."""
    ours, theirs = left[slice(*gap.left)], right[slice(*gap.right)]
    if set(ours).isdisjoint(theirs):
        return True
    if not budget_left.spend(ours, theirs):
        return False
    for i, j, length in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        matches += [(gap.left[0] + i + n, gap.right[0] + j + n) for n in range(length)]
    return True


def _blocks(matches: list[tuple[int, int]], lines_left: int, lines_right: int) -> Iterator[Block]:
    i = j = 0
    equal_from: tuple[int, int] | None = None
    for next_i, next_j in [*matches, (lines_left, lines_right)]:
        end = next_i == lines_left and next_j == lines_right
        if equal_from is not None and (end or (next_i, next_j) != (i, j)):
            yield Block("equal", (equal_from[0], i), (equal_from[1], j))
            equal_from = None
        if (next_i, next_j) != (i, j):
            kind: Kind = "insert" if next_i == i else "delete" if next_j == j else "replace"
            yield Block(kind, (i, next_i), (j, next_j))
        if equal_from is None:
            equal_from = (next_i, next_j)
        i, j = next_i + 1, next_j + 1


def hunks(blocks: Sequence[Block], context: int) -> Iterator[list[Block]]:
    """Yields groups of blocks, each with at most `context` equal lines before, after and between differences."""
    group: list[Block] = []
    for n, block in enumerate(blocks):
        if block.kind != "equal":
            group.append(block)
            continue
        length = block.left[1] - block.left[0]
        last = n == len(blocks) - 1
        if group and not last and length <= 2 * context:
            group.append(block)
            continue
        if group:
            kept = min(context, length)
            yield [*group, _part(block, 0, kept)] if kept else group
        kept = 0 if last else min(context, length)
        group = [_part(block, length - kept, length)] if kept else []
    if any(block.kind != "equal" for block in group):
        yield group


def _part(block: Block, start: int, end: int) -> Block:
    i, j = block.left[0], block.right[0]
    return Block(block.kind, (i + start, i + end), (j + start, j + end))


def marks(left: str, right: str, budget_left: StepBudget) -> tuple[list[Span], list[Span]]:
    """Returns the differing parts of two lines, by word, in characters; none if that exceeds the budget."""
    if max(len(left), len(right)) > _MARKED_CHARACTERS:
        return [], []
    ours, theirs = _WORD.findall(left), _WORD.findall(right)
    if not budget_left.spend(ours, theirs, _MARKED_WORK):
        return [], []
    at_left, at_right = _starts(ours), _starts(theirs)
    found: tuple[list[Span], list[Span]] = ([], [])
    for kind, i, i_end, j, j_end in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if kind != "equal" and i < i_end:
            found[0].append((at_left[i], at_left[i_end]))
        if kind != "equal" and j < j_end:
            found[1].append((at_right[j], at_right[j_end]))
    return found


def _starts(words: Sequence[str]) -> list[int]:
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return starts
