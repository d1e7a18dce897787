"""What may stand where two fetches differ: the narrowest class that covers what was seen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pollerd.detection.noise.tokens import Token, TokenKind, shape

MARK, MARK_END = "\ufdd0".encode(), "\ufdd1".encode()
"""Around what stands for a masked span. Noncharacters, kept by Unicode for use inside programs: no page has them."""
_SHAPES_MAX = 8
_TEXT_SPARE_BYTES = 32
_HEX = re.compile(rb"[0-9a-fA-F]+\Z")
_CODE = re.compile(rb"[0-9A-Za-z+/_=-]+\Z")
_ALNUM = frozenset({TokenKind.NUMBER, TokenKind.CODE, TokenKind.WORD})


class SlotKind(StrEnum):
    """What a slot takes."""

    MOMENT = "moment"
    """A date, a time or both, in one of the shapes seen."""
    AGO = "relative time"
    NUMBER = "number"
    HEX = "hexadecimal"
    CODE = "code"
    """Letters and digits, with the signs of base64."""
    ORDER = "any order"
    """The same tokens in whatever order."""
    TEXT = "any text"


_WIDTH = {SlotKind.NUMBER: 0, SlotKind.HEX: 1, SlotKind.CODE: 2}


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a line that differs between two fetches.

    `size`: HEX and CODE: the bytes that it has, 0 where that varies; TEXT and ORDER: the bytes that it may have.
    `shapes`: MOMENT: those seen, sorted.
    """

    kind: SlotKind
    size: int = 0
    shapes: tuple[bytes, ...] = ()

    @property
    def wide(self) -> bool:
        """True where it takes more than one token."""
        return self.kind in (SlotKind.TEXT, SlotKind.ORDER)

    def takes(self, found: Sequence[Token]) -> bool:
        """Whether these tokens may stand here: any number of them where the slot is wide, else one."""
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
        """What stands for these tokens in the masked content."""
        if self.kind is not SlotKind.ORDER:
            return MARK + self.kind.encode() + MARK_END
        return MARK + b"".join(sorted(token.text for token in found)) + MARK_END

    def joined(self, other: Slot) -> Slot:
        """The slot that takes what either takes."""
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
        """Any text of the size that it has."""
        return Slot(SlotKind.TEXT, self.size)


def slot_for(one: Token, other: Token) -> Slot | None:
    """The narrowest slot that takes both tokens; None where only any text would do."""
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
    """Takes any text up to twice `size` bytes and some."""
    return Slot(SlotKind.TEXT, 2 * size + _TEXT_SPARE_BYTES)


def _code_slot(one: bytes, other: bytes) -> Slot | None:
    size = len(one) if len(one) == len(other) else 0
    if _HEX.match(one) and _HEX.match(other):
        return Slot(SlotKind.HEX, size)
    return Slot(SlotKind.CODE, size) if _CODE.match(one) and _CODE.match(other) else None
