"""The size of a change in characters, its added and removed lines, and hashes of lines that recognise new ones later.

Characters are counted in time that grows little faster than the contents. Lines that are equally often in both contents
are paired in order of occurrence; of the pairs the longest sequence in the same order is kept (patience diff;
O(n log n)). Lines between kept pairs were added, removed, or, where there are lines on both sides, replaced. In a
replaced stretch the same is done with words, and in words that differ the common beginning and end do not count. A
moved line counts as removed and added: it stands elsewhere now. Line feeds count nothing. A replaced stretch of more
than `MAX_COMPARED` characters is compared by its beginning and end alone, so its size is an upper bound.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import xxhash

from pollerd.detection.noise.alignment import longest_rising
from pollerd.errors import InvalidValueError

# Lines that a change added and removed: a difference of multisets, linear in both contents.
#
# A line is its text up to the line feed. A modified line is one removed and one added; a line that was only moved is
# neither, since a user who watches for new lines has seen it. Lines of nothing but white space are layout and left out.


@dataclass(frozen=True, slots=True)
class LineChanges:
    """Lines of the new content that the old one lacks, and the other way round, each in the order of its content.

    A line that is there more often than before was added as often as it is there more.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]


def lines_of(content: str) -> list[str]:
    """Returns the lines of a content, blank ones too; a line feed at the end starts no line."""
    lines = content.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def line_changes(before: str, after: str) -> LineChanges:
    """Returns the lines that a change added and removed."""
    if before == after:
        return LineChanges((), ())
    old, new = lines_of(before), lines_of(after)
    return LineChanges(added=_without(new, old), removed=_without(old, new))


def _without(lines: list[str], others: list[str]) -> tuple[str, ...]:
    """Returns the lines that have no partner among the others; of equal ones the last have none."""
    partners = Counter(others)
    found = []
    for line in lines:
        if partners[line] > 0:
            partners[line] -= 1
        elif line.strip():
            found.append(line)
    return tuple(found)


MAX_COMPARED = 1_000_000
"""Characters, old and new together, that are compared word by word in one change."""
_WORD = re.compile(r"\w+|[^\w\n]|\n")

_Span = tuple[int, int, int, int]
"""Start and end in the one sequence, start and end in the other; ends exclusive."""


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """Characters that a change added and removed, and those of the larger content, without line feeds."""

    added: int
    removed: int
    larger: int

    @property
    def chars(self) -> int:
        """Added and removed characters together; at least 1 where any line differs."""
        return self.added + self.removed

    @property
    def share(self) -> float:
        """The larger of what was added and removed, as a share of the larger content: 0 to 1."""
        return min(1.0, max(self.added, self.removed) / self.larger) if self.larger else float(self.chars > 0)


def change_size(before: str, after: str) -> ChangeSize:
    """Returns the size of the change between two contents."""
    old, new = lines_of(before), lines_of(after)
    larger = max(_characters(old), _characters(new))
    if old == new:
        return ChangeSize(0, 0, larger)
    keys: dict[str, int] = {}
    a, b = ([keys.setdefault(line, len(keys)) for line in lines] for lines in (old, new))
    removed = added = 0
    work_left = MAX_COMPARED
    for i, i_end, j, j_end in _gaps(a, b):
        ours, theirs = "\n".join(old[i:i_end]), "\n".join(new[j:j_end])
        if i < i_end and j < j_end:
            parts, work_left = _replaced(ours, theirs, work_left)
        else:
            parts = (_visible(ours), _visible(theirs))
        removed, added = removed + parts[0], added + parts[1]
    # Blank lines alone have no character to count.
    return ChangeSize(added or int(not removed), removed, larger)


