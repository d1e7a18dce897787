"""Leaves of conditions: about lines and sizes, about texts, and about values read from a content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Literal

from pollerd.detection.selection.conditions.change_size import line_hash, line_hashes
from pollerd.detection.selection.conditions.logic import (
    ComparableValue,
    ComparisonView,
    Finding,
    Least,
    PatternLike,
    excerpt,
    joined,
    plain_number,
    plain_percent,
    quoted,
)
from pollerd.texts import N_, _, n_

Kind = Literal["additions", "removals"]


def _lines(view: ComparisonView, kind: Kind) -> tuple[str, ...]:
    return view.changes.added if kind == "additions" else view.changes.removed


def _counted(lines: tuple[str, ...], kind: Kind) -> str:
    is_added = kind == "additions"
    if not lines:
        return _("no line was added") if is_added else _("no line was removed")
    first = quoted(lines[0])
    if len(lines) == 1:
        return _("the line {line} was added", line=first) if is_added else _("the line {line} was removed", line=first)
    if is_added:
        one, many = N_("{count} line was added: {first}"), N_("{count} lines were added, first {first}")
    else:
        one, many = N_("{count} line was removed: {first}"), N_("{count} lines were removed, first {first}")
    return n_(one, many, len(lines), first=first)


@dataclass(frozen=True, slots=True)
class SomeLines:
    """only: whether any line was added (removed).

    unless_left_below: share of the old content, in characters; where the new one has no more than that, much vanished,
    and the leaf holds without an addition. None: never.
    """

    kind: Kind
    unless_left_below: float | None = None

    def find(self, view: ComparisonView) -> Finding:
        """Counts the lines."""
        lines = _lines(view, self.kind)
        before, after = len(view.given.before), len(view.given.after)
        if not lines and self.unless_left_below is not None and before and after <= self.unless_left_below * before:
            return Finding(True, (_("{after:,} of {before:,} characters are left", after=after, before=before),))
        return Finding(bool(lines), (_counted(lines, self.kind),))


@dataclass(frozen=True, slots=True)
class PureLines:
    """purely: whether lines were added and none was removed (or the other way round)."""

    kind: Kind

    def find(self, view: ComparisonView) -> Finding:
        """Counts the lines of both kinds."""
        other: Kind = "removals" if self.kind == "additions" else "additions"
        against, lines = _lines(view, other), _lines(view, self.kind)
        if against:
            return Finding(False, (_counted(against, other),))
        if not lines:
            return Finding(False, (_counted((), self.kind),))
        both = _("{found}, {missing}", found=_counted(lines, self.kind), missing=_counted((), other))
        return Finding(True, (both,))


@dataclass(frozen=True, slots=True)
class NewLines:
    """new_in: whether a line is neither in the old content nor in one of the last n versions (0: of all versions).

    Letter case and white space around a line make no difference.
    """

    versions: int

    def find(self, view: ComparisonView) -> Finding:
        """Looks up the added lines in the versions."""
        number = self.versions or len(view.given.versions)
        seen = line_hashes(view.given.before) if view.changes.added else frozenset()
        new = {digest: line for line in reversed(view.changes.added) if (digest := line_hash(line)) not in seen}
        for version in view.given.versions[:number]:
            if not new:
                break
            new = {digest: line for digest, line in new.items() if digest not in version}
        among = (
            n_("the last {count} version", "the last {count} versions", self.versions)
            if self.versions
            else _("any version")
        )
        if not new:
            return Finding(
                False, (_("no line is new in {among}", among=among) if self.versions else _("no line is new"),)
            )
        first = next(reversed(new.values()))
        if len(new) == 1:
            return Finding(True, (_("the line {first} is not in {among}", first=quoted(first), among=among),))
        return Finding(
            True,
            (
                n_(
                    "{count} line are not in {among}, first {first}",
                    "{count} lines are not in {among}, first {first}",
                    len(new),
                    among=among,
                    first=quoted(first),
                ),
            ),
        )


@dataclass(frozen=True, slots=True)
class ContentLength:
    """length: whether the new content has `least` to `most` characters."""

    least: int | None
    most: int | None

    def find(self, view: ComparisonView) -> Finding:
        """Counts the characters."""
        length = len(view.given.after)
        has = n_("the content has {count} character", "the content has {count} characters", length)
        if self.least is not None and length < self.least:
            return Finding(False, (_("{has}, fewer than {least:,}", has=has, least=self.least),))
        if self.most is not None and length > self.most:
            return Finding(False, (_("{has}, more than {most:,}", has=has, most=self.most),))
        return Finding(True, (has,))


@dataclass(frozen=True, slots=True)
class ChangeExtent:
    """size: whether the change has so many characters and so large a share."""

    least: Least
    since_announced: bool = False

    def find(self, view: ComparisonView) -> Finding:
        """Measures the change."""
        size = view.size_since_announced if self.since_announced else view.size
        share = f"{100 * size.share:.1f} %"
        if not size.chars:
            same = _("nothing differs since the announced content") if self.since_announced else _("nothing differs")
            return Finding(self.least.reached_by(size), (same,))
        if self.since_announced:
            one = N_("{count} character differs since the announced content, {share} of the content")
            many = N_("{count} characters differ since the announced content, {share} of the content")
        else:
            one = N_("{count} character differs, {share} of the content")
            many = N_("{count} characters differ, {share} of the content")
        return Finding(self.least.reached_by(size), (n_(one, many, size.chars, share=share),))


# Leaves about texts: edges (a text appears or disappears) and levels (a text is present or absent).


@dataclass(frozen=True, slots=True)
class NamedPattern:
    """A pattern and what it is called in a sentence: "in stock", or /v[0-9]+/."""

    pattern: PatternLike
    name: str


@dataclass(frozen=True, slots=True)
class TextEdge:
    """Whether a text appeared: it is in the new content and was not in the old one; or disappeared, the reverse."""

    pattern: NamedPattern
    appears: bool

    def find(self, view: ComparisonView) -> Finding:
        """Searches both contents."""
        search = self.pattern.pattern.search
        return edge(self.pattern.name, self.appears, bool(search(view.given.before)), bool(search(view.given.after)))


@dataclass(frozen=True, slots=True)
class TextInLines:
    """Whether a line that was added (removed) holds a text."""

    pattern: NamedPattern
    place: Literal["added", "removed"]

    def find(self, view: ComparisonView) -> Finding:
        """Searches each line by itself."""
        lines = view.changes.added if self.place == "added" else view.changes.removed
        search = self.pattern.pattern.search
        line = next((line for line in lines if search(line)), None)
        name, is_added = self.pattern.name, self.place == "added"
        if line is None:
            absent = N_("{pattern} is in no added line") if is_added else N_("{pattern} is in no removed line")
            return Finding(False, (_(absent, pattern=name),))
        found = (
            N_("{pattern} is in the added line {line}") if is_added else N_("{pattern} is in the removed line {line}")
        )
        return Finding(True, (_(found, pattern=name, line=quoted(line)),))


@dataclass(frozen=True, slots=True)
class TextLevel:
    """Whether the new content holds one of some texts."""

    patterns: tuple[NamedPattern, ...]

    def find(self, view: ComparisonView) -> Finding:
        """Searches the new content."""
        return level(self.patterns, view.given.after)


def edge(name: str, appears: bool, before: bool, after: bool) -> Finding:
    """Returns whether something appeared (disappeared), given whether it was there before and is there after."""
    if before != after:
        fact = _("{name} appeared", name=name) if after else _("{name} disappeared", name=name)
    else:
        fact = _("{name} is there as before", name=name) if after else _("{name} is not there, as before", name=name)
    return Finding(before != after and after is appears, (fact,))


def level(patterns: tuple[NamedPattern, ...], text: str, value: str = "") -> Finding:
    """Returns whether one of the patterns is found in the text; value: what the text is called if it is a value's."""
    matching = next((pattern for pattern in patterns if pattern.pattern.search(text)), None)
    names = joined([pattern.name for pattern in ((matching,) if matching else patterns)])
    if matching is not None:
        fact = N_("{names} is in {value}") if value else N_("{names} is there")
    elif len(patterns) == 1:
        fact = N_("{names} is not in {value}") if value else N_("{names} is not there")
    else:
        fact = N_("none of {names} is in {value}") if value else N_("none of {names} is there")
    return Finding(matching is not None, (_(fact, names=names, value=value),))


