"""Rules for lines and blocks of lines of a page that are noise.

A line rule hides only what its slots accept, in lines that match the rest of its template, at its place. A block rule
hides any lines (as many as seen; where their number varied, the range is extended by twice the difference) or the order
of its lines, if both neighbours of the block are in place. All else is kept byte for byte.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pollerd.detection.noise.template import Template

RULES_MAX = 64
ANCHORS_MAX = 8
"""Per line rule."""
TEMPLATES_MAX = 8
"""Per block rule."""
DEPTH_MAX = 4
OFFSET_MAX = 8
EDGE = -1
"""Key of the position before the first unit and after the last."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """Stable units near a position, by their keys, nearest first.

    `offset`: distance in units from the nearest to the position: positive if it comes after, negative if before.
    """

    offset: int
    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LineRule:
    """Lines that fit `template`, at any of `anchors`; with a `prefix`, all lines with that prefix anywhere."""

    template: Template
    anchors: tuple[Anchor, ...]
    prefix: bytes
    shown: str
    """Description for users, such as `after «Latest news»: ‹number›`."""
    unseen: int = 0
    """Consecutive pairs of fetches in which it was not found."""

    def has_slots_of(self, other: LineRule) -> bool:
        """Returns whether it has its slots where the other one has them, in the same lines."""
        there = self.prefix == other.prefix and set(self.anchors) <= set(other.anchors)
        return there and self.template.form == other.template.form


@dataclass(frozen=True, slots=True)
class BlockRule:
    """`shortest` to `longest` units between two anchors: in any order if `any_order`, else any units at all."""

    before: Anchor
    after: Anchor
    shortest: int
    longest: int
    any_order: bool
    templates: tuple[Template, ...]
    """In any order: templates of its noisy lines."""
    shown: str
    unseen: int = 0


@dataclass(frozen=True, slots=True)
class Mask:
    """All rules of one site; at most `RULES_MAX` in total. The empty mask hides nothing."""

    blocks: tuple[BlockRule, ...] = ()
    lines: tuple[LineRule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.blocks or self.lines)

    def hides_in_slots_of(self, known: Mask) -> bool:
        """Returns whether it hides nothing outside the blocks and slots of `known`, if perhaps more values there."""
        blocks = {(rule.before, rule.after, rule.any_order) for rule in known.blocks}
        return all((rule.before, rule.after, rule.any_order) in blocks for rule in self.blocks) and all(
            any(rule.has_slots_of(other) for other in known.lines) for rule in self.lines
        )

    def is_wider_than(self, known: Mask) -> bool:
        """Returns whether it hides any text, any lines or any order where `known` does not."""
        return not self._wide() <= known._wide()

    def _wide(self) -> set[object]:
        blocks = {(rule.before, rule.after, rule.any_order) for rule in self.blocks}
        lines = {rule.template for rule in self.lines if rule.template.is_vague}
        return blocks | lines

    def may_be_doubted(self) -> tuple[bool, ...]:
        """Returns for each rule, blocks first, whether what it hides may be no noise: not if that is the time since."""
        return (*(True for _ in self.blocks), *(not rule.template.is_relative_time for rule in self.lines))

    def without(self, rules: Collection[int]) -> Mask:
        """Returns the mask without the rules at these indices, counted from the first block to the last line."""
        kept = [rule for i, rule in enumerate((*self.blocks, *self.lines)) if i not in rules]
        return Mask(
            tuple(rule for rule in kept if isinstance(rule, BlockRule)),
            tuple(rule for rule in kept if isinstance(rule, LineRule)),
        )

    def describe(self) -> list[str]:
        """Returns descriptions for users, one per rule."""
        return [block.shown for block in self.blocks] + [line.shown for line in self.lines]


NO_MASK = Mask()
