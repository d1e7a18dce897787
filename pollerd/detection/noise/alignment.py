"""Alignment of two contents: the units that both have in the same order, the gaps between them, and the noise in a gap.

Where pairs of units cross (units in another order), running maxima find the smallest stretch that is closed under the
pairing. Linear but for a sort.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pollerd.detection import edits
from pollerd.detection.edits import Gap, longest_rising, paired, trimmed, unmatched
from pollerd.detection.noise.mask import TEMPLATES_MAX, Place, UnitIndex, body
from pollerd.detection.noise.templates import (
    LONGEST_LINE,
    Span,
    Template,
    Token,
    TokenKind,
    differing_spans,
    template_of,
    tokens,
)

_SMALL_STRETCH = 8


def gaps(a: Sequence[int], b: Sequence[int]) -> list[Gap]:
    """Returns the gaps between the units of `a` and `b`, given by their keys, in order."""
    return edits.gaps(a, b, _anchors)


def crossings(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the chunks of `a` (first, last + 1) whose units are in another order in `b`."""
    whole = trimmed(Gap(0, len(a), 0, len(b)), a, b)
    pairs = paired(a[whole.a_start : whole.a_end], b[whole.b_start : whole.b_end])
    places = [whole.a_start + i for i, _ in pairs]
    chunks = _stretches([j for _, j in pairs])
    return [(places[start], places[end - 1] + 1) for start, end in chunks if end - start > 1]


def _anchors(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields pairs of equal units, ascending in both."""
    pairs = paired(a, b)
    for start, end in _stretches([j for _, j in pairs]):
        stretch = pairs[start:end]
        if len(stretch) == 1:
            yield stretch[0]
            continue
        kept = longest_rising(stretch)
        # If most keep their order, the others were moved; otherwise the stretch has no order.
        if len(stretch) > _SMALL_STRETCH and 2 * len(kept) >= len(stretch) and not _same_units(stretch, a, b):
            yield from kept


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


# Classes of a gap between two fetches: lines with noise, a block of any lines, or reordered lines.

_TAKEN_APART_UNITS = 1_000
"""A gap of more units is treated as one block."""
_NOISY = frozenset({TokenKind.MOMENT, TokenKind.AGO, TokenKind.NUMBER, TokenKind.CODE})


@dataclass(frozen=True, slots=True)
class NoisyLine:
    """Unit `at` of one content, unit `other_at` of the other, and their differing spans."""

    at: int
    other_at: int
    line: list[Token]
    spans: list[Span]

    @property
    def template(self) -> Template:
        """The template of the line."""
        return template_of(self.line, self.spans)


@dataclass(frozen=True, slots=True)
class NoisyBlock:
    """Corresponding units of both contents: reordered if `any_order`, else different."""

    place: Place
    other_place: Place
    any_order: bool
    templates: tuple[Template, ...] = field(default=())


def noise_of(gap: Gap, index: UnitIndex, other: UnitIndex) -> list[NoisyLine | NoisyBlock]:
    """Returns the noise in a gap, in order."""
    ours, theirs = index.keys[gap.a_start : gap.a_end], other.keys[gap.b_start : gap.b_end]
    if max(len(ours), len(theirs)) > _TAKEN_APART_UNITS:
        return [_block(gap, any_order=Counter(ours) == Counter(theirs))]
    left = [gap.a_start + n for n in unmatched(ours, theirs)]
    other_left = [gap.b_start + n for n in unmatched(theirs, ours)]
    if len(left) < len(ours) or (len(left) > 1 and _outlines(left, index) != _outlines(other_left, other)):
        templates = _templates(left, other_left, index, other)
        if templates is not None:
            return [_block(gap, any_order=True, templates=templates)]
    return _in_place(gap, index, other)


def _block(gap: Gap, *, any_order: bool, templates: tuple[Template, ...] = ()) -> NoisyBlock:
    return NoisyBlock(Place(gap.a_start, gap.a_end), Place(gap.b_start, gap.b_end), any_order, templates)


def _templates(
    left: Sequence[int], other_left: Sequence[int], index: UnitIndex, other: UnitIndex
) -> tuple[Template, ...] | None:
    """Returns templates of the lines that differ beyond their order; None if some cannot be paired."""
    outlines, other_outlines = _outlines(left, index), _outlines(other_left, other)
    if Counter(outlines) != Counter(other_outlines):
        return None
    by_outline = sorted(range(len(left)), key=outlines.__getitem__)
    other_by_outline = sorted(range(len(other_left)), key=other_outlines.__getitem__)
    templates: dict[Template, None] = {}
    for mine, theirs in zip(by_outline, other_by_outline, strict=True):
        noisy = _line(left[mine], other_left[theirs], index, other)
        if noisy is None:
            return None
        templates[noisy.template] = None
    return tuple(templates) if len(templates) <= TEMPLATES_MAX else None


def _outlines(places: Sequence[int], page: UnitIndex) -> list[bytes]:
    """Returns the lines without tokens that are often noise."""
    return [_outline(body(page.units[at])) for at in places]


def _outline(line: bytes) -> bytes:
    if len(line) > LONGEST_LINE:
        return line
    return b"".join(token.kind.encode() if token.kind in _NOISY else token.text for token in tokens(line))


def _in_place(gap: Gap, index: UnitIndex, other: UnitIndex) -> list[NoisyLine | NoisyBlock]:
    """Pairs lines from the top and from the bottom; lines that fit no template form a block of any lines."""
    size, other_size = gap.a_end - gap.a_start, gap.b_end - gap.b_start
    if size == other_size:
        return _paired(gap, index, other)
    head: list[NoisyLine | NoisyBlock] = []
    tail: list[NoisyLine | NoisyBlock] = []
    start, other_start, end, other_end = gap.a_start, gap.b_start, gap.a_end, gap.b_end
    while start < end and other_start < other_end:
        noisy = _line(start, other_start, index, other)
        if noisy is None:
            break
        head.append(noisy)
        start, other_start = start + 1, other_start + 1
    while start < end and other_start < other_end:
        noisy = _line(end - 1, other_end - 1, index, other)
        if noisy is None:
            break
        tail.append(noisy)
        end, other_end = end - 1, other_end - 1
    return [*head, _block(Gap(start, end, other_start, other_end), any_order=False), *reversed(tail)]


def _paired(gap: Gap, index: UnitIndex, other: UnitIndex) -> list[NoisyLine | NoisyBlock]:
    noise: list[NoisyLine | NoisyBlock] = []
    shift = gap.b_start - gap.a_start
    for at in range(gap.a_start, gap.a_end):
        if index.keys[at] == other.keys[at + shift]:
            continue
        noisy = _line(at, at + shift, index, other)
        last = noise[-1] if noise else None
        if noisy is not None:
            noise.append(noisy)
        elif isinstance(last, NoisyBlock) and last.place.end == at:
            noise[-1] = _block(Gap(last.place.start, at + 1, last.other_place.start, at + shift + 1), any_order=False)
        else:
            noise.append(_block(Gap(at, at + 1, at + shift, at + shift + 1), any_order=False))
    return noise


def _line(at: int, other_at: int, index: UnitIndex, other: UnitIndex) -> NoisyLine | None:
    text, other_text = body(index.units[at]), body(other.units[other_at])
    if max(len(text), len(other_text)) > LONGEST_LINE:
        return None
    line = tokens(text)
    spans = differing_spans(line, tokens(other_text))
    return None if not spans else NoisyLine(at, other_at, line, spans)
