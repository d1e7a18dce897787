"""Leaves about lines and sizes: what was added or removed, what is new, how long and how different a content is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pollerd.detection.selection.conditions.inputs import ComparisonView
from pollerd.detection.selection.conditions.least import Least
from pollerd.detection.selection.conditions.line_hashes import line_hash, line_hashes
from pollerd.detection.selection.conditions.logic import Finding
from pollerd.detection.selection.conditions.plain_text import quoted
from pollerd.quantities import counted

Kind = Literal["additions", "removals"]


def _lines(view: ComparisonView, kind: Kind) -> tuple[str, ...]:
    return view.changes.added if kind == "additions" else view.changes.removed


def _counted(lines: tuple[str, ...], kind: Kind) -> str:
    done = "added" if kind == "additions" else "removed"
    if not lines:
        return f"no line was {done}"
    if len(lines) == 1:
        return f"the line {quoted(lines[0])} was {done}"
    return f"{counted(len(lines), 'line')} were {done}, first {quoted(lines[0])}"


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
            return Finding(True, (f"{after:,} of {before:,} characters are left",))
        return Finding(bool(lines), (_counted(lines, self.kind),))


@dataclass(frozen=True, slots=True)
class PureLines:
    """purely: whether lines were added and none was removed (or the other way round)."""

    kind: Kind

    def find(self, view: ComparisonView) -> Finding:
        """Counts the lines of both kinds."""
        other: Kind = "removals" if self.kind == "additions" else "additions"
        against, wanted = _lines(view, other), _lines(view, self.kind)
        if against:
            return Finding(False, (_counted(against, other),))
        facts = (f"{_counted(wanted, self.kind)}, {_counted((), other)}",) if wanted else (_counted((), self.kind),)
        return Finding(bool(wanted), facts)


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
        new = {found: line for line in reversed(view.changes.added) if (found := line_hash(line)) not in seen}
        for version in view.given.versions[:number]:
            if not new:
                break
            new = {found: line for found, line in new.items() if found not in version}
        among = f"the last {counted(self.versions, 'version')}" if self.versions else "any version"
        if not new:
            return Finding(False, (f"no line is new in {among}" if self.versions else "no line is new",))
        first = next(reversed(new.values()))
        if len(new) == 1:
            return Finding(True, (f"the line {quoted(first)} is not in {among}",))
        return Finding(True, (f"{counted(len(new), 'line')} are not in {among}, first {quoted(first)}",))


@dataclass(frozen=True, slots=True)
class ContentLength:
    """length: whether the new content has `least` to `most` characters."""

    least: int | None
    most: int | None

    def find(self, view: ComparisonView) -> Finding:
        """Counts the characters."""
        length = len(view.given.after)
        has = f"the content has {counted(length, 'character')}"
        if self.least is not None and length < self.least:
            return Finding(False, (f"{has}, fewer than {self.least:,}",))
        if self.most is not None and length > self.most:
            return Finding(False, (f"{has}, more than {self.most:,}",))
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
        since = " since the announced content" if self.since_announced else ""
        differ = "differs" if size.chars == 1 else "differ"
        fact = f"{counted(size.chars, 'character')} {differ}{since}, {share} of the content"
        return Finding(self.least.reached_by(size), (fact if size.chars else f"nothing differs{since}",))