# Leaves about values that were read from a content: numbers and texts.
#
# A value that cannot be read makes its leaf unknown, unless the leaf is false whatever the missing value is.

_EXACT = Context(prec=1_000)
_MAX_DIGITS = 200

Relation = Literal["above", "below", "equals"]


def _problem(value: ComparableValue | None) -> str:
    if value is None:
        return _("no value was read")
    return value.problem


def _unknown(name: str, why: str) -> Finding:
    return Finding(None, (_("{name} unreadable: {why}", name=excerpt(name), why=excerpt(why)),), (name,))


def _no_earlier(name: str, text: str) -> Finding:
    """Returns that a value has none before; text: says that of `{name}`."""
    return Finding(None, (_(text, name=excerpt(name)),), (name,))


_NO_NUMBER = N_("{name}: no earlier number to compare with")
_NO_TEXT = N_("{name}: no earlier text to compare with")


def _comparable(number: Decimal | None) -> Decimal | None:
    """Returns a number of which all arithmetic here is exact, else None."""
    if number is None or not number.is_finite():
        return None
    _sign, digits, exponent = number.as_tuple()
    fits = isinstance(exponent, int) and abs(exponent) <= _MAX_DIGITS and len(digits) <= _MAX_DIGITS
    return number if fits else None


def _number(values: Mapping[str, ComparableValue], name: str) -> tuple[Decimal | None, str]:
    """Returns the number that was read, or None and why there is none."""
    value = values.get(name)
    problem = _problem(value)
    if problem or value is None:
        return None, problem
    number = _comparable(value.number)
    return number, "" if number is not None else _("it is no number")


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
        return Finding(holds, (_compared(self.name, number, self.relation, self.limit, holds),))


