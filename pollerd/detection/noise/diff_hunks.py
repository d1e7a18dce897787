"""Classifies a gap between two fetches: lines with noise, a block of any lines, or reordered lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pollerd.detection.noise.alignment import Gap
from pollerd.detection.noise.mask import TEMPLATES_MAX
from pollerd.detection.noise.places import Place, UnitIndex, body
from pollerd.detection.noise.template import Span, Template, differing_spans, template_of
from pollerd.detection.noise.tokens import LONGEST_LINE, Token, TokenKind, tokens

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


def noise_of(gap: Gap, one: UnitIndex, other: UnitIndex) -> list[NoisyLine | NoisyBlock]:
    """Returns the noise in a gap, in order."""
    ours, theirs = one.keys[gap.a_start : gap.a_end], other.keys[gap.b_start : gap.b_end]
    if max(len(ours), len(theirs)) > _TAKEN_APART_UNITS:
        return [_block(gap, any_order=Counter(ours) == Counter(theirs))]
    common = Counter(ours) & Counter(theirs)
    left, other_left = _without(ours, common, gap.a_start), _without(theirs, common, gap.b_start)
    if common or (len(left) > 1 and _outlines(left, one) != _outlines(other_left, other)):
        templates = _templates(left, other_left, one, other)
        if templates is not None:
            return [_block(gap, any_order=True, templates=templates)]
    return _in_place(gap, one, other)


def _block(gap: Gap, *, any_order: bool, templates: tuple[Template, ...] = ()) -> NoisyBlock:
    return NoisyBlock(Place(gap.a_start, gap.a_end), Place(gap.b_start, gap.b_end), any_order, templates)


def _without(keys: Sequence[int], common: Counter[int], start: int) -> list[int]:
    """Returns the positions of the units that are not paired, one to one, with the common ones."""
    spare = Counter(common)
    left = []
    for at, key in enumerate(keys, start):
        if spare[key]:
            spare[key] -= 1
        else:
            left.append(at)
    return left


def _templates(
    left: Sequence[int], other_left: Sequence[int], one: UnitIndex, other: UnitIndex
) -> tuple[Template, ...] | None:
    """Returns templates of the lines that differ beyond their order; None if some cannot be paired."""
    outlines, other_outlines = _outlines(left, one), _outlines(other_left, other)
    if Counter(outlines) != Counter(other_outlines):
        return None
    by_outline = sorted(range(len(left)), key=outlines.__getitem__)
    other_by_outline = sorted(range(len(other_left)), key=other_outlines.__getitem__)
    found: dict[Template, None] = {}
    for mine, theirs in zip(by_outline, other_by_outline, strict=True):
        noisy = _line(left[mine], other_left[theirs], one, other)
        if noisy is None:
            return None
        found[noisy.template] = None
    return tuple(found) if len(found) <= TEMPLATES_MAX else None


def _outlines(places: Sequence[int], page: UnitIndex) -> list[bytes]:
    """Returns the lines without tokens that are often noise."""
    return [_outline(body(page.units[at])) for at in places]


def _outline(line: bytes) -> bytes:
    if len(line) > LONGEST_LINE:
        return line
    return b"".join(token.kind.encode() if token.kind in _NOISY else token.text for token in tokens(line))


def _in_place(gap: Gap, one: UnitIndex, other: UnitIndex) -> list[NoisyLine | NoisyBlock]:
    """Pairs lines from the top and from the bottom; lines that fit no template form a block of any lines."""
    size, other_size = gap.a_end - gap.a_start, gap.b_end - gap.b_start
    if size == other_size:
        return _paired(gap, one, other)
    head: list[NoisyLine | NoisyBlock] = []
    tail: list[NoisyLine | NoisyBlock] = []
    start, other_start, end, other_end = gap.a_start, gap.b_start, gap.a_end, gap.b_end
    while start < end and other_start < other_end:
        noisy = _line(start, other_start, one, other)
        if noisy is None:
            break
        head.append(noisy)
        start, other_start = start + 1, other_start + 1
    while start < end and other_start < other_end:
        noisy = _line(end - 1, other_end - 1, one, other)
        if noisy is None:
            break
        tail.append(noisy)
        end, other_end = end - 1, other_end - 1
    return [*head, _block(Gap(start, end, other_start, other_end), any_order=False), *reversed(tail)]


def _paired(gap: Gap, one: UnitIndex, other: UnitIndex) -> list[NoisyLine | NoisyBlock]:
    found: list[NoisyLine | NoisyBlock] = []
    shift = gap.b_start - gap.a_start
    for at in range(gap.a_start, gap.a_end):
        if one.keys[at] == other.keys[at + shift]:
            continue
        noisy = _line(at, at + shift, one, other)
        last = found[-1] if found else None
        if noisy is not None:
            found.append(noisy)
        elif isinstance(last, NoisyBlock) and last.place.end == at:
            found[-1] = _block(Gap(last.place.start, at + 1, last.other_place.start, at + shift + 1), any_order=False)
        else:
            found.append(_block(Gap(at, at + 1, at + shift, at + shift + 1), any_order=False))
    return found


def _line(at: int, other_at: int, one: UnitIndex, other: UnitIndex) -> NoisyLine | None:
    text, other_text = body(one.units[at]), body(other.units[other_at])
    if max(len(text), len(other_text)) > LONGEST_LINE:
        return None
    line = tokens(text)
    spans = differing_spans(line, tokens(other_text))
    return None if not spans else NoisyLine(at, other_at, line, spans)
