"""Templates of lines with noise: the constant text, and the slots between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import xxhash

from pollerd.detection.noise.slots import Slot, SlotKind, slot_for, text_slot
from pollerd.detection.noise.tokens import LONGEST_LINE, Token, TokenKind, tokens

SLOTS_MAX = 12
_LETTERS_FOR_TEXT = 3
"""Minimum number of constant letters of a line with a slot for any text, so that the line can be recognised."""
_TOKENS_FOR_TEXT = 8
_REORDERED_MIN = 2
_SHOWN_BYTES = 40
_LABEL_SIGNS = frozenset(sign.to_bytes() for sign in b'"()*-/:;<=>[]|{}')
_SPEAKING = (TokenKind.WORD, TokenKind.CODE)


@dataclass(frozen=True, slots=True)
class Literal:
    """Constant tokens: their number, and the 64-bit hash of their bytes."""

    count: int
    digest: int


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens `start` to `end` of a line, which are noise."""

    start: int
    end: int
    slot: Slot


@dataclass(frozen=True, slots=True)
class Template:
    """Alternating literals and slots; at most one slot is wide, so that a line fits in one way only, found directly."""

    parts: tuple[Literal | Slot, ...]

    @property
    def is_vague(self) -> bool:
        """Whether a slot accepts any text, or any order."""
        return any(isinstance(part, Slot) and part.wide for part in self.parts)

    @property
    def is_relative_time(self) -> bool:
        """Whether all its slots accept relative times only."""
        return all(part.kind is SlotKind.AGO for part in self.parts if isinstance(part, Slot))

    @property
    def form(self) -> tuple[Literal | str, ...]:
        """Its constant text, and the forms of its slots."""
        return tuple(part if isinstance(part, Literal) else part.form for part in self.parts)

    def spans(self, line: Sequence[Token]) -> list[Span] | None:
        """Returns the noise of a line, or None if the line does not fit."""
        spare = len(line) - sum(_width(part) for part in self.parts)
        wide = any(isinstance(part, Slot) and part.wide for part in self.parts)
        if spare < 0 or (spare and not wide):
            return None
        at, found = 0, []
        for part in self.parts:
            end = at + (spare if isinstance(part, Slot) and part.wide else _width(part))
            if isinstance(part, Slot):
                if not part.takes(line[at:end]):
                    return None
                found.append(Span(at, end, part))
            elif _digest(line[at:end]) != part.digest:
                return None
            at = end
        return found

    def masked(self, line: bytes) -> tuple[bytes, int] | None:
        """Returns the line with its noise replaced, and the number of bytes hidden; None if it does not fit."""
        if len(line) > LONGEST_LINE:
            return None
        read = tokens(line)
        spans = self.spans(read)
        if spans is None:
            return None
        hidden = sum(_size(read[span.start : span.end]) for span in spans if span.slot.kind is not SlotKind.ORDER)
        return _written(read, spans), hidden


def template_of(line: Sequence[Token], spans: Sequence[Span]) -> Template:
    """Returns the template of a line whose noise is `spans`, in order and disjoint."""
    parts: list[Literal | Slot] = []
    at = 0
    for span in spans:
        if at < span.start:
            parts.append(Literal(span.start - at, _digest(line[at : span.start])))
        parts.append(span.slot)
        at = span.end
    if at < len(line):
        parts.append(Literal(len(line) - at, _digest(line[at:])))
    return Template(tuple(parts))


def differing_spans(one: Sequence[Token], other: Sequence[Token]) -> list[Span] | None:
    """Returns the noise of `one`, compared with the other line; None if too little of the line is constant.

    The same tokens in another order are one span. Otherwise equal tokens and tokens of one kind are paired from either
    end, and the rest between them is any text.
    """
    reordered = _reordered(one, other)
    if reordered is not None:
        return [reordered]
    head, left = _paired(one, other)
    tail, right = _paired(one[left:][::-1], other[left:][::-1])
    end, other_end = len(one) - right, len(other) - right
    spans = head
    if left < end or left < other_end:
        size = max(_size(one[left:end]), _size(other[left:other_end]))
        spans.append(Span(left, end, text_slot(size)))
    spans += [Span(len(one) - span.end, len(one) - span.start, span.slot) for span in reversed(tail)]
    if len(spans) > SLOTS_MAX:
        spans = [covering(one, spans)]
    return spans if _known_by(one, spans) else None


