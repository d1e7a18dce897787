"""Templates of lines with noise: the constant text, and the slots between, made from the tokens of two fetches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import xxhash
from msgspec import Struct

from pollerd.texts import N_, _

# Tokens of a line: moments, relative times, numbers, codes, words, and single signs between them.
#
# The grammar is loose on purpose: the kind of a token matters only where it differs between two fetches, and a span
# that looks like a date there is one.

LONGEST_LINE = 16 * 1024
"""Maximum length in bytes of a line that is split."""


class TokenKind(StrEnum):
    """What a token looks like."""

    MOMENT = "moment"
    AGO = "ago"
    NUMBER = "number"
    CODE = "code"
    WORD = "word"
    SIGN = "sign"


class Token(Struct, frozen=True):
    """Some bytes of a line; the concatenated tokens are the line."""

    kind: TokenKind
    text: bytes


_MONTHS = """
    january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec
    januar februar märz mai juni juli oktober dezember mär okt dez
    janvier février mars avril juin juillet août septembre octobre novembre décembre janv févr avr juil déc
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre ene abr ago dic
    gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre gen mag giu lug set ott
    janeiro fevereiro março maio junho julho setembro outubro novembro dezembro fev out
    januari februari maart mei augustus mrt
"""
_WEEKDAYS = """
    monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun
    montag dienstag mittwoch donnerstag freitag samstag sonntag
    lundi mardi mercredi jeudi vendredi samedi dimanche lunes martes miércoles jueves viernes sábado domingo
    lunedì martedì mercoledì giovedì venerdì sabato domenica
