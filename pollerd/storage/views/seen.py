"""Which changes a reader has seen: ranges of ids, so that a million seen changes cost one row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select

from pollerd.storage.db.schema.history import change, seen_range

MOST_RANGES = 10_000
"""Beyond it the oldest gaps close: what lies in them counts as seen."""
Range = tuple[int, int]


def seen_ranges(connection: Connection, reader: str) -> list[Range]:
    """Returns the ranges of ids, both ends included, ascending."""
    c = seen_range.c
    found = connection.execute(select(c.first, c.last).where(c.reader == reader).order_by(c.first))
    return [(int(first), int(last)) for first, last in found]


def put_seen(connection: Connection, reader: str, ids: Iterable[Range], *, seen: bool) -> None:
    """Adds ranges of ids to what the reader has seen, or takes them away."""
    before = seen_ranges(connection, reader)
    after = merged(before, ids) if seen else without(before, ids)
    after = closed(after)
    if after == before:
        return
    kept = set(after)
    gone = [first for first, last in before if (first, last) not in kept]
    known = set(before)
    new = [{"reader": reader, "first": first, "last": last} for first, last in after if (first, last) not in known]
    c = seen_range.c
    for first in gone:
        connection.execute(delete(seen_range).where(c.reader == reader, c.first == first))
    if new:
        connection.execute(insert(seen_range), new)


def merged(ranges: Sequence[Range], more: Iterable[Range]) -> list[Range]:
    """Returns the union, ascending, without ranges that touch."""
    out: list[Range] = []
    for first, last in sorted([*ranges, *more]):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def without(ranges: Sequence[Range], less: Iterable[Range]) -> list[Range]:
    """Returns the ranges without those of `less`."""
    out = list(ranges)
    for first, last in less:
        parts: list[Range] = []
        for start, end in out:
            if end < first or start > last:
                parts.append((start, end))
                continue
            if start < first:
                parts.append((start, first - 1))
            if end > last:
                parts.append((last + 1, end))
        out = parts
    return out


def closed(ranges: Sequence[Range], most: int = MOST_RANGES) -> list[Range]:
    """Returns at most `most` ranges: the oldest become one."""
    if len(ranges) <= most:
        return list(ranges)
    join = len(ranges) - most + 1
    return [(ranges[0][0], ranges[join - 1][1]), *ranges[join:]]


def is_unseen(reader: str) -> ColumnElement[bool]:
    """Returns the condition that the reader has not seen a change.

    What was seen from the first change on is left out at once, so that a reader who has seen a million changes waits
    for none of them. Ranges do not overlap: the last one that begins before a change decides.
    """
    r, c = seen_range.c, change.c.id
    of_reader = select(r.last).where(r.reader == reader)
    from_the_first = of_reader.where(r.first <= 1).scalar_subquery()
    around = of_reader.where(r.first <= c).order_by(r.first.desc()).limit(1).correlate(change).scalar_subquery()
    return and_(c > func.coalesce(from_the_first, 0), func.coalesce(around, 0) < c)


def count_unseen(connection: Connection, reader: str, most: int) -> int:
    """Returns how many changes that matter the reader has not seen; counts no further than `most`."""
    some = select(change.c.id).where(is_unseen(reader), change.c.matters).order_by(change.c.id.desc()).limit(most)
    return int(connection.execute(select(func.count()).select_from(some.subquery())).scalar_one())
