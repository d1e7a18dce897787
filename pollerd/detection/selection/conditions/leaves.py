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
    done = "added" if kind == "additions" else "removed"
    if not lines:
        return _("no line was {done}", done=done)
    if len(lines) == 1:
        return _("the line {lines} was {done}", lines=quoted(lines[0]), done=done)
    return n_(
        "{count} line were {done}, first {lines}",
        "{count} lines were {done}, first {lines}",
        len(lines),
        done=done,
        lines=quoted(lines[0]),
    )


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
        facts = (f"{_counted(lines, self.kind)}, {_counted((), other)}",) if lines else (_counted((), self.kind),)
        return Finding(bool(lines), facts)


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
        since = _(" since the announced content") if self.since_announced else ""
        differ = "differs" if size.chars == 1 else "differ"
        fact = n_(
            "{count} character {differ}{since}, {share} of the content",
            "{count} characters {differ}{since}, {share} of the content",
            size.chars,
            differ=differ,
            since=since,
            share=share,
        )
        return Finding(self.least.reached_by(size), (fact if size.chars else _("nothing differs{since}", since=since),))


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
        if line is None:
            return Finding(False, (_("{pattern} is in no {place} line", pattern=self.pattern.name, place=self.place),))
        return Finding(
            True,
            (
                _(
                    "{pattern} is in the {place} line {line}",
                    pattern=self.pattern.name,
                    place=self.place,
                    line=quoted(line),
                ),
            ),
        )


@dataclass(frozen=True, slots=True)
class TextLevel:
    """Whether the new content holds one of some texts."""

    patterns: tuple[NamedPattern, ...]

    def find(self, view: ComparisonView) -> Finding:
        """Searches the new content."""
        return level(self.patterns, view.given.after, _("is there"))


def edge(name: str, appears: bool, before: bool, after: bool) -> Finding:
    """Returns whether something appeared (disappeared), given whether it was there before and is there after."""
    if before != after:
        fact = f"{name} appeared" if after else f"{name} disappeared"
    else:
        fact = _("{name} is there as before", name=name) if after else _("{name} is not there, as before", name=name)
    return Finding(before != after and after is appears, (fact,))


def level(patterns: tuple[NamedPattern, ...], text: str, ending: str) -> Finding:
    """Returns whether one of the patterns is found in the text; `ending`: the end of the sentence about it."""
    matching = next((pattern for pattern in patterns if pattern.pattern.search(text)), None)
    if matching is not None:
        return Finding(True, (f"{matching.name} {ending}",))
    if len(patterns) == 1:
        return Finding(False, (f"{patterns[0].name} {ending.replace('is', 'is not', 1)}",))
    return Finding(
        False, (_("none of {joined} {ending}", joined=joined([pattern.name for pattern in patterns]), ending=ending),)
    )


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
    return Finding(None, (f"{excerpt(name)} unreadable: {excerpt(why)}",), (name,))


def _no_earlier(name: str, what: str) -> Finding:
    return Finding(
        None, (_("{excerpt}: no earlier {what} to compare with", excerpt=excerpt(name), what=what),), (name,)
    )


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
        word = self.relation if self.relation != "equals" else _("equal to")
        is_ = "is" if holds else _("is not")
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
            return Finding(False, (_("{now} is not {side} {limit}", now=now, side=self.side, limit=limit),))
        last = _last_number(view.given.last_values, self.name)
        if last is None:
            return _no_earlier(self.name, "number")
        if _holds(last, self.side, self.limit):
            return Finding(
                False,
                (
                    _(
                        "{now} is {side} {limit} as {plain_number} was",
                        now=now,
                        side=self.side,
                        limit=limit,
                        plain_number=plain_number(last),
                    ),
                ),
            )
        return Finding(
            True,
            (_("{now} crossed {limit}, it was {plain_number}", now=now, limit=limit, plain_number=plain_number(last)),),
        )


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
            return Finding(
                False,
                (
                    _(
                        "{excerpt} {plain_number} is as before",
                        excerpt=excerpt(self.name),
                        plain_number=plain_number(number),
                    ),
                ),
            )
        if self.percent and old == 0:
            return Finding(
                None,
                (
                    _(
                        "{excerpt} {plain_number}: no percent of 0",
                        excerpt=excerpt(self.name),
                        plain_number=plain_number(number),
                    ),
                ),
                (self.name,),
            )
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
        way = _("rose") if change > 0 else _("fell")
        by = plain_percent(change.copy_abs(), old.copy_abs()) if self.percent else plain_number(change.copy_abs())
        unit = " %" if self.percent else ""
        threshold = _(
            "{step} of {plain_number}{unit}",
            step=_("rise") if self.step > 0 else _("fall"),
            plain_number=plain_number(self.step.copy_abs()),
            unit=unit,
        )
        since = _(" since the announced one") if self.since_announced else ""
        reached = _("at least the") if self._reached(change, old) else _("not the")
        numbers = _(
            "{way} by {by} from {before} to {after}",
            way=way,
            by=by,
            before=plain_number(old),
            after=plain_number(number),
        )
        return f"{excerpt(self.name)} {numbers}{since}, {reached} {threshold}"


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
        what = f"{self.pattern.name} in {excerpt(self.name)} {quoted(text)}"
        if now is not self.appears:
            return Finding(False, (_("{what} is there", what=what) if now else _("{what} is not there", what=what),))
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
        return level(self.patterns, text, _("is in {excerpt} {text}", excerpt=excerpt(self.name), text=quoted(text)))