"""


def _any_of(names: str) -> bytes:
    return b"(?:" + "|".join(sorted(names.split(), key=len, reverse=True)).encode() + rb")(?![a-z\x80-\xff])\.?"


_MONTH = _any_of(_MONTHS)
_WEEKDAY = _any_of(_WEEKDAYS) + rb",?\ "
_ZONE = rb"(?:\ ?(?:z|utc|gmt|[a-z]{2,4}t)(?![a-z]))?(?:\ ?[+-]\d\d:?\d\d(?!\d))?"
_TIME = rb"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\ ?[ap]\.?m(?![a-z])\.?)?" + _ZONE
_DAY = rb"\d{1,2}(?:st|nd|rd|th|\.)?"
_DATE = (
    rb"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
    rb"|\d{4}\xe5\xb9\xb4\d{1,2}\xe6\x9c\x88\d{1,2}\xe6\x97\xa5"
    rb"|(?:" + _WEEKDAY + rb")?(?:" + _DAY + rb"[\ -](?:de\ )?" + _MONTH + rb"(?:,?[\ -](?:de\ )?\d{4})?"
    rb"|" + _MONTH + rb"\ " + _DAY + rb"(?:,?\ \d{4})?))"
)
_MOMENT = (
    rb"(?:" + _DATE + rb"(?:(?:t|,?\ (?:at\ |um\ |\xc3\xa0\ |-\ |\|\ )?)?" + _TIME + rb"(?:\ \d{4})?)?"
    rb"|" + _TIME + rb"(?:,?\ (?:on\ )?" + _DATE + rb")?)"
)
_UNIT = rb"(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|mo|months?|y|yrs?|years?)"
_AGO = (
    rb"(?:(?:about\ |over\ |almost\ |less\ than\ )?(?:\d{1,4}|an?|one|a\ few|few)\ ?" + _UNIT + rb"\ ago"
    rb"|just\ now|moments\ ago|yesterday|today|(?:vor|hace|il\ y\ a)\ \d{1,4}\ [a-z\x80-\xff]{1,10})"
)
# A long run of capitals, small letters and digits is one code, including the signs of base64. The lookaheads are
# bounded, so that the time is linear in the line.
_LONG = (
    rb"(?=[a-zA-Z+/_-]{0,40}[0-9])(?=[a-z0-9+/_-]{0,40}[A-Z])(?=[A-Z0-9+/_-]{0,40}[a-z])"
    rb"[A-Za-z0-9+/_-]{16,4096}+={0,2}"
)
_UUID = rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_TOKEN = re.compile(
    rb"(?P<moment>(?i:" + _MOMENT + rb")(?![0-9A-Za-z]))|(?P<ago>(?i:" + _AGO + rb")(?![0-9A-Za-z]))"
    rb"|(?P<code>" + _UUID + rb"|" + _LONG + rb")"
    rb"|(?P<number>\d++(?![A-Za-z_])(?:[.,]\d++(?![A-Za-z_]))*+)"
    rb"|(?P<word>[A-Za-z]++(?![0-9_])|[\x80-\xff]++)|(?P<run>[0-9A-Za-z_]++)|(?P<sign>[\x00-\x7f])"
)
_LETTERS = re.compile(rb"[A-Za-z\x80-\xff]++")
_DIGITS = re.compile(rb"\d++")


def tokens(line: bytes) -> list[Token]:
    """Splits `line`, any bytes, into tokens; concatenated they are the line. Linear; for up to `LONGEST_LINE`."""
    return [Token(_KINDS[match.lastgroup], match[0]) for match in _TOKEN.finditer(line)]


def shape(moment: bytes) -> bytes:
    """Returns a moment with every number as 0 and every word as a: `Sat, 21 Nov 2026 9:31` is `a, 0 a 0 0:0`."""
    return _DIGITS.sub(b"0", _LETTERS.sub(b"a", moment))


_KINDS: dict[str | None, TokenKind] = {**{kind.value: kind for kind in TokenKind}, "run": TokenKind.CODE}
"""Group of `_TOKEN` -> the kind of what it matches."""


# Slots for the differing parts of lines: the narrowest class that covers the observed values.

MARK, MARK_END = "\ufdd0".encode(), "\ufdd1".encode()
"""Delimiters of masked spans. Noncharacters, reserved by Unicode for internal use: no page has them."""
_SHAPES_MAX = 8
_TEXT_SPARE_BYTES = 32
_HEX = re.compile(rb"[0-9a-fA-F]+\Z")
_CODE = re.compile(rb"[0-9A-Za-z+/_=-]+\Z")
_ALNUM = frozenset({TokenKind.NUMBER, TokenKind.CODE, TokenKind.WORD})


class SlotKind(StrEnum):
    """What a slot accepts."""

    MOMENT = "moment"
    """A date, a time or both, in one of the observed shapes."""
    AGO = "relative time"
    NUMBER = "number"
    HEX = "hexadecimal"
    CODE = "code"
    """Letters and digits, with the signs of base64."""
    ORDER = "any order"
    """The same tokens in any order."""
    TEXT = "any text"


_SLOTS = {
    SlotKind.MOMENT: N_("moment"),
    SlotKind.AGO: N_("relative time"),
    SlotKind.NUMBER: N_("number"),
    SlotKind.HEX: N_("hexadecimal"),
    SlotKind.CODE: N_("code"),
    SlotKind.ORDER: N_("any order"),
    SlotKind.TEXT: N_("any text"),
}
_WIDTH = {SlotKind.NUMBER: 0, SlotKind.HEX: 1, SlotKind.CODE: 2}


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of a line that differs between two fetches.

    `size`: HEX and CODE: its length in bytes, 0 if that varies; TEXT and ORDER: its maximum length in bytes. `shapes`:
    MOMENT: the observed shapes, sorted.
    """

    kind: SlotKind
    size: int = 0
    shapes: tuple[bytes, ...] = ()

    @property
    def wide(self) -> bool:
        """True if it accepts more than one token."""
        return self.kind in (SlotKind.TEXT, SlotKind.ORDER)

    @property
    def form(self) -> str:
        """What it accepts, in the large: numbers and codes are alike, and so are all dates and times."""
        return SlotKind.CODE if self.kind in _WIDTH else self.kind

    def takes(self, span: Sequence[Token]) -> bool:
        """Returns whether the slot accepts these tokens: any number if the slot is wide, else one."""
        if self.wide:
            return sum(len(token.text) for token in span) <= self.size
        token = span[0]
        match self.kind:
            case SlotKind.MOMENT:
                return token.kind is TokenKind.MOMENT and shape(token.text) in self.shapes
            case SlotKind.AGO:
                return token.kind is TokenKind.AGO
            case SlotKind.NUMBER:
                return token.kind is TokenKind.NUMBER
            case _:
                signs = _HEX if self.kind is SlotKind.HEX else _CODE
                return self.size in (0, len(token.text)) and signs.match(token.text) is not None

    def masked(self, span: Sequence[Token]) -> bytes:
        """Returns the replacement of these tokens in the masked content."""
        if self.kind is not SlotKind.ORDER:
            return MARK + self.kind.encode() + MARK_END
        return MARK + b"".join(sorted(token.text for token in span)) + MARK_END

    def joined(self, other: Slot) -> Slot:
        """Returns the slot that accepts what either accepts."""
        if self == other:
            return self
        if self.kind is SlotKind.MOMENT is other.kind:
            shapes = tuple(sorted({*self.shapes, *other.shapes}))
            return Slot(self.kind, 0, shapes) if len(shapes) <= _SHAPES_MAX else text_slot(0)
        if self.kind is SlotKind.ORDER is other.kind:
            return max(self, other, key=lambda slot: slot.size)
        if self.kind in _WIDTH and other.kind in _WIDTH:
            kind = max(self.kind, other.kind, key=_WIDTH.__getitem__)
            return Slot(kind, self.size if self.size == other.size else 0)
        return max(text_slot(0), self, other, key=lambda slot: slot.size if slot.wide else 0).as_text()

    def as_text(self) -> Slot:
        """Returns the slot for any text of the same maximum size."""
        return Slot(SlotKind.TEXT, self.size)