def _replaced(ours: str, theirs: str, work_left: int) -> tuple[tuple[int, int], int]:
    """Returns the differing characters of two chunks, removed and added, and how many may still be compared."""
    ours, theirs = _without_affix(ours, theirs)
    work = len(ours) + len(theirs)
    if not ours or not theirs or work > work_left:
        return (_visible(ours), _visible(theirs)), work_left
    keys: dict[str, int] = {}
    a, b = ([keys.setdefault(match[0], len(keys)) for match in _WORD.finditer(text)] for text in (ours, theirs))
    words = list(keys)
    removed = added = 0
    for i, i_end, j, j_end in _gaps(a, b):
        parts = _without_affix("".join(words[key] for key in a[i:i_end]), "".join(words[key] for key in b[j:j_end]))
        removed, added = removed + _visible(parts[0]), added + _visible(parts[1])
    return (removed, added), work_left - work


def _characters(lines: Iterable[str]) -> int:
    return sum(map(len, lines))


def _visible(text: str) -> int:
    return len(text) - text.count("\n")


def _without_affix(a: str, b: str) -> tuple[str, str]:
    """Returns two texts without their common beginning and end."""
    start = _common_start(a, b)
    a, b = a[start:], b[start:]
    end = _common_end(a, b)
    return a[: len(a) - end], b[: len(b) - end]


def _common_start(a: str, b: str) -> int:
    """Length of the common beginning, by halving: each step compares half of what the last one did."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(a: str, b: str) -> int:
    """Length of the common end, by halving."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low


# --- alignment of two sequences of keys ------------------------------------------------------------------------------


def _gaps(a: Sequence[int], b: Sequence[int]) -> Iterator[_Span]:
    """Yields the chunks between common keys, in order, without empty ones."""
    i, j = 0, 0
    for next_i, next_j in [*_anchors(a, b), (len(a), len(b))]:
        gap = _trimmed((i, next_i, j, next_j), a, b)
        if gap[0] < gap[1] or gap[2] < gap[3]:
            yield gap
        i, j = next_i + 1, next_j + 1


def _trimmed(span: _Span, a: Sequence[int], b: Sequence[int]) -> _Span:
    i, i_end, j, j_end = span
    while i < i_end and j < j_end and a[i] == b[j]:
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and a[i_end - 1] == b[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
    return i, i_end, j, j_end


def _anchors(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Returns pairs of equal keys, ascending in both."""
    start, a_end, _, b_end = _trimmed((0, len(a), 0, len(b)), a, b)
    counts, others = Counter(a[start:a_end]), Counter(b[start:b_end])
    places: dict[int, list[int]] = {}
    for j in range(start, b_end):
        if counts[b[j]] == others[b[j]]:
            places.setdefault(b[j], []).append(j)
    queues = {key: iter(found) for key, found in places.items()}
    pairs = [(i, next(queues[a[i]])) for i in range(start, a_end) if a[i] in queues]
    head = [(n, n) for n in range(start)]
    tail = [(a_end + n, b_end + n) for n in range(len(a) - a_end)]
    return [*head, *longest_rising(pairs), *tail]


# Hashes of a version's lines, kept to decide later whether a line is new.
#
# 64 bits a line, without its letter case and the white space around it, so that a line that returns in capitals is the
# same line. Blank lines have no hash.

_BYTES = 8


def line_hash(line: str) -> int:
    """Returns the hash of one line, 0 to 2**64 - 1."""
    return xxhash.xxh3_64_intdigest(line.strip().casefold().encode("utf-8", "surrogatepass"))


def line_hashes(content: str) -> frozenset[int]:
    """Returns the hashes of the lines of a content. The set for several versions is the union of theirs."""
    return frozenset(line_hash(line) for line in set(lines_of(content)) if line.strip())


def pack_line_hashes(hashes: Iterable[int]) -> bytes:
    """Returns hashes as bytes, 8 each, little-endian and ascending: equal sets give equal bytes."""
    ordered = sorted(set(hashes))
    return struct.pack(f"<{len(ordered)}Q", *ordered)


def unpack_line_hashes(packed: bytes) -> frozenset[int]:
    """Returns the hashes that `pack_line_hashes` packed. Raises `InvalidValueError` for a length that is none."""
    if len(packed) % _BYTES:
        raise InvalidValueError("line hashes", f"a multiple of {_BYTES} bytes", len(packed))
    return frozenset(struct.unpack(f"<{len(packed) // _BYTES}Q", packed))
