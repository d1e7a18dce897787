"""Writes what is to be told in the transaction of what it tells of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from pollerd.errors import InvalidValueError
from pollerd.events import EventKind, Notice
from pollerd.model import DEFAULT_SELECTION
from pollerd.storage.db.rows import run_each
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding.text_encoding import storable, storable_word
from pollerd.storage.values import PollRecord

ChangeKey = tuple[int, str]
"""Index of a record, and the selection in which it found a change; `DEFAULT_SELECTION` of a site without any."""


def check_notices(record: PollRecord) -> None:
    """Raises `InvalidValueError` for a notice or incident of another site than the record's."""
    site_id = record.poll.site_id
    for notice in record.notices:
        if notice.site_id != site_id:
            raise InvalidValueError("notices", f"of the site that was polled ({site_id})", notice.site_id)
    for incident in record.incidents_opened:
        if incident.site_id != site_id:
            raise InvalidValueError("incidents_opened", f"of the site that was polled ({site_id})", incident.site_id)


def write_notices(
    connection: Connection,
    sql: Statements,
    records: Sequence[tuple[int, PollRecord]],
    changes: Mapping[ChangeKey, int],
    others: Sequence[Notice],
) -> None:
    """Writes notices and incidents of records (with their index in the batch), and notices of no record.

    changes: ids of the batch's changes.
    """
    rows: list[tuple[Any, ...]] = []
    for i, record in records:
        url = record.context.url
        for one in record.notices:
            tells = one.kind is EventKind.CHANGED
            rows.append(notice_row(one, url, changes.get((i, one.selection or DEFAULT_SELECTION)) if tells else None))
    rows += [notice_row(one) for one in others]
    run_each(connection, sql.insert_notice, rows)
    closed = [(rule_id, r.poll.site_id) for _, r in records for rule_id in r.incidents_closed]
    run_each(connection, sql.close_incident, closed)
    opened = [(one.rule_id, one.site_id, one.id, one.since) for _, r in records for one in r.incidents_opened]
    run_each(connection, sql.open_incident, opened)


def notice_row(notice: Notice, url: str | None = None, change_id: int | None = None) -> tuple[Any, ...]:
    """Returns the row of a notice, in the order of `NOTICE`."""
    due_at = notice.due_at
    return (
        notice.event_id,
        notice.kind.value,
        notice.at,
        notice.rule_id,
        notice.channel_id,
        notice.site_id,
        storable(url),
        change_id,
        notice.selection,
        storable_word(notice.data),
        notice.digest,
        due_at,
        due_at,
    )


def has_notices(records: Iterable[PollRecord]) -> bool:
    """Returns whether there is anything for `write_notices`."""
    return any(r.notices or r.incidents_opened or r.incidents_closed for r in records)
