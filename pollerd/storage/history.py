"""Reading what was recorded: polls, changes, contents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Select, func, select

from pollerd.errors import NotFoundError
from pollerd.model import Change, Media, OutcomeKind, Poll, Redirect
from pollerd.storage import cursors
from pollerd.storage.compression import unpack
from pollerd.storage.schema import change, content, poll, site
from pollerd.storage.values import Page, PollColumns

_BEFORE, _AFTER = content.alias("before"), content.alias("after")


def _changes() -> Select[Any]:
    c = change.c
    return (
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
        )
        .join_from(change, site)
        .outerjoin(_BEFORE, _BEFORE.c.id == c.before_content_id)
        .outerjoin(_AFTER, _AFTER.c.id == c.after_content_id)
    )


def list_changes(
    connection: Connection,
    since: float | None = None,
    site_id: int | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Page[Change]:
    """Changes detected at or after `since`, oldest first; no cursor after the last."""
    last = cursors.decode("c", cursor) or 0
    statement = _changes().where(change.c.id > last).order_by(change.c.id).limit(cursors.check_limit(limit) + 1)
    if since is not None:
        statement = statement.where(change.c.detected_at >= since)
    if site_id is not None:
        statement = statement.where(change.c.site_id == site_id)
    items = [_change(*row) for row in connection.execute(statement)]
    more = len(items) > limit
    return Page(items[:limit], cursors.encode("c", items[limit - 1].id or 0) if more else None)


def get_change(connection: Connection, change_id: int) -> Change:
    """Raises `NotFoundError`."""
    row = connection.execute(_changes().where(change.c.id == change_id)).one_or_none()
    if row is None:
        raise NotFoundError("change", change_id)
    return _change(*row)


def _change(
    change_id: int,
    site_id: int,
    url: str,
    detected_at: float,
    previous_poll_at: float | None,
    kind: str,
    summary: str,
    before_content_id: int | None,
    after_content_id: int | None,
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
    )


def get_content(connection: Connection, content_id: int) -> bytes:
    """The content, decompressed. Raises `NotFoundError` where it was pruned."""
    body = connection.execute(select(content.c.body).where(content.c.id == content_id)).scalar_one_or_none()
    if body is None:
        raise NotFoundError("content", content_id)
    return unpack(body)


def list_polls(connection: Connection, site_id: int, limit: int = 100, cursor: str | None = None) -> Page[Poll]:
    """The site's polls, newest first."""
    c = poll.c
    statement = select(poll).where(c.site_id == site_id).order_by(c.id.desc())
    last = cursors.decode("p", cursor)
    if last is not None:
        statement = statement.where(c.id < last)
    rows = connection.execute(statement.limit(cursors.check_limit(limit) + 1)).mappings().all()
    items = [_poll(dict(row)) for row in rows[:limit]]
    more = len(rows) > limit
    return Page(items, cursors.encode("p", items[-1].id or 0) if more else None)


def _poll(row: dict[str, Any]) -> Poll:
    hops = json.loads(row["redirects"] or "[]")
    row["redirects"] = tuple(Redirect(status, url) for status, url in hops)
    row["outcome"] = OutcomeKind(row["outcome"])
    return Poll(**row)


def recent_polls(per_site: int) -> Select[Any]:
    """The last `per_site` informative polls of every site, in time order."""
    c = poll.c
    informative = [kind.value for kind in OutcomeKind if kind.informative]
    newest_first = func.row_number().over(partition_by=c.site_id, order_by=c.id.desc())
    ranked = (
        select(c.id, c.site_id, c.at, c.elapsed, c.changed, c.age, c.count, newest_first.label("rank"))
        .where(c.outcome.in_(informative))
        .subquery()
    )
    r = ranked.c
    return select(r.site_id, r.at, r.elapsed, r.changed, r.age, r.count).where(r.rank <= per_site).order_by(r.at, r.id)


def poll_columns(rows: Sequence[Any]) -> PollColumns:
    """Rows of `recent_polls` as columns."""
    site_id, at, elapsed, changed, age, count = zip(*rows, strict=True)
    return PollColumns(
        site_id=np.array(site_id, dtype=np.int64),
        at=np.array(at, dtype=np.float64),
        elapsed=np.array([np.inf if e is None else e for e in elapsed], dtype=np.float64),
        changed=np.array(changed, dtype=np.bool_),
        age=np.array(age, dtype=np.float64),
        count=np.array([-1 if n is None else n for n in count], dtype=np.int64),
    )
