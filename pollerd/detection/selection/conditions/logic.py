"""Three-valued logic (Kleene) over the leaves of a condition.

    all   false if one is false, else unknown if one is unknown, else true
    any   true if one is true, else unknown if one is unknown, else false
    not   carried down to the leaves (De Morgan): true and false change places, unknown stays

A leaf held against the announced content is false where the new content equals it, negated or not: nothing changed
since, so nothing can matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from pollerd.detection.selection.conditions.inputs import ComparisonView


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
            return Finding(False, ("the content is the one announced last",))
        found = self.leaf.find(view)
        if not self.negated or found.state is None:
            return found
        return Finding(not found.state, found.facts)


@dataclass(frozen=True, slots=True)
class Combination:
    """all: every part must hold. any (decisive=True): one must. The first part that decides ends the search."""

    parts: tuple[ConditionNode, ...]
    decisive: bool

    def find(self, view: ComparisonView) -> Finding:
        """Returns the first part that decides; without one, the unknown parts; without these, all parts together."""
        found: list[Finding] = []
        for part in self.parts:
            finding = part.find(view)
            if finding.state is self.decisive:
                return finding
            found.append(finding)
        unknown = [finding for finding in found if finding.state is None]
        return _together(None, unknown) if unknown else _together(not self.decisive, found)


def _together(state: bool | None, findings: list[Finding]) -> Finding:
    return Finding(state, tuple(_facts(findings)), tuple(dict.fromkeys(_names(findings))))


def _facts(findings: list[Finding]) -> Iterator[str]:
    for finding in findings:
        yield from finding.facts


def _names(findings: list[Finding]) -> Iterator[str]:
    for finding in findings:
        yield from finding.unknown
