"""Leaves about values that were read from a content: numbers and texts.

A value that cannot be read makes its leaf unknown, unless the leaf is false whatever the missing value is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Literal

from pollerd.detection.selection.conditions.inputs import ComparableValue, ComparisonView
from pollerd.detection.selection.conditions.logic import Finding
from pollerd.detection.selection.conditions.plain_text import excerpt, plain_number, plain_percent, quoted
from pollerd.detection.selection.conditions.text_leaves import NamedPattern, edge, level

_EXACT = Context(prec=1_000)
_MOST_DIGITS = 200

Relation = Literal["above", "below", "equals"]


def _problem(value: ComparableValue | None) -> str:
    if value is None:
        return "no value was read"
    return value.problem


def _unknown(name: str, why: str) -> Finding:
    return Finding(None, (f"{excerpt(name)} unreadable: {excerpt(why)}",), (name,))


def _no_earlier(name: str, what: str) -> Finding:
    return Finding(None, (f"{excerpt(name)}: no earlier {what} to compare with",), (name,))


def _comparable(number: Decimal | None) -> Decimal | None:
    """Returns a number of which all arithmetic here is exact, else None."""
    if number is None or not number.is_finite():
        return None
    _, digits, exponent = number.as_tuple()
    fits = isinstance(exponent, int) and abs(exponent) <= _MOST_DIGITS and len(digits) <= _MOST_DIGITS
    return number if fits else None


def _number(values: Mapping[str, ComparableValue], name: str) -> tuple[Decimal | None, str]:
    """Returns the number that was read, or None and why there is none."""
    value = values.get(name)
    problem = _problem(value)
    if problem or value is None:
        return None, problem
    number = _comparable(value.number)
    return number, "" if number is not None else "it is no number"


def _last_number(values: Mapping[str, ComparableValue], name: str) -> Decimal | None:
    return _number(values, name)[0]


def _last_text(view: ComparisonView, name: str) -> str | None:
    value = view.given.last_values.get(name)
    return None if value is None or value.problem else value.text


def _text(view: ComparisonView, name: str) -> tuple[str, str]:
    """Returns the text that was read, and why there is none."""
    value = view.given.values.get(name)
    return ("" if value is None else value.text), _problem(value)


@dataclass(frozen=True, slots=True)
class NumberLevel:
    """Whether a number is above, below or equal to a limit, exactly; the limit is neither above nor below itself."""

    name: str
    relation: Relation
    limit: Decimal

    def find(self, view: ComparisonView) -> Finding:
        """Compares the number."""
        number, problem = _number(view.given.values, self.name)
        if number is None:
            return _unknown(self.name, problem)
        holds = _holds(number, self.relation, self.limit)
        word = self.relation if self.relation != "equals" else "equal to"
        is_ = "is" if holds else "is not"
        fact = f"{excerpt(self.name)} {plain_number(number)} {is_} {word} {plain_number(self.limit)}"
        return Finding(holds, (fact,))


def _holds(number: Decimal, relation: Relation, limit: Decimal) -> bool:
    if relation == "above":
        return number > limit
    return number < limit if relation == "below" else number == limit


@dataclass(frozen=True, slots=True)
class NumberCrossing:
    """Whether a number is above (below) a limit now and was not the last time."""

    name: str
    side: Literal["above", "below"]
    limit: Decimal

    def find(self, view: ComparisonView) -> Finding:
        """Compares the number now with the last one that could be read."""
        number, problem = _number(view.given.values, self.name)
        if number is None:
            return _unknown(self.name, problem)
        now = f"{excerpt(self.name)} {plain_number(number)}"
        limit = plain_number(self.limit)
        if not _holds(number, self.side, self.limit):
            return Finding(False, (f"{now} is not {self.side} {limit}",))
        last = _last_number(view.given.last_values, self.name)
        if last is None:
            return _no_earlier(self.name, "number")
        if _holds(last, self.side, self.limit):
            return Finding(False, (f"{now} is {self.side} {limit} as {plain_number(last)} was",))
        return Finding(True, (f"{now} crossed {limit}, it was {plain_number(last)}",))


@dataclass(frozen=True, slots=True)
class NumberChange:
    """Whether a number rose (step > 0) or fell (step < 0) by at least `step`: an amount, or percent of the old one.

    Percent are of the old number's absolute value, so a rise is positive for negative numbers too. Percent of zero are
    unknown.
    """

    name: str
    step: Decimal
    percent: bool
    since_announced: bool = False

    def find(self, view: ComparisonView) -> Finding:
        """Compares the number with the last one that could be read, or the announced one."""
        number, problem = _number(view.given.values, self.name)
        if number is None:
            return _unknown(self.name, problem)
        old = self._old(view)
        if old is None:
            return _no_earlier(self.name, "number")
        if number == old:
            return Finding(False, (f"{excerpt(self.name)} {plain_number(number)} is as before",))
        if self.percent and old == 0:
            return Finding(None, (f"{excerpt(self.name)} {plain_number(number)}: no percent of 0",), (self.name,))
        change = _EXACT.subtract(number, old)
        return Finding(self._reached(change, old), (self._fact(number, old, change),))

    def _old(self, view: ComparisonView) -> Decimal | None:
        announced = _last_number(view.given.announced_values, self.name) if self.since_announced else None
        return _last_number(view.given.last_values, self.name) if announced is None else announced

    def _reached(self, change: Decimal, old: Decimal) -> bool:
        """Multiplies instead of dividing: exact."""
        size, least = change, self.step
        if self.percent:
            size, least = _EXACT.multiply(change, Decimal(100)), _EXACT.multiply(self.step, old.copy_abs())
        return size >= least if self.step > 0 else size <= least

    def _fact(self, number: Decimal, old: Decimal, change: Decimal) -> str:
        way = "rose" if change > 0 else "fell"
        by = plain_percent(change.copy_abs(), old.copy_abs()) if self.percent else plain_number(change.copy_abs())
        unit = " %" if self.percent else ""
        wanted = f"{'rise' if self.step > 0 else 'fall'} of {plain_number(self.step.copy_abs())}{unit}"
        since = " since the announced one" if self.since_announced else ""
        reached = "at least the" if self._reached(change, old) else "not the"
        numbers = f"{way} by {by} from {plain_number(old)} to {plain_number(number)}"
        return f"{excerpt(self.name)} {numbers}{since}, {reached} {wanted}"


@dataclass(frozen=True, slots=True)
class TextEquals:
    """Whether a value is a text; letter case and the white space around it make no difference."""

    name: str
    text: str

    def find(self, view: ComparisonView) -> Finding:
        """Compares the text."""
        text, problem = _text(view, self.name)
        if problem:
            return _unknown(self.name, problem)
        holds = text.strip().casefold() == self.text.strip().casefold()
        fact = f"{excerpt(self.name)} {quoted(text)} is {'' if holds else 'not '}{quoted(self.text)}"
        return Finding(holds, (fact,))


@dataclass(frozen=True, slots=True)
class ValueTextEdge:
    """Whether a pattern is found in a value now and was not the last time (appears), or the reverse (disappears)."""

    name: str
    pattern: NamedPattern
    appears: bool

    def find(self, view: ComparisonView) -> Finding:
        """Searches the value and the last one that could be read."""
        text, problem = _text(view, self.name)
        if problem:
            return _unknown(self.name, problem)
        now = bool(self.pattern.pattern.search(text))
        what = f"{self.pattern.name} in {excerpt(self.name)} {quoted(text)}"
        if now is not self.appears:
            return Finding(False, (f"{what} is there" if now else f"{what} is not there",))
        last = _last_text(view, self.name)
        if last is None:
            return _no_earlier(self.name, "text")
        return edge(what, self.appears, bool(self.pattern.pattern.search(last)), now)


@dataclass(frozen=True, slots=True)
class ValueTextLevel:
    """Whether one of some patterns is found in a value."""

    name: str
    patterns: tuple[NamedPattern, ...]

    def find(self, view: ComparisonView) -> Finding:
        """Searches the value."""
        text, problem = _text(view, self.name)
        if problem:
            return _unknown(self.name, problem)
        return level(self.patterns, text, f"is in {excerpt(self.name)} {quoted(text)}")
