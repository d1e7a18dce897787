"""Leaves about texts: what appears and disappears (edges), what is there and what is not (levels)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pollerd.detection.selection.conditions.inputs import ComparisonView, PatternLike
from pollerd.detection.selection.conditions.logic import Finding
from pollerd.detection.selection.conditions.plain_text import joined, quoted


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
            return Finding(False, (f"{self.pattern.name} is in no {self.place} line",))
        return Finding(True, (f"{self.pattern.name} is in the {self.place} line {quoted(line)}",))


@dataclass(frozen=True, slots=True)
class TextLevel:
    """Whether the new content holds one of some texts."""

    patterns: tuple[NamedPattern, ...]

    def find(self, view: ComparisonView) -> Finding:
        """Searches the new content."""
        return level(self.patterns, view.given.after, "is there")


def edge(name: str, appears: bool, before: bool, after: bool) -> Finding:
    """Returns whether something appeared (disappeared), given whether it was there before and is there after."""
    if before != after:
        fact = f"{name} appeared" if after else f"{name} disappeared"
    else:
        fact = f"{name} is there as before" if after else f"{name} is not there, as before"
    return Finding(before != after and after is appears, (fact,))


def level(patterns: tuple[NamedPattern, ...], text: str, there: str) -> Finding:
    """Returns whether one of the patterns is found in the text; `there`: the end of the sentence about it."""
    found = next((pattern for pattern in patterns if pattern.pattern.search(text)), None)
    if found is not None:
        return Finding(True, (f"{found.name} {there}",))
    if len(patterns) == 1:
        return Finding(False, (f"{patterns[0].name} {there.replace('is', 'is not', 1)}",))
    return Finding(False, (f"none of {joined([pattern.name for pattern in patterns])} {there}",))
