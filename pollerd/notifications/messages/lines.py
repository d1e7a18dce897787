"""Which lines a change added and removed, for rules and messages. Takes time linear in the contents."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pollerd.detection.common_affix import common_affix_length
from pollerd.detection.noise.repeat_fetch import without_noise
from pollerd.detection.selection.conditions.line_changes import LineChanges, line_changes
from pollerd.detection.summary import differing_part, noise_named
from pollerd.model import Media
from pollerd.notifications.messages.plain import plain_line

MOST_LINES = 100
LONGEST_LINE = 400
_BEFORE_DIFFERENCE = 60
_NONE = LineChanges((), ())


class CutLines(Struct, frozen=True):
    """Lines as messages show them; cut: there are more, or longer ones."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    cut: bool


def changed_lines(before: bytes | None, after: bytes, media: Media, mask: bytes = b"") -> LineChanges:
    """Returns the lines that differ between two contents as kept by `detect`, in full.

    Of a feed: its entries as title, date and text. One that is gone is left out, since feeds drop their old entries.
    before None: the earlier content is not kept. mask: the noise that does not count. Raises InvalidValueError for an
    invalid mask.
    """
    if before is None or media is Media.BINARY:
        return _NONE
    if mask:
        before, after = (noise_named(without_noise(content, mask)) for content in (before, after))
    old, new = (part.decode("utf-8", "replace") for part in differing_part(before, after))
    changes = line_changes(old, new)
    return _entries(changes, after) if media is Media.FEED else changes


def _entries(changes: LineChanges, after: bytes) -> LineChanges:
    there = {line.partition(b"\t")[0].decode("utf-8", "replace") for line in after.split(b"\n")}
    edited = tuple(line for line in changes.removed if line.partition("\t")[0] in there)
    return LineChanges(tuple(map(_entry, changes.added)), tuple(map(_entry, edited)))


def _entry(line: str) -> str:
    key, *rest = line.split("\t")
    return " · ".join(part for part in rest if part) or key


def cut_lines(changes: LineChanges, most: int = MOST_LINES, longest: int = LONGEST_LINE) -> CutLines:
    """Returns the first lines of a change, on one line each without control characters, long ones cut.

    Of a long line that took the place of another, what is around the first difference is shown. most: lines of either
    kind.
    """
    added, removed = changes.added[:most], changes.removed[:most]
    starts = [0] * max(len(added), len(removed))
    if len(changes.added) == len(changes.removed):
        starts = [_start(one, other, longest) for one, other in zip(added, removed, strict=True)]
    cut = max(len(changes.added), len(changes.removed)) > most
    cut = cut or any(len(line) > longest for line in (*added, *removed))
    return CutLines(_shown(added, starts, longest), _shown(removed, starts, longest), cut)


def _start(one: str, other: str, longest: int) -> int:
    """Returns from which character on two lines are shown: from a bit before they differ, if one is too long."""
    if max(len(one), len(other)) <= longest:
        return 0
    data = one.encode("utf-8", "replace"), other.encode("utf-8", "replace")
    same = common_affix_length(*data, 1)
    return max(0, len(data[0][:same].decode("utf-8", "ignore")) - _BEFORE_DIFFERENCE)


def _shown(lines: Sequence[str], starts: Sequence[int], longest: int) -> tuple[str, ...]:
    shown = (
        f"…{plain_line(line[start:], longest - 1).lstrip()}" if start else plain_line(line, longest)
        for line, start in zip(lines, starts, strict=False)
    )
    return tuple(shown)