def united(line: Sequence[Token], some: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """Returns the noise in either; overlapping spans, and everything between wide ones, are merged."""
    result: list[Span] = []
    for span in sorted([*some, *others], key=lambda span: (span.start, span.end)):
        last = result[-1] if result else None
        if last is not None and (last.start, last.end) == (span.start, span.end):
            result[-1] = Span(span.start, span.end, last.slot.joined(span.slot))
        elif last is not None and span.start < last.end:
            result[-1] = covering(line, [last, span])
        else:
            result.append(span)
    wide = [n for n, span in enumerate(result) if span.slot.wide]
    if len(wide) > 1:
        result[wide[0] : wide[-1] + 1] = [covering(line, result[wide[0] : wide[-1] + 1])]
    return [covering(line, result)] if len(result) > SLOTS_MAX else result


def covering(line: Sequence[Token], spans: Sequence[Span]) -> Span:
    """Returns one span of any text, from the start of the first to the end of the last."""
    start, end = min(span.start for span in spans), max(span.end for span in spans)
    return Span(start, end, text_slot(_size(line[start:end])))


def shown(line: Sequence[Token], spans: Sequence[Span]) -> str:
    """Returns the line for users: noise by its name, the text between shortened."""
    words, at = [], 0
    for span in spans:
        words += [_excerpt(line[at : span.start]), f"‹{span.slot.kind}›"]
        at = span.end
    return "".join([*words, _excerpt(line[at:])]).strip()


def _paired(one: Sequence[Token], other: Sequence[Token]) -> tuple[list[Span], int]:
    """Returns the noise at the beginning, as far as tokens can be paired one by one, and the length of that part."""
    spans: list[Span] = []
    for at, (token, theirs) in enumerate(zip(one, other, strict=False)):
        if token == theirs:
            continue
        slot = slot_for(token, theirs)
        if slot is None:
            return spans, at
        spans.append(Span(at, at + 1, slot))
    return spans, min(len(one), len(other))


def _reordered(one: Sequence[Token], other: Sequence[Token]) -> Span | None:
    differing = [at for at, (token, theirs) in enumerate(zip(one, other, strict=False)) if token != theirs]
    if len(one) != len(other) or not differing:
        return None
    if sum(one[at].kind is not TokenKind.SIGN for at in differing) < _REORDERED_MIN:
        return None
    # The whole line, because the first and the last of a list sometimes stay in place.
    same = sorted(token.text for token in one) == sorted(token.text for token in other)
    return Span(0, len(one), Slot(SlotKind.ORDER, 2 * _size(one))) if same else None


def _known_by(line: Sequence[Token], spans: Sequence[Span]) -> bool:
    """Returns whether a slot for any text is next to a label (`Sponsored: …`) or within a larger constant part.

    A single shared word may be chance.
    """
    text = next((span for span in spans if span.slot.kind is SlotKind.TEXT), None)
    if text is None:
        return True
    noisy = {at for span in spans for at in range(span.start, span.end)}
    stays = [token for at, token in enumerate(line) if at not in noisy]
    if sum(len(token.text) for token in stays if token.kind in _SPEAKING) < _LETTERS_FOR_TEXT:
        return False
    labelled = _sets_off(line[: text.start][::-1]) or _sets_off(line[text.end :])
    return labelled or len(stays) >= _TOKENS_FOR_TEXT or _size(stays) >= _size(line[text.start : text.end])


def _sets_off(beside: Sequence[Token]) -> bool:
    """Returns whether a label sign comes first, spaces aside."""
    return next((token.text in _LABEL_SIGNS for token in beside if token.text != b" "), False)


def _written(line: Sequence[Token], spans: Sequence[Span]) -> bytes:
    pieces, at = [], 0
    for span in spans:
        pieces += [token.text for token in line[at : span.start]]
        pieces.append(span.slot.masked(line[span.start : span.end]))
        at = span.end
    return b"".join([*pieces, *(token.text for token in line[at:])])


def _excerpt(line: Sequence[Token]) -> str:
    text = b"".join(token.text for token in line).decode("utf-8", "replace")
    return text if len(text) <= _SHOWN_BYTES else f"{text[: _SHOWN_BYTES // 2]}…{text[-_SHOWN_BYTES // 2 :]}"


def _width(part: Literal | Slot) -> int:
    return part.count if isinstance(part, Literal) else 0 if part.wide else 1


def _digest(line: Sequence[Token]) -> int:
    return xxhash.xxh3_64_intdigest(b"\0".join(token.text for token in line))


def _size(line: Sequence[Token]) -> int:
    return sum(len(token.text) for token in line)
