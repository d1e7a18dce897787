"""Applies a mask to a content: replaces noise by its name, and leaves all else byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import xxhash

from pollerd.detection.noise.mask import BlockRule, LineRule, Mask
from pollerd.detection.noise.places import Place, UnitIndex, body
from pollerd.detection.noise.slots import MARK, MARK_END

_ALL_NOISE_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Masked:
    """Result of applying a mask to a content."""

    content: bytes
    """The content with each noisy part replaced by its name between `MARK` and `MARK_END`."""
    size: int
    """Size of the original content in bytes."""
    hidden: int
    """Bytes of it that are noise; reordered lines do not count."""
    missing: int
    """Number of rules whose place was not found: the page's structure has changed, and a repeat fetch is useful."""

    @property
    def all_noise(self) -> bool:
        """True if less than a twentieth of the content is not noise."""
        return self.size > 0 and self.hidden >= _ALL_NOISE_SHARE * self.size


def apply(content: bytes, mask: Mask) -> Masked:
    """Returns `content` (any bytes) without its noise; idempotent.

    Two contents without `MARK` with equal results differ only within their masked spans. A content that contains `MARK`
    is returned unchanged. Time: at most linear in the content for each rule; raises nothing.
    """
    if not mask or MARK in content:
        return Masked(content, len(content), 0, 0)
    return MaskApplication(content, mask).result()


def hidden_by_rule(content: bytes, mask: Mask) -> tuple[Masked, tuple[int, ...]]:
    """Returns the result of `apply`, and for each rule a hash of the parts of the content that it acts on.

    Blocks first, then lines; 0 for a rule without a place. Empty if nothing was masked.
    """
    if not mask or MARK in content:
        return apply(content, mask), ()
    applied = MaskApplication(content, mask)
    return applied.result(), applied.hidden_by_rule()


class MaskApplication:
    """Application of a mask to a content, step by step; learning uses its findings as well."""

    def __init__(self, content: bytes, mask: Mask) -> None:
        self.content, self.mask = content, mask
        self._ended = content.endswith(b"\n")
        # With every line terminated, a missing final line end makes no difference.
        self.page = UnitIndex(content if self._ended else content + b"\n")
        self.blocks: dict[BlockRule, list[Place]] = {}
        self.lines: dict[int, bytes] = {}
        self.found: dict[LineRule, set[int]] = {}
        """Units that match each rule, including those already masked by an earlier rule."""
        self._line_hides: dict[int, int] = {}
        self._starts: dict[int, tuple[Place, BlockRule]] = {}
        self.covered = bytearray(len(self.page.units))
        for block in mask.blocks:
            self._take_block(block)
        for line in mask.lines:
            self._take_lines(line)

    def result(self) -> Masked:
        """Returns the masked content."""
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

    def hidden_by_rule(self) -> tuple[int, ...]:
        """Returns a hash of the units that each rule acts on, as they stand; 0 for a rule without a place."""
        units = self.page.units
        blocks = (
            [unit for place in self.blocks[rule] for unit in units[place.start : place.end]]
            for rule in self.mask.blocks
        )
        lines = ([units[at] for at in sorted(self.found[rule])] for rule in self.mask.lines)
        return tuple(xxhash.xxh3_64_intdigest(b"".join(some)) if some else 0 for some in (*blocks, *lines))

    def begins_block(self, at: int) -> bool:
        """Returns whether a block begins at the unit."""
        return at in self._starts

    def block_text(self, place: Place, rule: BlockRule) -> bytes:
        """Returns the replacement of a block."""
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
        """Yields the lines of a block in any order, and the hidden bytes of each."""
        for unit in self.page.units[place.start : place.end]:
            line = body(unit)
            fits = (template.masked(line) for template in rule.templates)
            yield next((masked for masked in fits if masked is not None), (line, 0))
