"""What a condition is given: patterns, readings of values, and the two contents that it compares.

Patterns and values are made by other packages; what a condition needs of them is written down here as protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Protocol

from pollerd.detection.selection.conditions.change_size import ChangeSize, change_size
from pollerd.detection.selection.conditions.line_changes import LineChanges, line_changes


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
