"""The template by which matches are replaced."""

from __future__ import annotations

import re
from typing import Protocol

from pollerd.detection.selection.expressions.refusal import MOST_CHARACTERS, Refusal
from pollerd.errors import InvalidValueError

_KIND = "a replacement"
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "b": "\b", "\\": "\\"}
_PART = re.compile(r"\\(?:(?P<number>[1-9][0-9]?)|g<(?P<name>[^>]*)>|(?P<sign>.?))", re.DOTALL)


class GroupsOfMatch(Protocol):
    """A match, as far as a replacement looks at it."""

    def group(self, group: int | str = 0, /) -> str | None:
        """Returns what a group matched."""


class Replacement:
    """A checked template: texts and groups in turn."""

    def __init__(self, template: str, parts: tuple[str | tuple[int | str], ...]) -> None:
        self.template = template
        self._parts = parts

    @classmethod
    def parse(cls, field: str, template: object, groups: int, names: frozenset[str]) -> Replacement:
        """Returns a template for a pattern with so many groups. Raises `InvalidValueError`."""
        if not isinstance(template, str) or len(template) > MOST_CHARACTERS:
            raise InvalidValueError(field, f"{_KIND} of at most {MOST_CHARACTERS:,} characters", template)
        refusal, parts, end = Refusal(field, _KIND, template), list[str | tuple[int | str]](), 0
        for found in _PART.finditer(template):
            parts += [template[end : found.start()], _part(found, refusal, groups, names)]
            end = found.end()
        return cls(template, (*parts, template[end:]))

    def expand(self, match: GroupsOfMatch) -> str:
        """Returns what replaces a match; a group that took no part is empty."""
        return "".join(part if isinstance(part, str) else match.group(part[0]) or "" for part in self._parts)


def _part(found: re.Match[str], refusal: Refusal, groups: int, names: frozenset[str]) -> str | tuple[int | str]:
    if (sign := found["sign"]) is not None:
        return _plain(sign, found, refusal)
    name = found["number"] or found["name"]
    if name.isascii() and name.isdigit() and len(name) < 5:
        if int(name) <= groups:
            return (int(name),)
        there = "no groups" if not groups else f"groups 1 to {groups}"
        refusal.at(found.start(), f'"{found[0]}" names no group; the pattern has {there}')
    if name not in names:
        there = ", ".join(sorted(names)) or "none"
        refusal.at(found.start(), f'"{found[0]}" names no group; groups with a name: {there}')
    return (name,)


def _plain(sign: str, found: re.Match[str], refusal: Refusal) -> str:
    if not sign:
        refusal.at(found.start(), r'a single "\" at the end; write \\')
    if sign in _PLAIN:
        return _PLAIN[sign]
    if sign.isascii() and sign.isalnum():
        refusal.at(found.start(), rf"\{sign} means nothing here; groups are \1, \g<0> and \g<name>")
    return found[0]
