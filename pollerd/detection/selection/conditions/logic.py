"""Three-valued logic (Kleene) over the leaves of a condition, the protocols of its inputs, and least sizes of changes.

    all   false if one is false, else unknown if one is unknown, else true
    any   true if one is true, else unknown if one is unknown, else false
    not   carried down to the leaves (De Morgan): true and false change places, unknown stays

A leaf held against the announced content is false where the new content equals it, negated or not: nothing changed
since, so nothing can matter.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Context, Decimal
from functools import cached_property, reduce
from typing import Protocol

from pollerd.detection.selection.conditions.change_size import ChangeSize, LineChanges, change_size, line_changes
from pollerd.detection.selection.document import known_keys, share, table, whole_number
from pollerd.texts import _

# Inputs of a condition: patterns, readings of values, and the two contents that it compares.
#
# Patterns and values are made by other packages; a condition needs no more of them than these protocols state.


class PatternLike(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> bool:
        """Returns whether the pattern is found anywhere in the text."""


CompilePattern = Callable[[str, object], PatternLike]
"""Compiles the definition of a pattern at a field; raises `InvalidValueError` with that field."""


class ComparableValue(Protocol):
    """A value as it was read from a content."""

    @property
    def number(self) -> Decimal | None:
        """The value as a number; None: it is a text, or could not be read."""

    @property
    def text(self) -> str:
        """The value as a text."""

    @property
    def problem(self) -> str:
        """Why the value could not be read; empty if it could."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A change of a selection's content, and what is known of earlier ones. Contents are lines, without noise.

    before, after: the old and the new content.
    announced: the content of the last change that mattered; where none has mattered yet, the first content of the
        selection. None: that is no longer kept, and `before` stands for it.
    values: what was read from `after`.
    last_values: the last values before them that could be read.
    announced_values: the values of the last change that mattered, or of the first content; one that is missing is
        replaced by the last value.
    versions: hashes of the lines of the last versions, newest first. For `new_in: all` they may be one set, the union.
    """

    before: str
    after: str
    announced: str | None = None
    values: Mapping[str, ComparableValue] = field(default_factory=dict)
    last_values: Mapping[str, ComparableValue] = field(default_factory=dict)
    announced_values: Mapping[str, ComparableValue] = field(default_factory=dict)
    versions: Sequence[Collection[int]] = ()


class ComparisonView:
    """A comparison with what several leaves need of it, computed when the first one asks."""

    def __init__(self, comparison: Comparison) -> None:
        self.given = comparison

    @property
    def announced(self) -> str:
        """The content that was announced last."""
        return self.given.before if self.given.announced is None else self.given.announced

    @cached_property
    def changes(self) -> LineChanges:
        """The lines that were added and removed."""
        return line_changes(self.given.before, self.given.after)

    @cached_property
    def size(self) -> ChangeSize:
        """How much differs from the old content."""
        return change_size(self.given.before, self.given.after)

    @cached_property
    def size_since_announced(self) -> ChangeSize:
        """How much differs from the announced content."""
        return self.size if self.announced == self.given.before else change_size(self.announced, self.given.after)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a condition found. state: None is unknown. facts: what decided, for people. unknown: values to blame."""

    state: bool | None
    facts: tuple[str, ...]
    unknown: tuple[str, ...] = ()


class ConditionNode(Protocol):
    """A condition or a part of one."""

    def find(self, view: ComparisonView) -> Finding:
        """Returns what holds of the comparison. The facts are true whether the part holds or not."""


@dataclass(frozen=True, slots=True)
class SignedLeaf:
    """A leaf, negated or not. sticky: level leaf against the announced content."""

    leaf: ConditionNode
    negated: bool = False
    sticky: bool = False

    def find(self, view: ComparisonView) -> Finding:
        """Returns what the leaf finds."""
        if self.sticky and view.given.after == view.announced:
            return Finding(False, (_("the content is the one announced last"),))
        finding = self.leaf.find(view)
        if not self.negated or finding.state is None:
            return finding
        return Finding(not finding.state, finding.facts)


