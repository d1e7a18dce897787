"""A condition: whether a change of a selection's content matters, and why.

`against: announced` of a level leaf (present, absent, length; above, below, equals, present, absent of a value): the
leaf holds where its test holds of the new content *and* the new content differs from the announced one, the content of
the last change that mattered. A content that a condition held back is not announced, so a way back to the announced
content is no news: with `absent: sold out`, "A" (announced), then "sold out", then "A" again says nothing, as a blocked
check of changedetection.io leaves its baseline. `not` negates the test and leaves the comparison as it is. For that the
caller keeps the first content of a selection as announced until a change matters.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from pollerd.detection.selection.conditions.inputs import Comparison, ComparisonView, CompilePattern
from pollerd.detection.selection.conditions.leaf_parsing import CONTENT_TESTS, Given, LeafContext, LeafPlace, parse_leaf
from pollerd.detection.selection.conditions.logic import Combination, ConditionNode
from pollerd.detection.selection.conditions.plain_text import joined
from pollerd.detection.selection.document import list_of, shown, table
from pollerd.errors import InvalidValueError

MAX_DEPTH = 5
"""Levels of all, any, not and leaves inside each other."""
MAX_LEAVES = 50
_COMBINED = ("all", "any", "not")
_ALLOWED = f"a condition: a table with one of {', '.join((*_COMBINED, *CONTENT_TESTS, 'value'))}"


@dataclass(frozen=True, slots=True)
class ConditionNeeds:
    """What the caller loads for a comparison.

    announced_content: `Comparison.announced` is used. versions: how many last versions, 0 none. values: names of values
    that are read; their last values are needed too. announced_values: names whose announced values are used.
    """

    announced_content: bool = False
    versions: int | Literal["all"] = 0
    values: frozenset[str] = frozenset()
    announced_values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a condition says of a change. why: one line for people.

    unknown: the values that left it undecided; then `matters` is true, and it is for the caller to say it only once.
    """

    matters: bool
    why: str
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition."""

    root: ConditionNode
    needs: ConditionNeeds

    def evaluate(self, comparison: Comparison) -> Verdict:
        """Returns whether the change matters."""
        found = self.root.find(ComparisonView(comparison))
        return Verdict(found.state is not False, joined(found.facts), found.unknown)


def parse_conditions(
    field: str, document: object, *, values: Collection[str], compile_pattern: CompilePattern
) -> Condition | None:
    """Returns the condition that a document says, None for an absent one.

    values: names of the values that the selection reads. compile_pattern: compiles a pattern's definition for a field.
    At most 5 levels and 50 leaves. Raises `InvalidValueError` with the position, as `conditions.all[0].value`.
    """
    if document is None:
        return None
    parser = _Parser(LeafContext(names=values, compile_pattern=compile_pattern))
    root = parser.node(LeafPlace(field, negated=False), document, 1)
    return Condition(root, parser.needs())


class _Parser:
    """Parses all, any and not, and counts."""

    def __init__(self, context: LeafContext) -> None:
        self._context = context
        self._leaves = 0

    def needs(self) -> ConditionNeeds:
        """What the leaves that were parsed need."""
        context = self._context
        return ConditionNeeds(
            announced_content=context.announced_content,
            versions="all" if context.all_versions else context.versions,
            values=frozenset(context.values),
            announced_values=frozenset(context.announced_values),
        )

    def node(self, place: LeafPlace, document: object, depth: int) -> ConditionNode:
        """Parses a condition and what is in it."""
        if depth > MAX_DEPTH:
            raise InvalidValueError(place.field, f"nested at most {MAX_DEPTH} deep", "deeper")
        given = table(place.field, document, _ALLOWED)
        combined = [key for key in _COMBINED if key in given]
        if not combined:
            return self._leaf(place, given)
        if len(given) > 1:
            others = " and ".join(sorted(given)[:5])
            raise InvalidValueError(place.field, f"{combined[0]} and nothing beside it", shown(others))
        if combined == ["not"]:
            return self.node(LeafPlace(place.at("not"), not place.negated), given["not"], depth + 1)
        return self._several(place, combined[0], given[combined[0]], depth)

    def _several(self, place: LeafPlace, key: str, document: object, depth: int) -> ConditionNode:
        where = place.at(key)
        parts = list_of(where, document, MAX_LEAVES, "conditions")
        return Combination(
            tuple(
                self.node(LeafPlace(f"{where}[{n}]", place.negated), part, depth + 1) for n, part in enumerate(parts)
            ),
            decisive=(key == "any") is not place.negated,
        )

    def _leaf(self, place: LeafPlace, given: Given) -> ConditionNode:
        self._leaves += 1
        if self._leaves > MAX_LEAVES:
            raise InvalidValueError(place.field, f"one of at most {MAX_LEAVES} leaves", "one more")
        return parse_leaf(self._context, place, given)
