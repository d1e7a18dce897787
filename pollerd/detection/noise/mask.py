"""What of a page's content is noise, and where it stands: rules for lines and for blocks of lines.

A rule hides nothing but what its slots take, in lines that say the rest of its template, at its place; or, in a block,
any lines (no more than seen, twice as many where their number varies) or the order of its lines, where both of the
block's neighbours stand as they stood. All else is kept byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.detection.noise.template import Template

RULES_MAX = 64
ANCHORS_MAX = 8
"""Of one line rule."""
TEMPLATES_MAX = 8
"""Of one block rule."""
DEPTH_MAX = 4
OFFSET_MAX = 8
EDGE = -1
"""The key of what lies before the first unit and after the last."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """Stable units near a place, by their keys, the nearest first.

    `offset`: how far the place is from the nearest, in units: positive where it comes after, negative where before.
    """

    offset: int
    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LineRule:
    """Lines that fit `template`, at any of `anchors`; with a `prefix`, all lines that begin so, wherever they are."""

    template: Template
    anchors: tuple[Anchor, ...]
    prefix: bytes
    shown: str
    """For a person, such as `after «Latest news»: ‹number›`."""
    unseen: int = 0
    """Pairs of fetches in a row in which it was not found."""


@dataclass(frozen=True, slots=True)
class BlockRule:
    """`shortest` to `longest` units between two anchors: in any order where `any_order`, else any units at all."""

    before: Anchor
    after: Anchor
    shortest: int
    longest: int
    any_order: bool
    templates: tuple[Template, ...]
    """In any order: those of its lines that are noisy themselves."""
    shown: str
    unseen: int = 0


@dataclass(frozen=True, slots=True)
class Mask:
    """All rules of one site; at most `RULES_MAX` in all. The empty mask hides nothing."""

    blocks: tuple[BlockRule, ...] = ()
    lines: tuple[LineRule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.blocks or self.lines)

    def describe(self) -> list[str]:
        """What is hidden, a line a rule, for a person."""
        return [block.shown for block in self.blocks] + [line.shown for line in self.lines]


NO_MASK = Mask()
