"""Recorded changes and contents, and the changes that a reader has seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, exists, func, insert, or_, select

from pollerd.errors import NotFoundError
from pollerd.model import DEFAULT_SELECTION, Change, Media
from pollerd.storage import encoding
from pollerd.storage.encoding import Order, PackedRow, Position, unpack_all
from pollerd.storage.schema import change, content, outbox, screenshot, seen_range, site, site_state, site_tag
from pollerd.storage.soft_delete import is_soft_deleted
from pollerd.storage.statements import Statements, run
from pollerd.storage.values import ListPage

# Changes that a reader has seen: ranges of ids, so that a million seen changes cost one row.

MAX_RANGES = 10_000
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


def closed(ranges: Sequence[Range], most: int = MAX_RANGES) -> list[Range]:
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


_BEFORE, _AFTER = content.alias("before"), content.alias("after")


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """A filter on changes: all fields that are not None must match."""

    since: float | None = None
    """Detected at or after this time, epoch s."""
    site_id: int | None = None
    tag: str | None = None
    """Of sites that have this tag now."""
    matters: bool | None = None
    """The verdict of the selection's conditions."""
    selection: str | None = None
    """Name of the selection."""
    unseen_by: str | None = None
    """The reader who has not seen it."""
    words: str | None = None
    """In its summary or its site's URL, whatever the case."""
    rule_id: int | None = None
    """The rule that tells of it."""
    after: int | None = None
    """Its id is larger."""


ALL_CHANGES = ChangeFilter()


@dataclass(frozen=True, slots=True)
class ChangesRead:
    """Changes read after an id, oldest first."""

    items: list[Change]
    reached: int
    """Id to continue from: all matching changes up to it were read."""
    whole: bool
    """Whether there are no more."""


def _changes(wanted: ChangeFilter) -> Select[Any]:
    c = change.c
    statement = (
        # Ids from the joined contents: a pruned one is None.
        select(
            c.id,
            c.site_id,
            site.c.url,
            c.detected_at,
            c.previous_poll_at,
            c.kind,
            c.summary,
            _BEFORE.c.id.label("before_id"),
            _AFTER.c.id.label("after_id"),
            c.selection,
            c.matters,
            c.why,
        )
        .join_from(change, site)
        .outerjoin(_BEFORE, _BEFORE.c.id == c.before_content_id)
        .outerjoin(_AFTER, _AFTER.c.id == c.after_content_id)
        .where(~is_soft_deleted(c.site_id))
    )
    if wanted.since is not None:
        statement = statement.where(c.detected_at >= wanted.since)
    if wanted.site_id is not None:
        statement = statement.where(c.site_id == wanted.site_id)
    if wanted.tag is not None:
        statement = statement.where(c.site_id.in_(select(site_tag.c.site_id).where(site_tag.c.tag == wanted.tag)))
    if wanted.matters is not None:
        statement = statement.where(c.matters.is_(wanted.matters))
    if wanted.selection is not None:
        statement = statement.where(_of_selection(wanted.selection))
    if wanted.unseen_by is not None:
        statement = statement.where(is_unseen(wanted.unseen_by))
    if wanted.words is not None:
        statement = statement.where(
            or_(c.summary.icontains(wanted.words, autoescape=True), site.c.url.icontains(wanted.words, autoescape=True))
        )
    if wanted.after is not None:
        statement = statement.where(c.id > wanted.after)
    if wanted.rule_id is not None:
        statement = statement.where(exists().where(outbox.c.change_id == c.id, outbox.c.rule_id == wanted.rule_id))
    return statement


def _of_selection(name: str) -> ColumnElement[bool]:
    named = change.c.selection == name
    return or_(named, change.c.selection.is_(None)) if name == DEFAULT_SELECTION else named


def list_changes(
    connection: Connection, wanted: ChangeFilter, limit: int, cursor: str | None, order: Order | None
) -> ListPage[Change]:
    """Returns changes in the cursor's order, else in `order`, else newest first; no cursor after the last."""
    position = Position.of("c", cursor, order, unnamed=Order.OLDEST)
    statement = position.select(_changes(wanted), change.c.id, limit)
    found = [_change(*row) for row in connection.execute(statement)]
    return position.page(found, limit)


def changes_after(connection: Connection, wanted: ChangeFilter, after: int, limit: int) -> ChangesRead:
    """Returns changes with ids above `after`, oldest first, and the id up to which all matching ones were read."""
    # The limit is read first: a change committed in between belongs to the next reading.
    newest = last_change_id(connection)
    statement = _changes(wanted).where(change.c.id > after, change.c.id <= newest)
    rows = connection.execute(statement.order_by(change.c.id).limit(encoding.check_limit(limit)))
    found = [_change(*row) for row in rows]
    whole = len(found) < limit
    return ChangesRead(found, max(after, newest) if whole else found[-1].id or 0, whole)