def slot_for(token: Token, other: Token) -> Slot | None:
    """Returns the narrowest slot that accepts both tokens; None if only any text would do."""
    kinds = {token.kind, other.kind}
    if kinds == {TokenKind.MOMENT}:
        return Slot(SlotKind.MOMENT, 0, tuple(sorted({shape(token.text), shape(other.text)})))
    if kinds == {TokenKind.AGO}:
        return Slot(SlotKind.AGO)
    if kinds == {TokenKind.NUMBER}:
        return Slot(SlotKind.NUMBER)
    if kinds <= _ALNUM and kinds != {TokenKind.WORD}:
        return _code_slot(token.text, other.text)
    return None


def text_slot(size: int) -> Slot:
    """Returns a slot for any text up to twice `size` bytes and some."""
    return Slot(SlotKind.TEXT, 2 * size + _TEXT_SPARE_BYTES)


def _code_slot(code: bytes, other: bytes) -> Slot | None:
    size = len(code) if len(code) == len(other) else 0
    if _HEX.match(code) and _HEX.match(other):
        return Slot(SlotKind.HEX, size)
    return Slot(SlotKind.CODE, size) if _CODE.match(code) and _CODE.match(other) else None


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
        at, spans = 0, []
        for part in self.parts:
            end = at + (spare if isinstance(part, Slot) and part.wide else _width(part))
            if isinstance(part, Slot):
                if not part.takes(line[at:end]):
                    return None
                spans.append(Span(at, end, part))
            elif _digest(line[at:end]) != part.digest:
                return None
            at = end
        return spans

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


def differing_spans(line: Sequence[Token], other: Sequence[Token]) -> list[Span] | None:
    """Returns the noise of `line`, compared with the other line; None if too little of the line is constant.

    The same tokens in another order are one span. Otherwise equal tokens and tokens of one kind are paired from either
    end, and the rest between them is any text.
    """
    reordered = _reordered(line, other)
    if reordered is not None:
        return [reordered]
    head, left = _paired(line, other)
    tail, right = _paired(line[left:][::-1], other[left:][::-1])
    end, other_end = len(line) - right, len(other) - right
    spans = head
    if left < end or left < other_end:
        size = max(_size(line[left:end]), _size(other[left:other_end]))
        spans.append(Span(left, end, text_slot(size)))
    spans += [Span(len(line) - span.end, len(line) - span.start, span.slot) for span in reversed(tail)]
    if len(spans) > SLOTS_MAX:
        spans = [covering(line, spans)]
    return spans if _known_by(line, spans) else None


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
        words += [_excerpt(line[at : span.start]), f"‹{_(_SLOTS[span.slot.kind])}›"]
        at = span.end
    return "".join([*words, _excerpt(line[at:])]).strip()


def _paired(line: Sequence[Token], other: Sequence[Token]) -> tuple[list[Span], int]:
    """Returns the noise at the beginning, as far as tokens can be paired one by one, and the length of that part."""
    spans: list[Span] = []
    for at, (token, theirs) in enumerate(zip(line, other, strict=False)):
        if token == theirs:
            continue
        slot = slot_for(token, theirs)
        if slot is None:
            return spans, at
        spans.append(Span(at, at + 1, slot))
    return spans, min(len(line), len(other))


def _reordered(line: Sequence[Token], other: Sequence[Token]) -> Span | None:
    differing = [at for at, (token, theirs) in enumerate(zip(line, other, strict=False)) if token != theirs]
    if len(line) != len(other) or not differing:
        return None
    if sum(line[at].kind is not TokenKind.SIGN for at in differing) < _REORDERED_MIN:
        return None
    # The whole line, because the first and the last of a list sometimes stay in place.
    same = sorted(token.text for token in line) == sorted(token.text for token in other)
    return Span(0, len(line), Slot(SlotKind.ORDER, 2 * _size(line))) if same else None


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