@dataclass(frozen=True, slots=True)
class Combination:
    """all: every part must hold. any (decisive=True): one must. The first part that decides ends the search."""

    parts: tuple[ConditionNode, ...]
    decisive: bool

    def find(self, view: ComparisonView) -> Finding:
        """Returns the first part that decides; without one, the unknown parts; without these, all parts together."""
        findings: list[Finding] = []
        for part in self.parts:
            finding = part.find(view)
            if finding.state is self.decisive:
                return finding
            findings.append(finding)
        unknown = [finding for finding in findings if finding.state is None]
        return _together(None, unknown) if unknown else _together(not self.decisive, findings)


def _together(state: bool | None, findings: list[Finding]) -> Finding:
    return Finding(state, tuple(_facts(findings)), tuple(dict.fromkeys(_names(findings))))


def _facts(findings: list[Finding]) -> Iterator[str]:
    for finding in findings:
        yield from finding.facts


def _names(findings: list[Finding]) -> Iterator[str]:
    for finding in findings:
        yield from finding.unknown


# The least size of a change: smaller differences are no changes.

MAX_CHARS = 100_000_000


@dataclass(frozen=True, slots=True)
class Least:
    """A change is reached by at least `chars` characters that are at least `share` (0 to 1) of the larger content."""

    chars: int = 1
    share: float = 0.0

    def reached(self, before: str, after: str) -> bool:
        """Returns whether the change between two contents is that large. Equal contents never reach it."""
        return before != after and self.reached_by(change_size(before, after))

    def reached_by(self, size: ChangeSize) -> bool:
        """Returns whether a change of this size is that large."""
        return size.chars >= max(1, self.chars) and size.share >= self.share


def parse_least(field: str, document: object) -> Least:
    """Returns the least size that a document says: `{"chars": 20, "share": 0.01}`; absent, any difference.

    Both must be reached where both are given. Raises `InvalidValueError` with the field.
    """
    if document is None:
        return Least()
    fields = table(field, document, _("a table with chars, share, or both"))
    known_keys(field, fields, ("chars", "share"), _("a table with chars, share, or both"))
    chars, part = fields.get("chars"), fields.get("share")
    return Least(
        chars=1 if chars is None else whole_number(f"{field}.chars", chars, 0, MAX_CHARS),
        share=0.0 if part is None else share(f"{field}.share", part),
    )


# Excerpts of pages and numbers, for one line that people read.

MAX_CHARACTERS = 60
"""How much of a page's text is shown at one place."""
_LOOKED_AT = 600
_EXACT = Context(prec=1_000)
_MAX_FACTS = 3


def excerpt(text: str) -> str:
    """Returns a text on one line, at most 60 characters and without control and format characters."""
    plain = "".join(_plain(character) for character in text[:_LOOKED_AT])
    line = " ".join(plain.split())
    whole = len(line) <= MAX_CHARACTERS and len(text) <= _LOOKED_AT
    return line if whole else line[: MAX_CHARACTERS - 1] + "…"


def quoted(text: str) -> str:
    """Returns an excerpt in quotation marks."""
    return f'"{excerpt(text)}"'


def _plain(character: str) -> str:
    if character.isspace():
        return " "
    return "" if unicodedata.category(character)[0] == "C" else character


def plain_number(number: Decimal) -> str:
    """Returns a number without exponent and without zeros at its end, cut to 60 characters."""
    short = _EXACT.normalize(number)
    return excerpt(format(short if short else Decimal(0), "f"))


def plain_percent(part: Decimal, whole: Decimal) -> str:
    """Returns `part` as a percentage of `whole`, both positive, with two places at most; never rounded up."""
    percent = _EXACT.multiply(_EXACT.divide(part, whole), Decimal(100))
    if percent >= Decimal(10) ** 6:
        return _("over 1000000 %")
    if percent < Decimal("0.01"):
        return _("under 0.01 %")
    return f"{plain_number(percent.quantize(Decimal('0.01'), rounding=ROUND_DOWN, context=_EXACT))} %"


def joined(facts: Sequence[str]) -> str:
    """Returns facts as one line: the first three, and how many more there are."""
    first, *others = dict.fromkeys(facts[:_MAX_FACTS]) or ("",)
    shown = reduce(lambda before, fact: _("{before} and {fact}", before=before, fact=fact), others, first)
    more = len(facts) - _MAX_FACTS
    return _("{shown} and {more} more", shown=shown, more=more) if more > 0 else shown
