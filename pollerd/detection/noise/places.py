"""Finds the places of a mask's rules in a content."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from pollerd.detection.noise.mask import EDGE, Anchor, BlockRule, LineRule
from pollerd.detection.noise.units import keys, units

PLACES_MAX = 1_000
"""Anchors whose nearest unit occurs more often are ignored, which bounds the work on any content."""


@dataclass(frozen=True, slots=True)
class Place:
    """Units `start` to `end`."""

    start: int
    end: int


class UnitIndex:
    """The units of a content, with the positions of each key."""

    def __init__(self, content: bytes) -> None:
        self.units = units(content)
        self.keys = keys(self.units)
        self._at: dict[int, list[int]] = {}
        for at, key in enumerate(self.keys):
            self._at.setdefault(key, []).append(at)

    def __contains__(self, key: int) -> bool:
        return key in self._at

    def key(self, at: int) -> int:
        """Returns the key at a position; `EDGE` beyond either end."""
        return self.keys[at] if 0 <= at < len(self.keys) else EDGE

    def targets(self, anchor: Anchor) -> list[int]:
        """Returns the positions that the anchor points to, ascending."""
        step = 1 if anchor.offset > 0 else -1
        nearest = anchor.keys[0]
        found = self._at.get(nearest, []) if nearest != EDGE else [-1 if step > 0 else len(self.keys)]
        if len(found) > PLACES_MAX:
            return []
        deeper = list(enumerate(anchor.keys))[1:]
        return [at + anchor.offset for at in found if all(self.key(at - step * n) == key for n, key in deeper)]

    def lines(self, rule: LineRule) -> Iterator[int]:
        """Yields the candidate units of the rule; they need not fit its template."""
        if rule.prefix:
            yield from (at for at, unit in enumerate(self.units) if unit.startswith(rule.prefix))
        for anchor in rule.anchors:
            yield from (at for at in self.targets(anchor) if 0 <= at < len(self.units))

    def blocks(self, rule: BlockRule) -> Iterator[Place]:
        """Yields the blocks between the rule's anchors; each start with the nearest end."""
        lasts = self.targets(rule.after)
        for start in self.targets(rule.before):
            at = bisect_left(lasts, start + rule.shortest - 1)
            if at < len(lasts) and lasts[at] < start + rule.longest:
                yield Place(start, lasts[at] + 1)


def body(unit: bytes) -> bytes:
    """Returns a unit without its line end and trailing comma."""
    return unit.rstrip(b",\n")
