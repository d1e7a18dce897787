"""Where a value is read: an element, an attribute, a JSON field, or text of the selected content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pollerd.detection.selection.document import known_table, text
from pollerd.detection.selection.expressions.css import CssSelector
from pollerd.detection.selection.expressions.jsonpath import JsonPath
from pollerd.detection.selection.expressions.pattern import Pattern, compile_pattern, compile_replacement
from pollerd.detection.selection.expressions.xpath import XPathExpression
from pollerd.detection.selection.steps.elements import compile_expression, kind_of
from pollerd.detection.selection.values import ValueFormat, compile_value_format
from pollerd.errors import InvalidValueError

VALUES_MAX = 50
_NAME_MAX = 64
_KEYS = ("css", "xpath", "jsonpath", "re", "attribute", "with")


@dataclass(frozen=True, slots=True)
class ValueSource:
    """One value of a selection: where it stands and how it is written.

    Without expression and pattern it is read from the selected text.
    """

    name: str
    form: ValueFormat
    expression: CssSelector | XPathExpression | JsonPath | None = None
    attribute: str | None = None
    pattern: Pattern | None = None
    replacement: Any = None

    @property
    def machine(self) -> bool:
        """Whether it is written for programs, with "." as its decimal sign."""
        return isinstance(self.expression, JsonPath) or self.attribute == "content"


def compile_values(field: str, given: object) -> tuple[ValueSource, ...]:
    """Compiles `{"price": {"kind": "price", "from": {"css": ..., "attribute": ...}, ...}}`. Raises InvalidValueError.

    `from` is `{"css" or "xpath": ..., "attribute": ...}`, `{"jsonpath": ...}` (of an HTML page: of its JSON-LD),
    `{"re": ..., "with": ...}` (of the selected text), or left out: the selected text.
    """
    if not isinstance(given, Mapping) or len(given) > VALUES_MAX:
        raise InvalidValueError(field, f"a table of at most {VALUES_MAX} values by name", type(given).__name__)
    return tuple(_value(f"{field}.{name}", name, one) for name, one in given.items())


def _value(field: str, name: object, given: object) -> ValueSource:
    text(field, name, _NAME_MAX)
    if not isinstance(given, Mapping):
        raise InvalidValueError(field, "a table with kind and from", type(given).__name__)
    form = compile_value_format(field, {key: value for key, value in given.items() if key != "from"})
    if given.get("from") is None:
        return ValueSource(str(name), form)
    at = f"{field}.from"
    found = known_table(at, given["from"], _KEYS)
    if "re" in found:
        known_table(at, found, ("re", "with"))
        pattern = compile_pattern(at, {"re": found["re"]})
        replacement = compile_replacement(f"{at}.with", str(found.get("with", r"\g<0>")), pattern)
        return ValueSource(str(name), form, pattern=pattern, replacement=replacement)
    attribute = found.get("attribute")
    place = {key: value for key, value in found.items() if key != "attribute"}
    expression = compile_expression(at, place, ("css", "xpath", "jsonpath"))
    if attribute is not None and kind_of(expression) == "jsonpath":
        raise InvalidValueError(f"{at}.attribute", "left out with jsonpath", str(attribute))
    return ValueSource(
        str(name), form, expression, None if attribute is None else text(f"{at}.attribute", attribute, 100)
    )
