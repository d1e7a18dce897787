"""Patterns and values as conditions are given them, and a condition in one call."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pollerd.detection.selection.conditions.condition import Condition, Verdict, parse_conditions
from pollerd.detection.selection.conditions.logic import Comparison
from pollerd.errors import InvalidValueError


@dataclass(frozen=True)
class RegexPattern:
    expression: re.Pattern[str]

    def search(self, text: str) -> bool:
        return self.expression.search(text) is not None


@dataclass(frozen=True)
class ReadValue:
    number: Decimal | None = None
    text: str = ""
    problem: str = ""


def compile_pattern(field: str, definition: object) -> RegexPattern:
    assert isinstance(definition, dict)
    unknown = definition.keys() - {"text", "case", "re"}
    if unknown:
        raise InvalidValueError(f"{field}.{min(unknown)}", "text, case or re", min(unknown))
    if "re" in definition:
        return RegexPattern(re.compile(definition["re"]))
    return RegexPattern(re.compile(re.escape(definition["text"]), 0 if definition.get("case") else re.IGNORECASE))


def number(given: object) -> ReadValue:
    return ReadValue(Decimal(str(given)), str(given))


def parsed(document: object, values: Collection[str] = ("price", "availability")) -> Condition:
    condition = parse_conditions("conditions", document, values=values, compile_pattern=compile_pattern)
    assert condition is not None
    return condition


def judged(document: object, before: str = "", after: str = "", **given: Any) -> Verdict:
    return parsed(document).evaluate(Comparison(before=before, after=after, **given))
