"""The engine of JSONPath: jsonpath-rfc9535's parser and selectors, evaluated by us under a budget of work.

Loaded only when a path is compiled. Ours are: descending without recursion, `match` and `search` by RE2, comparisons
that tell `true` from 1 within arrays too, and the counting of what is looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from iregexp_check import check
from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathNode, JSONPathNodeList, JSONPathQuery
from jsonpath_rfc9535.environment import JSONValue
from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterContext,
    FilterExpressionLiteral,
    RelativeFilterQuery,
    RootFilterQuery,
    StringLiteral,
)
from jsonpath_rfc9535.function_extensions import ExpressionType, FilterFunction
from jsonpath_rfc9535.parse import Parser
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment
from jsonpath_rfc9535.selectors import FilterSelector, JSONPathSelector
from jsonpath_rfc9535.tokens import Token, TokenStream

from pollerd.detection.selection.expressions.pattern import compile_re2
from pollerd.detection.selection.expressions.refusal import MAX_CHARACTERS, Refusal
from pollerd.errors import InvalidValueError, SelectionLimitError
from pollerd.texts import _

MAX_NODES, MAX_DEPTH = 1_000_000, 500
"""Maximum number of values looked at in one evaluation; maximum depth at which `..` looks."""
_CHARACTERS_OF_A_NODE = 200
"""So many characters that a pattern reads or a comparison compares count as one value."""


class JsonPathBudget:
    """Counts what one evaluation looks at."""

    def __init__(self, field: str) -> None:
        self.field, self.used = field, 0

    def spend(self, nodes: int) -> None:
        """Counts values. Raises `SelectionLimitError`."""
        self.used += nodes
        if self.used > MAX_NODES:
            raise SelectionLimitError(self.field, _("values looked at"), MAX_NODES)

    def deeper(self, depth: int) -> None:
        """Raises `SelectionLimitError` where `..` looks too deep."""
        if depth > MAX_DEPTH:
            raise SelectionLimitError(self.field, _("levels of depth"), MAX_DEPTH)


class CountedNode(JSONPathNode):
    """A value that counts its children, and knows what holds it, and where."""

    __slots__ = ("_budget", "holder", "key")

    def __init__(
        self, value: object, root: JSONValue, budget: JsonPathBudget, holder: object = None, key: int | str = ""
    ) -> None:
        super().__init__(value=value, location=(), parent=None, root=root)
        self._budget, self.holder, self.key = budget, holder, key

    def new_child(self, value: object, key: int | str, parent: JSONPathNode | None) -> CountedNode:
        """Returns a child."""
        self._budget.spend(1)
        return CountedNode(value, self.root, self._budget, self.value, key)


class BoundedQuery(JSONPathQuery):
    """A path or the path in a filter: a segment after the other, so that its length costs no depth of calls."""

    env: BoundedEnvironment

    def finditer(self, value: JSONValue) -> list[JSONPathNode]:
        """Returns the values that it selects."""
        budget = self.env.budget
        nodes: list[JSONPathNode] = [CountedNode(value, value, budget)]
        for segment in self.segments:
            descends = isinstance(segment, JSONPathRecursiveDescentSegment)
            places = (place for node in nodes for place in (_descend(node, budget) if descends else (node,)))
            nodes = [
                node
                for place in places
                for selector in segment.selectors
                for node in _resolved(selector, place, budget)
            ]
        return nodes


def _resolved(selector: JSONPathSelector, place: JSONPathNode, budget: JsonPathBudget) -> Iterable[JSONPathNode]:
    """Returns what a selector selects of a node; a filter looks at all children, also those that it leaves."""
    if isinstance(selector, FilterSelector) and isinstance(place.value, (list, dict)):
        budget.spend(len(place.value))
    return selector.resolve(place)


def _descend(top: JSONPathNode, budget: JsonPathBudget) -> Iterator[JSONPathNode]:
    """Yields a node and all arrays and objects below, parents before children, in order."""
    stack = [(top, 1)]
    while stack:
        node, depth = stack.pop()
        budget.deeper(depth)
        yield node
        value = node.value
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        children = [node.new_child(child, "", node) for child in inner if isinstance(child, (dict, list))]
        stack += [(child, depth + 1) for child in reversed(children)]


class BoundedComparison(ComparisonExpression):
    """A comparison that counts what it compares."""

    def evaluate(self, context: FilterContext) -> bool:
        """Returns whether the two sides compare so."""
        env = context.env
        left, right = _single(self.left.evaluate(context)), _single(self.right.evaluate(context))
        if isinstance(left, str) and isinstance(right, str) and isinstance(env, BoundedEnvironment):
            env.budget.spend(min(len(left), len(right)) // _CHARACTERS_OF_A_NODE)
        if not isinstance(left, (list, dict)) or type(left) is not type(right) or isinstance(left, JSONPathNodeList):
            return bool(_plain_comparison(self, left, right).evaluate(context))
        if not isinstance(env, BoundedEnvironment) or self.operator in ("<", ">"):
            return False
        return _same(left, right, env.budget) is (self.operator != "!=")


def _single(value: object) -> object:
    return value[0].value if isinstance(value, JSONPathNodeList) and len(value) == 1 else value


class _Given(Expression):
    """A side of a comparison that is evaluated already."""

    def __init__(self, token: Token, value: object) -> None:
        super().__init__(token)
        self._value = value

    def evaluate(self, context: FilterContext) -> object:
        return self._value


def _plain_comparison(of: ComparisonExpression, left: object, right: object) -> ComparisonExpression:
    return ComparisonExpression(of.token, _Given(of.token, left), of.operator, _Given(of.token, right))


def _same(left: object, right: object, budget: JsonPathBudget) -> bool:
    """Deep equality of JSON values, without recursion: `true` is not 1, 1 is 1.0."""
    pairs: list[tuple[object, object]] = [(left, right)]
    while pairs:
        first, other = pairs.pop()
        budget.spend(1)
        if isinstance(first, dict) and isinstance(other, dict):
            if first.keys() != other.keys():
                return False
            pairs += [(first[key], other[key]) for key in first]
        elif isinstance(first, list) and isinstance(other, list):
            if len(first) != len(other):
                return False
            pairs += zip(first, other, strict=True)
        elif isinstance(first, bool) is not isinstance(other, bool) or first != other:
            return False
        elif isinstance(first, str):
            budget.spend(len(first) // _CHARACTERS_OF_A_NODE)
    return True


class BoundedParser(Parser):
    """Builds paths in filters, and comparisons, of our kinds."""

    env: BoundedEnvironment

    def parse_root_query(self, stream: TokenStream) -> Expression:
        """Returns a path from `$`."""
        token = stream.next_token()
        return RootFilterQuery(
            token, BoundedQuery(env=self.env, segments=tuple(self.parse_query(stream, in_filter=True)))
        )

    def parse_relative_query(self, stream: TokenStream) -> Expression:
        """Returns a path from `@`."""
        token = stream.next_token()
        segments = tuple(self.parse_query(stream, in_filter=True))
        return RelativeFilterQuery(token, BoundedQuery(env=self.env, segments=segments))

    def parse_infix_expression(self, stream: TokenStream, left: Expression) -> Expression:
        """Returns a comparison, or two expressions joined."""
        parsed = super().parse_infix_expression(stream, left)
        if isinstance(parsed, ComparisonExpression):
            return BoundedComparison(parsed.token, parsed.left, parsed.operator, parsed.right)
        return parsed


class PatternFunction(FilterFunction):
    """`match` (of all) or `search` (anywhere) by RE2; false where the pattern is no I-Regexp (RFC 9485)."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - the library's name
    return_type = ExpressionType.LOGICAL

    def __init__(self, whole: bool, env: BoundedEnvironment) -> None:
        self._whole, self._env = whole, env

    def __call__(self, text: object, pattern: object) -> bool:
        """Returns whether the text matches."""
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        regex = i_regexp(pattern)
        if regex is None:
            return False
        self._env.budget.spend((len(text) + len(pattern)) // _CHARACTERS_OF_A_NODE)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return (regex.fullmatch(text) if self._whole else regex.search(text)) is not None


@functools.lru_cache(maxsize=64)
def i_regexp(pattern: str) -> Any:
    """Returns RE2's object of an I-Regexp; None where it is none, too long or too large. `^` and `$` are anchors."""
    if len(pattern) > MAX_CHARACTERS or not pattern.isprintable() or not check(pattern):
        return None
    pieces, in_class, escaped = [], False, False
    for sign in pattern:
        pieces.append(r"[^\n\r]" if sign == "." and not in_class and not escaped else sign)
        if not escaped and sign in "[]":
            in_class = sign == "["
        escaped = sign == "\\" and not escaped
    try:
        return compile_re2("".join(pieces), Refusal("", _("an I-Regexp"), pattern))
    except InvalidValueError:
        return None


class BoundedEnvironment(JSONPathEnvironment):
    """The language of one path, and the budget of its evaluation: not for two threads at once."""

    parser_class = BoundedParser

    def __init__(self, refusal: Refusal) -> None:
        self._refusal = refusal
        self.budget = JsonPathBudget(refusal.field)
        super().__init__()

    def setup_function_extensions(self) -> None:
        """Replaces `match` and `search`, which backtrack."""
        super().setup_function_extensions()
        self.function_extensions["match"] = PatternFunction(True, self)
        self.function_extensions["search"] = PatternFunction(False, self)

    def validate_function_extension_signature(self, token: Token, args: list[Any]) -> list[Any]:
        """Checks a function's arguments, and a pattern that is written out."""
        checked = super().validate_function_extension_signature(token, args)
        if token.value in ("match", "search") and isinstance(args[1], StringLiteral):
            pattern: FilterExpressionLiteral[str] = args[1]
            if i_regexp(pattern.value) is None:
                reason = _(
                    "the pattern of {token}() is no I-Regexp (RFC 9485); write [0-9] for a digit, no look-ahead",
                    token=token.value,
                )
                self._refusal.at(pattern.token.index, reason)
        return checked

    def query(self, path: str) -> BoundedQuery:
        """Returns the checked path."""
        return BoundedQuery(env=self, segments=self.compile(path).segments)

    def values(self, query: BoundedQuery, value: Any) -> list[tuple[Any, Any, int | str]]:
        """Returns what a path selects, each with the object or array that holds it, and its key or place there.

        Raises `SelectionLimitError`.
        """
        self.budget = JsonPathBudget(self._refusal.field)
        return [(node.value, getattr(node, "holder", None), getattr(node, "key", "")) for node in query.finditer(value)]
