"""Steps on elements: what is removed from a page or document, and what is kept of it, by CSS or XPath."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pollerd.detection.selection.document import flag, known_table, one_or_more, shown, whole_number
from pollerd.detection.selection.expressions.css import CssSelector, compile_css
from pollerd.detection.selection.expressions.jsonpath import JsonPath, compile_jsonpath
from pollerd.detection.selection.expressions.xpath import XPathExpression, compile_xpath
from pollerd.errors import InvalidValueError

ALTERNATIVES_MAX = 50
"""Most expressions of one step."""
COUNT_MAX = 100_000

Expression = CssSelector | XPathExpression | JsonPath


@dataclass(frozen=True, slots=True)
class Keep:
    """One step that keeps parts: what any of the expressions matches, expression by expression."""

    field: str
    expressions: tuple[Expression, ...]
    optional: bool = False
    """Whether matching nothing is a state of the page, not a fault of the selection."""
    skip: int = 0
    """How many matches are left out at the start."""
    limit: int | None = None
    """The largest number of matches that stay; None: all."""

    def cut(self, found: list[Any]) -> list[Any]:
        """Returns the matches that stay."""
        end = None if self.limit is None else self.skip + self.limit
        return found[self.skip : end]

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its expressions: css, xpath, jsonpath."""
        return frozenset(map(kind_of, self.expressions))


def kind_of(expression: Expression) -> str:
    """Returns css, xpath or jsonpath."""
    if isinstance(expression, CssSelector):
        return "css"
    return "xpath" if isinstance(expression, XPathExpression) else "jsonpath"


def compile_keep(field: str, step: Mapping[str, Any]) -> Keep:
    """Compiles `{"keep": expression or list, "optional": false, "skip": 0, "limit": null}`.

    `field` is the position of the step. Raises InvalidValueError.
    """
    known_table(field, step, ("keep", "optional", "skip", "limit"))
    many = isinstance(step["keep"], list)
    expressions = tuple(
        compile_expression(f"{field}.keep[{i}]" if many else f"{field}.keep", one, ("css", "xpath", "jsonpath"))
        for i, one in enumerate(one_or_more(f"{field}.keep", step["keep"], ALTERNATIVES_MAX))
    )
    kinds = {kind_of(one) for one in expressions}
    if len(kinds) > 1 and "jsonpath" in kinds:
        raise InvalidValueError(f"{field}.keep", "css and xpath for pages, or jsonpath for JSON", sorted(kinds))
    limit = step.get("limit")
    return Keep(
        field,
        expressions,
        flag(f"{field}.optional", step.get("optional", False)),
        whole_number(f"{field}.skip", step.get("skip", 0), 0, COUNT_MAX),
        None if limit is None else whole_number(f"{field}.limit", limit, 1, COUNT_MAX),
    )


def compile_removals(field: str, given: object) -> Sequence[Expression]:
    """Compiles `{"css": ...}`, `{"xpath": ...}` or a list of them. Raises InvalidValueError."""
    many = isinstance(given, list)
    return [
        compile_expression(f"{field}[{i}]" if many else field, one, ("css", "xpath"))
        for i, one in enumerate(one_or_more(field, given, ALTERNATIVES_MAX))
    ]


def compile_expression(field: str, given: object, allowed: Sequence[str]) -> Expression:
    """Compiles a table of one key, such as `{"css": "#price"}`. Raises InvalidValueError."""
    found = known_table(field, given, allowed)
    if len(found) != 1:
        raise InvalidValueError(field, f"a table with one of {', '.join(allowed)}", shown(given))
    ((name, expression),) = found.items()
    if not isinstance(expression, str):
        raise InvalidValueError(f"{field}.{name}", "a text", shown(expression))
    match name:
        case "css":
            return compile_css(f"{field}.css", expression)
        case "xpath":
            return compile_xpath(f"{field}.xpath", expression)
        case _:
            return compile_jsonpath(f"{field}.jsonpath", expression)
