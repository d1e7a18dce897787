"""Aligns two contents: finds the units that both have in the same order, and the gaps between them.

Units that occur equally often in both are paired in order of occurrence. Where pairs cross (units in another order),
running maxima find the smallest stretch that is closed under the pairing. Linear but for a sort.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_SMALL_STRETCH = 8


@dataclass(frozen=True, slots=True)
class Gap:
    """Units `a[a_start:a_end]` of one content, replaced in the other by `b[b_start:b_end]`. Either may be empty."""

    a_start: int
    a_end: int
    b_start: int
    b_end: int


def gaps(a: Sequence[int], b: Sequence[int]) -> list[Gap]:
    """Returns the gaps between the units of `a` and `b`, given by their keys, in order."""
    whole = _trimmed(Gap(0, len(a), 0, len(b)), a, b)
    if whole is None:
        return []
    found = []
    i, j = whole.a_start, whole.b_start
    inner_a, inner_b = a[whole.a_start : whole.a_end], b[whole.b_start : whole.b_end]
    anchors = [(i + at, j + other_at) for at, other_at in _anchors(inner_a, inner_b)]
    for next_i, next_j in [*anchors, (whole.a_end, whole.b_end)]:
        gap = _trimmed(Gap(i, next_i, j, next_j), a, b)
        if gap is not None:
            found.append(gap)
        i, j = next_i + 1, next_j + 1
    return found


def crossings(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the stretches of `a` (first, last + 1) whose units are in another order in `b`."""
    whole = _trimmed(Gap(0, len(a), 0, len(b)), a, b)
    if whole is None:
        return []
    pairs = _pairs(a[whole.a_start : whole.a_end], b[whole.b_start : whole.b_end])
    places = [whole.a_start + i for i, _ in pairs]
    stretches = _stretches([j for _, j in pairs])
    return [(places[start], places[end - 1] + 1) for start, end in stretches if end - start > 1]


def _trimmed(gap: Gap, a: Sequence[int], b: Sequence[int]) -> Gap | None:
    i, i_end, j, j_end = gap.a_start, gap.a_end, gap.b_start, gap.b_end
    while i < i_end and j < j_end and a[i] == b[j]:
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and a[i_end - 1] == b[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
    return None if i == i_end and j == j_end else Gap(i, i_end, j, j_end)


def _anchors(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields pairs of equal units, ascending in both."""
    pairs = _pairs(a, b)
    for start, end in _stretches([j for _, j in pairs]):
        stretch = pairs[start:end]
        if len(stretch) == 1:
            yield stretch[0]
            continue
        kept = longest_rising(stretch)
        # If most keep their order, the others were moved; otherwise the stretch has no order.
        if len(stretch) > _SMALL_STRETCH and 2 * len(kept) >= len(stretch) and not _same_units(stretch, a, b):
            yield from kept


def _pairs(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Returns pairs of units that occur equally often in both, ordered by position in `a`."""
    counts, other_counts = Counter(a), Counter(b)
    places: dict[int, list[int]] = {}
    for j, key in enumerate(b):
        if counts[key] == other_counts[key]:
            places.setdefault(key, []).append(j)
    queues = {key: iter(found) for key, found in places.items()}
    return [(i, next(queues[key])) for i, key in enumerate(a) if key in queues]


def _stretches(order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields the smallest runs of positions that are closed under the ranking: of length 1 where nothing crosses."""
    rank_of = {j: rank for rank, j in enumerate(sorted(order))}
    start = highest = 0
    for at, j in enumerate(order):
        highest = max(highest, rank_of[j])
        if highest == at:
            yield start, at + 1
            start = at + 1


def _same_units(stretch: Sequence[tuple[int, int]], a: Sequence[int], b: Sequence[int]) -> bool:
    """Returns whether only the order differs."""
    places, other_places = [i for i, _ in stretch], [j for _, j in stretch]
    ours, theirs = a[min(places) : max(places) + 1], b[min(other_places) : max(other_places) + 1]
    return Counter(ours) == Counter(theirs)


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
