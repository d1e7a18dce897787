"""Reads recorded changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, exists, func, or_, select

from pollerd.errors import NotFoundError
from pollerd.model import DEFAULT_SELECTION, Change, Media
from pollerd.storage.db.schema.history import change, content
from pollerd.storage.db.schema.notifications import outbox
from pollerd.storage.db.schema.sites import site, site_tag
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding import cursors
from pollerd.storage.encoding.cursors import Order, Position
from pollerd.storage.sites.lists.marks import is_marked
from pollerd.storage.values import ListPage
from pollerd.storage.views.seen import is_unseen

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
        .where(~is_marked(c.site_id))
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
    rows = connection.execute(statement.order_by(change.c.id).limit(cursors.check_limit(limit)))
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
    wanted = _changes(ALL_CHANGES).where(sql.among(change.c.id, "ids"))
    return [_change(*row) for row in connection.execute(wanted, {"ids": sql.many(change_ids)})]


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
