"""Slots for the differing parts of lines: the narrowest class that covers the observed values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pollerd.detection.noise.tokens import Token, TokenKind, shape

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

    def takes(self, found: Sequence[Token]) -> bool:
        """Returns whether the slot accepts these tokens: any number if the slot is wide, else one."""
        if self.wide:
            return sum(len(token.text) for token in found) <= self.size
        token = found[0]
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

    def masked(self, found: Sequence[Token]) -> bytes:
        """Returns the replacement of these tokens in the masked content."""
        if self.kind is not SlotKind.ORDER:
            return MARK + self.kind.encode() + MARK_END
        return MARK + b"".join(sorted(token.text for token in found)) + MARK_END

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


def slot_for(one: Token, other: Token) -> Slot | None:
    """Returns the narrowest slot that accepts both tokens; None if only any text would do."""
    kinds = {one.kind, other.kind}
    if kinds == {TokenKind.MOMENT}:
        return Slot(SlotKind.MOMENT, 0, tuple(sorted({shape(one.text), shape(other.text)})))
    if kinds == {TokenKind.AGO}:
        return Slot(SlotKind.AGO)
    if kinds == {TokenKind.NUMBER}:
        return Slot(SlotKind.NUMBER)
    if kinds <= _ALNUM and kinds != {TokenKind.WORD}:
        return _code_slot(one.text, other.text)
    return None


def text_slot(size: int) -> Slot:
    """Returns a slot for any text up to twice `size` bytes and some."""
    return Slot(SlotKind.TEXT, 2 * size + _TEXT_SPARE_BYTES)


def _code_slot(one: bytes, other: bytes) -> Slot | None:
    size = len(one) if len(one) == len(other) else 0
    if _HEX.match(one) and _HEX.match(other):
        return Slot(SlotKind.HEX, size)
    return Slot(SlotKind.CODE, size) if _CODE.match(one) and _CODE.match(other) else None