def last_change_id(connection: Connection) -> int:
    """Returns the largest id of a stored change; 0 before the first."""
    return int(connection.execute(select(func.coalesce(func.max(change.c.id), 0))).scalar_one())


def id_before_newest(connection: Connection, count: int) -> int:
    """Returns the id above which the newest `count` changes lie; 0: all do. Numbers have gaps, so none is computed."""
    statement = select(change.c.id).order_by(change.c.id.desc()).offset(count).limit(1)
    return int(connection.execute(statement).scalar() or 0)


def get_change(connection: Connection, change_id: int) -> Change:
    """Returns the change. Raises `NotFoundError`."""
    row = connection.execute(_changes(ChangeFilter()).where(change.c.id == change_id)).one_or_none()
    if row is None:
        raise NotFoundError("change", change_id)
    return _change(*row)


def changes_by_id(connection: Connection, sql: Statements, change_ids: Sequence[int]) -> list[Change]:
    """Returns the changes with these ids that there are."""
    wanted = _changes(ALL_CHANGES).where(sql.in_list(change.c.id, "ids"))
    return [_change(*row) for row in connection.execute(wanted, {"ids": sql.id_list(change_ids)})]


def versions(connection: Connection, site_id: int, selection: str, limit: int) -> list[int]:
    """Returns ids of the contents that changes of a selection led to and that are stored, newest first."""
    c = change.c
    statement = (
        select(content.c.id)
        .join_from(change, content, content.c.id == c.after_content_id)
        .where(c.site_id == site_id, _of_selection(selection))
        .order_by(c.id.desc())
        .limit(limit)
    )
    return list(connection.execute(statement).scalars())


def _change(  # noqa: PLR0913 (the columns of a row)
    change_id: int,
    site_id: int,
    url: str,
    detected_at: float,
    previous_poll_at: float | None,
    kind: str,
    summary: str,
    before_content_id: int | None,
    after_content_id: int | None,
    selection: str | None,
    matters: bool,
    why: str,
) -> Change:
    return Change(
        id=change_id,
        site_id=site_id,
        url=url,
        detected_at=detected_at,
        previous_poll_at=previous_poll_at,
        kind=Media(kind),
        summary=summary,
        before_content_id=before_content_id,
        after_content_id=after_content_id,
        selection=selection or DEFAULT_SELECTION,
        matters=bool(matters),
        why=why,
    )


# Contents: one for a client, several for a batch of polls.


@dataclass(frozen=True, slots=True)
class Content:
    """A stored normalised content: UTF-8 text, or the original bytes if `media` is binary."""

    id: int
    media: Media
    body: bytes


def get_content(connection: Connection, content_id: int) -> Content:
    """Returns the content, decompressed. Raises `NotFoundError` if it was pruned."""
    c, base = content.c, content.alias("base")
    wanted = select(c.media, c.body, c.base_id, base.c.body).outerjoin_from(content, base, base.c.id == c.base_id)
    row = connection.execute(wanted.where(c.id == content_id)).one_or_none()
    if row is None:
        raise NotFoundError("content", content_id)
    media, body, base_id, base_body = row
    return Content(content_id, Media(media), unpack_all([(content_id, body, base_id, base_body)])[content_id].content)


def get_screenshot(connection: Connection, content_id: int) -> bytes:
    """Returns the PNG kept with a content. Raises `NotFoundError` if none was, or it was pruned with its content."""
    body = connection.execute(select(screenshot.c.body).where(screenshot.c.content_id == content_id)).scalar()
    if body is None:
        raise NotFoundError("screenshot of content", content_id)
    return bytes(body)


def current_screenshot(connection: Connection, site_id: int) -> bytes:
    """Returns the PNG kept with a site's current content. Raises `NotFoundError` if none was."""
    s, one = site_state.c, screenshot.c
    wanted = select(one.body).join_from(site_state, screenshot, one.content_id == s.content_id)
    body = connection.execute(wanted.where(s.site_id == site_id)).scalar()
    if body is None:
        raise NotFoundError("screenshot of the current content of site", site_id)
    return bytes(body)


def packed_contents(connection: Connection, sql: Statements, content_ids: Sequence[int]) -> list[PackedRow]:
    """Returns the stored contents, for `unpack_all`; pruned ones are missing."""
    rows: list[Any] = run(connection, sql.contents, sql.id_list(content_ids))
    return rows
