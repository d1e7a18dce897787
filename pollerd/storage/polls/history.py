"""Reads recorded polls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, and_, func, or_, select

from pollerd.model import OutcomeKind, Poll, Redirect
from pollerd.storage.db.schema.history import change, poll
from pollerd.storage.db.schema.sites import mask
from pollerd.storage.encoding.cursors import Order, Position
from pollerd.storage.values import ListPage, PollColumns

_EVIDENCE = ("site_id", "at", "elapsed", "changed", "age", "count", "at_least", "span")
"""Columns that allocators learn from."""


def list_polls(
    connection: Connection, site_id: int, limit: int, cursor: str | None, order: Order | None
) -> ListPage[Poll]:
    """Returns the site's polls, in the cursor's order, else in `order`, else newest first."""
    position = Position.of("p", cursor, order, unnamed=Order.NEWEST)
    statement = position.select(select(poll).where(poll.c.site_id == site_id), poll.c.id, limit)
    found = [_poll(dict(row)) for row in connection.execute(statement).mappings()]
    return position.page(found, limit)


def _poll(row: dict[str, Any]) -> Poll:
    hops = json.loads(row["redirects"] or "[]")
    row["redirects"] = tuple(Redirect(status, url) for status, url in hops)
    row["outcome"] = OutcomeKind(row["outcome"])
    return Poll(**row)


def recent_polls(per_site: int, after: int, through: int | None) -> Select[Any]:
    """Selects the last `per_site` informative polls of every site, in time order, with ids above `after`, up to
    `through`.

    Leaves out polls from before the site's mask was learned.
    """
    c = poll.c
    informative = [kind.value for kind in OutcomeKind if kind.informative]
    newest_first = func.row_number().over(partition_by=c.site_id, order_by=c.id.desc())
    ranked = (
        select(c.id, *(c[name] for name in _EVIDENCE), newest_first.label("rank"))
        .outerjoin(mask, mask.c.site_id == c.site_id)
        .where(c.outcome.in_(informative), or_(mask.c.since.is_(None), c.at >= mask.c.since))
        .where(c.id > after, *([] if through is None else [c.id <= through]))
        .subquery()
    )
    r = ranked.c
    return select(*(r[name] for name in _EVIDENCE)).where(r.rank <= per_site).order_by(r.at, r.id)


def poll_columns(rows: Sequence[Any]) -> PollColumns:
    """Returns rows of `recent_polls` as columns."""
    site_id, at, elapsed, changed, age, count, at_least, span = zip(*rows, strict=True)
    return PollColumns(
        site_id=np.array(site_id, dtype=np.int64),
        at=np.array(at, dtype=np.float64),
        elapsed=np.array([np.inf if e is None else e for e in elapsed], dtype=np.float64),
        changed=np.array(changed, dtype=np.bool_),
        age=np.array(age, dtype=np.float64),
        count=np.array([-1 if n is None else n for n in count], dtype=np.int64),
        at_least=np.array([-1 if n is None else n for n in at_least], dtype=np.int64),
        span=np.array(span, dtype=np.float64),
    )


def dated_delays(connection: Connection, changes: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns how long polls came after the change that they found, where the page named its date.

    Reads the newest `changes` recorded changes: site ids int64[k], delays float64[k] s, a row a poll. Where several
    changes lay between two polls, the date is the last one's.
    """
    older = select(change.c.id).order_by(change.c.id.desc()).offset(changes).limit(1).scalar_subquery()
    polled_at = func.coalesce(change.c.poll_at, change.c.detected_at)
    of_poll = and_(poll.c.at == polled_at, poll.c.site_id == change.c.site_id)
    statement = (
        select(poll.c.id, poll.c.site_id, poll.c.age)
        .join_from(change, poll, of_poll)
        .where(change.c.id > func.coalesce(older, 0), poll.c.changed, poll.c.age.is_not(None))
        .distinct()
    )
    with connection.execute(statement) as result:
        rows = result.cursor.fetchall()
    _, sites, ages = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(sites, np.int64), np.array(ages, np.float64)
