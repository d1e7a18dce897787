"""Comparison of two sequences, such as the lines of two texts: what was added, removed and replaced, in bounded time.

All comparisons begin alike: equal items at either end are cut off, and items that occur equally often in both are
paired in order of occurrence. Of the pairs, the longest sequence that ascends in both is kept (patience diff, after
Bram Cohen; O(n log n)). What is between them are the gaps. Callers differ in what they do with a gap: sizes of changes
look at its words, masks at its tokens. `compare`, for readers, pairs only lines that occur once, and looks into the
gaps for lines that occur more often.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Literal, NamedTuple, TypeVar

Item = TypeVar("Item", bound=Hashable)
Pairs = Iterable[tuple[int, int]]
"""Places of equal items, in the one sequence and in the other."""


class Gap(NamedTuple):
    """Items `a[a_start:a_end]` of one sequence, replaced in the other by `b[b_start:b_end]`. Either may be empty."""

    a_start: int
    a_end: int
    b_start: int
    b_end: int

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return self.a_start < self.a_end or self.b_start < self.b_end


def unmatched(items: Iterable[Hashable], others: Iterable[Hashable]) -> Iterator[int]:
    """Yields the places of items without a partner among the others; of equal items the last have none."""
    partners = Counter(others)
    for n, item in enumerate(items):
        number = partners.get(item, 0)
        if number:
            partners[item] = number - 1
        else:
            yield n


def trimmed(gap: Gap, a: Sequence[Hashable], b: Sequence[Hashable]) -> Gap:
    """Returns the gap without the equal items at either end."""
    i, i_end, j, j_end = gap
    while i < i_end and j < j_end and a[i] == b[j]:
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and a[i_end - 1] == b[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
    return Gap(i, i_end, j, j_end)


def paired(a: Sequence[Hashable], b: Sequence[Hashable], most: int | None = None) -> list[tuple[int, int]]:
    """Returns pairs of items that occur equally often in both, at most `most` times, ordered by position in `a`."""
    counts, other_counts = Counter(a), Counter(b)
    places: dict[Hashable, list[int]] = {}
    for j, item in enumerate(b):
        if counts[item] == other_counts[item] and (most is None or counts[item] <= most):
            places.setdefault(item, []).append(j)
    queues = {item: iter(indices) for item, indices in places.items()}
    return [(i, next(queues[item])) for i, item in enumerate(a) if item in queues]


def longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the longest subsequence that ascends in both, of pairs that ascend in the first (patience sorting).

    Time: n log n.
    """
    tops: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for at, (_, j) in enumerate(pairs):
        pile = bisect_left(tops, j)
        before.append(holders[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [j]
        holders[pile : pile + 1] = [at]
    chosen = []
    at = holders[-1] if holders else -1
    while at >= 0:
        chosen.append(pairs[at])
        at = before[at]
    return chosen[::-1]


def in_order(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Returns pairs of items that occur equally often in both, as many as keep their order."""
    return longest_rising(paired(a, b))


def between(gap: Gap, pairs: Pairs, a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[Gap]:
    """Yields what is left of a gap between pairs, which are counted from its start; without what is empty."""
    start, end, other_start, other_end = gap
    i, j = start, other_start
    for at, other_at in [*pairs, (end - start, other_end - other_start)]:
        next_i, next_j = start + at, other_start + other_at
        if i < next_i or j < next_j:
            inner = trimmed(Gap(i, next_i, j, next_j), a, b)
            if inner:
                yield inner
        i, j = next_i + 1, next_j + 1


def gaps(
    a: Sequence[Item], b: Sequence[Item], anchors: Callable[[Sequence[Item], Sequence[Item]], Pairs] = in_order
) -> list[Gap]:
    """Returns the gaps between two sequences, in order. anchors: finds the pairs in what differs."""
    whole = trimmed(Gap(0, len(a), 0, len(b)), a, b)
    if not whole:
        return []
    inner = anchors(a[whole.a_start : whole.a_end], b[whole.b_start : whole.b_end])
    return list(between(whole, inner, a, b))


# Comparison for readers. `difflib` alone is quadratic, and cubic in bad cases. So lines that occur once in either text
# are paired first, and only the gaps are given to `difflib`, within a budget of steps. The result is deterministic.

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
    differing: list[Gap] = []
    coarse = False
    waiting = [(gap, 0) for gap in gaps(left, right, lambda a, b: [])]
    while waiting:
        gap, depth = waiting.pop()
        ours, theirs = left[gap.a_start : gap.a_end], right[gap.b_start : gap.b_end]
        anchors = longest_rising(paired(ours, theirs, most=1)) if depth < _DEPTH else []
        if anchors:
            waiting += [(inner, depth + 1) for inner in between(gap, anchors, left, right)]
        elif set(ours).isdisjoint(theirs):
            differing.append(gap)
        elif budget_left.spend(ours, theirs):
            blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
            same = [(i + n, j + n) for i, j, length in blocks for n in range(length)]
            differing += between(gap, same, left, right)
        else:
            differing.append(gap)
            coarse = True
    return LineDiff(tuple(_blocks(sorted(differing), len(left), len(right))), coarse)


def _blocks(differing: Iterable[Gap], lines_left: int, lines_right: int) -> Iterator[Block]:
    i = j = 0
    for gap in [*differing, Gap(lines_left, lines_left, lines_right, lines_right)]:
        if i < gap.a_start:
            yield Block("equal", (i, gap.a_start), (j, gap.b_start))
        i, j = gap.a_end, gap.b_end
        if gap:
            kind: Kind = "insert" if gap.a_start == i else "delete" if gap.b_start == j else "replace"
            yield Block(kind, (gap.a_start, i), (gap.b_start, j))


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
    at_left, at_right = ([*accumulate(map(len, words), initial=0)] for words in (ours, theirs))
    spans: tuple[list[Span], list[Span]] = ([], [])
    for kind, i, i_end, j, j_end in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if kind != "equal" and i < i_end:
            spans[0].append((at_left[i], at_left[i_end]))
        if kind != "equal" and j < j_end:
            spans[1].append((at_right[j], at_right[j_end]))
    return spans