_HOLDS: Mapping[Relation, tuple[str, str]] = {
    "above": (N_("{name} {number} is not above {limit}"), N_("{name} {number} is above {limit}")),
    "below": (N_("{name} {number} is not below {limit}"), N_("{name} {number} is below {limit}")),
    "equals": (N_("{name} {number} is not equal to {limit}"), N_("{name} {number} is equal to {limit}")),
}
"""Whether a number holds a relation: no, yes."""


def _compared(name: str, number: Decimal, relation: Relation, limit: Decimal, holds: bool) -> str:
    text = _HOLDS[relation][holds]
    return _(text, name=excerpt(name), number=plain_number(number), limit=plain_number(limit))


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
        if not _holds(number, self.side, self.limit):
            return Finding(False, (_compared(self.name, number, self.side, self.limit, holds=False),))
        last = _last_number(view.given.last_values, self.name)
        if last is None:
            return _no_earlier(self.name, _NO_NUMBER)
        crossed = not _holds(last, self.side, self.limit)
        if crossed:
            text = N_("{name} {number} crossed {limit}, it was {last}")
        elif self.side == "above":
            text = N_("{name} {number} is above {limit} as {last} was")
        else:
            text = N_("{name} {number} is below {limit} as {last} was")
        now, limit, before = plain_number(number), plain_number(self.limit), plain_number(last)
        return Finding(crossed, (_(text, name=excerpt(self.name), number=now, limit=limit, last=before),))


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
            return _no_earlier(self.name, _NO_NUMBER)
        if number == old:
            same = _("{name} {number} is as before", name=excerpt(self.name), number=plain_number(number))
            return Finding(False, (same,))
        if self.percent and old == 0:
            of_0 = _("{name} {number}: no percent of 0", name=excerpt(self.name), number=plain_number(number))
            return Finding(None, (of_0,), (self.name,))
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
        moved = _(
            _MOVED[change > 0, self.since_announced],
            name=excerpt(self.name),
            by=plain_percent(change.copy_abs(), old.copy_abs()) if self.percent else plain_number(change.copy_abs()),
            before=plain_number(old),
            after=plain_number(number),
        )
        step = plain_number(self.step.copy_abs())
        asked = _(
            _ASKED[self.step > 0, self._reached(change, old)],
            step=_("{number} %", number=step) if self.percent else step,
        )
        return _("{moved}, {asked}", moved=moved, asked=asked)


_MOVED: Mapping[tuple[bool, bool], str] = {
    (True, False): N_("{name} rose by {by} from {before} to {after}"),
    (False, False): N_("{name} fell by {by} from {before} to {after}"),
    (True, True): N_("{name} rose by {by} from {before} to {after} since the announced one"),
    (False, True): N_("{name} fell by {by} from {before} to {after} since the announced one"),
}
"""By whether a number rose, and whether since the announced one."""
_ASKED: Mapping[tuple[bool, bool], str] = {
    (True, True): N_("at least the rise of {step}"),
    (False, True): N_("at least the fall of {step}"),
    (True, False): N_("not the rise of {step}"),
    (False, False): N_("not the fall of {step}"),
}
"""By whether a rise is asked for, and whether it was reached."""


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
        template = N_("{name} {text} is {other}") if holds else N_("{name} {text} is not {other}")
        fact = _(template, name=excerpt(self.name), text=quoted(text), other=quoted(self.text))
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
        where = {"pattern": self.pattern.name, "name": excerpt(self.name), "text": quoted(text)}
        what = _("{pattern} in {name} {text}", **where)
        if now is not self.appears:
            return Finding(False, (_("{what} is there", what=what) if now else _("{what} is not there", what=what),))
        last = _last_text(view, self.name)
        if last is None:
            return _no_earlier(self.name, _NO_TEXT)
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
        return level(self.patterns, text, f"{excerpt(self.name)} {quoted(text)}")
