"""Serialises a mask as versioned bytes: JSON, at most `BYTES_MAX` long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from pollerd.detection.noise.mask import NO_MASK, RULES_MAX, Anchor, BlockRule, LineRule, Mask
from pollerd.detection.noise.slots import Slot, SlotKind
from pollerd.detection.noise.template import Literal, Template
from pollerd.errors import InvalidValueError

VERSION = 1
BYTES_MAX = 64 * 1024
"""Rules beyond this size are dropped, the last first."""


def to_bytes(mask: Mask) -> bytes:
    """Serialises the mask for `from_bytes`; empty for the empty mask."""
    if not mask:
        return b""
    written = _written(mask)
    while len(written) > BYTES_MAX:
        lines, blocks = mask.lines, mask.blocks
        mask = replace(mask, lines=lines[:-1]) if lines else replace(mask, blocks=blocks[:-1])
        written = _written(mask)
    return written


def from_bytes(data: bytes) -> Mask:
    """Parses a mask; raises InvalidValueError for bytes of another version, or damaged ones."""
    if not data:
        return NO_MASK
    try:
        version, blocks, lines = orjson.loads(data)
        if version != VERSION or len(blocks) + len(lines) > RULES_MAX:
            raise ValueError("version or number of rules")
        return Mask(tuple(map(_block, blocks)), tuple(map(_line, lines)))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidValueError("mask", f"an undamaged mask of version {VERSION}", data[:80]) from error


def _written(mask: Mask) -> bytes:
    return orjson.dumps(
        [VERSION, [_from_block(rule) for rule in mask.blocks], [_from_line(rule) for rule in mask.lines]]
    )


def _from_block(rule: BlockRule) -> list[Any]:
    templates = [_from_template(template) for template in rule.templates]
    anchors = [_from_anchor(rule.before), _from_anchor(rule.after)]
    return [*anchors, rule.shortest, rule.longest, rule.any_order, templates, rule.shown, rule.unseen]


def _block(data: list[Any]) -> BlockRule:
    before, after, shortest, longest, any_order, templates, shown, unseen = data
    return BlockRule(
        _anchor(before),
        _anchor(after),
        _integer(shortest),
        _integer(longest),
        bool(any_order),
        tuple(map(_template, templates)),
        str(shown),
        _integer(unseen),
    )


def _from_line(rule: LineRule) -> list[Any]:
    anchors = [_from_anchor(anchor) for anchor in rule.anchors]
    return [_from_template(rule.template), anchors, rule.prefix.decode("latin-1"), rule.shown, rule.unseen]


def _line(data: list[Any]) -> LineRule:
    template, anchors, prefix, shown, unseen = data
    found = tuple(map(_anchor, anchors))
    return LineRule(_template(template), found, prefix.encode("latin-1"), str(shown), _integer(unseen))


def _from_anchor(anchor: Anchor) -> list[int]:
    return [anchor.offset, *anchor.keys]


def _anchor(data: list[Any]) -> Anchor:
    offset, *keys = map(_integer, data)
    if not offset or not keys:
        raise ValueError("an anchor needs an offset and keys")
    return Anchor(offset, tuple(keys))


def _from_template(template: Template) -> list[Any]:
    return [
        [part.count, part.digest]
        if isinstance(part, Literal)
        else [part.kind, part.size, [shape.decode("latin-1") for shape in part.shapes]]
        for part in template.parts
    ]


def _template(data: list[Any]) -> Template:
    return Template(tuple(_part(part) for part in data))


def _part(data: list[Any]) -> Literal | Slot:
    if len(data) == 2:
        return Literal(*map(_integer, data))
    kind, size, shapes = data
    return Slot(SlotKind(kind), _integer(size), tuple(shape.encode("latin-1") for shape in shapes))


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("not an integer")
    return value
