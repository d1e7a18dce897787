"""A content under a mask: what is noise is replaced by its name, all else stays byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pollerd.detection.noise.mask import BlockRule, LineRule, Mask
from pollerd.detection.noise.places import Place, UnitIndex, body
from pollerd.detection.noise.slots import MARK, MARK_END

_ALL_NOISE_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Masked:
    """A content as its mask leaves it."""

    content: bytes
    """What is noise stands as its name between `MARK` and `MARK_END`."""
    size: int
    """Bytes that the content had."""
    hidden: int
    """Bytes of it that are noise; lines that only change places are not."""
    missing: int
    """Rules whose place is gone: the page's structure has changed, and a repeat fetch would show what it is now."""

    @property
    def all_noise(self) -> bool:
        """True where less than a twentieth of the content is anything but noise."""
        return self.size > 0 and self.hidden >= _ALL_NOISE_SHARE * self.size


def apply(content: bytes, mask: Mask) -> Masked:
    """`content` (any bytes) without its noise; the same again when applied to its own result.

    Two contents without `MARK` that become the same are the same but for what their masked spans hold. A content that
    has a `MARK` of its own is left as it is. Time: linear in the content for each rule at most; raises nothing.
    """
    if not mask or MARK in content:
        return Masked(content, len(content), 0, 0)
    return MaskApplication(content, mask).result()


class MaskApplication:
    """One content under one mask, step by step; what it found is of use to learning as well."""

    def __init__(self, content: bytes, mask: Mask) -> None:
        self.content, self.mask = content, mask
        self._ended = content.endswith(b"\n")
        # With every line ended, it makes no difference whether the last is there.
        self.page = UnitIndex(content if self._ended else content + b"\n")
        self.blocks: dict[BlockRule, list[Place]] = {}
        self.lines: dict[int, bytes] = {}
        self.found: dict[LineRule, set[int]] = {}
        """Units of each rule, among them those of which another rule before it has taken care."""
        self._line_hides: dict[int, int] = {}
        self._starts: dict[int, tuple[Place, BlockRule]] = {}
        self.covered = bytearray(len(self.page.units))
        for block in mask.blocks:
            self._take_block(block)
        for line in mask.lines:
            self._take_lines(line)

    def result(self) -> Masked:
        """What is left."""
        pieces, at, count = [], 0, len(self.page.units)
        while at <= count:
            place, rule = self._starts.get(at, (None, None))
            if place is not None and rule is not None:
                pieces.append(self.block_text(place, rule))
            if place is not None and place.end > at:
                at = place.end
                continue
            if at < count:
                pieces.append(self.lines.get(at, self.page.units[at]))
            at += 1
        written = b"".join(pieces)
        missing = sum(not places for places in self.blocks.values()) + sum(not hits for hits in self.found.values())
        return Masked(written if self._ended else written[:-1], len(self.content), self._hidden(), missing)

    def begins_block(self, at: int) -> bool:
        """Whether a block begins at the unit."""
        return at in self._starts

    def block_text(self, place: Place, rule: BlockRule) -> bytes:
        """What stands for a block."""
        if not rule.any_order:
            return MARK + b"any lines" + MARK_END + b"\n"
        lines = sorted(text for text, _ in self._block_lines(place, rule))
        return MARK + b"any order\n" + b"".join(line + b"\n" for line in lines) + MARK_END + b"\n"

    def _take_block(self, rule: BlockRule) -> None:
        taken = self.blocks[rule] = []
        for place in self.page.blocks(rule):
            if place.start not in self._starts and not any(self.covered[place.start : place.end]):
                self._starts[place.start] = (place, rule)
                self.covered[place.start : place.end] = b"\1" * (place.end - place.start)
                taken.append(place)

    def _take_lines(self, rule: LineRule) -> None:
        fitting = self.found[rule] = set()
        for at in self.page.lines(rule):
            text = body(self.page.units[at])
            masked = None if self.covered[at] else rule.template.masked(text)
            if masked is not None:
                fitting.add(at)
                if at not in self.lines:
                    self.lines[at] = masked[0] + self.page.units[at][len(text) :]
                    self._line_hides[at] = masked[1]

    def _hidden(self) -> int:
        hidden = sum(self._line_hides.values())
        for place, rule in self._starts.values():
            if rule.any_order:
                hidden += sum(size for _, size in self._block_lines(place, rule))
            else:
                hidden += sum(map(len, self.page.units[place.start : place.end]))
        return min(hidden, len(self.content))

    def _block_lines(self, place: Place, rule: BlockRule) -> Iterator[tuple[bytes, int]]:
        """The lines of a block in any order, and how much of each is hidden."""
        for unit in self.page.units[place.start : place.end]:
            line = body(unit)
            fits = (template.masked(line) for template in rule.templates)
            yield next((masked for masked in fits if masked is not None), (line, 0))
