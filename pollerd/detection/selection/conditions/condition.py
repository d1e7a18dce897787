"""Conditions: whether a change of a selection's content matters, and why; parsed from their JSON form.

`against: announced` of a level leaf (present, absent, length; above, below, equals, present, absent of a value): the
leaf holds if its test holds of the new content *and* the new content differs from the announced one, the content of
the last change that mattered. A content that a condition held back is not announced, so a way back to the announced
content is no news: with `absent: sold out`, "A" (announced), then "sold out", then "A" again sends nothing, as a
blocked check of changedetection.io leaves its baseline. `not` negates the test and leaves the comparison as it is. For
that the caller keeps the first content of a selection as announced until a change matters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from pollerd.detection.selection import document
from pollerd.detection.selection.conditions import leaves
from pollerd.detection.selection.conditions.leaves import NamedPattern
from pollerd.detection.selection.conditions.logic import (
    Combination,
    Comparison,
    ComparisonView,
    CompilePattern,
    ConditionNode,
    SignedLeaf,
    excerpt,
    joined,
    parse_least,
)
from pollerd.detection.selection.document import list_of, shown, table
from pollerd.errors import InvalidValueError, refusal, unknown_name
from pollerd.masking import masked
from pollerd.texts import N_, _

# Leaves of a condition: checked, and made from their JSON form.
#
#     {"appears": PATTERN, "in": "content|added|removed"}       {"disappears": PATTERN, "in": "content|removed|added"}
#     {"present": PATTERN or a list, "against": …}              {"absent": PATTERN or a list, "against": …}
#     {"only": "additions|removals", "unless_left_below": 0.25} {"purely": "additions|removals"}
#     {"new_in": 20}  {"new_in": "all"}                         {"length": {"min": 1, "max": 100}, "against": …}
#     {"size": {"chars": 20, "share": 0.01}, "against": …}      {"value": NAME, TEST, "against": …}
#
# TEST of a value: above, below, crosses_above, crosses_below: a number; equals: a number or a text; changed_by:
# {"amount": -5} or {"percent": 5}; appears, disappears: PATTERN; present, absent: PATTERN or a list.
# PATTERN: {"text": …}, {"re": …}, or a text. `against` is "last" (the default) or "announced".

MAX_PATTERNS = 200
"""In all leaves of a condition together."""
MAX_VERSIONS = 10_000
MAX_LENGTH = 100_000_000

Given = Mapping[str, object]
_PATTERN = N_('a text, or a table with text, or with re ({"text": "in stock"}, {"re": "v[0-9]+"})')
_EQUALS_TEXT = 1_000


@dataclass(slots=True)
class LeafContext:
    """What is known when a leaf is parsed, and what the leaves so far need of the caller."""

    names: Collection[str]
    compile_pattern: CompilePattern
    patterns: int = 0
    announced_content: bool = False
    versions: int = 0
    all_versions: bool = False
    values: set[str] = field(default_factory=set)
    announced_values: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class LeafPlace:
    """Where a leaf stands, and whether `not` is around it an odd number of times."""

    field: str
    negated: bool

    def at(self, key: str) -> str:
        """Returns the field of one of its keys."""
        return f"{self.field}.{key}"


Maker = Callable[[LeafContext, LeafPlace, Given, str], SignedLeaf]


def parse_leaf(context: LeafContext, place: LeafPlace, fields: Given) -> SignedLeaf:
    """Makes the leaf. `fields`: a table with keys that are texts. Raises `InvalidValueError` with the field."""
    if "value" in fields:
        context.values.add(name := _value_name(context, place, fields))
        test = _single_test(place, {key: None for key in fields if key != "value"}, _VALUE_TESTS)
        _check_options(place, fields, ("value", test), _VALUE_OPTIONS.get(test, ()))
        return _VALUE_TESTS[test](context, place, fields, name)
    test = _single_test(place, fields, _CONTENT_TESTS)
    _check_options(place, fields, (test,), _OPTIONS[test])
    return _CONTENT_TESTS[test](context, place, fields, test)


def _single_test(place: LeafPlace, fields: Mapping[str, object], tests: Mapping[str, object]) -> str:
    """Returns the one test that a leaf makes."""
    keys = [key for key in fields if key in tests]
    if len(keys) == 1:
        return keys[0]
    unknown = next((key for key in fields if key not in tests and key not in _ANY_OPTION), None)
    if unknown is not None and not keys:
        raise unknown_name(place.at(masked(unknown[:60])), N_("test"), unknown[:60], list(tests))
    one = _("a condition with exactly one test of {names}", names=", ".join(tests))
    raise InvalidValueError(place.field, one, ", ".join(keys) or _("none"))


def _check_options(place: LeafPlace, fields: Given, present: Collection[str], options: Collection[str]) -> None:
    for key in fields:
        if key in present or key in options:
            continue
        test = list(present)[-1]
        raise refusal(
            place.at(masked(key[:60])),
            _("{test} takes {options}", test=test, options=" and ".join(options) or _("no options")),
        )


# --- parts of leaves -------------------------------------------------------------------------------------------------


def _value_name(context: LeafContext, place: LeafPlace, fields: Given) -> str:
    name = fields["value"]
    if isinstance(name, str) and name in context.names:
        return name
    known = (
        _("there are: {names}", names=", ".join(sorted(context.names)))
        if context.names
        else _("the selection has none")
    )
    wrong = (
        _('no value "{excerpt}"; {known}', excerpt=excerpt(masked(name)), known=known)
        if isinstance(name, str)
        else _("the name of a value; {known}", known=known)
    )
    raise InvalidValueError(
        place.at("value"), _("a value of the selection ({wrong})", wrong=wrong), document.shown(name)
    )


def _pattern(context: LeafContext, where: str, value: object) -> NamedPattern:
    definition = {"text": value} if isinstance(value, str) else value
    known = document.table(where, definition, _(_PATTERN))
    context.patterns += 1
    if context.patterns > MAX_PATTERNS:
        raise InvalidValueError(
            where, _("one of at most {max_patterns} patterns of a condition", max_patterns=MAX_PATTERNS), _("one more")
        )
    for key in ("text", "re"):
        if known.get(key) == "":
            raise InvalidValueError(
                where if isinstance(value, str) else f"{where}.{key}", _("a text that is not empty"), ""
            )
    pattern = context.compile_pattern(where, definition)
    text, expression = known.get("text"), known.get("re")
    return NamedPattern(pattern, f"/{excerpt(str(expression))}/" if text is None else f'"{excerpt(str(text))}"')


def _patterns(context: LeafContext, where: str, value: object) -> tuple[NamedPattern, ...]:
    if not isinstance(value, list):
        return (_pattern(context, where, value),)
    several = document.list_of(where, value, MAX_PATTERNS, "patterns")
    return tuple(_pattern(context, f"{where}[{n}]", pattern) for n, pattern in enumerate(several))


def _announced(place: LeafPlace, fields: Given) -> bool:
    return document.one_of(place.at("against"), fields.get("against", "last"), ("last", "announced")) == "announced"


def _level(
    context: LeafContext, place: LeafPlace, fields: Given, leaf: ConditionNode, negated: bool = False
) -> SignedLeaf:
    """Returns a level leaf; `negated`: its test says the contrary of what the leaf finds."""
    sticky = _announced(place, fields)
    context.announced_content |= sticky
    return SignedLeaf(leaf, place.negated is not negated, sticky)


def _kind(place: LeafPlace, fields: Given, key: str) -> leaves.Kind:
    return (
        "removals"
        if document.one_of(place.at(key), fields[key], ("additions", "removals")) == "removals"
        else "additions"
    )


# --- leaves of the content -------------------------------------------------------------------------------------------


def _edge_leaf(context: LeafContext, place: LeafPlace, fields: Given, test: str) -> SignedLeaf:
    pattern = _pattern(context, place.at(test), fields[test])
    where = document.one_of(place.at("in"), fields.get("in", "content"), ("content", "added", "removed"))
    if where == "content":
        return SignedLeaf(leaves.TextEdge(pattern, test == "appears"), place.negated)
    lines: Literal["added", "removed"] = "added" if where == "added" else "removed"
    return SignedLeaf(leaves.TextInLines(pattern, lines), place.negated)


def _level_leaf(context: LeafContext, place: LeafPlace, fields: Given, test: str) -> SignedLeaf:
    patterns = _patterns(context, place.at(test), fields[test])
    return _level(context, place, fields, leaves.TextLevel(patterns), test == "absent")


def _only_leaf(context: LeafContext, place: LeafPlace, fields: Given, test: str) -> SignedLeaf:
    kind, left = _kind(place, fields, test), fields.get("unless_left_below")
    if left is not None and kind == "removals":
        raise refusal(place.at("unless_left_below"), _("it goes with additions only"))
    part = None if left is None else document.share(place.at("unless_left_below"), left)
    return SignedLeaf(leaves.SomeLines(kind, part), place.negated)


def _purely_leaf(context: LeafContext, place: LeafPlace, fields: Given, test: str) -> SignedLeaf:
    return SignedLeaf(leaves.PureLines(_kind(place, fields, test)), place.negated)


def _new_in_leaf(context: LeafContext, place: LeafPlace, fields: Given, test: str) -> SignedLeaf:
    number = fields[test]
    if number == "all":
        context.all_versions = True
        return SignedLeaf(leaves.NewLines(0), place.negated)
    if isinstance(number, str):
        raise InvalidValueError(
            place.at(test), _('"all" or a whole number from 1 to {max_versions:,}', max_versions=MAX_VERSIONS), number
        )
    versions = document.whole_number(place.at(test), number, 1, MAX_VERSIONS)
    context.versions = max(context.versions, versions)
    return SignedLeaf(leaves.NewLines(versions), place.negated)


def _length_leaf(context: LeafContext, place: LeafPlace, fields: Given, test: str) -> SignedLeaf:
    where, allowed = place.at(test), _("a table with min, max, or both")
    limits = document.table(where, fields[test], allowed)
    document.known_keys(where, limits, ("min", "max"), allowed)
    least, most = (
        None if limits.get(key) is None else document.whole_number(f"{where}.{key}", limits[key], 0, MAX_LENGTH)
        for key in ("min", "max")
    )
    if least is None and most is None:
        raise InvalidValueError(where, allowed, "neither")
    if least is not None and most is not None and least > most:
        raise InvalidValueError(f"{where}.max", _("at least min ({least:,})", least=least), most)
    return _level(context, place, fields, leaves.ContentLength(least, most))


def _size_leaf(context: LeafContext, place: LeafPlace, fields: Given, test: str) -> SignedLeaf:
    if fields[test] is None:
        raise InvalidValueError(place.at(test), _("a table with chars, share, or both"), "null")
    since = _announced(place, fields)
    context.announced_content |= since
    return SignedLeaf(leaves.ChangeExtent(parse_least(place.at(test), fields[test]), since), place.negated)


# --- leaves of values ------------------------------------------------------------------------------------------------


def _number_leaf(relation: Literal["above", "below"]) -> Maker:
    def make(context: LeafContext, place: LeafPlace, fields: Given, name: str) -> SignedLeaf:
        limit = document.exact_number(place.at(relation), fields[relation])
        return _level(context, place, fields, leaves.NumberLevel(name, relation, limit))

    return make


def _crossing_leaf(side: Literal["above", "below"]) -> Maker:
    def make(context: LeafContext, place: LeafPlace, fields: Given, name: str) -> SignedLeaf:
        key = f"crosses_{side}"
        limit = document.exact_number(place.at(key), fields[key])
        return SignedLeaf(leaves.NumberCrossing(name, side, limit), place.negated)

    return make


def _equals_leaf(context: LeafContext, place: LeafPlace, fields: Given, name: str) -> SignedLeaf:
    expected = fields["equals"]
    if isinstance(expected, str):
        if not 1 <= len(expected) <= _EQUALS_TEXT:
            raise InvalidValueError(
                place.at("equals"),
                _("a number, or a text of 1 to {equals_text:,} characters", equals_text=_EQUALS_TEXT),
                expected,
            )
        return _level(context, place, fields, leaves.TextEquals(name, expected))
    number = document.exact_number(place.at("equals"), expected)
    return _level(context, place, fields, leaves.NumberLevel(name, "equals", number))


def _changed_leaf(context: LeafContext, place: LeafPlace, fields: Given, name: str) -> SignedLeaf:
    where, allowed = place.at("changed_by"), _("a table with amount or percent")
    step = document.table(where, fields["changed_by"], allowed)
    document.known_keys(where, step, ("amount", "percent"), allowed)
    if len(step) != 1:
        raise InvalidValueError(where, allowed, "both")
    (unit,) = step
    number: Decimal = document.exact_number(f"{where}.{unit}", step[unit])
    if not number:
        raise InvalidValueError(f"{where}.{unit}", _("a number other than 0 (below 0: a fall, above: a rise)"), 0)
    since = _announced(place, fields)
    if since:
        context.announced_values.add(name)
    return SignedLeaf(leaves.NumberChange(name, number, unit == "percent", since), place.negated)


def _value_edge_leaf(test: Literal["appears", "disappears"]) -> Maker:
    def make(context: LeafContext, place: LeafPlace, fields: Given, name: str) -> SignedLeaf:
        pattern = _pattern(context, place.at(test), fields[test])
        return SignedLeaf(leaves.ValueTextEdge(name, pattern, test == "appears"), place.negated)

    return make


def _value_level_leaf(test: Literal["present", "absent"]) -> Maker:
    def make(context: LeafContext, place: LeafPlace, fields: Given, name: str) -> SignedLeaf:
        patterns = _patterns(context, place.at(test), fields[test])
        return _level(context, place, fields, leaves.ValueTextLevel(name, patterns), test == "absent")

    return make


_CONTENT_TESTS: Mapping[str, Maker] = {
    "appears": _edge_leaf,
    "disappears": _edge_leaf,
    "present": _level_leaf,
    "absent": _level_leaf,
    "only": _only_leaf,
    "purely": _purely_leaf,
    "new_in": _new_in_leaf,
    "length": _length_leaf,
    "size": _size_leaf,
}
_VALUE_TESTS: Mapping[str, Maker] = {
    "above": _number_leaf("above"),
    "below": _number_leaf("below"),
    "equals": _equals_leaf,
    "crosses_above": _crossing_leaf("above"),
    "crosses_below": _crossing_leaf("below"),
    "changed_by": _changed_leaf,
    "appears": _value_edge_leaf("appears"),
    "disappears": _value_edge_leaf("disappears"),
    "present": _value_level_leaf("present"),
    "absent": _value_level_leaf("absent"),
}
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "appears": ("in",),
    "disappears": ("in",),
    "present": ("against",),
    "absent": ("against",),
    "only": ("unless_left_below",),
    "purely": (),
    "new_in": (),
    "length": ("against",),
    "size": ("against",),
}
_VALUE_OPTIONS: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("above", "below", "equals", "changed_by", "present", "absent"), ("against",)
)
_ANY_OPTION = frozenset({"in", "against", "unless_left_below"})
CONTENT_TESTS = tuple(_CONTENT_TESTS)
"""Names of the tests of a leaf beside `value`."""
VALUE_TESTS = tuple(_VALUE_TESTS)
"""Names of the tests of a `value` leaf."""


MAX_DEPTH = 5
"""Levels of all, any, not and leaves inside each other."""
MAX_LEAVES = 50
_COMBINED = ("all", "any", "not")
_NAMES = ", ".join((*_COMBINED, *CONTENT_TESTS, "value"))


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
        finding = self.root.find(ComparisonView(comparison))
        return Verdict(finding.state is not False, joined(finding.facts), finding.unknown)


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
            raise InvalidValueError(place.field, _("nested at most {max_depth} deep", max_depth=MAX_DEPTH), "deeper")
        fields = table(place.field, document, _("a condition: a table with one of {names}", names=_NAMES))
        combined = [key for key in _COMBINED if key in fields]
        if not combined:
            return self._leaf(place, fields)
        if len(fields) > 1:
            others = " and ".join(sorted(fields)[:5])
            raise InvalidValueError(place.field, _("{combined} and nothing else", combined=combined[0]), shown(others))
        if combined == ["not"]:
            return self.node(LeafPlace(place.at("not"), not place.negated), fields["not"], depth + 1)
        return self._several(place, combined[0], fields[combined[0]], depth)

    def _several(self, place: LeafPlace, key: str, document: object, depth: int) -> ConditionNode:
        where = place.at(key)
        parts = list_of(where, document, MAX_LEAVES, "conditions")
        return Combination(
            tuple(
                self.node(LeafPlace(f"{where}[{n}]", place.negated), part, depth + 1) for n, part in enumerate(parts)
            ),
            decisive=(key == "any") is not place.negated,
        )

    def _leaf(self, place: LeafPlace, fields: Given) -> ConditionNode:
        self._leaves += 1
        if self._leaves > MAX_LEAVES:
            raise InvalidValueError(
                place.field, _("one of at most {max_leaves} leaves", max_leaves=MAX_LEAVES), _("one more")
            )
        return parse_leaf(self._context, place, fields)
